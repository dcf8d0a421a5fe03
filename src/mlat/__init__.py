"""MLAT: metric learning for k nearest neighbours in streaming time series."""

from .errors import InputError
from .stream import Runs, Stream
from .windows import Windows, sliding_windows

__version__ = "0.1.0"

__all__ = ["InputError", "Runs", "Stream", "Windows", "sliding_windows"]
