"""Streams and their windows: what comes in, Phase I, and tables and files in and out."""

from .stream import Runs, Stream, no_state
from .windows import Windows, sliding_windows

__all__ = ["Runs", "Stream", "Windows", "no_state", "sliding_windows"]
