"""Which part of the loss is summed where, when the windows are divided among machines.

The loss is a sum over pairs of windows. Divide the windows into cells, and the pairs fall into
tiles of one cell against another; a share is some of the tiles, with all the windows they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Windows on one side of a rectangle: the products of a block of rows with it stay small.
COLUMNS = 65536


@dataclass(frozen=True, eq=False)
class Share:
    """A part of the loss.

    Attributes
    ----------
    n_windows : int
        How many windows the whole problem has; the loss is divided by it.
    cell : array of shape (n,)
        The cell of each window that is here; -1 for one that is here as a target only.
    tiles : tuple of (int, int)
        The pairs of cells, each in one share only, whose windows are compared here.
    pulled : array of shape (n,)
        The windows whose pull towards their targets is summed here.
    """

    n_windows: int
    cell: Ints
    tiles: tuple[tuple[int, int], ...]
    pulled: NDArray[np.bool_]

    @classmethod
    def whole(cls, n: int) -> Share:
        """All of the loss of n windows."""
        return cls(n, np.zeros(n, np.int64), ((0, 0),), np.ones(n, bool))

    def take(self, rows: Ints) -> Share:
        """The same share of windows in another order."""
        return Share(self.n_windows, self.cell[rows], self.tiles, self.pulled[rows])


def rectangles_of(cells: Ints, states: Ints, tiles: Sequence[tuple[int, int]]) -> Ints:
    """The pairs of windows of different states in the tiles, as (m, 4) rectangles.

    ``cells`` and ``states`` (n,) are of windows sorted by cell, and by state within a cell. A
    rectangle is rows ``[first, second)`` against columns ``[third, fourth)``; together they hold
    every pair once.
    """
    found: list[tuple[int, int, int, int]] = []
    for a, b in tiles:
        end = int(np.searchsorted(cells, b, side="right"))
        for low, high, state in _segments(cells, states, a):
            if a == b:
                found += _columns(low, high, high, end)
                continue
            begin = int(np.searchsorted(cells, b))
            left, right = (
                begin + int(np.searchsorted(states[begin:end], state, side=side))
                for side in ("left", "right")
            )
            found += _columns(low, high, begin, left) + _columns(low, high, right, end)
    return np.array(found, np.int64).reshape(-1, 4)


def _segments(cells: Ints, states: Ints, cell: int) -> list[tuple[int, int, int]]:
    """Where the windows of each state of a cell begin and end."""
    begin, end = (int(np.searchsorted(cells, cell, side=side)) for side in ("left", "right"))
    edges = [begin, *(begin + 1 + np.flatnonzero(np.diff(states[begin:end]))).tolist(), end]
    return [(a, b, int(states[a])) for a, b in pairwise(edges) if a < b]


def _columns(low: int, high: int, left: int, right: int) -> list[tuple[int, int, int, int]]:
    return [(low, high, at, min(at + COLUMNS, right)) for at in range(left, right, COLUMNS)]
