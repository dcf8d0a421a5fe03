"""The incremental search of every expert of a classifier, and the decision they come to.

Each expert has running sums of its own, whose distances are known up to a bound. From these follow
a lower and an upper bound of the committee's distance to each state, which grows with the distance
of each expert. Where the bounds of the nearest state and of the next do not overlap, the state is
decided, and it is that of ``predict``. Elsewhere every expert compares the window exactly, with the
references that may be the nearest of their state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints
from ...base.compiled import jit
from ...classifier.classifier import StreamClassifier
from .exact import Decision, ExactSearch, TaughtReferences
from .incremental import (
    ANCHOR,
    Found,
    IncrementalResult,
    IncrementalSearch,
    IncrementalState,
    found_nothing,
)
from .lagless import LaglessSearch, LaglessState

States = tuple[IncrementalState | LaglessState, ...]
Results = list[IncrementalResult] | list[Found]  # of one expert, or of those of a committee


class ExpertSearches:
    """The incremental searches of a classifier's experts; made by :meth:`of`.

    Attributes
    ----------
    searches : tuple of IncrementalSearch or LaglessSearch
    limit : float
        The distance beyond which a window is far from every reference.
    exactly : bool
        Whether a committee's distances are those of ``predict`` for every window, and not up to the
        bound only.
    """

    def __init__(
        self,
        clf: StreamClassifier,
        searches: Sequence[IncrementalSearch | LaglessSearch],
        limit: float,
        exactly: bool = False,
    ) -> None:
        self.clf, self.searches, self.limit = clf, tuple(searches), limit
        self.exactly = exactly
        self._committee, self._alone = clf.committee_, not clf.committee_.soft

    @classmethod
    def of(
        cls,
        clf: StreamClassifier,
        *,
        anchor: int = ANCHOR,
        limit: float | None = None,
        exactly: bool = False,
    ) -> ExpertSearches | None:
        """For a fitted classifier; None where an expert's metric is not Toeplitz, or step is not 1.

        Parameters
        ----------
        clf : StreamClassifier
        anchor : int
            As for :meth:`IncrementalSearch.of`.
        limit : float, optional
            Default the threshold of the classifier.
        exactly : bool
            For a committee.
        """
        limit = float(clf.confidence_.threshold) if limit is None else limit
        alone = not clf.committee_.soft  # its distances are those of the committee
        searches: list[IncrementalSearch | LaglessSearch] = []
        for expert in clf.experts_:
            search = (None if alone else LaglessSearch.of(expert)) or IncrementalSearch.of(
                expert,
                n_neighbors=clf.n_neighbors_ if alone else 0,
                anchor=anchor,
                # A committee's limit is not one of its experts.
                cuts=[limit] if alone else (),
            )
            if search is None:
                return None
            searches.append(search)
        return cls(clf, searches, limit, exactly)

    def cheaper(self) -> bool:
        """Whether all together take fewer operations than exact searches."""
        counts = [search.operations for search in self.searches]
        incremental, exact = (sum(c[name] for c in counts) for name in ("incremental", "exact"))
        return incremental < exact

    def start(self, n_streams: int = 1) -> States:
        """The states before the first step."""
        return tuple(search.start(n_streams) for search in self.searches)

    def reset(self, states: States) -> None:
        """Begin a new segment, in place."""
        for search, state in zip(self.searches, states, strict=True):
            cast(Any, search).reset(state)

    def restored(self, arrays: Sequence[Mapping[str, NDArray[Any]]]) -> States:
        """The states whose ``to_arrays`` gave these arrays."""
        return tuple(
            search.restored(own) for search, own in zip(self.searches, arrays, strict=True)
        )

    def push(self, states: States, features: Floats) -> Results:
        """Take the next steps (t, d') of one stream; the states change in place."""
        if self._alone:
            search, state = self._only(states)
            return [search.push(state, self.clf.experts_[0].view(features))]
        t = len(features)
        return self._fill(states, features, np.zeros(t, np.int64), np.ones(t, np.bool_))

    def _only(self, states: States) -> tuple[IncrementalSearch, IncrementalState]:
        """The search and the state of a single expert."""
        search, state = self.searches[0], states[0]
        assert isinstance(search, IncrementalSearch)
        assert isinstance(state, IncrementalState)
        return search, state

    def _fill(self, states: States, features: Floats, owner: Ints, present: Bools) -> list[Found]:
        """What each expert finds for steps (t, d') of the streams ``owner`` (t,)."""
        founds = found_nothing(len(states), len(features), len(self.clf.classes_), 0)
        for search, state, expert, found in zip(
            self.searches, states, self.clf.experts_, founds, strict=True
        ):
            seen = np.ascontiguousarray(expert.view(features))
            cast(Any, search).fill(state, seen, owner, present, found)
        return founds

    def decide(
        self,
        results: Results,
        windows: Floats,
        exact: ExactSearch,
        taught: TaughtReferences,
    ) -> Decision:
        """The decision on the last windows (n, w, d') of the experts' results."""
        n = len(windows)
        if self._alone:
            result = cast(IncrementalResult, results[0])
            if not len(taught):
                codes, neighbours = result.codes[-n:], result.neighbours[-n:]
                proba = exact.proba(result.nearest[-n:], neighbours)
                said = codes[:, None]
                return Decision(codes, proba, result.distances[-n:, 0], neighbours, said)
            if exact.n_neighbors > 1:
                return exact.decide(windows, taught)
        nearest = [result.nearest[-n:] for result in results]
        rows = [result.rows[-n:] for result in results]
        if len(taught):
            centred = exact.centred(windows)
            nearest, rows = taught.nearest_of_both(centred, nearest, rows, len(exact))
        combined, doubt = self.judge(nearest, [result.bound[-n:] for result in results])
        decision = exact.decide_combined(combined, nearest, rows)
        if doubt.any():
            some = np.flatnonzero(doubt)
            if self._alone:
                again = exact.decide(windows[some], taught)
            else:
                founds = cast(list[Found], results)
                first = len(founds[0].bound) - n
                nearest, rows = self._compare(
                    founds, first + some, [exact.seen(m, windows[some]) for m in range(len(founds))]
                )
                if len(taught):
                    centred = exact.centred(windows[some])
                    nearest, rows = taught.nearest_of_both(centred, nearest, rows, len(exact))
                again = exact.decide_nearest(nearest, rows)
            decision.codes[some], decision.proba[some] = again.codes, again.proba
            decision.distance[some], decision.rows[some] = again.distance, again.rows
            decision.said[some] = again.said
        return decision

    def _compare(
        self, founds: Sequence[Found], some: Ints, windows: Sequence[Floats]
    ) -> tuple[list[Floats], list[Ints]]:
        """What each expert of a committee finds exactly for some of the rows.

        ``windows`` (m, w, d') of each expert are those of these rows.
        """
        exact = [
            search.by_state(found, some, seen)
            for search, found, seen in zip(self.searches, founds, windows, strict=True)
        ]
        return [one[0] for one in exact], [one[1] for one in exact]

    def push_many(
        self, states: States, features: Floats, owner: Ints, present: Bools
    ) -> IncrementalResult:
        """Take a step (m, d') of each of the streams ``owner`` (m,); the states change in place.

        A step that is not ``present`` ends the segment of its stream. Distances and bounds of a
        committee's result are those of the committee, its neighbours (m, M) those of each expert.
        """
        if self._alone:
            search, state = self._only(states)
            seen = self.clf.experts_[0].view(features)
            found = search.push_rows(state, seen, owner, present)
            return search.settle(found, partial(_window, state, owner))
        founds = self._fill(states, features, owner, present)
        # The widest expert is the last to have a window.
        known: Bools = np.logical_and.reduce([found.bound >= 0 for found in founds])
        nearest = np.stack([found.nearest for found in founds])
        rows = np.stack([found.rows for found in founds])
        combined, exact = self.judge(list(nearest), [found.bound for found in founds])
        exact &= known
        some = np.flatnonzero(exact)
        if len(some):
            windows = [
                np.stack([_window(state, owner, i) for i in some.tolist()]) for state in states
            ]
            nearest[:, some], rows[:, some] = self._compare(founds, some, windows)
            combined[some] = self._committee.combine(list(nearest[:, some]))
        combined[~known] = np.nan
        codes = np.full(len(known), -1)
        codes[known] = combined[known].argmin(axis=1)
        chosen = np.arange(len(known)), codes
        neighbours = np.stack([of_expert[chosen] for of_expert in rows], axis=1)
        neighbours[~known] = -1
        # Of the committee's distances no bound is kept: those that matter were compared exactly.
        bound = np.full(len(known), np.nan)
        return IncrementalResult(
            combined, rows[0], bound, exact, codes, combined[chosen][:, None], neighbours
        )

    def judge(self, nearest: Sequence[Floats], bound: Sequence[Floats]) -> tuple[Floats, Bools]:
        """The distances by which states are decided, (n, S), and where they decide nothing, (n,).

        ``nearest`` (n, S) are distances of each expert, whose squares are known up to ``bound``
        (n,).
        """
        n_experts, (n, n_classes) = len(nearest), nearest[0].shape
        three = np.empty((n_experts, 3, n, n_classes))
        for distances, within, room in zip(nearest, bound, three, strict=True):
            _widen(distances, within, room)
        flat = three.reshape(n_experts, 3 * n, n_classes)
        combined = self._committee.combine(list(flat)).reshape(3, n, n_classes)
        doubt = np.ones(n, np.bool_)
        if not self.exactly:
            _overlap(combined, self.limit, doubt)
        return combined[0], doubt


def _window(state: IncrementalState | LaglessState, owner: Ints, i: int) -> Floats:
    """The last window (w, d') of the stream that row i is of."""
    stream = owner[i]
    ring = state.ring[stream]
    return np.roll(ring, -(state.count[stream] % len(ring)), axis=0)


# Of a logarithm, a weighted sum and an exponential.
ROUNDING = 1e-13
OF_SQUARES = 1e-15  # of a root, its square, and what is added to it


@jit()
def _widen(nearest, bound, three):  # type: ignore[no-untyped-def]
    """Distances (n, S), and the least and the largest that they may be, (3, n, S)."""
    for i in range(len(nearest)):
        for s in range(nearest.shape[1]):
            distance = nearest[i, s]
            squared = distance * distance
            slack = bound[i] + OF_SQUARES * squared
            three[0, i, s] = distance
            three[1, i, s] = three[2, i, s] = distance  # infinite: there is no reference
            if distance < np.inf:
                three[1, i, s], three[2, i, s] = 0.0, np.inf
                if slack < np.inf:
                    three[1, i, s] = np.sqrt(max(squared - slack, 0.0))
                    three[2, i, s] = np.sqrt(squared + slack)


@jit()
def _overlap(combined, limit, doubt):  # type: ignore[no-untyped-def]
    """Where more than one state may be the nearest, or the limit may be passed or not."""
    _, low, high = combined
    for i in range(len(doubt)):
        least, upper = np.inf, np.inf
        for s in range(low.shape[1]):
            least, upper = min(least, low[i, s]), min(upper, high[i, s])
        rivals = 0
        for s in range(low.shape[1]):
            rivals += not low[i, s] > upper * (1.0 + ROUNDING)
        near_limit = least * (1.0 - ROUNDING) <= limit <= upper * (1.0 + ROUNDING)
        doubt[i] = rivals != 1 or (limit < np.inf and near_limit)
