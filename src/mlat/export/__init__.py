"""A model outside Python: as C for a device."""

from .c_source import CSource, write_c
from .plain_model import PlainModel

__all__ = ["CSource", "PlainModel", "write_c"]
