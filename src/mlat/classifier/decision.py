"""From features to states: the search of every expert, and the decision of all, batch and live.

The exact search computes the distances of ``predict``. In the incremental one each expert has
running sums of its own, whose distances are known up to a bound. Windows that are taught while a
stream runs are a few more references. They are compared one by one, since they are few and change.

All that is decided about a window is decided in one compiled loop: the committee's distance to each
state, the nearest, the probability of each, and what each expert says. From the least and the
largest that the distances of the experts may be follow those of the committee, which grow with
each. Where those of the nearest state and of the next overlap, or where the limit lies between
them, the window is in doubt: every expert compares it exactly, with the references that may be the
nearest of their state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints
from ..base.compiled import jit
from ..base.fixed_order import padded
from ..neighbours.incremental import ANCHOR, Arrays, Found, IncrementalSearch, found_nothing
from ..neighbours.points import StepSearch
from ..neighbours.votes import vote
from .committee import combined_distance

if TYPE_CHECKING:
    from .classifier import StreamClassifier
    from .committee import Committee
    from .confidence import Calibration

Search = IncrementalSearch | StepSearch
States = tuple[Arrays, ...]
ALL = slice(None)
# What an expert, by its number, sees of some of the windows: (m, w, d').
Seen = Callable[[int, Ints], Floats]
# Of a logarithm, a weighted sum and an exponential.
ROUNDING = 1e-13
OF_SQUARES = 1e-15  # of a root, its square, and what is added to it
NO_ROWS, NO_BOUND = np.empty((0, 0, 0), np.int64), np.empty((0, 0))


class Rule(NamedTuple):
    """How a classifier decides; compiled loops take it as it is.

    ``powers``, ``typical`` (M,) and ``soft`` are those of the committee, ``beta``, ``unit`` and
    ``near`` those of the calibration.
    """

    powers: Floats
    typical: Floats
    soft: float
    beta: float
    unit: float
    near: float

    @classmethod
    def of(cls, committee: Committee, calibration: Calibration) -> Rule:
        beta, unit, near = calibration.beta, calibration.typical, calibration.soft
        return cls(*committee.powers, committee.soft, float(beta), float(unit), float(near))


class Decision(NamedTuple):
    """The states of n windows, with probabilities and the references they come from.

    Attributes
    ----------
    codes : array of shape (n,)
        The state of each; -1 where there is no window.
    proba : array of shape (n, S)
        The probability of each state.
    distance : array of shape (n,)
        To the nearest reference.
    rows : array of shape (n, k)
        The nearest references, taught ones after the others: the k nearest, or those of the
        decided state that are nearest to each of k experts.
    said : array of shape (n, M)
        The state that is nearest to each expert.
    doubt : array of shape (n,)
        Where distances that are known up to a bound do not decide.
    """

    codes: Ints
    proba: Floats
    distance: Floats
    rows: Ints
    said: Ints
    doubt: Bools

    def replace(self, at: Ints, other: Decision) -> None:
        """Take the decision on some of the windows from another, in place."""
        for mine, theirs in zip(self, other, strict=True):
            mine[at] = theirs


def decide(
    rule: Rule,
    nearest: Floats,
    rows: Ints = NO_ROWS,
    bound: Floats = NO_BOUND,
    limit: float = np.inf,
) -> Decision:
    """The decision on n windows.

    Parameters
    ----------
    rule : Rule
    nearest : array of shape (M, n, S)
        The distance of each expert to its nearest reference of each state; NaN without a window,
        infinite without a reference.
    rows : array of shape (M, n, S), optional
        These references.
    bound : array of shape (M, n), optional
        Squares of the distances are within this of the true ones; default exact.
    limit : float
        A distance that decides something else.
    """
    n_experts, n, n_states = nearest.shape
    decision = Decision(
        np.empty(n, np.int64),
        np.empty((n, n_states)),
        np.empty(n),
        np.empty((n, len(rows)), np.int64),
        np.empty((n, n_experts), np.int64),
        np.zeros(n, np.bool_),
    )
    _decide(rule, nearest, rows, bound, limit, decision)
    return decision


def decide_by_votes(distances: Floats, rows: Ints, codes: Ints, n_states: int) -> Decision:
    """The decision of the nearest references (n, k); -1 for ``rows`` where there is no window.

    ``codes`` are the states of all references.
    """
    known = rows[:, 0] >= 0
    voted, proba = np.full(len(rows), -1), np.full((len(rows), n_states), np.nan)
    voted[known], proba[known] = vote(codes[rows[known]], distances[known], n_states)
    doubt = np.zeros(len(rows), np.bool_)
    return Decision(voted, proba, distances[:, 0], rows, voted[:, None].copy(), doubt)


def nothing_decided(n: int, n_states: int, n_rows: int, n_experts: int) -> Decision:
    """On n steps at which no window ends, or of which no state is known."""
    proba, nothing = np.full((n, n_states), np.nan), np.full(n, np.nan)
    rows, said = np.full((n, n_rows), -1), np.full((n, n_experts), -1)
    return Decision(np.full(n, -1), proba, nothing, rows, said, np.zeros(n, np.bool_))


@jit()
def _decide(rule, nearest, rows, bound, limit, decision):  # type: ignore[no-untyped-def]
    n_experts, n, n_states = nearest.shape
    distances, own = np.empty(n_states), np.empty(n_experts)
    for i in range(n):
        code = 0
        for s in range(n_states):
            for m in range(n_experts):
                own[m] = nearest[m, i, s]
            distances[s] = combined_distance(own, rule.powers, rule.typical, rule.soft)
            if distances[s] < distances[code]:
                code = s
        probabilities(distances, rule.beta, rule.unit, rule.near, decision.proba[i])
        for s in range(n_states):
            code = -1 if np.isnan(distances[s]) else code
        decision.codes[i] = code
        decision.distance[i] = np.nan if code < 0 else distances[code]
        for m in range(n_experts):
            decision.said[i, m] = -1 if code < 0 else nearest[m, i].argmin()
        for m in range(len(rows)):
            decision.rows[i, m] = -1 if code < 0 else rows[m, i, code]
        if len(bound) and code >= 0:
            of_row = nearest[:, i], bound[:, i], rule, own
            decision.doubt[i] = _is_in_doubt(distances, code, limit, *of_row)


@jit()
def _is_in_doubt(distances, code, limit, nearest, bound, rule, own):  # type: ignore[no-untyped-def]
    """Whether more than one state may be the nearest, or the limit may be passed or not."""
    upper = _at_most(1.0, code, nearest, bound, rule, own) * (1.0 + ROUNDING)
    # √(D² - b) ≥ D - √b: no state is nearer than this share of its distance.
    share = 1.0
    for m in range(len(bound)):
        off = np.sqrt(bound[m]) / (rule.typical[m] * rule.soft) if rule.soft > 0.0 else np.inf
        share = min(share, 1.0 - off - np.sqrt(OF_SQUARES))
    for s in range(len(distances)):
        if s == code or distances[s] * share * (1.0 - ROUNDING) > upper:
            continue
        if not _at_most(-1.0, s, nearest, bound, rule, own) > upper:
            return True
    if not limit < np.inf:
        return False
    return _at_most(-1.0, code, nearest, bound, rule, own) * (1.0 - ROUNDING) <= limit <= upper


@jit()
def probabilities_of_rows(nearest, beta, unit, near, proba):  # type: ignore[no-untyped-def]
    for i in range(len(nearest)):
        probabilities(nearest[i], beta, unit, near, proba[i])


@jit()
def probabilities(distances, beta, unit, near, proba):  # type: ignore[no-untyped-def]
    """The probability of each state from the distances (S,); NaN where there is none."""
    least, known, missing = np.inf, False, False
    for s in range(len(distances)):
        known, missing = known or distances[s] < np.inf, missing or np.isnan(distances[s])
        # In units of the typical distance, so that no scale of the data is too small or too large.
        proba[s] = np.log(distances[s] / unit + near)
        least = min(least, proba[s])
    if missing or not known:
        proba[:] = np.nan
        return
    total = 0.0
    for s in range(len(distances)):
        proba[s] = np.exp(-beta * (proba[s] - least))
        total += proba[s]
    for s in range(len(distances)):
        proba[s] /= total


@jit()
def _at_most(sign, state, nearest, bound, rule, own):  # type: ignore[no-untyped-def]
    """The largest that the distance to a state may be, where the sign is 1; the least for -1."""
    for m in range(len(own)):
        own[m] = nearest[m, state]
        if own[m] < np.inf:  # else there is no reference
            squared = own[m] * own[m]
            off = bound[m] + OF_SQUARES * squared
            own[m] = np.sqrt(max(squared + sign * off, 0.0))
    return combined_distance(own, rule.powers, rule.typical, rule.soft)


def incremental_searches(clf: StreamClassifier, anchor: int = ANCHOR) -> tuple[Search, ...] | None:
    """One for each expert; None where one's metric is not Toeplitz, or step is not 1.

    ``anchor`` is as for :meth:`IncrementalSearch.of`.
    """
    searches: list[Search] = []
    for expert in clf.experts_:
        search = StepSearch.of(expert) or IncrementalSearch.of(expert, anchor=anchor)
        if search is None:
            return None
        searches.append(search)
    return tuple(searches)


def cheaper(searches: Sequence[Search]) -> bool:
    """Whether all together take fewer operations than exact searches."""
    incremental, exact = zip(*(search.operations for search in searches), strict=True)
    return sum(incremental) < sum(exact)


class ExpertSearches:
    """The experts of a classifier, one or several, and what they decide.

    Parameters
    ----------
    clf : StreamClassifier
        Fitted.
    searches : sequence of IncrementalSearch or StepSearch
        Of each expert; none for the exact search.
    limit : float
        The distance beyond which a window is far from every reference.
    exactly : bool
        Whether distances are those of the exact search for every window, and not up to the bound.
    """

    def __init__(
        self,
        clf: StreamClassifier,
        searches: Sequence[Search] = (),
        limit: float = np.inf,
        exactly: bool = False,
    ) -> None:
        self.experts, self.searches = clf.experts_, tuple(searches)
        self.limit, self.exactly, self.n_neighbors = limit, exactly, clf.n_neighbors_
        self.rule = Rule.of(clf.committee_, clf.confidence_.calibration)
        self.weights = np.array([member.weight for member in clf.committee_.deciding])
        self._n_classes, self._n_references = len(clf.classes_), len(clf.references_)
        # The exact searches are built now: the first step does not wait for them.
        self._means = [expert.nearest.mean if len(expert) else 0.0 for expert in self.experts]

    def start(self, n_streams: int = 1) -> States:
        """The states of the incremental searches before the first step."""
        return tuple(search.start(n_streams) for search in self.searches)

    def restored(self, arrays: Sequence[Mapping[str, NDArray[Any]]]) -> States:
        """The states that had these arrays."""
        return tuple(s.restored(own) for s, own in zip(self.searches, arrays, strict=True))

    def push(
        self,
        states: States,
        features: Floats,
        marks: Ints | None = None,
        owner: Ints | None = None,
        found: Found | None = None,
    ) -> Found | None:
        """Take steps (t, d'), of the streams ``owner`` (t,) or of one; the states change in place.

        By its mark a step ends the segment of its stream (0), goes on with it (1), as all do by
        default, or begins one (2). Returns what each expert finds, in the room that is given where
        some is; None for the exact search.
        """
        if not self.searches:
            return None
        t = len(features)
        owner = np.zeros(t, np.int64) if owner is None else owner
        marks = np.ones(t, np.int64) if marks is None else marks
        found = found_nothing(len(states), t, self._n_classes) if found is None else found
        features = np.ascontiguousarray(features)
        nearest, rows, bound, n, candidates = found
        for m, search in enumerate(self.searches):
            own = Found(nearest[m], rows[m], bound[m], n[m], candidates[m])
            search.push(states[m], features, owner, marks, own)
        return found

    def seen(self, features: Floats, n: int, m: int, some: Ints) -> Floats:
        """What expert m sees of some of the last n windows over steps (t, d') of features."""
        expert = self.experts[m]
        width = expert.windows.width
        first, last = int(some[0]), int(some[-1])
        begin = len(features) - n - width + 1
        if begin < 0:  # steps that none of these windows needs
            before = np.full((-begin, features.shape[1]), np.nan)
            features, begin = np.concatenate([before, features]), 0
        there = features[begin + first : begin + last + width]
        return windows_over(expert.view(there), width, some - first)

    def decide(
        self,
        seen: Seen,
        ready: Bools,
        found: Found | None = None,
        taught: TaughtReferences | None = None,
    ) -> Decision:
        """The decision on the windows that are ``ready`` (n,), of n steps.

        Of one state at least there are some references. ``found`` is of these steps, None for the
        exact search. Windows are in ``doubt`` where what was found did not decide, so that they
        were compared exactly.
        """
        if self.n_neighbors > 1:
            return self._vote(seen, ready, taught)
        there = np.flatnonzero(ready)
        if found is not None and not taught:
            nearest, rows = found.nearest, found.rows
            if len(there) < len(ready):
                nearest[:, ~ready] = np.nan
        else:
            n_states = self._n_classes + (len(taught.names) if taught else 0)
            nearest = np.full((len(self.experts), len(ready), n_states), np.nan)
            rows = np.full(nearest.shape, -1, np.int64)
            nearest[:, there], rows[:, there] = self._nearest(seen, there, found, taught)
        if found is None:
            return decide(self.rule, nearest, rows)
        decision = decide(self.rule, nearest, rows, found.bound, self.limit)
        some = there if self.exactly else np.flatnonzero(decision.doubt)
        if len(some):
            nearest, rows = self._nearest(seen, some, found, taught, exactly=True)
            decision.replace(some, decide(self.rule, nearest, rows))
            decision.doubt[some] = True
        return decision

    def _nearest(
        self,
        seen: Seen,
        some: Ints,
        found: Found | None,
        taught: TaughtReferences | None,
        exactly: bool = False,
    ) -> tuple[Floats, Ints]:
        """Distances (M, m, S) of each expert to the nearest of each state, and these.

        They are as they were found, but where they are not exact and have to be.
        """
        n_states = self._n_classes + (len(taught.names) if taught else 0)
        nearest = np.empty((len(self.experts), len(some), n_states))
        rows = np.empty(nearest.shape, np.int64)
        for m, expert in enumerate(self.experts):
            own = found.at(m) if found else None
            compares = exactly and isinstance(self.searches[m], IncrementalSearch)
            if own is not None and not compares and not taught:
                nearest[m], rows[m] = own.nearest[some], own.rows[some]
                continue

            def windows(block: slice, m: int = m) -> Floats:
                return seen(m, some[block])

            def find(block: slice, Z: Floats, m: int = m, own: Found | None = own) -> None:
                both = self._of_references(m, own, some[block], Z, exactly)
                if taught:
                    both = taught.nearer(m, Z - self._means[m], *both, self._n_references)
                nearest[m, block], rows[m, block] = both

            expert.in_blocks(find, len(some), windows)
        return nearest, rows

    def _of_references(
        self, m: int, own: Found | None, some: Ints, Z: Floats, exactly: bool
    ) -> tuple[Floats, Ints]:
        """Those among the references of expert m; ``Z`` are the windows in its learned space."""
        if not self._n_references:
            return np.empty((len(Z), 0)), np.empty((len(Z), 0), np.int64)
        if own is None:
            return self.experts[m].by_class.query_rows(Z)
        search = self.searches[m]
        if exactly and isinstance(search, IncrementalSearch):
            return search.compare(own, some, Z)
        return own.nearest[some], own.rows[some]

    def _vote(self, seen: Seen, ready: Bools, taught: TaughtReferences | None) -> Decision:
        """The vote of the k nearest, which running sums do not tell: they are found exactly."""
        expert, there, n_states = self.experts[0], np.flatnonzero(ready), self._n_classes
        codes, n_known = expert.codes, self._n_references
        if taught:
            codes, n_states = np.append(codes, taught.codes), n_states + len(taught.names)
        k = min(self.n_neighbors, len(codes))  # fewer where only a few windows were taught
        distances, rows = np.full((len(ready), k), np.nan), np.full((len(ready), k), -1, np.int64)

        def find(block: slice, Z: Floats) -> None:
            both = np.empty((len(Z), 0)), np.empty((len(Z), 0), np.int64)
            if n_known:
                both = expert.nearest.query(Z, min(k, n_known))
            if taught:
                both = taught.among(Z - self._means[0], *both, n_known, k)
            distances[there[block]], rows[there[block]] = both

        expert.in_blocks(find, len(there), lambda block: seen(0, there[block]))
        return decide_by_votes(distances, rows, codes, n_states)

    def teach(
        self,
        names: tuple[str | int, ...],
        codes: Ints,
        windows: Floats,
        old: TaughtReferences | None = None,
        kept: Ints | slice = ALL,
    ) -> TaughtReferences:
        """Windows (n, w, d') of features after ``old`` ones, prepared to be compared.

        ``codes`` are the states of all of them; those that are ``kept`` remain. Only the new ones
        are taken to the learned space, to the same numbers as if all were.
        """
        columns = []
        for m, expert in enumerate(self.experts):
            Z = np.empty((0, expert.n_dimensions))
            if len(windows):  # no window at all is not what every transformer takes
                last = windows[:, windows.shape[1] - expert.windows.width :]
                Z = np.asarray(expert.embed(expert.view(last)))
            own = (Z - self._means[m]).T
            if old is not None:
                own = np.concatenate([old.columns[m][:, : len(old)], own], axis=1)
            columns.append(padded(own[:, kept]))
        every = windows if old is None else np.concatenate([old.windows, windows])
        return TaughtReferences(names, every[kept], codes[kept].astype(np.int64), tuple(columns))


def windows_over(features: Floats, width: int, some: Ints | slice = ALL) -> Floats:
    """Some of the windows (n, w, d') over successive steps."""
    if len(features) == width:  # the usual case, at a tenth of the cost
        return features[None][some]
    windows = sliding_window_view(features, width, axis=0).transpose(0, 2, 1)
    return np.ascontiguousarray(windows[some])


@dataclass(frozen=True, eq=False, slots=True)
class TaughtReferences:
    """Taught windows, oldest first.

    Attributes
    ----------
    names : tuple of str or int
        States that the model does not know, in the order in which they were first taught.
    windows : array of shape (m, w, d')
        Of features.
    codes : array of shape (m,)
        Their states: those of the model, then ``names``.
    columns : tuple of arrays of shape (r, m')
        The windows in the learned space of each expert, less its references' mean, side by side so
        that all are compared at once. Padded to whole vectors, so that each sum has the same order.
    """

    names: tuple[str | int, ...]
    windows: Floats
    codes: Ints
    columns: tuple[Floats, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def squared(self, expert: int, centred: Floats) -> Floats:
        """Squared distances (n, m) of windows (n, r) in an expert's space, less the same mean."""
        columns = self.columns[expert]
        squared = np.zeros((len(centred), columns.shape[1]))
        _squared(np.ascontiguousarray(centred), columns, squared)
        return squared[:, : len(self)]

    def nearer(
        self, expert: int, centred: Floats, nearest: Floats, rows: Ints, n_references: int
    ) -> tuple[Floats, Ints]:
        """Distances to the nearest of each state and their rows, references and taught together.

        Parameters
        ----------
        expert : int
        centred : array of shape (n, r)
        nearest, rows : arrays of shape (n, S)
            Of the references alone.
        n_references : int
            Taught window i is row ``n_references + i``.
        """
        n, n_old = nearest.shape
        both = np.full((n, n_old + len(self.names)), np.inf)
        at = np.full(both.shape, -1, np.int64)
        both[:, :n_old], at[:, :n_old] = nearest, rows
        _nearer(np.sqrt(self.squared(expert, centred)), self.codes, n_references, both, at)
        return both, at

    def among(
        self, centred: Floats, distances: Floats, rows: Ints, n_references: int, k: int
    ) -> tuple[Floats, Ints]:
        """The k nearest of the references' (n, k) nearest and all taught windows, nearest first.

        Fewer where there are no references, and not yet k taught windows.
        """
        both = np.concatenate([distances, np.sqrt(self.squared(0, centred))], axis=1)
        taught = np.broadcast_to(n_references + np.arange(len(self)), (len(rows), len(self)))
        every = np.concatenate([rows, taught], axis=1)
        # Stable: in a tie a reference comes first, then the older.
        order = np.argsort(both, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(both, order, 1), np.take_along_axis(every, order, 1)


@jit()
def _nearer(distances, codes, n_references, nearest, rows):  # type: ignore[no-untyped-def]
    """Of equally near ones a reference comes first, then the older."""
    for i in range(len(distances)):
        for j in range(len(codes)):
            if distances[i, j] < nearest[i, codes[j]]:
                nearest[i, codes[j]], rows[i, codes[j]] = distances[i, j], n_references + j


@jit()
def _squared(x, columns, squared):  # type: ignore[no-untyped-def]
    """Summed in one fixed order, all columns at once."""
    for i in range(len(x)):
        for f in range(len(columns)):
            value = x[i, f]
            for j in range(columns.shape[1]):
                difference = value - columns[f, j]
                squared[i, j] += difference * difference
