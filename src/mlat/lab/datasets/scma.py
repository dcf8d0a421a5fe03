"""SCMA: one accelerometer on the chest, 15 people, 52 steps a second."""

from __future__ import annotations

import os

import numpy as np

from ...errors import InputError
from ...stream.stream import Stream
from .catalog import SETS, People
from .files import Source, open_people, read_recording

CHANNELS = ("x", "y", "z")

# The labels 0 … 7. The README does not explain 0: it is the last row of every file and a few
# stretches between activities, so those steps carry no state.
ACTIVITIES = (
    "",
    "working at computer",
    "standing up/walking/stairs",
    "standing",
    "walking",
    "going up/down stairs",
    "walking and talking with someone",
    "talking while standing",
)


def load_scma(
    data: str | os.PathLike[str] | None = None, people: People = None, *, complete: bool = True
) -> dict[str, Stream]:
    """Activity Recognition from Single Chest-Mounted Accelerometer (UCI 287).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "1" … "15"; only their files are read. Default all.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: channels x, y, z (uncalibrated, whole numbers), one recording each. The seven
        states are those of `ACTIVITIES`; label 0 is unlabelled. UCI's sequence number is not used
        (from 100,000 on it is rounded and repeats), so a step is a row.
    """
    with open_people(SETS["scma"], data, people, complete=complete) as (source, files):
        return {person: _read(source, file, complete) for person, (file,) in files.items()}


def _read(source: Source, file: str, complete: bool) -> Stream:
    rows = read_recording(source, file, 5, complete=complete)
    labels = rows[:, 4]
    known = (labels >= 0) & (labels < len(ACTIVITIES)) & (labels == np.floor(labels))
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(
            f"{source.where(file)}, row {row + 1}: label {labels[row]:g} is not one of "
            f"0 … {len(ACTIVITIES) - 1}; get a fresh copy of the file"
        )
    states = np.array(ACTIVITIES)[labels.astype(np.int64)]
    return Stream(rows[:, 1:4].copy(), states, channels=CHANNELS)
