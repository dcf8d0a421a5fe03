"""The search of a committee's expert that sees one step, and has few numbers for it: a forest.

Its point is compared with those of all references by differences, as ``predict`` does, so every
distance is known exactly. All that a stream remembers is its last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints
from ...base.compiled import jit
from ...metric.forest import Forest, Leaves, points_of_leaves
from ...neighbours.references import References
from .incremental import Found, clear


@dataclass(frozen=True, eq=False, slots=True)
class PointState:
    """The memory of n streams.

    Attributes
    ----------
    ring : array of shape (n, 1, d')
        The last features.
    count : array of shape (n,)
        Steps since the segment began.
    """

    ring: Floats
    count: Ints

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays, by name."""
        return {"ring": self.ring.copy(), "count": self.count.copy()}

    def copy(self) -> Self:
        return type(self)(self.ring.copy(), self.count.copy())

    @property
    def nbytes(self) -> int:
        return self.ring.nbytes + self.count.nbytes


class PointSearch:
    """The references of an expert, prepared for live streams; made by :meth:`of`."""

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
    def operations(self) -> dict[str, float]:
        """As :attr:`IncrementalSearch.operations`."""
        size = float(self._expert.nearest.points.size)
        return {"incremental": size, "exact": size}

    def start(self, n_streams: int = 1) -> PointState:
        """The state before the first step."""
        shape = (n_streams, 1, self._expert.n_seen)
        return PointState(np.zeros(shape), np.zeros(n_streams, np.int64))

    def reset(self, state: PointState) -> None:
        """Begin a new segment, in place."""
        state.ring[:], state.count[:] = 0.0, 0

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> PointState:
        """The state that :meth:`PointState.to_arrays` wrote."""
        return PointState(np.array(arrays["ring"]), np.array(arrays["count"]))

    def fill(
        self, state: PointState, seen: Floats, owner: Ints, present: Bools, found: Found
    ) -> None:
        """As :meth:`IncrementalSearch.fill`."""
        _take(seen, owner, present, *self._arrays, state.ring, state.count, found)

    def by_state(self, found: Found, some: Ints, windows: Floats) -> tuple[Floats, Ints]:
        """As :meth:`IncrementalSearch.by_state`."""
        return found.nearest[some], found.rows[some]


@jit()
def _take(  # type: ignore[no-untyped-def]
    seen, owner, present, nodes, mean, scale, columns, edges, rows, ring, count, found
):
    """Of equally near references the first: those of a state are in the order of their rows."""
    x, squared = np.empty((1, len(mean))), np.empty(columns.shape[1])
    for i in range(len(seen)):
        o = owner[i]
        if not present[i]:
            ring[o], count[o] = 0.0, 0
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
            best, at = np.inf, -1
            for j in range(edges[s], edges[s + 1]):
                if squared[j] < best:
                    best, at = squared[j], j
            found.nearest[i, s] = scale * np.sqrt(best)
            found.rows[i, s] = rows[at] if at >= 0 else -1
        found.bound[i] = 0.0
