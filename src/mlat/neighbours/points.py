"""The searches of a committee's experts that see one step: nothing of them moves on with a stream.

So every distance is known exactly. A forest has few numbers for a step: its point is compared with
those of all references by differences, as ``predict`` does. Whitened features are searched as
``predict`` searches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..metric.forest import Forest, Leaves, points_of_leaves
from .incremental import Arrays, Found, clear
from .references import References


class PointSearch:
    """The references of an expert, prepared for live streams; made by :meth:`of`.

    What it finds is exact; its methods are those of ``IncrementalSearch``. A state has the last
    features, ring (n, 1, d'), and the steps since the segment began, count (n,).
    """

    def __init__(self, expert: References) -> None:
        self._expert, nearest = expert, expert.nearest
        nodes = Leaves(expert.metric).nodes
        # The points side by side, so that all of a state are compared at once.
        edges = np.searchsorted(expert.codes[nearest.rows], np.arange(len(expert.classes) + 1))
        places = np.ascontiguousarray(nearest.points.T), edges.astype(np.int64), nearest.rows
        self._arrays = (nodes, nearest.mean, float(nearest.scale), *places)

    @classmethod
    def of(cls, expert: References) -> PointSearch | None:
        """None for any other expert than a forest of single steps."""
        is_one = isinstance(expert.metric, Forest) and expert.windows.width == 1
        return cls(expert) if is_one else None

    @property
    def operations(self) -> tuple[float, float]:
        size = float(self._expert.nearest.points.size)
        return size, size

    def start(self, n_streams: int = 1) -> Arrays:
        shape = (n_streams, 1, self._expert.n_seen)
        return {"ring": np.zeros(shape), "count": np.zeros(n_streams, np.int64)}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        return {name: np.array(array) for name, array in arrays.items()}

    def push(self, state: Arrays, seen: Floats, owner: Ints, marks: Ints, found: Found) -> None:
        arrays = (*self._arrays, state["ring"], state["count"])
        _take(np.ascontiguousarray(seen), owner, marks, *arrays, found)


class StepSearch:
    """The exact search of an expert, for live streams; made by :meth:`of`.

    Its methods are those of ``IncrementalSearch``. A state has the steps since the segment began,
    count (n,).
    """

    def __init__(self, expert: References) -> None:
        self._expert = expert

    @classmethod
    def of(cls, expert: References) -> StepSearch | None:
        """None for any other expert than whitened features of single steps."""
        is_one = expert.metric is None and expert.view.mixing is not None
        return cls(expert) if is_one and expert.windows.width == 1 else None

    @property
    def operations(self) -> tuple[float, float]:
        size = float(len(self._expert) * self._expert.n_dimensions)
        return size, size

    def start(self, n_streams: int = 1) -> Arrays:
        return {"count": np.zeros(n_streams, np.int64)}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        return {name: np.array(array) for name, array in arrays.items()}

    def push(self, state: Arrays, seen: Floats, owner: Ints, marks: Ints, found: Found) -> None:
        _count(state["count"], owner, marks)
        there = np.flatnonzero(marks)
        if len(there) < len(marks):
            found.nearest[:], found.rows[:], found.bound[:] = np.nan, -1, np.nan
        if len(there):
            found.nearest[there], found.rows[there] = self._expert.by_class.query_rows(seen[there])
            found.bound[there] = 0.0


@jit()
def _count(count, owner, marks):  # type: ignore[no-untyped-def]
    for i in range(len(owner)):
        count[owner[i]] = 0 if marks[i] == 0 else 1 if marks[i] == 2 else count[owner[i]] + 1


@jit()
def _take(  # type: ignore[no-untyped-def]
    seen, owner, marks, nodes, mean, scale, columns, edges, rows, ring, count, found
):
    """Of equally near references the first: those of a state are in the order of their rows."""
    x, squared = np.empty((1, len(mean))), np.empty(columns.shape[1])
    for i in range(len(seen)):
        o = owner[i]
        if marks[i] != 1:
            ring[o], count[o] = 0.0, 0
        if marks[i] == 0:
            clear(found, i)
            continue
        ring[o, 0] = seen[i]
        count[o] += 1
        x[:] = 0.0
        points_of_leaves(seen[i : i + 1], *nodes, x)
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


@jit(fastmath={"nnan", "nsz"})
def _least(squared):  # type: ignore[no-untyped-def]
    """The least of some squares, several at a time."""
    best = np.inf
    for square in squared:
        best = min(best, square)
    return best
