"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from . import toeplitz
from .errors import InputError
from .estimators import LMNN, MLAT
from .stream import Runs, Stream
from .windows import Windows, sliding_windows

__version__ = "0.1.0"

__all__ = [
    "LMNN",
    "MLAT",
    "InputError",
    "Runs",
    "Stream",
    "Windows",
    "sliding_windows",
    "toeplitz",
]
