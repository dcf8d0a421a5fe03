"""What a training window may be compared with when it stands for one not seen before.

Successive windows share all but one step, so a window's nearest reference is nearly itself. To
learn from the training windows how far and how often right the search is, each is judged among
those of another time only; and as they come in near-copies, they count by blocks of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Ints = NDArray[np.int64]

# How many widths away a window of the same stretch must be. Chosen on the development persons:
# distances to nearer ones promise more certainty than there is on held-out observations.
APART = 10


def leave_out_gap(start: NDArray[Any], codes: Ints, width: int) -> Ints:
    """How many steps around each window to leave out, shape (n,).

    Ten widths, or half of the time over which its state's windows extend, where that is less: a
    state with one short run is then judged by the other half of it.
    """
    gap = np.empty(len(start), np.int64)
    for code in np.unique(codes):
        rows = codes == code
        gap[rows] = max(1, min(APART * width, int(np.ptp(start[rows])) // 2))
    return gap


def rows_nearby(start: NDArray[Any], codes: Ints, gap: int | Ints) -> Ints:
    """For each window the rows ``[first, last)`` of its own state's windows at its own time.

    These are the windows around it that start fewer than ``gap`` steps away, without one of
    another state between: a missing value that cuts a run in two does not separate them.

    Parameters
    ----------
    start : array of shape (n,)
        When each window begins.
    codes : array of shape (n,)
        The state of each window; windows are in the order of the stream.
    gap : int or array of shape (n,)
        At least 1, which leaves out the window itself.

    Returns
    -------
    rows : array of shape (n, 2)

    Examples
    --------
    >>> rows_nearby(np.array([0, 1, 2, 9]), np.array([0, 0, 0, 0]), 2).tolist()
    [[0, 2], [0, 3], [1, 3], [3, 4]]
    """
    gap = np.asarray(gap, dtype=np.int64)
    if not len(start):
        return np.empty((0, 2), np.int64)
    if gap.min() < 1:
        raise InputError(f"gap must be at least 1, not {gap.min()}")
    start = np.asarray(start, dtype=np.int64)
    stretch = _stretches(start, codes)
    # Each stretch moved beyond the reach of the others, one sorted axis serves all searches.
    place = start - start.min() + stretch * (int(np.ptp(start)) + int(gap.max()) + 1)
    rows = np.empty((len(start), 2), np.int64)
    rows[:, 0] = np.searchsorted(place, place - gap, side="right")
    rows[:, 1] = np.searchsorted(place, place + gap, side="left")
    return rows


def time_blocks(start: NDArray[Any], codes: Ints, length: int) -> Ints:
    """Which block of ``length`` steps of one state each window begins in, shape (n,).

    Two widths make blocks whose windows share hardly a step with the next but one.

    Examples
    --------
    >>> time_blocks(np.array([0, 1, 2, 3, 9]), np.array([0, 0, 0, 1, 1]), 2).tolist()
    [0, 0, 1, 2, 3]
    """
    if length < 1:
        raise InputError(f"length must be at least 1, not {length}")
    if not len(start):
        return np.empty(0, np.int64)
    start = np.asarray(start, dtype=np.int64)
    stretch = _stretches(start, codes)
    first = start[np.searchsorted(stretch, stretch)]
    piece = (start - first) // length
    begins = (np.diff(stretch) != 0) | (np.diff(piece) != 0)
    return np.append(0, np.cumsum(begins)).astype(np.int64)


def _stretches(start: Ints, codes: Ints) -> Ints:
    """A number for each stretch of windows of one state, counted from 0."""
    # Where time goes back another timeline begins, and nothing before it is near.
    begins = (np.diff(codes) != 0) | (np.diff(start) <= 0)
    return np.append(0, np.cumsum(begins)).astype(np.int64)
