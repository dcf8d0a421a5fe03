"""The nearest reference of every state among very many, without looking at most of them.

Successive windows are near-copies, so references that follow each other are a cluster: a centre and
a radius. Clusters and references are held in a few leading directions of the learned space, where
distances are never larger than in all of it. For a point q and a cluster with centre c

    ‖q - z‖ ≥ ‖P(q - z)‖ ≥ ‖P(q - c)‖ - radius      for each of its references z,

so a cluster is passed over if that exceeds the nearest reference found so far, and so is a single
reference by its own ‖P(q - z)‖. Those that remain are compared as the plain search compares them,
so distances and rows are the same to the last bit. Roundings of the bounds are added to them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..base.checks import Floats, Ints
from ..base.compiled import jit

IN_CLUSTER = 16  # references at most
IN_GROUP = 16  # clusters at most, which are passed over together
DIRECTIONS = 32
BLOCK = 16384  # references projected at a time


class TimeClusters:
    """Points in clusters of neighbours in time.

    Parameters
    ----------
    points : array of shape (n, r)
        State by state, in the order of time within a state.
    rows : array of shape (n,)
        Their row numbers, ascending within a state.
    edges : array of shape (S + 1,)
        Where each state begins.
    """

    def __init__(self, points: Floats, rows: Ints, edges: Ints) -> None:
        self._points, self._rows = points, rows
        first = [np.arange(a, b, IN_CLUSTER) for a, b in pairwise(edges)]
        self._edges = np.cumsum([0, *map(len, first)])
        self._first = np.concatenate([*first, [len(points)]]).astype(np.int64)
        self._basis = _leading_directions(points[:: max(1, len(points) // BLOCK)])
        self._seen = np.empty((len(points), self._basis.shape[1]), np.float32)
        for begin in range(0, len(points), BLOCK):
            some = slice(begin, begin + BLOCK)
            self._seen[some] = points[some] @ self._basis
        size = np.diff(self._first)
        sums = np.add.reduceat(self._seen.astype(np.float64), self._first[:-1])
        self._centres = (sums / size[:, None]).astype(np.float32)
        apart = self._seen - np.repeat(self._centres, size, axis=0)
        apart = np.sqrt(np.einsum("ij,ij->i", apart, apart, dtype=np.float64))
        self._radii = np.maximum.reduceat(apart, self._first[:-1])
        groups = [np.arange(a, b, IN_GROUP) for a, b in pairwise(self._edges)]
        self._group_edges = np.cumsum([0, *map(len, groups)])
        self._groups = np.concatenate([*groups, [len(self._centres)]]).astype(np.int64)
        size = np.diff(self._groups)
        sums = np.add.reduceat(self._centres.astype(np.float64), self._groups[:-1])
        self._group_centres = (sums / size[:, None]).astype(np.float32)
        apart = self._centres - np.repeat(self._group_centres, size, axis=0)
        apart = np.sqrt(np.einsum("ij,ij->i", apart, apart, dtype=np.float64)) + self._radii
        self._group_radii = np.maximum.reduceat(apart, self._groups[:-1])
        largest = np.sqrt(np.einsum("ij,ij->i", self._seen, self._seen, dtype=np.float64).max())
        # Single precision of the coordinates and of the sums over them, on either side.
        self._rounding = 4 * (DIRECTIONS + 16) * float(np.finfo(np.float32).eps)
        self._largest = float(largest)
        self.n_looked_at = 0
        # The nearest of each state to the last point: the next point is usually near it, too.
        self._last = np.full(len(edges) - 1, -1, np.int64)

    def share_left(self, x: Floats, reach: Floats) -> float:
        """The share of all coordinates of the references that a search for points (m, r) reads.

        ``reach`` (m, S) are the distances to the nearest of each state, which a search has from
        the beginning, or soon.
        """
        n, r = self._points.shape
        y = (x @ self._basis).astype(np.float32)
        clusters = (self._centres, self._radii, self._first, self._edges)
        looked_at, compared = _count_left(y, reach, self._seen, *clusters)
        read = len(x) * len(self._group_centres) + looked_at
        return (read * self._basis.shape[1] + compared * r) / max(1, len(x) * n * r)

    def query(self, x: Floats, best: Floats, where: Ints) -> None:
        """Write the squared distances of points (m, r) and the rows into ``best`` and ``where``.

        Both have shape (m, S). ``best`` must be infinite and ``where`` -1 before.
        """
        y = x @ self._basis
        slack = self._rounding * (np.sqrt(np.einsum("ij,ij->i", y, y)) + self._largest)
        last = self._last.copy()
        levels = (self._group_centres, self._group_radii, self._groups, self._group_edges)
        clusters = (self._centres, self._radii, self._first)
        self.n_looked_at += _query(
            x, y.astype(np.float32), slack, self._points, self._rows, self._seen,
            *clusters, *levels, last, best, where,
        )  # fmt: skip
        self._last = last


def _leading_directions(points: Floats) -> Floats:
    """Orthonormal columns (r, p), along which the points vary most."""
    centred = points - points.mean(axis=0)
    vectors = np.linalg.eigh(centred.T @ centred)[1]
    return np.ascontiguousarray(vectors[:, ::-1][:, :DIRECTIONS])


@jit(fastmath={"reassoc", "contract"})
def _apart(y, q, others, i):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for f in range(y.shape[1]):
        difference = y[q, f] - others[i, f]
        total += difference * difference
    return total


@jit()
def _squared_below(a, b, limit):  # type: ignore[no-untyped-def]
    """``‖a - b‖²``, summed in the order of the plain search; what is above the limit is cut short.

    The sum never falls, so a part of it that is above the limit decides.
    """
    total = 0.0
    n = len(a)
    for begin in range(0, n, 64):
        for f in range(begin, min(begin + 64, n)):
            difference = a[f] - b[f]
            total += difference * difference
        if total > limit:
            break
    return total


@jit()
def _count_left(y, reach, seen, centres, radii, first, edges):  # type: ignore[no-untyped-def]
    """How many references are in clusters within reach, and within reach by their own bound."""
    looked_at, compared = 0, 0
    for q in range(len(y)):
        for s in range(len(edges) - 1):
            for k in range(edges[s], edges[s + 1]):
                if np.sqrt(_apart(y, q, centres, k)) - radii[k] > reach[q, s]:
                    continue
                for i in range(first[k], first[k + 1]):
                    looked_at += 1
                    compared += _apart(y, q, seen, i) <= reach[q, s] * abs(reach[q, s])
    return looked_at, compared


@jit()
def _query(  # type: ignore[no-untyped-def]
    x, y, slack, points, rows, seen, centres, radii, first, group_centres, group_radii, groups,
    edges, last, best, where,
):  # fmt: skip
    looked_at = 0
    low = np.empty(len(groups))
    for q in range(len(x)):
        for s in range(len(edges) - 1):
            begin, end = edges[s], edges[s + 1]
            if begin == end:
                continue
            nearest = begin
            for g in range(begin, end):
                low[g] = np.sqrt(_apart(y, q, group_centres, g)) - group_radii[g]
                if low[g] < low[nearest]:
                    nearest = g
            if last[s] < 0:
                last[s] = first[groups[nearest]]
            best[q, s] = _squared_below(x[q], points[last[s]], np.inf)
            where[q, s] = rows[last[s]]
            reach = np.sqrt(best[q, s]) * (1 + 1e-9) + slack[q]
            # The most promising group first: it leaves little to do in the others.
            for turn in range(begin - 1, end):
                g = nearest if turn < begin else turn
                if turn == nearest or low[g] > reach:
                    continue
                for k in range(groups[g], groups[g + 1]):
                    if np.sqrt(_apart(y, q, centres, k)) - radii[k] > reach:
                        continue
                    for i in range(first[k], first[k + 1]):
                        looked_at += 1
                        if _apart(y, q, seen, i) > reach * reach:
                            continue
                        distance = _squared_below(x[q], points[i], best[q, s])
                        if distance < best[q, s] or (
                            distance == best[q, s] and rows[i] < where[q, s]
                        ):
                            best[q, s], where[q, s], last[s] = distance, rows[i], i
                            reach = np.sqrt(distance) * (1 + 1e-9) + slack[q]
    return looked_at
