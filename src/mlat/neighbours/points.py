"""The searches of a committee's experts that see one step: nothing of them moves on with a stream.

So every distance is known exactly. The point of a step is made of its features, by the leaves of a
forest or by whitening. A product in single precision bounds its distance to every reference, and
what the bounds leave is compared by differences, as ``predict`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..base.fixed_order import multiply, padded
from ..metric.forest import Forest, Leaves, points_of_leaves
from ..metric.nearest import ANYWHERE, select_nearest
from .incremental import Arrays, Found, clear, one_row
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
        columns = np.arange(expert.n_seen) if view.columns is None else view.columns
        self._at_once = max(1, AT_ONCE // max(1, len(expert)))
        self._map: tuple[Any, ...]
        if isinstance(expert.metric, Forest):
            roots, feature, *nodes = Leaves(expert.metric).nodes
            feature = np.where(feature < 0, -1, columns[feature]).astype(np.int32)
            self._kernel, self._map = _by_leaves, (roots, feature, *nodes)
        else:
            assert view.mixing is not None
            self._kernel, self._map = _by_whitening, (columns.astype(np.int64), padded(view.mixing))
        among = nearest.candidates
        # The points side by side, so that one step is compared with several at once.
        right, edges = np.ascontiguousarray(among.rough.T), expert.by_class.edges
        self._among = nearest.mean, float(nearest.scale), right, (*among.prepared, edges)

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
            self._kernel(features, owner, marks, self._map, self._among, count, found)
            return
        for begin in range(0, len(features), size):
            some = slice(begin, begin + size)
            of_some = features[some], owner[some], marks[some]
            self._kernel(*of_some, self._map, self._among, count, found.at(some))


@jit()
def _by_leaves(features, owner, marks, nodes, among, count, found):  # type: ignore[no-untyped-def]
    x = np.zeros((len(features), len(among[0])))
    for i in range(len(features)):
        if marks[i] != 0:
            points_of_leaves(features[i : i + 1], *nodes, x[i : i + 1])
    _find(x, owner, marks, *among, count, found)


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
    _find(x, owner, marks, *among, count, found)


@jit()
def _find(  # type: ignore[no-untyped-def]
    x, owner, marks, mean, scale, right, among, count, found
):
    """The nearest of each state to some points; the rows of ``x`` may be longer."""
    n, n_states = found.nearest.shape
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
    if n == 1:  # sooner done than by a library
        product = np.empty((1, right.shape[1]), np.float32)
        none = np.int64(0)  # for a literal 0 it would be compiled once more
        one_row(single[0], right, none, len(right), none, right.shape[1], product[0])
    else:
        product = np.dot(single, right)
    rows, squared = np.full((n, n_states), -1), np.full((n, n_states), np.inf)
    places = ANYWHERE, ANYWHERE
    select_nearest(product, 0, points, norms, *among, *places, rows, squared)
    for i in range(n):
        stream = owner[i]
        count[stream] = 0 if marks[i] == 0 else 1 if marks[i] == 2 else count[stream] + 1
        clear(found, i)
        if marks[i] != 0:
            for s in range(n_states):
                found.nearest[i, s], found.rows[i, s] = scale * np.sqrt(squared[i, s]), rows[i, s]
            found.bound[i] = 0.0
