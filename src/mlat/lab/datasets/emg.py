"""EMG: eight muscles, four people, twenty actions, 1000 steps a second."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...stream.stream import Stream
from .actions import load_actions
from .catalog import SETS, People

CHANNELS = (
    "right_biceps",
    "right_triceps",
    "left_biceps",
    "left_triceps",
    "right_thigh",
    "right_hamstring",
    "left_thigh",
    "left_hamstring",
)

# The paper names no activities; with these five, plain Euclidean 1-NN lands near its figure.
PAPER_ACTIVITIES = ("Bowing", "Clapping", "Handshaking", "Hugging", "Jumping")


def load_emg(
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    activities: Iterable[str] | None = None,
    complete: bool = True,
) -> dict[str, Stream]:
    """EMG Physical Action Data Set (UCI 213).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "sub1" … "sub4" (1 … 4 will do); only their files are read. Default all.
    activities : iterable of str, optional
        Some of UCI's twenty, as its files are named; only these are read. Default all. The five
        of the paper's protocol are `PAPER_ACTIVITIES`.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: eight channels of whole numbers, clipped by the device at ±4000; one recording
        per activity, named "Normal/Bowing".
    """
    return load_actions(
        SETS["emg"],
        data,
        people,
        activities,
        channels=CHANNELS,
        n_columns=8,
        prepare=lambda rows: rows,
        complete=complete,
    )
