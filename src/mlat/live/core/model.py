"""The pure step: from a state and some steps to the next state and a prediction for each step.

Steps pass through the policies in turn: order, gaps, missing values, dead channels. Those that are
accepted become features, windows, distances and states, as in ``predict``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ...base.checks import Bools, Floats, Ints
from ...base.compiled import jit
from ...base.errors import InputError
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import Decision
from ...classifier.state_filter import Belief, StateFilter, extended_filter, filter_proba
from ...features.features import FeatureSteps
from ...neighbours.references import References
from ..search.exact import ExactSearch
from ..search.experts import ExpertSearches, States
from .dead_channels import Still, dead_after
from .missing import FilledSteps, Held, fill_missing, pieces
from .options import LiveOptions
from .order import (
    Order,
    arrange,
    check_order,
    find_gaps,
    longest_step,
    release,
)
from .state import Fingerprint, LiveState, Segment, fingerprint_of, search_of, state_from_bytes
from .steps import Prediction, Predictions, Steps, as_steps
from .teaching import Examples, Past, Teaching, windows_over

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
    options : LiveOptions
    search : "exact" or "incremental"
        Given or chosen.
    limit : float
        The distance beyond which a window is far from every reference.
    dead_after : array of shape (d,)
        Constant steps after which a channel is dead.
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
        self.clf = clf
        self._known: list[str | int] = clf.classes_.tolist()
        self.dead_after = dead_after(clf.windows_)
        self._classifier = StepClassifier(clf, self.options)
        self.search, self.limit = self._classifier.search, self._classifier.limit
        self._fingerprint = Fingerprint(fingerprint_of(clf), self.options, self.search)
        self._state_filter = lru_cache(maxsize=4)(
            partial(extended_filter, clf.confidence_.state_filter)
        )
        self.teaching = Teaching(
            clf, self.options, self._classifier.features, self._classifier.exact, self._state_filter
        )

    @property
    def n_channels(self) -> int:
        return len(self.clf.channels_)

    def start(self) -> LiveState:
        """The state before the first step."""
        return LiveState(
            self._fingerprint,
            Order(),
            Held.start(self.n_channels),
            Still.start(self.n_channels),
            self._classifier.begin("filling"),
            Belief(self.clf.confidence_.state_filter.stationary),  # () where no state is known
            self.teaching.references((), Examples()),
            Examples(),
            Past.of(np.empty((0, self.n_channels + 1)), self.teaching.n_past),
            incremental=self._classifier.start_incremental(),
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
        if self.options.search != "auto" or search in (self.search, None):
            return self
        other = copy(self)
        other._classifier = StepClassifier(self.clf, self.options, search)
        other.search = other._classifier.search
        other._fingerprint = replace(self._fingerprint, search=other.search)
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

    def restored_search(self, arrays: Sequence[Mapping[str, NDArray[Any]]]) -> States:
        """The running sums of each expert, from the arrays of a snapshot."""
        return self._classifier.restored(arrays)

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
        state_filter = self._state_filter(len(state.taught.names))
        return self._classifier.predict(
            state, steps, settled, dead, self.classes(state), state_filter
        )

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


class StepClassifier:
    """From accepted steps to predictions: what ``predict`` does, for steps that come bit by bit.

    Attributes
    ----------
    search : "exact" or "incremental"
    features : FeatureSteps
    exact : ExactSearch
    limit : float
        The distance beyond which a window is far from every reference.
    """

    def __init__(
        self, clf: StreamClassifier, options: LiveOptions, search: str | None = None
    ) -> None:
        self._clf, self._options = clf, options
        self._width = clf.width_
        self.features = FeatureSteps(clf.features_, len(clf.channels_))
        self._n_features = clf.features_.n_features
        self._unknown = clf.unknown_
        self.exact = ExactSearch(clf)
        self._n_rows = max(clf.n_neighbors_, len(clf.experts_))
        self.limit: float = _limit(clf, options.far)
        search = options.search if search is None else search
        self._incremental = _incremental_searches(clf, options, search, self.limit)
        self.search: str = "exact" if self._incremental is None else "incremental"

    def begin(self, why: str) -> Segment:
        """A segment without a step; ``why`` says what came before it."""
        n_channels = len(self._clf.channels_)
        return Segment(
            self._clf.features_.lift.start(n_channels),
            np.empty((0, self._n_features)),
            np.empty((0, n_channels)),
            0,
            why,
        )

    def start_incremental(self) -> States | None:
        return None if self._incremental is None else self._incremental.start()

    def restored(self, arrays: Sequence[Mapping[str, NDArray[Any]]]) -> States:
        """The running sums of each expert, from the arrays of a snapshot."""
        assert self._incremental is not None
        return self._incremental.restored(arrays)

    def predict(
        self,
        state: LiveState,
        steps: Steps,
        settled: FilledSteps,
        dead: Ints | None,
        classes: list[str | int],
        state_filter: StateFilter,
    ) -> Predictions:
        """Predictions of accepted steps; the state changes.

        Parameters
        ----------
        steps : Steps
            As they were released, refused ones among them.
        settled : FilledSteps
        dead : array of shape (n,), optional
            A dead channel at each accepted step, or -1; None where no channel is dead.
        """
        told = Predictions.none(
            state.counters["accepted"],
            (*classes, self._unknown),
            (len(settled.values), self._n_rows),
            _chosen(steps.seq, settled.accepted),
            _chosen(steps.time, settled.accepted),
        )
        for begin, end, starts, broken in pieces(state.segment.length == 0, settled, dead):
            if broken:
                is_missing = bool(settled.missing[begin])
                why = "missing" if is_missing else f"dead channel {self._dead(dead, begin)}"
                state.segment = self.begin("missing" if is_missing else "filling")
                state.past = state.past.after_break()
                n_filling, decision = 1, None
            else:
                if starts:
                    why = "gap" if settled.gap[begin] else state.segment.why
                    state.segment = self.begin(why)
                    if self._incremental is not None and state.incremental is not None:
                        self._incremental.reset(state.incremental)
                why = state.segment.why
                n_filling, decision = self._extend(state, settled.values[begin:end], bool(classes))
            if self._options.filtered:
                self._filter(state, n_filling, decision, starts, state_filter)
            first = begin + n_filling
            if n_filling:
                told.is_unknown(slice(begin, first), why)
            if decision is not None:
                codes, proba, distance, rows, said, _ = decision
                numbers = (told.codes, told.proba, told.agreement, told.distance, told.neighbours)
                state.counters["far"] += _tell(
                    *(codes, proba, distance, rows, said, self.exact.weights, self.limit),
                    *(first, *numbers, told.why, told.probabilities),
                )
            elif first < end:
                told.is_unknown(slice(first, end), UNTAUGHT)
        state.counters["accepted"] += len(told)
        state.counters["unknown"] += int(np.count_nonzero(told.why))
        if dead is not None:
            state.counters["dead"] += int((dead >= 0).sum())
        return told

    def _dead(self, dead: Ints | None, step: int) -> str:
        assert dead is not None
        return self._clf.channels_[dead[step]]

    def _extend(self, state: LiveState, values: Floats, known: bool) -> tuple[int, Decision | None]:
        """Add steps (t, d) to the segment.

        Returns how many of them come before its first complete window, and the decision on the
        windows of the others: None where there are none, or no state is ``known``.
        """
        segment, w = state.segment, self._width
        lift, seen = self.features.push(segment.lift, values)
        n_filling = min(max(0, w - 1 - segment.length), len(values))
        joined = np.concatenate([segment.features, seen])
        results = None
        if self._incremental is not None and state.incremental is not None:
            results = self._incremental.push(state.incremental, seen)
        decision = None
        if known and len(values) > n_filling:
            n = len(values) - n_filling
            recent = joined[-(n + w - 1) :]
            if self._incremental is None or results is None:
                decision = self.exact.decide(windows_over(recent, w), state.taught)
            else:
                windows = partial(windows_over, recent, w)
                decision = self._incremental.decide(results, n, windows, self.exact, state.taught)
        raw = _last(np.concatenate([segment.raw, values]), w)
        state.past = state.past.after(values, segment.length)
        length = segment.length + len(values)
        state.segment = Segment(lift, _last(joined, w), raw, length, segment.why)
        return n_filling, decision

    def _filter(
        self,
        state: LiveState,
        n_filling: int,
        decision: Decision | None,
        starts: bool,
        state_filter: StateFilter,
    ) -> None:
        """Filter steps without a window, and then the decision on windows, in place.

        As ``Confidence.filter`` does.
        """
        proba = np.full((n_filling, len(state_filter.transition)), np.nan)
        if decision is not None:
            of_windows, k = decision.proba, self.exact.n_neighbors
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


def _chosen(entries: NDArray[Any] | None, accepted: Bools) -> NDArray[Any] | None:
    return None if entries is None else entries[accepted]


def _incremental_searches(
    clf: StreamClassifier, options: LiveOptions, search: str, limit: float
) -> ExpertSearches | None:
    """The incremental searches, where they are chosen or cheaper; None for the exact ones."""
    # The filter uses the probability of each state, which the incremental search knows up to its
    # bound only: unless it is chosen, a session agrees with `predict(filtered=True)` exactly. That
    # of a committee finds them exactly, from the few references that may be the nearest.
    alone = not clf.committee_.soft
    if not len(clf.references_):  # nothing to follow: what is taught is compared exactly
        if options.filtered or search == "incremental":
            raise InputError(
                "a session without references knows no switches to filter by and no distances to "
                'follow; leave filtered and search="incremental" out, or fit a model first'
            )
        return None
    if search == "exact" or (search == "auto" and options.filtered and alone):
        return None
    # Passing over most of very many references is sooner done than updating a sum for each.
    if search == "auto" and clf.n_neighbors_ == 1 and _most_passed_over(clf.experts_):
        return None
    exactly = options.filtered and not alone
    searches = ExpertSearches.of(clf, anchor=options.anchor, limit=limit, exactly=exactly)
    if search == "incremental" and searches is None:
        raise InputError(
            "the incremental search needs a Toeplitz metric and every window as a reference "
            '(stride=1); leave search out, or give search="exact"'
        )
    if searches is not None and search == "auto" and not searches.cheaper():
        return None
    return searches


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
