"""The incremental search of every expert of a classifier, and the decision they come to.

Each expert has running sums of its own, whose distances are known up to a bound. Where they decide
(:mod:`mlat.classifier.decision`) the state is that of ``predict``. Elsewhere every expert compares
the window exactly, with the references that may be the nearest of their state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import Decision, Rule, decide, decide_by_votes
from .exact import ExactSearch, TaughtReferences
from .incremental import (
    ANCHOR,
    FoundByAll,
    IncrementalResult,
    IncrementalSearch,
    IncrementalState,
    found_nothing,
)
from .points import PointSearch, PointState

States = tuple[IncrementalState | PointState, ...]
Search = IncrementalSearch | PointSearch
Results = IncrementalResult | FoundByAll  # of one expert, or of those of a committee


class ExpertSearches:
    """The incremental searches of a classifier's experts; made by :meth:`of`.

    Attributes
    ----------
    searches : tuple of IncrementalSearch or PointSearch
    limit : float
        The distance beyond which a window is far from every reference.
    exactly : bool
        Whether a committee's distances are those of ``predict`` for every window, and not up to the
        bound only.
    """

    def __init__(
        self,
        clf: StreamClassifier,
        searches: Sequence[Search],
        limit: float,
        exactly: bool = False,
    ) -> None:
        self.clf, self.searches, self.limit = clf, tuple(searches), limit
        self.exactly = exactly
        self.rule = Rule.of(clf.committee_, clf.confidence_.calibration)
        self._alone = not clf.committee_.soft

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
        searches: list[Search] = []
        for expert in clf.experts_:
            among = None if alone else PointSearch.of(expert)
            search = among or IncrementalSearch.of(
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
            cast(Any, search).restored(own)
            for search, own in zip(self.searches, arrays, strict=True)
        )

    def push(self, states: States, features: Floats) -> Results:
        """Take the next steps (t, d') of one stream; the states change in place."""
        if self._alone:
            search, state = self._only(states)
            return search.push(state, self.clf.experts_[0].view(features))
        t = len(features)
        return self._fill(states, features, np.zeros(t, np.int64), np.ones(t, np.bool_))

    def _only(self, states: States) -> tuple[IncrementalSearch, IncrementalState]:
        """The search and the state of a single expert."""
        search, state = self.searches[0], states[0]
        assert isinstance(search, IncrementalSearch)
        assert isinstance(state, IncrementalState)
        return search, state

    def _fill(self, states: States, features: Floats, owner: Ints, present: Bools) -> FoundByAll:
        """What each expert finds for steps (t, d') of the streams ``owner`` (t,)."""
        found = found_nothing(len(states), len(features), len(self.clf.classes_), 0)
        for search, state, expert, own in zip(
            self.searches, states, self.clf.experts_, found.each, strict=True
        ):
            seen = np.ascontiguousarray(expert.view(features))
            cast(Any, search).fill(state, seen, owner, present, own)
        return found

    def decide(
        self,
        results: Results,
        n: int,
        windows: Callable[[], Floats],
        exact: ExactSearch,
        taught: TaughtReferences,
    ) -> Decision:
        """The decision on the last n windows of the experts' results.

        ``windows`` gives these, (n, w, d'), where they have to be compared exactly.
        """
        if isinstance(results, IncrementalResult):
            if not len(taught):
                return self._decided_alone(results, slice(-n, None))
            if exact.n_neighbors > 1:
                return exact.decide(windows(), taught)
            nearest, rows = results.nearest[None, -n:], results.rows[None, -n:]
            bound = results.bound[None, -n:]
        else:
            nearest, rows = results.nearest[:, -n:], results.rows[:, -n:]
            bound = results.bound[:, -n:]
        if len(taught):
            centred = exact.centred(windows())
            nearest, rows = taught.nearest_of_both(centred, nearest, rows, len(exact))
        decision = decide(self.rule, nearest, rows, bound, self.limit)
        some = self._doubtful(decision)
        if len(some):
            doubtful = windows()[some]
            if isinstance(results, IncrementalResult):
                again = exact.decide(doubtful, taught)
            else:
                seen = [exact.seen(m, doubtful) for m in range(len(self.searches))]
                nearest, rows = self._compare(results, len(results.bound[0]) - n + some, seen)
                if len(taught):
                    centred = exact.centred(doubtful)
                    nearest, rows = taught.nearest_of_both(centred, nearest, rows, len(exact))
                again = decide(self.rule, nearest, rows)
            decision.replace(some, again)
        return decision

    def _doubtful(self, decision: Decision) -> Ints:
        """Which of the windows have to be compared exactly."""
        doubt = decision.codes >= 0 if self.exactly else decision.doubt
        return np.flatnonzero(doubt)

    def _decided_alone(self, result: IncrementalResult, some: slice) -> Decision:
        """Of a single expert, whose search has decided."""
        codes, rows, distances = result.codes[some], result.neighbours[some], result.distances[some]
        if self.clf.n_neighbors_ > 1:
            of_all = self.clf.references_.codes
            return decide_by_votes(distances, rows, of_all, len(self.clf.classes_))
        decision = decide(self.rule, result.nearest[None, some], result.rows[None, some])
        # The nearest of all is told as it was found; with equal ones the first decides.
        return decision._replace(codes=codes, distance=distances[:, 0], rows=rows)

    def _compare(
        self, found: FoundByAll, some: Ints, windows: Sequence[Floats]
    ) -> tuple[Floats, Ints]:
        """What each expert of a committee finds exactly for some of the rows, (M, m, S).

        ``windows`` (m, w, d') of each expert are those of these rows.
        """
        exact = [
            cast(Any, search).by_state(own, some, seen)
            for search, own, seen in zip(self.searches, found.each, windows, strict=True)
        ]
        return np.stack([one[0] for one in exact]), np.stack([one[1] for one in exact])

    def push_many(
        self, states: States, features: Floats, owner: Ints, present: Bools
    ) -> tuple[Decision, Bools]:
        """Take a step (m, d') of each of the streams ``owner`` (m,); the states change in place.

        A step that is not ``present`` ends the segment of its stream. Returns the decisions, and
        where they were compared exactly, (m,).
        """
        if self._alone:
            search, state = self._only(states)
            seen = self.clf.experts_[0].view(features)
            found = search.push_rows(state, seen, owner, present)
            result = search.settle(found, partial(_window, state, owner))
            return self._decided_alone(result, slice(None)), result.exact
        founds = self._fill(states, features, owner, present)
        decision = decide(self.rule, *founds[:3], self.limit)
        some = self._doubtful(decision)
        if len(some):
            windows = [
                np.stack([_window(state, owner, i) for i in some.tolist()]) for state in states
            ]
            decision.replace(some, decide(self.rule, *self._compare(founds, some, windows)))
        exact = np.zeros(len(owner), np.bool_)
        exact[some] = True
        return decision, exact


def _window(state: IncrementalState | PointState, owner: Ints, i: int) -> Floats:
    """The last window (w, d') of the stream that row i is of."""
    stream = owner[i]
    ring = state.ring[stream]
    return np.roll(ring, -(state.count[stream] % len(ring)), axis=0)
