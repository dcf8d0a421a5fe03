"""A model outside Python: as C for a device, and as ONNX."""

from .c_source import CSource, write_c
from .onnx_graph import write_onnx
from .plain_model import PlainModel

__all__ = ["CSource", "PlainModel", "write_c", "write_onnx"]
