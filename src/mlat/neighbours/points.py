"""The searches of a committee's experts that see one step: nothing of them moves on with a stream.

So every distance is known exactly. A forest has few numbers for a step: its point is compared with
those of all references by differences, as ``predict`` does. Whitened features are many: a product
in single precision bounds every distance, and what the bounds leave is compared by differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit, smaller
from ..base.fixed_order import multiply, padded
from ..metric.forest import Forest, Leaves, points_of_leaves
from ..metric.nearest import ANYWHERE, select_nearest
from .incremental import Arrays, Found, clear
from .references import References

AT_ONCE = 2**22  # steps times references, whose products are held: 16 MB


class StepSearch:
    """The exact search of an expert of single steps, for live streams; made by :meth:`of`.

    Its methods are those of ``IncrementalSearch``. A state has the steps since the segment began,
    count (n,).
    """

    def __init__(self, expert: References) -> None:
        nearest, view = expert.nearest, expert.view
        self._size = float(nearest.points.size)
        edges = np.searchsorted(expert.codes[nearest.rows], np.arange(len(expert.classes) + 1))
        edges = edges.astype(np.int64)
        columns = np.arange(expert.n_seen) if view.columns is None else view.columns
        of_points = nearest.mean, float(nearest.scale)
        self._arrays: tuple[Any, ...]
        if isinstance(expert.metric, Forest):
            # The points side by side, so that all of a state are compared at once.
            places = np.ascontiguousarray(nearest.points.T), edges, nearest.rows
            roots, feature, *nodes = Leaves(expert.metric).nodes
            feature = np.where(feature < 0, -1, columns[feature]).astype(np.int32)
            self._kernel, self._at_once = _by_leaves, AT_ONCE
            self._arrays = ((roots, feature, *nodes), *of_points, *places)
        else:
            assert view.mixing is not None
            among = nearest.candidates
            self._kernel, self._at_once = _by_products, max(1, AT_ONCE // max(1, len(expert)))
            whitening = columns.astype(np.int64), padded(view.mixing)
            self._arrays = (whitening, *of_points, among.rough, (*among.prepared, edges))

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
        size, count = self._at_once, state["count"]
        if len(features) <= size:  # one call, which is what a live step costs
            self._kernel(features, owner, marks, *self._arrays, count, found)
            return
        for begin in range(0, len(features), size):
            some = slice(begin, begin + size)
            of_some = features[some], owner[some], marks[some]
            self._kernel(*of_some, *self._arrays, count, found.at(some))


@jit()
def _by_leaves(  # type: ignore[no-untyped-def]
    features, owner, marks, nodes, mean, scale, columns, edges, rows, count, found
):
    """Of equally near references the first: those of a state are in the order of their rows."""
    x, squared = np.empty((1, len(mean))), np.empty(columns.shape[1])
    for i in range(len(features)):
        _begin(owner[i], marks[i], count, found, i)
        if marks[i] == 0:
            continue
        x[:] = 0.0
        points_of_leaves(features[i : i + 1], *nodes, x)
        squared[:] = 0.0
        for s in range(len(mean)):  # in the order of `squared_distance`
            value, column = (x[0, s] - mean[s]) / scale, columns[s]
            for j in range(len(squared)):
                difference = value - column[j]
                squared[j] += difference * difference
        for s in range(len(edges) - 1):
            best, at = _least(squared[edges[s] : edges[s + 1]]), -1
            for j in range(edges[s], edges[s + 1]):
                if squared[j] == best:
                    at = j
                    break
            found.nearest[i, s] = scale * np.sqrt(best)
            found.rows[i, s] = rows[at] if at >= 0 else -1
        found.bound[i] = 0.0


@jit()
def _by_products(  # type: ignore[no-untyped-def]
    features, owner, marks, whitening, mean, scale, rough, among, count, found
):
    n, n_states = found.nearest.shape
    columns, mixing = whitening
    seen, x = np.zeros((n, len(columns))), np.zeros((n, mixing.shape[1]))
    for i in range(n):
        _begin(owner[i], marks[i], count, found, i)
        for f in range(len(columns) if marks[i] != 0 else 0):
            seen[i, f] = features[i, columns[f]]
    multiply(seen, mixing, x)
    points, norms = np.empty((n, len(mean))), np.zeros(n)
    for i in range(n):
        for f in range(len(mean)):
            points[i, f] = (x[i, f] - mean[f]) / scale
            norms[i] += points[i, f] * points[i, f]
    single, bounded = points.astype(np.float32), among[-2]
    for i in range(n):
        if not norms[i] < bounded:  # it would overflow, and is compared with every reference
            single[i] = 0.0
    # What the product rounds to depends on company; what it leaves to be compared is enough anyhow.
    if n == 1:
        product = np.empty((1, len(rough)), np.float32)
        _dots(single[0], rough, product[0])
    else:
        product = np.dot(single, rough.T)
    rows, squared = np.full((n, n_states), -1), np.full((n, n_states), np.inf)
    places = ANYWHERE, ANYWHERE
    select_nearest(product, 0, points, norms, *among, *places, rows, squared)
    for i in range(n):
        if marks[i] != 0:
            found.nearest[i], found.rows[i] = scale * np.sqrt(squared[i]), rows[i]
            found.bound[i] = 0.0


@jit(fastmath={"reassoc", "nsz", "contract"})
def _dots(x, rough, out):  # type: ignore[no-untyped-def]
    """The products of one point, sooner done than by a library."""
    for i in range(len(rough)):
        row, total = rough[i], np.float32(0.0)
        for f in range(len(x)):
            total += x[f] * row[f]
        out[i] = total


@jit()
def _begin(stream, mark, count, found, row):  # type: ignore[no-untyped-def]
    """Count a step of a stream, of which nothing is found yet."""
    count[stream] = 0 if mark == 0 else 1 if mark == 2 else count[stream] + 1
    clear(found, row)


@jit()
def _least(squared):  # type: ignore[no-untyped-def]
    best = np.inf
    for square in squared:
        best = smaller(best, square)
    return best
