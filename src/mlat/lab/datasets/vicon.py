"""Vicon: nine markers in space, ten people, twenty actions, 200 steps a second."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...stream.stream import Stream
from .actions import load_actions
from .catalog import SETS, People

# UCI's readme gives the limbs in this order but not which marker of a limb comes first; their
# heights do (of a standing person the elbow is above the wrist and the knee above the ankle).
MARKERS = (
    "head",
    "left_elbow",
    "left_wrist",
    "right_elbow",
    "right_wrist",
    "left_knee",
    "left_ankle",
    "right_knee",
    "right_ankle",
)
CHANNELS = tuple(f"{marker}_{axis}" for marker in MARKERS for axis in "xyz")

# The paper names no activities; with these five, plain Euclidean 1-NN lands near its figure.
PAPER_ACTIVITIES = ("Running", "Seating", "Standing", "Walking", "Waving")

# 50 ms. A straight line over so short a gap is mostly within millimetres of the marker.
MAX_LOST = 10


def load_vicon(
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    activities: Iterable[str] | None = None,
    max_lost: int = MAX_LOST,
    complete: bool = True,
) -> dict[str, Stream]:
    """Vicon Physical Action Data Set (UCI 214).

    Parameters
    ----------
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Some of "sub1" … "sub10" (1 … 10 will do); only their files are read. Default all.
    activities : iterable of str, optional
        Some of UCI's twenty, as its files are named; only these are read. Default all. The five
        of the paper's protocol are `PAPER_ACTIVITIES`.
    max_lost : int, default=10
        A marker lost for at most this many steps, and seen before and after them in the same
        recording, is put on the straight line between. Over a longer loss it stays NaN, so no
        window lies there. 0 interpolates nothing.
    complete : bool, default=True
        Require every file and row that UCI has; False accepts an excerpt.

    Returns
    -------
    dict of str to Stream
        By person: x, y, z in millimetres of nine markers, one recording per activity, named
        "normal/Bowing". UCI's counter is not a channel. sub10 has no Waving, and its second
        take "Running  [worse]" is left out.
    """
    if max_lost < 0:
        raise InputError(f"max_lost must be a number of steps, 0 or more, not {max_lost!r}")

    def prepare(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return bridge_short_losses(lost_to_nan(rows[:, 1:]), max_lost)

    return load_actions(
        SETS["vicon"],
        data,
        people,
        activities,
        channels=CHANNELS,
        n_columns=1 + len(CHANNELS),
        prepare=prepare,
        complete=complete,
    )


def lost_to_nan(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make lost markers NaN.

    A lost marker is written ``0 0 0``. The recorder wrote some rows while the marker went or came
    back, so that one or two coordinates of the step next to a loss can be 0 as well: that marker
    is lost there too. A lone 0 with no loss beside it is a position.

    Parameters
    ----------
    values : array of shape (n, 3 m)
        x, y, z of m markers.
    """
    zero = values.reshape(len(values), -1, 3) == 0
    lost = zero.all(axis=2)
    beside = np.zeros_like(lost)
    beside[1:] |= lost[:-1]
    beside[:-1] |= lost[1:]
    lost |= zero.any(axis=2) & beside
    return np.where(np.repeat(lost, 3, axis=1), np.nan, values)


def bridge_short_losses(values: NDArray[np.float64], max_lost: int) -> NDArray[np.float64]:
    """Interpolate each channel over NaN stretches of at most ``max_lost`` steps.

    A stretch at either end of the recording has only one neighbour and stays.

    Parameters
    ----------
    values : array of shape (n, d)
        The steps of one recording.
    max_lost : int
    """
    result = values.copy()
    for channel in np.flatnonzero(np.isnan(values).any(axis=0)):
        lost = np.isnan(values[:, channel])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]])))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            if start > 0 and stop < len(values) and stop - start <= max_lost:
                before, after = values[start - 1, channel], values[stop, channel]
                line = np.linspace(before, after, stop - start + 2)
                result[start:stop, channel] = line[1:-1]
    return result
