"""Who compares which windows with which: every pair of shards meets in one part of the problem.

There are as many parts as shards. Part p holds the shards ``p + d`` (modulo S) for d in a small
set D of which every number up to S/2 is a difference, so that every two shards are together in
some part (a cyclic quorum: Kleinheksel & Somani 2016). All parts have the same work, and each
holds about ``√(2/S)`` of the windows instead of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PartPlan:
    """What one part holds and does.

    Attributes
    ----------
    cells : tuple of int
        Cells whose windows it holds.
    tiles : tuple of (int, int)
        Pairs of cells that it compares.
    pulled : tuple of int
        Cells of its own shard, whose pull it sums.
    """

    cells: tuple[int, ...]
    tiles: tuple[tuple[int, int], ...]
    pulled: tuple[int, ...]


def halves(n_shards: int) -> int:
    """Cells per shard: two where opposite shards meet twice on the circle, once for each half."""
    return 2 if n_shards % 2 == 0 else 1


def plan_parts(n_shards: int) -> list[PartPlan]:
    """The parts of a problem of this many shards.

    Examples
    --------
    >>> [part.tiles for part in plan_parts(3)]
    [((0, 0), (0, 1)), ((1, 1), (1, 2)), ((2, 2), (2, 0))]
    """
    S, h = n_shards, halves(n_shards)
    pairs = _pairs_by_difference(S)
    plans = []
    for p in range(S):
        own = tuple(range(p * h, p * h + h))
        tiles = [(a, b) for a in own for b in own if a <= b]
        held = set(own)
        for difference, (i, j) in pairs.items():
            first, second = (p + i) % S, (p + j) % S
            if 2 * difference == S:
                # Parts p and p + S/2 meet the same two shards: each takes half of one of them.
                first, second = min(first, second), max(first, second)
                rows = [first * h + (0 if p < S // 2 else 1)]
            else:
                rows = list(range(first * h, first * h + h))
            columns = range(second * h, second * h + h)
            tiles += [(a, b) for a in rows for b in columns]
            held |= {*range(first * h, first * h + h), *columns}
        plans.append(PartPlan(tuple(sorted(held)), tuple(tiles), own))
    return plans


def _pairs_by_difference(S: int) -> dict[int, tuple[int, int]]:
    """For every difference from 1 to S/2, two places of the set D that are so far apart."""
    D = [0]
    pairs: dict[int, tuple[int, int]] = {}

    def new(x: int) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for y in D:
            for i, j in ((x, y), (y, x)):
                difference = (j - i) % S
                if 1 <= difference <= S // 2 and difference not in pairs:
                    found.setdefault(difference, (i, j))
        return found

    while len(pairs) < S // 2:
        # Greedily the place that brings most; the first of equals.
        best = max(range(1, S), key=lambda x: len(new(x)))
        pairs |= new(best)
        D.append(best)
    return dict(sorted(pairs.items()))


def cells_of(codes: Ints, n_shards: int) -> Ints:
    """The cell of each window: of every state, each cell has an equal stretch in time.

    So every two cells have about as many pairs of windows of different states, and the windows of
    a cell are few long stretches of the stream.
    """
    n_cells = n_shards * halves(n_shards)
    cell = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        cell[rows] = np.arange(len(rows)) * n_cells // len(rows)
    return cell
