"""Who is aligned with whom in LMNN-DTW, and how: targets, impostors and their paths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..targets import Gap, Places, check_enough, check_found, places_of
from . import dtw
from .lanes import FloatArray, IntArray, LaneBlocks, pack
from .lmnn_dtw_kernels import Moves, Rows, align_pairs, align_within, bytes_per_path

# Room for the pairs that one call of the kernel finds: a few megabytes.
BUFFERED_PAIRS = 1 << 18


class Pairs(NamedTuple):
    """Pairs of windows with the best path of each.

    Attributes
    ----------
    left, right : arrays of shape (m,)
        Which windows.
    costs : array of shape (m,)
    moves : array of shape (m, bytes)
        The paths, as ``lmnn_dtw_kernels`` has them.
    """

    left: Rows
    right: Rows
    costs: FloatArray
    moves: Moves

    def beginning(self, n: int) -> Pairs:
        """A copy of the first n."""
        left, right, costs, moves = self
        return Pairs(left[:n].copy(), right[:n].copy(), costs[:n].copy(), moves[:n].copy())

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        return Pairs(
            np.concatenate([part.left for part in parts]),
            np.concatenate([part.right for part in parts]),
            np.concatenate([part.costs for part in parts]),
            np.concatenate([part.moves for part in parts]),
        )


class Points(NamedTuple):
    """Windows by their points, those that neighbours share kept once.

    Attributes
    ----------
    values : array of shape (p, d)
    first : array of shape (n,)
        Window ``i`` is ``values[first[i] : first[i] + width]``.
    width : int
    """

    values: FloatArray
    first: IntArray
    width: int

    def windows(self, rows: IntArray) -> FloatArray:
        """Some of the windows, (m, w, d)."""
        found: FloatArray = self.values[self.first[rows][:, None] + np.arange(self.width)]
        return found

    @property
    def overlap(self) -> bool:
        return len(self.values) < len(self.first) * self.width


def nearest_targets(
    X: FloatArray,
    codes: IntArray,
    n_targets: int,
    *,
    band: int,
    gap: Gap = 0,
    start: IntArray,
    run: IntArray,
    names: NDArray[Any] | None = None,
) -> IntArray:
    """For each window, the windows of its label nearest under DTW, shape (n, n_targets).

    Who is permitted is as for :func:`mlat.targets.select_targets`; -1 stands for no target.
    """
    n, width, _ = X.shape
    check_enough(codes, n_targets, names)
    places = places_of(codes, start, run, gap=gap, width=width)
    targets = np.full((n, n_targets), -1, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        costs = dtw.pairwise(X[rows], band=band)
        costs[_barred(places.take(rows))] = np.inf
        # Stable: of windows equally near, the earlier, as in every search.
        best = np.argsort(costs, axis=1, kind="stable")[:, :n_targets]
        found = np.isfinite(np.take_along_axis(costs, best, axis=1))
        targets[rows] = np.where(found, rows[best], -1)
    check_found(codes, targets, gap, names)
    return targets


def _barred(places: Places) -> NDArray[np.bool_]:
    """Which windows are too near in time to be each other's target, or the same."""
    same = places.row[:, None] == places.row
    apart = np.abs(places.start[:, None] - places.start)
    result: NDArray[np.bool_] = same | (
        (places.run[:, None] == places.run) & (apart < places.gap[:, None])
    )
    return result


def align_targets(points: Points, targets: IntArray, band: int) -> Pairs:
    """The best paths of all windows to their targets (n, k), row by row.

    Where there is no target the window is paired with itself.
    """
    n, k = targets.shape
    left = np.repeat(np.arange(n, dtype=np.int32), k)
    right = np.where(targets < 0, np.arange(n)[:, None], targets).ravel().astype(np.int32)
    found = _room_for(n * k, points.width)._replace(left=left, right=right)
    align_pairs(points.values, points.first, points.width, band, *found)
    return found


def align_impostors(
    points: Points,
    codes: IntArray,
    radius: FloatArray,
    *,
    slack: float,
    band: int,
    most: float = np.inf,
) -> Pairs | None:
    """The best paths of all pairs of different labels that are impostors, or nearly.

    Parameters
    ----------
    points : Points
        The windows under the metric.
    codes : array of shape (n,)
    radius : array of shape (n,)
        The farthest margin of each window; -inf for one without.
    slack : float
        Pairs are found that cost less than the larger radius of the two and this.
    most : float
        The search is given up as soon as the margins, of the farthest targets alone, are
        violated by more than this in sum.

    Returns
    -------
    Pairs or None
        Each pair once; None if the search was given up.
    """
    of_label = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    room = _room_for(max(BUFFERED_PAIRS, max(map(len, of_label))), points.width)
    found = [room.beginning(0)]
    violated = 0.0
    for nth, members in enumerate(of_label[1:], start=1):
        queries = np.sort(np.concatenate(of_label[:nth]))
        for blocks in pack(points.windows(members), band):
            window = np.where(blocks.window >= 0, members[blocks.window], -1)
            for tile in _tiles(blocks._replace(window=window)):
                # Each call has room for all that these queries could find.
                chunk = max(1, len(room.left) // tile.window.size)
                for begin in range(0, len(queries), chunk):
                    part = queries[begin : begin + chunk]
                    count = _search(points, part, radius + slack, tile, band, room)
                    pairs = room.beginning(count)
                    for side in (pairs.left, pairs.right):
                        violated += float(np.maximum(radius[side] - pairs.costs, 0.0).sum())
                    if violated > most:
                        return None
                    found.append(pairs)
    return Pairs.joined(found)


def n_changed(before: Pairs, after: Pairs) -> int:
    """How many pairs that are in both have another path than before.

    A pair that is in one of them twice, as a window without targets is with itself, counts once.
    """
    _, i, j = np.intersect1d(_keys(before), _keys(after), return_indices=True)
    return int((before.moves[i] != after.moves[j]).any(axis=1).sum())


def _keys(pairs: Pairs) -> IntArray:
    """A number per pair: rows are 32 bits wide, so that both fit into one."""
    return (pairs.left.astype(np.int64) << 32) | pairs.right


def _room_for(n_pairs: int, width: int) -> Pairs:
    return Pairs(
        np.empty(n_pairs, dtype=np.int32),
        np.empty(n_pairs, dtype=np.int32),
        np.empty(n_pairs),
        np.empty((n_pairs, bytes_per_path(width)), dtype=np.uint8),
    )


def _tiles(blocks: LaneBlocks) -> list[LaneBlocks]:
    """As many blocks at a time as have their point costs kept in the processor's cache."""
    size = max(1, dtw.KEPT_BYTES // (len(blocks.low) * blocks.points.shape[2] * 8))
    parts = [slice(begin, begin + size) for begin in range(0, len(blocks.points), size)]
    return [
        LaneBlocks(
            blocks.points[part],
            blocks.window[part],
            blocks.stride,
            np.ascontiguousarray(blocks.low[:, :, part]),
            np.ascontiguousarray(blocks.high[:, :, part]),
        )
        for part in parts
    ]


def _search(
    points: Points, queries: IntArray, limit: FloatArray, tile: LaneBlocks, band: int, room: Pairs
) -> int:
    return align_within(
        points.values,
        points.first,
        queries,
        limit,
        tile.points,
        tile.window,
        tile.stride,
        tile.low,
        tile.high,
        band,
        points.overlap,
        *room,
    )
