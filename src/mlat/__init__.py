"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from typing import TYPE_CHECKING, Any

from . import toeplitz
from .classifier import StreamClassifier
from .errors import InputError
from .estimators import LMNN, MLAT
from .lifts import Lift
from .stream import Runs, Stream
from .windows import Windows, sliding_windows

if TYPE_CHECKING:
    from .files.model_file import load
    from .files.state_file import write_states
    from .files.stream_file import read_stream

__version__ = "0.1.0"

__all__ = [
    "LMNN",
    "MLAT",
    "InputError",
    "Lift",
    "Runs",
    "Stream",
    "StreamClassifier",
    "Windows",
    "load",
    "read_stream",
    "sliding_windows",
    "toeplitz",
    "write_states",
]

# Files are at the edge: what reads and writes them (Arrow, safetensors) is imported on use.
_ON_USE = {"load": "model_file", "read_stream": "stream_file", "write_states": "state_file"}


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module 'mlat' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".files.{_ON_USE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
