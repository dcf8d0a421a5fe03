"""Streams and their windows: Phase I of the paper, and tables and files in and out.

The way of the data: ``read`` opens a file, a frame or an array as a table, ``conversion`` makes
arrays of its columns, ``stream`` cuts the steps into segments and runs, and ``windows`` slides over
the runs. ``pieces`` reads a file that is larger than memory, and ``write`` writes predicted states.
"""

from .stream import Runs, Stream, no_state
from .windows import Windows, sliding_windows

__all__ = ["Runs", "Stream", "Windows", "no_state", "sliding_windows"]
