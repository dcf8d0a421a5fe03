"""The searches of a committee's experts that see one step: nothing of them moves on with a stream.

So every distance is known exactly. The point of a step is made of its features, by the leaves of a
forest or by whitening. A product in single precision bounds its distance to every reference, and
what the bounds leave is compared by differences, as ``predict`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import copy_into, jit
from ..base.fixed_order import TILE, in_tiles, least_of_tile, multiply, multiply_tiles, padded
from ..metric.forest import Forest, Leaves, points_of_leaves
from .incremental import Arrays, Found, clear, energy, least_multiple, rows_at_once
from .references import References


class Among(NamedTuple):
    """The references in the space of an expert; the kernels take them as they are.

    Attributes
    ----------
    mean, scale
        A point is less the mean, in units of the scale.
    points : array of shape (n, r)
    rows : array of shape (n,)
        The row of each point in the classifier's windows.
    place : array of shape (N,)
        The point of each place; -1 for padding. Places go state by state, in whole tiles.
    tile_codes : array of shape (N / TILE,)
        The state of each tile.
    right : array of shape (N / TILE, r, TILE), in single precision
        The points, in tiles.
    squared : array of shape (N,), in single precision
        Their squared norms; infinite for padding.
    largest : float
        The largest of them.
    relative, absolute : float
        What a squared distance by a product is off at most, for each of the two squared norms, and
        beside that.
    bounded : float
        A point whose squared norm is not below this is compared with every reference.
    """

    mean: Floats
    scale: float
    points: Floats
    rows: Ints
    place: Ints
    tile_codes: Ints
    right: NDArray[np.float32]
    squared: NDArray[np.float32]
    largest: float
    relative: float
    absolute: float
    bounded: float

    @classmethod
    def of(cls, expert: References) -> Self:
        nearest, edges = expert.nearest, expert.by_class.edges
        among, place = nearest.candidates, []
        for first, last in pairwise(edges):
            n = least_multiple(last - first, TILE)
            place.append(np.append(np.arange(first, last), np.full(n - last + first, -1)))
        every = np.concatenate(place)
        there = every[:, None] >= 0
        codes = np.repeat(np.arange(len(place)), [len(own) // TILE for own in place])
        return cls(
            *(nearest.mean, float(nearest.scale), nearest.points, nearest.rows, every, codes),
            in_tiles(np.where(there, nearest.points[every], 0.0).T),
            np.where(there[:, 0], among.squared[every], np.inf).astype(np.float32),
            *(float(among.squared.max()), *among.rounding, among.bounded),
        )


class StepSearch:
    """The exact search of an expert of single steps, for live streams; made by :meth:`of`.

    Its methods are those of ``IncrementalSearch``. A state has the steps since the segment began,
    count (n,).
    """

    def __init__(self, expert: References) -> None:
        view = expert.view
        self._size = float(expert.nearest.points.size)
        columns = np.arange(expert.n_seen) if view.columns is None else view.columns
        self._map: tuple[Any, ...]
        if isinstance(expert.metric, Forest):
            roots, depth, feature, *nodes = Leaves(expert.metric).nodes
            feature = columns[feature].astype(np.uint32)
            self._kernel, self._map = _by_leaves, (roots, depth, feature, *nodes)
        else:
            assert view.mixing is not None
            self._kernel, self._map = _by_whitening, (columns.astype(np.int64), padded(view.mixing))
        self._among = Among.of(expert)

    @classmethod
    def of(cls, expert: References) -> StepSearch | None:
        """None for any other expert than forests and whitened features of single steps."""
        whitened = expert.metric is None and expert.view.mixing is not None
        is_one = isinstance(expert.metric, Forest) or whitened
        return cls(expert) if is_one and expert.windows.width == 1 else None

    @property
    def operations(self) -> tuple[float, float]:
        return self._size, self._size

    def start(self, n_streams: int = 1) -> Arrays:
        return {"count": np.zeros(n_streams, np.int64)}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        return {"count": np.array(arrays["count"])}

    def push(self, state: Arrays, features: Floats, owner: Ints, marks: Ints, found: Found) -> None:
        self._kernel(features, owner, marks, self._map, self._among, state["count"], found)


@jit()
def _by_leaves(features, owner, marks, nodes, among, count, found):  # type: ignore[no-untyped-def]
    x = np.zeros((len(features), len(among.mean)))
    points_of_leaves(features, *nodes, x)
    _find(x, owner, marks, among, count, found)


@jit()
def _by_whitening(  # type: ignore[no-untyped-def]
    features, owner, marks, whitening, among, count, found
):
    columns, mixing = whitening
    seen = np.zeros((len(features), len(columns)))
    x = np.zeros((len(features), mixing.shape[1]))
    for i in range(len(features)):
        for f in range(len(columns) if marks[i] != 0 else 0):
            seen[i, f] = features[i, columns[f]]
    multiply(seen, mixing, x)
    _find(x, owner, marks, among, count, found)


@jit()
def _find(x, owner, marks, among, count, found):  # type: ignore[no-untyped-def]
    """The nearest of each state to some points; the rows of ``x`` may be longer."""
    n, size, n_places = len(x), len(among.mean), len(among.squared)
    n_rows = max(1, min(n, rows_at_once(n_places)))
    points, norms = np.empty((n_rows, size)), np.empty(n_rows)
    single = np.empty((n_rows, size), np.float32)
    product = np.empty((n_rows, n_places), np.float32)
    of_tile, left = np.empty(len(among.tile_codes), np.float32), np.empty(n_places, np.int64)
    best = np.empty(found.nearest.shape[1])
    for begin in range(0, n, n_rows):
        m = min(n_rows, n - begin)
        for i in range(m):
            for f in range(size):
                points[i, f] = (x[begin + i, f] - among.mean[f]) / among.scale
                single[i, f] = points[i, f]
            norms[i] = energy(points[i])
            if not norms[i] < among.bounded:  # it overflows, and is compared with every reference
                single[i] = 0.0
        multiply_tiles(single[:m], among.right, 1, product[:m])
        for i in range(m):
            row = begin + i
            stream, mark = owner[row], marks[row]
            count[stream] = 0 if mark == 0 else 1 if mark == 2 else count[stream] + 1
            clear(found, row)
            if mark != 0:
                n_left = _not_ruled_out(product[i], norms[i], among, of_tile, best, left)
                _compare(points[i], among, left[:n_left], best, found.rows[row])
                copy_into(found.nearest[row], among.scale * np.sqrt(best))
                found.bound[row] = 0.0


@jit()
def _not_ruled_out(product, norm, among, of_tile, least, left):  # type: ignore[no-untyped-def]
    """The places of references that may be the nearest of their state, and how many they are."""
    margin = 2.0 * (among.relative * (norm + among.largest) + among.absolute)
    margin = margin if norm < among.bounded else np.inf
    least[:] = np.inf
    for tile in range(len(of_tile)):
        c = among.tile_codes[tile]
        of_tile[tile] = least_of_tile(among.squared, product, tile * TILE)
        least[c] = min(least[c], of_tile[tile])
    n = 0
    for tile in range(len(of_tile)):
        high, first = least[among.tile_codes[tile]] + margin, tile * TILE
        if of_tile[tile] > high:
            continue
        for j in range(first, first + TILE):
            left[n] = j
            low = among.squared[j] - (product[j] + product[j])
            n += not (low > high or among.place[j] < 0)
    return n


@jit()
def _compare(x, among, places, best, rows):  # type: ignore[no-untyped-def]
    """The nearest of each state among some places, by differences summed in one fixed order."""
    best[:], rows[:] = np.inf, -1
    last, squared = len(places) - 1, np.empty(4)
    for first in range(0, len(places), 4):  # four at a time, for a sum waits for the one before it
        a, b = among.place[places[first]], among.place[places[min(first + 1, last)]]
        c, d = among.place[places[min(first + 2, last)]], among.place[places[min(first + 3, last)]]
        p, q, r, s = among.points[a], among.points[b], among.points[c], among.points[d]
        of_p = of_q = of_r = of_s = 0.0
        for f in range(len(x)):
            of_p += (x[f] - p[f]) * (x[f] - p[f])
            of_q += (x[f] - q[f]) * (x[f] - q[f])
            of_r += (x[f] - r[f]) * (x[f] - r[f])
            of_s += (x[f] - s[f]) * (x[f] - s[f])
        squared[0], squared[1], squared[2], squared[3] = of_p, of_q, of_r, of_s
        for i in range(min(4, last - first + 1)):
            place = places[first + i]
            row, c = among.rows[among.place[place]], among.tile_codes[place // TILE]
            # Of equally near references the first.
            if squared[i] < best[c] or (squared[i] == best[c] and row < rows[c]):
                best[c], rows[c] = squared[i], row
