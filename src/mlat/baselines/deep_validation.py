"""Which training windows judge a network while it learns from the others.

Never random windows: in a stream, successive ones share all but one step, and a validation window
would find itself among those learned from. Each state gives its last windows as one block, and
what starts too near before it is left out of learning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..targets import episodes
from .lanes import IntArray


class Division(NamedTuple):
    """Rows of windows to learn from and rows to judge by; some are in neither."""

    learn: IntArray
    judge: IntArray


def hold_out(
    codes: IntArray, start: IntArray, run: IntArray, width: int, share: float, least: int = 2
) -> Division | None:
    """The last ``share`` of each state's windows, and those at least ``width`` steps before.

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window, as an index.
    start, run : arrays of shape (n,)
        When each window begins, and the run it lies in. Runs of a state that follow each other
        within two widths count as one, as a lost sample cuts a run in two.
    width : int
        Steps per window. At least as many lie between a window that is judged and one of the same
        state that is learned from.
    share : float
        Of each state's windows, for judging.
    least : int
        Windows of each state that are needed for learning. A state that cannot be divided so is
        learned from whole and not judged.

    Returns
    -------
    Division or None
        None where fewer than two states can be judged.

    Examples
    --------
    >>> codes, start = np.repeat([0, 1], 10), np.arange(20)
    >>> division = hold_out(codes, start, codes, width=2, share=0.2)
    >>> division.judge.tolist(), division.learn.tolist()
    ([8, 9, 18, 19], [0, 1, 2, 3, 4, 10, 11, 12, 13, 14])
    """
    learn, judge = [], []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        near, far = _divide(start[rows], run[rows], width, share)
        if len(near) < 1 or len(far) < least:
            learn.append(rows)
        else:
            learn.append(rows[far])
            judge.append(rows[near])
    if len(judge) < 2:
        return None
    return Division(np.sort(np.concatenate(learn)), np.sort(np.concatenate(judge)))


def _divide(start: IntArray, run: IntArray, width: int, share: float) -> tuple[IntArray, IntArray]:
    """Positions of the last block of one state's windows, and of those far enough from it."""
    episode = episodes(start, run, 2 * width)
    order = np.lexsort((start, episode))
    n_judge = round(share * len(order))
    block, rest = order[len(order) - n_judge :], order[: len(order) - n_judge]
    if not n_judge:
        return block, rest
    first = order[len(order) - n_judge]  # later episodes of the block are no matter to the rest
    same = episode[rest] == episode[first]
    # Starts 2w apart leave w steps between the end of one window and the beginning of the other.
    return block, rest[~same | (start[first] - start[rest] >= 2 * width)]
