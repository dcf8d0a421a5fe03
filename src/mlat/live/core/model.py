"""The pure step: from a state and some steps to the next state and a prediction for each step.

Steps pass through the policies in turn: order, gaps, missing values, dead channels. Those that are
accepted become features, windows, distances and states, as in ``predict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...base.checks import Bools, Floats
from ...base.compiled import jit
from ...base.errors import InputError
from ...classifier.classifier import StreamClassifier
from ...classifier.decision import (
    Decision,
    ExpertSearches,
    Search,
    cheaper,
    incremental_searches,
    nothing_decided,
)
from ...classifier.enrolment import followed_units
from ...classifier.intake import (
    BEGINS,
    FAR,
    KNOWN,
    LEAST,
    MEAN,
    REASONS,
    UNTAUGHT,
    VARIANCE,
    Intake,
    Taken,
    dead_after,
)
from ...classifier.state_filter import Belief, extended_filter, filter_proba
from ...features.features import Units
from ...neighbours.references import References
from .options import LiveOptions
from .order import Order, arrange, check_order, find_gaps, longest_step, release
from .state import Fingerprint, LiveState, fingerprint_of, search_of, state_from_bytes
from .steps import NO_PREDICTIONS, Predictions, Steps, as_steps
from .teaching import Examples, Teaching

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
    intake : Intake
        From steps to features.
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
        follow = followed_units(clf) if self.options.adapt == "auto" else None
        self.options = replace(self.options, adapt="off" if follow is None else "auto")
        self._known: list[str | int] = clf.classes_.tolist()
        self._hash = fingerprint_of(clf)
        self.dead_after, self._width = dead_after(clf.windows_), clf.width_
        self.intake = Intake(
            *(clf.features_, clf.width_, self.options.missing, self.options.hold),
            self.dead_after if self.options.dead == "auto" else None,
            follow,
        )
        dead = [f"dead channel {name}" for name in clf.channels_]
        self._reasons = [*REASONS, *dead]
        self._n_neighbours = max(clf.n_neighbors_, len(clf.experts_))
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
            # What can be taught, or at least the last window.
            self.intake.start(n_past=max(self.teaching.n_past, self._width)),
            np.empty((0, self.clf.features_.n_features)),
            Belief(self.clf.confidence_.state_filter.stationary),  # () where no state is known
            self.teaching.references((), Examples()),
            Examples(),
            n_past=self.teaching.n_past,
            incremental=self.experts.start(),
        )

    def push(self, state: LiveState, steps: Steps | ArrayLike) -> tuple[LiveState, Predictions]:
        """The state after some more steps, and a prediction for each that was accepted.

        The given state does not change. However a stream is cut, the predictions are the same.
        """
        checked = self.check(steps)
        state = state.copy()
        return state, self.advance(state, checked)

    def flush(self, state: LiveState) -> tuple[LiveState, Predictions]:
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

    def units(self, state: LiveState) -> Units | None:
        """The mean and deviation of each channel by now; None where they are not followed."""
        if self.options.adapt == "off":
            return None
        common, own = cast(Units, self.clf.units_), state.memory.units[0]
        scale = np.sqrt(np.maximum(own[VARIANCE], LEAST)) * common.scale
        return Units(own[MEAN] * common.scale + common.mean, scale, adapted=True)

    def check(self, steps: Any, seq: Any = None, time: Any = None) -> Steps:
        """Refuse what is no chunk of steps of this model."""
        checked = as_steps(steps, seq, time, n_channels=self.n_channels)
        if self.options.order_by != "none":
            check_order(checked, self.options)
        return checked

    def advance(self, state: LiveState, steps: Steps) -> Predictions:
        """As :meth:`push` with checked steps, in place."""
        parts = []
        in_order = self.options.order_by == "none"
        for piece in [steps] if len(steps.values) <= PIECE else steps.pieces(PIECE):
            released = piece
            if not in_order:
                released = arrange(state.order, piece, self.options, state.counters)
            accepted = self._accept(state, released)
            if accepted is not None:
                parts.append(accepted)
        if state.order.most_behind >= BEHIND:
            warning = (
                f"{BEHIND} steps in a row came late or again; if the source counts anew, or its "
                "clock was set back, begin a new session"
            )
            if warning not in state.warnings:
                state.warnings.append(warning)
        return parts[0] if len(parts) == 1 else Predictions.joined(parts)

    def advance_waiting(self, state: LiveState) -> Predictions:
        """As :meth:`flush`, in place."""
        released = release(state.order, self.options, self.n_channels)
        return self._accept(state, released) or NO_PREDICTIONS

    def _accept(self, state: LiveState, steps: Steps) -> Predictions | None:
        """Apply the policies to steps in their order, and classify those that are accepted."""
        if not len(steps.values):
            return None
        gap = None
        if steps.seq is not None or steps.time is not None:
            gap = self._gaps(state, steps)
        taken = self.intake.take(state.memory, steps.values, gap)
        if taken.extreme is not None and not state.counters["extreme"]:
            state.warnings.append(self._of_extreme(steps.values, *taken.extreme))
        for name, count in taken.counts.items():
            state.counters[name] += count
        return self._predict(state, steps, taken) if len(taken.why) else None

    def _gaps(self, state: LiveState, steps: Steps) -> Bools:
        """Which steps follow a gap, by their numbers or times."""
        longest, unexpected = longest_step(state.times, steps, self.options, self.clf.usual_step_)
        if unexpected is not None:
            state.counters["wrong_unit"] += unexpected.wrong_unit
            state.warnings.append(unexpected.warning)
        return find_gaps(state.order, steps, longest)

    def _of_extreme(self, values: Floats, step: int, channel: int) -> str:
        extreme = np.zeros(values.shape, bool)
        extreme[step, channel] = True
        return self.clf.features_.describe(extreme, values, self.clf.channels_)

    def _predict(self, state: LiveState, steps: Steps, taken: Taken) -> Predictions:
        """Predictions of accepted steps; the state changes."""
        n, why = len(taken.why), taken.why.copy()
        ready = why == KNOWN
        # One row for each step, and those before it that its window needs.
        features = np.concatenate([state.recent, taken.features])
        state.recent = features[-self._width :].copy()
        found = self.experts.push(state.incremental, taken.features, taken.marks)
        names = (*self._known, *state.taught.names, self.clf.unknown_)
        decision = None
        if ready.any():
            if len(names) > 1:
                seen = partial(self.experts.seen, features, n)
                decision = self.experts.decide(seen, ready, found, state.taught)
            else:
                why[ready] = UNTAUGHT
        if self.options.filtered:
            self._filter(state, taken.marks == BEGINS, ready, decision)
        if decision is None:
            decision = nothing_decided(n, len(names) - 1, self._n_neighbours, 1)
        codes, proba, agreement = np.empty(n, np.int64), np.empty(n), np.empty(n)
        state.counters["far"] += _tell(
            *(decision.codes, decision.proba, decision.distance, decision.said),
            *(self.experts.weights, self.limit, why, codes, proba, agreement),
        )
        state.counters["unknown"] += int(np.count_nonzero(why))
        whole = n == len(steps.values)
        return Predictions(
            *(state.counters["accepted"] - n, names, codes, proba, agreement, decision.distance),
            *(decision.rows, self._reasons, why, decision.proba),
            None if steps.seq is None else steps.seq if whole else steps.seq[taken.accepted],
            None if steps.time is None else steps.time if whole else steps.time[taken.accepted],
        )

    def _filter(
        self, state: LiveState, begins: Bools, ready: Bools, decision: Decision | None
    ) -> None:
        """Filter the decision on the windows that are ready, in place, as ``Confidence.filter``."""
        state_filter = self.state_filter(len(state.taught.names))
        proba = np.full((len(ready), len(state_filter.transition)), np.nan)
        if decision is not None:
            proba, k = decision.proba, self.clf.n_neighbors_
            if k > 1:
                proba = (proba * k + 1) / (k + proba.shape[1])
        filtered, state.belief = filter_proba(proba, begins, state_filter, state.belief)
        if decision is not None:
            decision.proba[:] = filtered
            decision.codes[ready] = filtered[ready].argmax(axis=1)


@jit()
def _tell(  # type: ignore[no-untyped-def]
    decided, probabilities, distance, said, weights, limit, why, codes, proba, agreement
):
    """The columns of predictions from decisions; returns how many windows are far.

    ``why`` takes that they are, and the unknown state comes after all others.
    """
    n_far = 0
    for i in range(len(codes)):
        if why[i] == KNOWN and distance[i] > limit:
            why[i] = FAR
            n_far += 1
        codes[i], proba[i], agreement[i] = probabilities.shape[1], np.nan, np.nan
        if why[i] == KNOWN:
            codes[i], proba[i] = decided[i], probabilities[i, decided[i]]
            agrees = 0.0
            for m in range(said.shape[1]):
                agrees += weights[m] if said[i, m] == codes[i] else 0.0
            agreement[i] = min(agrees, 1.0)  # the weights sum to 1 up to rounding
    return n_far


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
