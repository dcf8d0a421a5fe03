"""The incremental search of every expert of a classifier, and the decision they come to.

Each expert has running sums of its own, whose distances are known up to a bound. From these follow
a lower and an upper bound of the committee's distance to each state. Where the bounds of the
nearest state and of the next do not overlap, the state is decided, and it is that of ``predict``.
Elsewhere every expert compares the window exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...checks import Bools, Floats, Ints
from ...classifier.classifier import StreamClassifier
from .exact import Decision, ExactSearch, TaughtReferences
from .incremental import ANCHOR, IncrementalResult, IncrementalSearch, IncrementalState

States = tuple[IncrementalState, ...]


class ExpertSearches:
    """The incremental searches of a classifier's experts; made by :meth:`of`.

    Attributes
    ----------
    searches : tuple of IncrementalSearch
    limit : float
        The distance beyond which a window is far from every reference.
    """

    def __init__(
        self, clf: StreamClassifier, searches: Sequence[IncrementalSearch], limit: float
    ) -> None:
        self.clf, self.searches, self.limit = clf, tuple(searches), limit
        self._committee = clf.committee_

    @classmethod
    def of(
        cls, clf: StreamClassifier, *, anchor: int = ANCHOR, limit: float | None = None
    ) -> ExpertSearches | None:
        """For a fitted classifier; None where an expert's metric is not Toeplitz, or step is not 1.

        Parameters
        ----------
        clf : StreamClassifier
        anchor : int
            As for :meth:`IncrementalSearch.of`.
        limit : float, optional
            Default the threshold of the classifier.
        """
        limit = float(clf.confidence_.threshold) if limit is None else limit
        searches = []
        for expert in clf.experts_:
            search = IncrementalSearch.of(
                expert,
                n_neighbors=clf.n_neighbors_,
                anchor=anchor,
                # A committee's limit is not one of its experts.
                cuts=[limit] if clf.committee_ is None else (),
            )
            if search is None:
                return None
            searches.append(search)
        return cls(clf, searches, limit)

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
            search.reset(state)

    def push(self, states: States, features: Floats) -> list[IncrementalResult]:
        """Take the next steps (t, d') of one stream; the states change in place."""
        return [
            search.push(state, expert.view(features))
            for search, state, expert in zip(self.searches, states, self.clf.experts_, strict=True)
        ]

    def decide(
        self,
        results: Sequence[IncrementalResult],
        windows: Floats,
        exact: ExactSearch,
        taught: TaughtReferences,
    ) -> Decision:
        """The decision on the last windows (n, w, d') of the experts' results."""
        n = len(windows)
        nearest = [result.nearest[-n:] for result in results]
        rows = [result.rows[-n:] for result in results]
        if len(taught):
            if exact.n_neighbors > 1:
                return exact.decide(windows, taught)
            found = [
                taught.nearer(number, centred, nearest[number], rows[number], len(exact))
                for number, centred in enumerate(exact.centred(windows))
            ]
            nearest, rows = [one[0] for one in found], [one[1] for one in found]
        elif self._committee is None:
            result = results[0]
            codes, neighbours = result.codes[-n:], result.neighbours[-n:]
            proba = exact.proba(nearest[0], neighbours)
            said = codes[:, None]
            return Decision(codes, proba, result.distances[-n:, 0], neighbours, said)
        decision = exact.decide_nearest(nearest, rows)
        doubt = self.in_doubt(nearest, [result.bound[-n:] for result in results])
        if doubt.any():
            again = exact.decide(windows[doubt], taught)
            decision.codes[doubt], decision.proba[doubt] = again.codes, again.proba
            decision.distance[doubt], decision.rows[doubt] = again.distance, again.rows
            decision.said[doubt] = again.said
        return decision

    def push_many(
        self, states: States, features: Floats, owner: Ints, present: Bools
    ) -> IncrementalResult:
        """Take a step (m, d') of each of the streams ``owner`` (m,); the states change in place.

        A step that is not ``present`` ends the segment of its stream. Distances and bounds of a
        committee's result are those of the committee, its neighbours (m, M) those of each expert.
        """
        results = []
        for search, state, expert in zip(self.searches, states, self.clf.experts_, strict=True):
            found = search.push_rows(state, expert.view(features), owner, present)
            results.append(search.settle(found, partial(_window, state, owner)))
        if self._committee is None:
            return results[0]
        known = np.logical_and.reduce([result.codes >= 0 for result in results])
        nearest = [result.nearest.copy() for result in results]
        rows = [result.rows.copy() for result in results]
        exact = np.zeros(len(known), bool)
        exact[known] = self.in_doubt(
            [D[known] for D in nearest], [result.bound[known] for result in results]
        )
        for i in np.flatnonzero(exact).tolist():
            for m, (search, state) in enumerate(zip(self.searches, states, strict=True)):
                nearest[m][i], rows[m][i] = search.by_state(_window(state, owner, i))
        combined = self._committee.combine(nearest)
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

    def in_doubt(self, nearest: Sequence[Floats], bound: Sequence[Floats]) -> Bools:
        """Where distances (n, S) within bounds (n,) of squared ones decide nothing, shape (n,)."""
        low, high = _between(nearest, bound, +1), _between(nearest, bound, -1)
        if self._committee is not None:
            low, high = [self._committee.combine(low)], [self._committee.combine(high)]
        upper, lower = high[0].min(axis=1), low[0].min(axis=1)
        # More than one state may be the nearest.
        doubt: Bools = (low[0] <= upper[:, None] * (1 + ROUNDING)).sum(axis=1) > 1
        if np.isfinite(self.limit):
            doubt |= (lower * (1 - ROUNDING) <= self.limit) & (upper * (1 + ROUNDING) >= self.limit)
        return doubt


def _window(state: IncrementalState, owner: Ints, i: int) -> Floats:
    """The last window (w, d') of the stream that row i is of."""
    stream = owner[i]
    ring = state.ring[stream]
    return np.roll(ring, -(state.count[stream] % len(ring)), axis=0)


# Of a logarithm, a weighted sum and an exponential.
ROUNDING = 1e-13


def _between(nearest: Sequence[Floats], bound: Sequence[Floats], sign: int) -> list[Floats]:
    """The least (+1) or the largest (-1) that distances may be."""
    return [
        np.sqrt(np.maximum(D**2 - sign * b[:, None], 0.0))
        for D, b in zip(nearest, bound, strict=True)
    ]
