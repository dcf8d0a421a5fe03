"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from typing import TYPE_CHECKING, Any

from .classifier import StreamClassifier
from .errors import InputError
from .features import Lift
from .metric import LMNN, MLAT, toeplitz
from .stream import Runs, Stream, Windows, sliding_windows

if TYPE_CHECKING:
    from .classifier.model_file import load
    from .stream.read import read_stream
    from .stream.write import write_states

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

# What reads and writes files needs Arrow and safetensors, which are imported on use.
_ON_USE = {
    "load": "classifier.model_file",
    "read_stream": "stream.read",
    "write_states": "stream.write",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module 'mlat' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_ON_USE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
