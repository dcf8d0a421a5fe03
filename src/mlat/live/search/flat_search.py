"""The nearest references of a stream's windows, at a cost per step that does not grow with w.

The distances of one step follow from those of the step before (see ``flat_references``). They are
running sums with a stated bound (see ``flat_bound``); where two states are nearer to each other
than it can tell apart, the window is compared as ``predict`` compares it. So the state is always
that of ``predict``, and distances agree to the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...classifier import StreamClassifier
from ...errors import InputError
from .flat_bound import N_BLOCKS, bound_of
from .flat_decisions import MOST_ASKED, UNDECIDED, Found, Shared
from .flat_exact import ExactAnswer
from .flat_kernels import push_rows
from .flat_references import References, prepare, toeplitz_metric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ANCHOR = 64
# Direct values cost w*d for each piece of a run, increments 4d for each reference.
PERIOD_PER_WIDTH = 4


@dataclass(frozen=True, eq=False, slots=True)
class FlatState:
    """All that is remembered of n streams; for a single one n is 1.

    Attributes
    ----------
    ring : array of shape (n, w, d')
        The last features; the step after ``count`` others goes to place ``count % w``.
    products : array of shape (n, N + 1)
        The inner product of the window with each reference, after one that is never used.
    sums : array of shape (n, 2 + N_BLOCKS)
        The window's own product, the same since the last multiple of the width, and what each
        stretch of steps adds to the error.
    count : array of shape (n,)
        Steps since the segment began.
    """

    ring: Floats
    products: Floats
    sums: Floats
    count: Ints

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For a snapshot."""
        return {name: getattr(self, name).copy() for name in _FIELDS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """From what :meth:`to_arrays` gave; the arrays are copied."""
        if set(arrays) != set(_FIELDS):
            raise InputError(f"a flat state has {', '.join(_FIELDS)}, not {', '.join(arrays)}")
        return cls(
            np.array(arrays["ring"], dtype=np.float64),
            np.array(arrays["products"], dtype=np.float64),
            np.array(arrays["sums"], dtype=np.float64),
            np.array(arrays["count"], dtype=np.int64),
        )

    def copy(self) -> FlatState:
        return FlatState.from_arrays({name: getattr(self, name) for name in _FIELDS})

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in _FIELDS)


_FIELDS = ("ring", "products", "sums", "count")


@dataclass(frozen=True, eq=False, slots=True)
class FlatResult:
    """What t steps gave; NaN and -1 where there is no complete window.

    Attributes
    ----------
    nearest : array of shape (t, S)
        The distance to the nearest reference of each state.
    rows : array of shape (t, S)
        That reference.
    bound : array of shape (t,)
        Squared distances, these and the next, are within this of those of ``predict``.
    exact : array of shape (t,)
        Where the bound could not decide: the distances that decided are those of ``predict``.
    codes : array of shape (t,)
        The state: that of ``predict``.
    distances, neighbours : arrays of shape (t, k)
        The k nearest references, for the number of neighbours of the classifier.
    """

    nearest: Floats
    rows: Ints
    bound: Floats
    exact: Bools
    codes: Ints
    distances: Floats
    neighbours: Ints


class FlatSearch:
    """References made ready for a live stream; see :meth:`of`.

    Attributes
    ----------
    references : References
    n_neighbors : int
    """

    def __init__(
        self, clf: StreamClassifier, references: References, cuts: Sequence[float]
    ) -> None:
        self.references = references
        self.n_neighbors = clf.n_neighbors_
        self.n_classes = len(clf.classes_)
        self._exact = ExactAnswer(clf)
        self.shared = Shared(
            references.centre,
            references.scale,
            references.weight,
            references.causal,
            references.anticausal,
            references.direct,
            references.right,
            references.parts,
            references.first,
            references.squared,
            references.of_class,
            references.rows,
            np.asarray(clf._codes, dtype=np.int64),
            np.array([cut for cut in cuts if np.isfinite(cut)], dtype=np.float64),
            bound_of(references),
        )

    @classmethod
    def of(
        cls, clf: StreamClassifier, *, anchor: int = ANCHOR, cuts: Sequence[float] | None = None
    ) -> FlatSearch | None:
        """For a fitted classifier; None where the metric is not Toeplitz or ``step`` is not 1.

        Parameters
        ----------
        clf : StreamClassifier
        anchor : int
            Each running sum begins anew from a direct value after at most this many steps, or
            four widths where that is more.
        cuts : sequence of float, optional
            Distances to the nearest reference beyond which something else is decided: windows
            near them are compared exactly too. Default the threshold of the classifier.
        """
        windows, width = clf.windows_, clf.width_
        if isinstance(anchor, bool) or not isinstance(anchor, int | np.integer) or anchor < 1:
            raise InputError(f"anchor must be a whole number of steps, at least 1, not {anchor!r}")
        order = np.lexsort((windows.start, windows.run))
        same = np.diff(windows.run[order]) == 0
        if (np.diff(windows.start[order])[same] != 1).any():
            return None
        metric = toeplitz_metric(clf.metric_, width, clf.features_.n_features)
        if metric is None:
            return None
        references = prepare(
            clf.features_.mix(clf.reference_features_),
            windows.start,
            windows.run,
            np.asarray(clf._codes),
            width,
            metric,
            max(int(anchor), PERIOD_PER_WIDTH * width),
        )
        return cls(clf, references, (clf.confidence_.threshold,) if cuts is None else cuts)

    @property
    def operations(self) -> dict[str, float]:
        """Products per step, of this search and of the exact one.

        Those in double precision, half as many of which are done at a time, count twice.
        """
        r = self.references
        d, w, n = r.n_features, r.width, int((r.rows >= 0).sum())
        flat = r.right.size + 4 * r.squared.size + 2 * (r.direct.size + r.causal.size * 2)
        embed = 2 * w * d * r.metric.n_terms if r.metric.n_terms > 1 else 0
        return {"flat": float(flat), "exact": float(embed + n * r.metric.n_coordinates)}

    def cheaper(self) -> bool:
        """Whether it takes fewer operations than the exact search."""
        operations = self.operations
        return operations["flat"] < operations["exact"]

    def start(self, n_streams: int = 1) -> FlatState:
        """What is remembered before the first step."""
        r = self.references
        return FlatState(
            np.tile(r.centre, (n_streams, r.width, 1)),
            np.zeros((n_streams, len(r.squared) + 1)),
            np.zeros((n_streams, 2 + N_BLOCKS)),
            np.zeros(n_streams, np.int64),
        )

    def reset(self, state: FlatState) -> None:
        """A segment begins."""
        state.ring[:] = self.references.centre
        for array in (state.products, state.sums, state.count):
            array[:] = 0

    def push(self, state: FlatState, seen: Floats) -> FlatResult:
        """Take the next steps (t, d') of one stream; the state moves on, in place.

        However the steps are cut, the result is the same, bit by bit. Steps are complete: where
        one misses a value, :meth:`reset` and go on after it.
        """
        seen = np.ascontiguousarray(seen, dtype=np.float64)
        if seen.ndim != 2 or seen.shape[1] != self.references.n_features:
            raise InputError(
                f"steps must have shape (t, {self.references.n_features}), not {seen.shape}"
            )
        t = len(seen)
        before = state.ring[0].copy() if t > 1 else state.ring[0]
        count = int(state.count[0])
        found = self.push_rows(state, seen, np.zeros(t, np.int64), np.ones(t, np.bool_))
        width = self.references.width

        def window(i: int) -> Floats:
            if t == 1:
                return np.roll(state.ring[0], -((count + 1) % width), axis=0)
            steps = np.concatenate([np.roll(before, -(count % width), axis=0), seen[: i + 1]])
            return steps[-width:]

        return self.settle(found, window)

    def push_rows(self, state: FlatState, seen: Floats, owner: Ints, present: Bools) -> Found:
        """Steps (t, d') of the streams that ``owner`` (t,) tells, in order; see ``push_rows``.

        A step that is not present ends the segment of its stream.
        """
        t = len(seen)
        k, S = self.n_neighbors, self.n_classes
        found = Found(
            np.zeros(t, np.int8),
            np.full(t, -1, np.int64),
            np.full((t, S), np.nan),
            np.full((t, S), -1, np.int64),
            np.full(t, np.nan),
            np.full((t, k), np.nan),
            np.full((t, k), -1, np.int64),
            np.zeros(t, np.int64),
            np.empty((t, MOST_ASKED), np.int64),
        )
        push_rows(
            seen,
            owner,
            present,
            state.ring,
            state.products,
            state.sums,
            state.count,
            self.shared,
            found,
        )
        return found

    def settle(self, found: Found, window: Any) -> FlatResult:
        """Ask exactly where the bound does not decide; ``window(i)`` gives that of row i."""
        exact = found.status == UNDECIDED
        for i in np.flatnonzero(exact):
            n = found.n_asked[i]
            asked = None if n < 0 else found.asked[i, :n]
            if self.n_neighbors == 1:
                nearest, rows = self._exact.by_state(window(i), asked)
                known = rows >= 0
                found.nearest[i, known], found.rows[i, known] = nearest[known], rows[known]
                code = int(nearest.argmin())
                found.distances[i], found.neighbours[i] = nearest[code], rows[code]
            else:
                k = self.n_neighbors
                distances, rows = self._exact.neighbours(window(i), k, asked)
                found.distances[i], found.neighbours[i] = distances, rows
                code = self._exact.vote(distances, rows)
            found.code[i] = code
        return FlatResult(
            found.nearest,
            found.rows,
            found.bound,
            exact,
            found.code,
            found.distances,
            found.neighbours,
        )
