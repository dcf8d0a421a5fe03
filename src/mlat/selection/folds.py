"""Which steps of a training stream judge what was learned from the others.

Never random windows: they overlap those they would be judged by. Whole runs are kept out where a
state has several; from a single run the two ends judge each other, with the middle left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..stream import Stream
from ..targets import APART, episodes
from ..windows import Windows

Ints = NDArray[np.int64]

# Of a single run, the share at each end that learns or judges. The rest between them is left out,
# so that they are as far apart as the run allows: nearer ends would all look alike.
SHARE = 1 / 3
# At most so many blocks per state and fold, by which the error of a score is judged. None is
# shorter than a window: stretches that share their steps would make chance look sure.
BLOCKS = 3

NEITHER, EARLY, LATE, BOTH = 0, 1, 2, 3


class Fold(NamedTuple):
    """Rows of windows to learn from, rows to judge by, and the block each of these is in."""

    train: Ints
    judge: Ints
    block: Ints


def far_sides(stream: Stream, width: int) -> tuple[Ints, int]:
    """Divide the labelled steps into two sides that judge each other.

    Parameters
    ----------
    stream : Stream
    width : int
        Steps per window, the fewest that are looked at.

    Returns
    -------
    sides : array of shape (T,)
        ``EARLY`` or ``LATE``; ``NEITHER`` between them and without a state; ``BOTH`` for a state
        too short to be cut, which is learned from on both sides and judged on none.
    apart : int
        The fewest steps between two sides of a run.
    """
    sides = np.full(len(stream), NEITHER, np.int64)
    apart = len(stream)
    runs = stream.runs
    for code in np.unique(runs.code):
        mine = [(a, b) for a, b, c in runs if c == code and b - a >= width]
        if not mine:
            continue
        steps = np.concatenate([np.arange(a, b) for a, b in mine])
        number = np.repeat(np.arange(len(mine)), [b - a for a, b in mine])
        episode = np.unique(episodes(steps, number, APART * width), return_inverse=True)[1]
        if episode.max() > 0:
            sides[steps] = _alternate(episode)
            continue
        third = int(SHARE * len(steps))
        if third < 2 * width:
            sides[steps] = BOTH
            continue
        sides[steps[:third]] = EARLY
        sides[steps[-third:]] = LATE
        apart = min(apart, len(steps) - 2 * third)
    return sides, apart


def _alternate(episode: Ints) -> Ints:
    """A side for each step: the longest episode first, each to the side that has less."""
    counts = np.bincount(episode)
    side, totals = np.empty(len(counts), np.int64), [0, 0]
    for i in np.argsort(-counts, kind="stable"):
        less = int(totals[1] < totals[0])
        totals[less] += int(counts[i])
        side[i] = (EARLY, LATE)[less]
    return side[episode]


def cut(stream: Stream, sides: Ints) -> tuple[Stream, Ints]:
    """The labelled runs with a break after every early side, and the side of each step.

    So nothing that is computed from past steps reaches from one side into the other; a late side
    may still look back at the steps between them.
    """
    run = np.full(len(stream), -1, np.int64)
    for number, (start, stop, _) in enumerate(stream.runs):
        run[start:stop] = number
    kept = np.flatnonzero(run >= 0)
    early = sides[kept] == EARLY
    begins = (np.diff(kept) != 1) | (np.diff(run[kept]) != 0) | (early[:-1] & ~early[1:])
    part = Stream(
        stream.values[kept],
        stream.states[kept],
        recordings=np.concatenate([[0], np.cumsum(begins)]),
        channels=stream.channels,
    )
    return part, sides[kept]


def far_folds(windows: Windows, codes: Ints, sides: Ints) -> list[Fold]:
    """Two folds; empty where fewer than two states can be judged in each."""
    side = sides[windows.start]
    folds = []
    for judging, learning in ((EARLY, LATE), (LATE, EARLY)):
        judge = np.flatnonzero(side == judging)
        train = np.flatnonzero((side == learning) | (side == BOTH))
        judged = np.intersect1d(codes[judge], codes[train])
        if len(judged) < 2:
            return []
        judge = judge[np.isin(codes[judge], judged)]
        folds.append(Fold(train, judge, _blocks(codes[judge], _windows_long(windows))))
    return folds


def _windows_long(windows: Windows) -> int:
    """How many successive windows begin within the length of one."""
    stride = int(np.diff(windows.start).min(initial=windows.width))
    return max(1, windows.width // max(1, stride))


def _blocks(codes: Ints, shortest: int) -> Ints:
    """Numbers for stretches of windows of one state, a few for each and none shorter than that."""
    block = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        n_blocks = max(1, min(BLOCKS, len(rows) // shortest))
        block[rows] = code * BLOCKS + np.arange(len(rows)) * n_blocks // len(rows)
    return block
