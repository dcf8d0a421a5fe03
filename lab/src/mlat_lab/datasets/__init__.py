"""Data sets as one `Stream` per person: the four of the paper, and six of whole streams.

Each loader reads the set's own files from a folder or zip. ``mlat-lab data fetch`` downloads those
of the paper, ``mlat-lab data check`` verifies a copy of any.
"""

from .catalog import SETS, STREAM_SETS, StreamSet, UciSet
from .loaders import PAPER_ACTIVITIES, load, load_arem, load_emg, load_scma, load_vicon
from .streams import load_streams

__all__ = [
    "PAPER_ACTIVITIES",
    "SETS",
    "STREAM_SETS",
    "StreamSet",
    "UciSet",
    "load",
    "load_arem",
    "load_emg",
    "load_scma",
    "load_streams",
    "load_vicon",
]
