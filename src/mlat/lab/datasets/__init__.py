"""The data sets of the paper, as one `Stream` per person.

Each loader reads UCI's own files from a folder or zip. ``mlat data fetch`` downloads
them, ``mlat data check`` verifies a copy.
"""

from .catalog import SETS, UciSet
from .loaders import PAPER_ACTIVITIES, load, load_arem, load_emg, load_scma, load_vicon

__all__ = [
    "PAPER_ACTIVITIES",
    "SETS",
    "UciSet",
    "load",
    "load_arem",
    "load_emg",
    "load_scma",
    "load_vicon",
]
