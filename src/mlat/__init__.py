"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from . import toeplitz
from .classifier import StreamClassifier
from .errors import InputError
from .estimators import LMNN, MLAT
from .model_file import load
from .state_file import write_states
from .stream import Runs, Stream
from .stream_file import read_stream
from .windows import Windows, sliding_windows

__version__ = "0.1.0"

__all__ = [
    "LMNN",
    "MLAT",
    "InputError",
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
