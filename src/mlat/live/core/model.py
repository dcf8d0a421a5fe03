"""The pure step: from a state and some steps to the next state and a prediction for each step.

Steps pass through the policies in turn: order, gaps, missing values, dead channels. Those that are
accepted become features, windows, distances and states, as in ``predict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...base.checks import Floats, Ints
from ...base.compiled import jit
from ...base.errors import InputError
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import Decision
from ...classifier.state_filter import Belief, extended_filter, filter_proba
from ...features.features import FeatureSteps
from ...neighbours.references import References
from ..search.experts import ALL, ExpertSearches, Search, cheaper, incremental_searches
from .dead_channels import Still, dead_after
from .missing import FilledSteps, Held, fill_missing, pieces
from .options import LiveOptions
from .order import Order, arrange, check_order, find_gaps, longest_step, release
from .state import Fingerprint, LiveState, Segment, fingerprint_of, search_of, state_from_bytes
from .steps import Prediction, Predictions, Steps, as_steps
from .teaching import Examples, Past, Teaching

UNTAUGHT = "untaught"  # why a state is unknown where none was learned or taught
PIECE = 512  # steps at a time, which bounds the memory that a chunk takes
BEHIND = 100  # late or repeated steps in a row that are worth a warning


class LiveModel:
    """A fitted classifier and the policies of a session; it never changes.

    Parameters
    ----------
    clf : fitted StreamClassifier
    **options
        See :class:`~mlat.live.core.options.LiveOptions`.

    Attributes
    ----------
    clf : StreamClassifier
    n_channels : int
    options : LiveOptions
    search : "exact" or "incremental"
        Given or chosen.
    limit : float
        The distance beyond which a window is far from every reference.
    dead_after : array of shape (d,)
        Constant steps after which a channel is dead.
    features : FeatureSteps
    experts : ExpertSearches
    teaching : Teaching
        Makes references of windows of a session, and takes them back.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> train, stream = rotating_states(random_state=0), rotating_states(random_state=1)
    >>> model = LiveModel(mlat.StreamClassifier(16, metric="euclidean").fit(train))
    >>> state = model.start()
    >>> state, first = model.push(state, stream.values[:20])
    >>> state, more = model.push(state, stream.values[20:21])
    >>> more[0].step, more[0].state == model.clf.predict(stream)[20]
    (20, True)
    """

    def __init__(self, clf: StreamClassifier, **options: Any) -> None:
        check_is_fitted(clf, "features_")
        try:
            self.options = LiveOptions(**options)
        except TypeError:
            known = ", ".join(LiveOptions.__dataclass_fields__)
            unknown = ", ".join(sorted(set(options) - set(LiveOptions.__dataclass_fields__)))
            raise InputError(f"there is no option {unknown}; the options are {known}") from None
        self.clf, self.n_channels = clf, len(clf.channels_)
        self._known: list[str | int] = clf.classes_.tolist()
        self._hash = fingerprint_of(clf)
        self.dead_after = dead_after(clf.windows_)
        self.features = FeatureSteps(clf.features_, self.n_channels)
        self.limit = _limit(clf, self.options.far)
        self._use(self.options.search)
        self.state_filter = lru_cache(maxsize=4)(
            partial(extended_filter, clf.confidence_.state_filter)
        )
        self.teaching = Teaching(self)

    def _use(self, search: str) -> None:
        searches = _incremental_searches(self.clf, self.options, search)
        # The filter uses the probability of each state, which running sums know up to a bound only.
        exactly = self.options.filtered
        self.experts = ExpertSearches(self.clf, searches, self.limit, exactly)
        self.search = "incremental" if searches else "exact"
        self._fingerprint = Fingerprint(self._hash, self.options, self.search)

    def start(self) -> LiveState:
        """The state before the first step."""
        return LiveState(
            self._fingerprint,
            Order(),
            Held.start(self.n_channels),
            Still.start(self.n_channels),
            self._begin("filling"),
            Belief(self.clf.confidence_.state_filter.stationary),  # () where no state is known
            self.teaching.references((), Examples()),
            Examples(),
            Past.of(np.empty((0, self.n_channels + 1)), self.teaching.n_past),
            incremental=self.experts.start(),
        )

    def push(
        self, state: LiveState, steps: Steps | ArrayLike
    ) -> tuple[LiveState, Sequence[Prediction]]:
        """The state after some more steps, and a prediction for each that was accepted.

        The given state does not change. However a stream is cut, the predictions are the same.
        """
        checked = self.check(steps)
        state = state.copy()
        return state, self.advance(state, checked)

    def flush(self, state: LiveState) -> tuple[LiveState, Sequence[Prediction]]:
        """Release the steps that wait for an earlier one."""
        state = state.copy()
        return state, self.advance_waiting(state)

    def state_from_bytes(self, data: bytes) -> LiveState:
        """The state that :meth:`LiveState.to_bytes` wrote, of this model and these options.

        Raises
        ------
        InputError
        """
        return state_from_bytes(data, self.start(), self)

    def for_snapshot(self, data: bytes) -> LiveModel:
        """This model; or, where the search was left to choose, one with that of a snapshot.

        What is quicker is measured, and another version or processor may choose otherwise. The
        states are the same with either.
        """
        search = search_of(data)
        if self.options.search != "auto" or search is None or search == self.search:
            return self
        other = copy(self)
        other._use(search)
        return other

    def classes(self, state: LiveState) -> list[str | int]:
        """The states that can be predicted, those of the model first."""
        return [*self._known, *state.taught.names]

    def check(self, steps: Any, seq: Any = None, time: Any = None) -> Steps:
        """Refuse what is no chunk of steps of this model."""
        checked = as_steps(steps, seq, time, n_channels=self.n_channels)
        check_order(checked, self.options)
        return checked

    def advance(self, state: LiveState, steps: Steps) -> Sequence[Prediction]:
        """As :meth:`push` with checked steps, in place."""
        parts = []
        for piece in [steps] if len(steps) <= PIECE else steps.pieces(PIECE):
            released = arrange(state.order, piece, self.options, state.counters)
            parts.append(self._accept(state, released))
        predictions = parts[0] if len(parts) == 1 else [one for part in parts for one in part]
        if state.order.most_behind >= BEHIND:
            warning = (
                f"{BEHIND} steps in a row came late or again; if the source counts anew, begin a "
                "new session"
            )
            if warning not in state.warnings:
                state.warnings.append(warning)
        return predictions

    def advance_waiting(self, state: LiveState) -> Sequence[Prediction]:
        """As :meth:`flush`, in place."""
        return self._accept(state, release(state.order, self.options, self.n_channels))

    def _accept(self, state: LiveState, steps: Steps) -> Sequence[Prediction]:
        """Apply the policies to steps in their order, and classify those that are accepted."""
        if not len(steps):
            return []
        longest, unexpected = longest_step(state.times, steps, self.options, self.clf.usual_step_)
        if unexpected is not None:
            state.counters["wrong_unit"] += unexpected.wrong_unit
            state.warnings.append(unexpected.warning)
        gap = find_gaps(state.order, steps, longest)
        values = self._without_extremes(state, steps.values)
        settled = fill_missing(state.held, values, gap, self.options, state.counters)
        if not len(settled.values):
            return []
        dead = None
        if self.options.dead == "auto":
            dead = state.still.dead(settled.values, self.dead_after)
            if dead is not None:
                dead[settled.missing] = -1
        return self._predict(state, steps, settled, dead)

    def _without_extremes(self, state: LiveState, values: Floats) -> Floats:
        """The values (t, d), NaN where they are extreme, as ``predict`` takes them."""
        features = self.clf.features_
        extreme = features.channels.extremes(values)
        if extreme is None:
            return values
        if not state.counters["extreme"]:
            state.warnings.append(features.describe(extreme, values, self.clf.channels_))
        state.counters["extreme"] += int(extreme.any(axis=1).sum())
        return np.where(extreme, np.nan, values)

    def _begin(self, why: str) -> Segment:
        """A segment without a step; ``why`` says what came before it."""
        lift, n_features = self.clf.features_.lift, self.clf.features_.n_features
        raw = np.empty((0, self.n_channels))
        return Segment(lift.start(self.n_channels), np.empty((0, n_features)), raw, 0, why)

    def _predict(
        self, state: LiveState, steps: Steps, settled: FilledSteps, dead: Ints | None
    ) -> Predictions:
        """Predictions of accepted steps; the state changes.

        Parameters
        ----------
        state : LiveState
        steps : Steps
            As they were released, refused ones among them.
        settled : FilledSteps
        dead : array of shape (n,), optional
            A dead channel at each accepted step, or -1; None where no channel is dead.
        """
        classes, chosen = self.classes(state), steps[settled.accepted]
        told = Predictions.none(
            state.counters["accepted"],
            (*classes, self.clf.unknown_),
            (len(settled.values), max(self.clf.n_neighbors_, len(self.experts.experts))),
            chosen.seq,
            chosen.time,
        )
        for begin, end, starts, broken in pieces(state.segment.length == 0, settled, dead):
            if broken:
                is_missing, why = bool(settled.missing[begin]), "missing"
                if dead is not None and not is_missing:
                    why = f"dead channel {self.clf.channels_[dead[begin]]}"
                state.segment = self._begin("missing" if is_missing else "filling")
                state.past = state.past.after_break()
                n_filling, decision = 1, None
            else:
                if starts:
                    state.segment = self._begin("gap" if settled.gap[begin] else state.segment.why)
                    state.incremental = self.experts.start()
                why = state.segment.why
                n_filling, decision = self._extend(state, settled.values[begin:end], bool(classes))
            if self.options.filtered:
                self._filter(state, n_filling, decision, starts)
            first = begin + n_filling
            if n_filling:
                told.is_unknown(slice(begin, first), why)
            if decision is not None:
                codes, proba, distance, rows, said, _ = decision
                numbers = (told.codes, told.proba, told.agreement, told.distance, told.neighbours)
                state.counters["far"] += _tell(
                    *(codes, proba, distance, rows, said, self.experts.weights, self.limit),
                    *(first, *numbers, told.why, told.probabilities),
                )
            elif first < end:
                told.is_unknown(slice(first, end), UNTAUGHT)
        state.counters["accepted"] += len(told)
        state.counters["unknown"] += int(np.count_nonzero(told.why))
        if dead is not None:
            state.counters["dead"] += int((dead >= 0).sum())
        return told

    def _extend(self, state: LiveState, values: Floats, known: bool) -> tuple[int, Decision | None]:
        """Add steps (t, d) to the segment.

        Returns how many of them come before its first complete window, and the decision on the
        windows of the others: None where there are none, or no state is ``known``.
        """
        segment, w = state.segment, self.clf.width_
        lift, seen = self.features.push(segment.lift, values)
        n_filling = min(max(0, w - 1 - segment.length), len(values))
        n = len(values) - n_filling
        joined = np.concatenate([segment.features, seen])
        found = self.experts.push(state.incremental, seen)
        decision = None
        if known and n:
            if found and n_filling:
                found = found.at((ALL, slice(n_filling, None)))
            windows = partial(self.experts.seen, joined, n)
            decision = self.experts.decide(windows, found, state.taught)
        raw = _last(np.concatenate([segment.raw, values]), w)
        state.past = state.past.after(values, segment.length)
        length = segment.length + len(values)
        state.segment = Segment(lift, _last(joined, w), raw, length, segment.why)
        return n_filling, decision

    def _filter(
        self, state: LiveState, n_filling: int, decision: Decision | None, starts: bool
    ) -> None:
        """Filter steps without a window, and then the decision on windows, in place.

        As ``Confidence.filter`` does.
        """
        state_filter = self.state_filter(len(state.taught.names))
        proba = np.full((n_filling, len(state_filter.transition)), np.nan)
        if decision is not None:
            of_windows, k = decision.proba, self.clf.n_neighbors_
            if k > 1:
                of_windows = (of_windows * k + 1) / (k + of_windows.shape[1])
            proba = np.concatenate([proba, of_windows])
        begins = np.zeros(len(proba), bool)
        begins[0] = starts
        filtered, state.belief = filter_proba(proba, begins, state_filter, state.belief)
        if decision is not None:
            decision.proba[:] = filtered[n_filling:]
            decision.codes[:] = decision.proba.argmax(axis=1)


FAR = 1  # among the reasons of predictions


@jit()
def _tell(  # type: ignore[no-untyped-def]
    codes, proba, distance, rows, said, weights, limit,
    first, told_codes, told_proba, agreement, told_distance, neighbours, why, probabilities,
):  # fmt: skip
    """Write decisions into the columns of predictions; returns how many windows are far."""
    n_far = 0
    for i in range(len(codes)):
        at = first + i
        told_distance[at] = distance[i]
        probabilities[at] = proba[i]
        for k in range(rows.shape[1]):
            neighbours[at, k] = rows[i, k]
        if distance[i] > limit:
            why[at] = FAR
            n_far += 1
            continue
        told_codes[at], told_proba[at] = codes[i], proba[i, codes[i]]
        agrees = 0.0
        for m in range(said.shape[1]):
            agrees += weights[m] if said[i, m] == codes[i] else 0.0
        agreement[at] = min(agrees, 1.0)  # the weights sum to 1 up to rounding
    return n_far


def _last(rows: Floats, n: int) -> Floats:
    """The last n rows; a view only where it keeps little else alive."""
    return rows[-n:] if len(rows) <= 2 * n else rows[-n:].copy()


def _incremental_searches(
    clf: StreamClassifier, options: LiveOptions, search: str
) -> tuple[Search, ...]:
    """The incremental searches, where they are chosen or cheaper; none for the exact ones."""
    if not len(clf.references_):  # nothing to follow: what is taught is compared exactly
        if options.filtered or search == "incremental":
            raise InputError(
                "a session without references knows no switches to filter by and no distances to "
                'follow; leave filtered and search="incremental" out, or fit a model first'
            )
        return ()
    chosen = search == "incremental"
    # Where everything is compared exactly, for votes or for the filter, there is little to gain.
    exactly = clf.n_neighbors_ > 1 or (options.filtered and len(clf.experts_) == 1)
    # Passing over most of very many references is sooner done than updating a sum for each.
    if not chosen and (search == "exact" or exactly or _most_passed_over(clf.experts_)):
        return ()
    searches = incremental_searches(clf, options.anchor)
    if chosen and searches is None:
        raise InputError(
            "the incremental search needs a Toeplitz metric and every window as a reference "
            '(stride=1); leave search out, or give search="exact"'
        )
    return searches if searches and (chosen or cheaper(searches)) else ()


# What a coordinate takes that a search by clusters reads, in products of the incremental search.
OF_CLUSTERS = 3


def _most_passed_over(experts: Sequence[References]) -> bool:
    """Whether clusters leave so little that they are quicker than a sum for each reference.

    The incremental search has a product for each feature of each reference.
    """
    read = sum(expert.by_class.share_left * expert.n_dimensions for expert in experts)
    return OF_CLUSTERS * read < sum(expert.n_seen for expert in experts)


def _limit(clf: StreamClassifier, far: float | None) -> float:
    """The threshold of the model, where it has one; else ``far`` times the farthest."""
    threshold = float(clf.confidence_.threshold)
    if np.isfinite(threshold):
        return threshold
    farthest = float(clf.confidence_.farthest)
    return np.inf if far is None or np.isnan(farthest) else far * farthest
