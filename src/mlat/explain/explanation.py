"""Why a state is predicted at a step.

The squared distance of the step's window to the nearest reference of the predicted state, and that
to the nearest of another state, each split into features and lags
(:mod:`mlat.explain.attribution`). A committee has these of each expert, and what each adds to the
decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..stream.stream import Stream
from .attribution import Parts
from .experts import experts_of


@dataclass(frozen=True, eq=False, repr=False)
class Towards(ShortRepr):
    """A state, its references nearest to a window, and the parts of the distance to the nearest.

    Attributes
    ----------
    state : str or int
    rows : array of shape (k,)
        Rows of the classifier's ``windows_``, nearest first.
    distances : array of shape (k,)
    parts : Parts
        Of the squared distance to the nearest.
    """

    state: Any
    rows: Ints
    distances: Floats
    parts: Parts


@dataclass(frozen=True, eq=False, repr=False)
class Opinion(ShortRepr):
    """What one expert says of a window.

    Attributes
    ----------
    name : str
        Empty for the only expert of a classifier.
    weight : float
        From 0 to 1; 1 for the only expert.
    width : int
        Its window is of the last so many steps.
    state : str or int
        The state that is nearest to it.
    nearest : array of shape (S,)
        Its distance to the nearest reference of each state.
    own, other : Towards
        The state that is explained, and the one it is compared with.
    log_odds : float
        What it adds to the logarithm of the odds of the former against the latter; negative where
        it speaks against the decision.
    alone_decides : bool
        Whether another state would be the nearest without it.
    features : tuple of d' names
        Those that it sees.
    channels : array of shape (d',)
        The channel of each feature.
    """

    name: str
    weight: float
    width: int
    state: Any
    nearest: Floats
    own: Towards
    other: Towards
    log_odds: float
    alone_decides: bool
    features: tuple[str, ...]
    channels: Ints

    @property
    def agrees(self) -> bool:
        """Whether the explained state is the nearest to it."""
        return bool(self.state == self.own.state)

    @property
    def margin(self) -> Parts:
        """How much farther away the other state is, by parts."""
        return self.other.parts - self.own.parts


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ShortRepr):
    """Why a state is predicted at one step.

    Attributes
    ----------
    step, width : int
        The window is of the steps ``step - width + 1`` to ``step``.
    predicted : str, int or None
        The predicted state; None for the unknown state.
    true : str, int or None
        The true state; None where it is not known.
    switches : array
        Steps within the window at which the true state differs from that of the step before.
    states : array of shape (S,)
        Those of the classifier.
    nearest : array of shape (S,)
        The distance to each state that decides: of the only expert, or of the committee.
    opinions : tuple of Opinion
        What each expert says, in the order of ``clf.experts_``.
    """

    step: int
    width: int
    predicted: Any
    true: Any
    switches: Ints
    states: NDArray[Any]
    nearest: Floats
    opinions: tuple[Opinion, ...]

    @property
    def start(self) -> int:
        return self.step - self.width + 1

    @property
    def headline(self) -> str:
        """The predicted and the true state in one line."""
        line = f"Step {self.step}: "
        line += "no state predicted" if self.predicted is None else f"predicted {self.predicted}"
        if self.true is None:
            return line
        right = "which is right" if self.true == self.predicted else f"truly {self.true}"
        return f"{line}, {right}"

    @property
    def leading(self) -> Opinion:
        """The expert that adds most to the explained state; the only one, where there is one."""
        return max(self.opinions, key=lambda opinion: opinion.log_odds)

    @property
    def own(self) -> Towards:
        """The predicted state, or else the nearest, as the leading expert sees it."""
        return self.leading.own

    @property
    def other(self) -> Towards:
        """The state it is compared with, as the leading expert sees it."""
        return self.leading.other

    @property
    def log_odds(self) -> float:
        """The logarithm of the odds of the own state against the other, by this window alone."""
        return float(sum(opinion.log_odds for opinion in self.opinions))

    @property
    def agreement(self) -> float:
        """The weight of the experts to which the own state is the nearest, from 0 to 1."""
        return float(sum(opinion.weight for opinion in self.opinions if opinion.agrees))

    @property
    def in_words(self) -> str:
        """Which experts decided, and which disagreed; empty with a single expert."""
        if len(self.opinions) == 1:
            return ""
        against = [f"{one.name} ({one.state})" for one in self.opinions if not one.agrees]
        if not against:
            return f"All experts say {self.own.state}."
        alone = [one.name for one in self.opinions if one.alone_decides]
        nearest = self.states[int(self.nearest.argmin())]
        if nearest != self.own.state:
            decided = f"All together are nearer to {nearest}"
        elif alone:
            them = "it" if len(alone) == 1 else "either"
            decided = f"{' and '.join(alone)} decided: without {them} another state would be nearer"
        else:
            decided = "No expert decided alone: without any one of them it would be the same state"
        return f"{decided}. Disagreed: {', '.join(against)}."


def explain(
    clf: StreamClassifier,
    stream: Stream,
    step: int,
    *,
    n_neighbors: int = 3,
    against: Any = None,
    predicted: Any = None,
) -> Explanation:
    """Why ``clf`` predicts the state that it predicts at ``step``.

    Parameters
    ----------
    clf : fitted StreamClassifier
    stream : Stream
    step : int
        A step that ends a complete window.
    n_neighbors : int, default=3
        References of each of the two states; all of a state that has fewer.
    against : str or int, optional
        The state to compare the predicted one with. Default the true state if another is predicted
        and the model knows it, otherwise the nearest of the others.
    predicted : str or int, optional
        The predicted state, if it is known already.

    Raises
    ------
    InputError
        If no complete window ends at the step, or ``against`` is not one of the other states.
    """
    step = check_step(clf, stream, step)
    if n_neighbors < 1:
        raise InputError(f"n_neighbors must be at least 1, not {n_neighbors}")
    past = stream[: step + 1]  # a prediction does not depend on later steps
    state = clf.predict(past)[-1] if predicted is None else predicted
    features = clf.features(past)[-clf.width_ :]
    experts, codes = experts_of(clf), clf.references_.codes
    distances = [expert.distances(features) for expert in experts]
    of_state = [np.flatnonzero(codes == code) for code in range(len(clf.classes_))]
    by_expert = np.array([[each[rows].min() for rows in of_state] for each in distances])
    # The logarithms that add up to that of the committee's distance, of each expert and state.
    terms = log_terms(clf, by_expert)
    together = terms.sum(axis=0)
    nearest = clf.committee_.combine(by_expert[:, None])[0]
    is_own = clf.classes_ == state if state != clf.unknown_ else nearest == nearest.min()
    own = int(np.argmax(is_own))
    other = _rival(clf, own, nearest, past.states[-1] if against is None else against)
    if against is not None and clf.classes_[other] != against:
        names = ", ".join(str(name) for name in np.delete(clf.classes_, own))
        raise InputError(f"{against!s} is not one of the other states: {names}")

    def opinion(m: int) -> Opinion:
        expert = experts[m]

        def towards(code: int) -> Towards:
            rows = of_state[code]
            rows = rows[np.argsort(distances[m][rows], kind="stable")][:n_neighbors]
            parts = expert.parts(expert.window(features)[None], expert.windows(rows[:1]))
            return Towards(clf.classes_[code].item(), rows, distances[m][rows], parts)

        without = together - terms[m]
        return Opinion(
            name=expert.name,
            weight=expert.weight,
            width=expert.width,
            state=clf.classes_[by_expert[m].argmin()].item(),
            nearest=by_expert[m],
            own=towards(own),
            other=towards(other),
            log_odds=float(clf.confidence_.calibration.beta * (terms[m, other] - terms[m, own])),
            alone_decides=len(experts) == 1 or bool(together.argmin() == own != without.argmin()),
            features=expert.features,
            channels=expert.channels,
        )

    start = step - clf.width_ + 1
    return Explanation(
        step=step,
        width=clf.width_,
        predicted=None if state == clf.unknown_ else _plain(state),
        true=_plain(past.states[-1]) if past.labelled[-1] else None,
        switches=start + 1 + np.flatnonzero(np.diff(past.codes[start:])),
        states=clf.classes_,
        nearest=nearest,
        opinions=tuple(opinion(m) for m in range(len(experts))),
    )


def log_terms(clf: StreamClassifier, nearest: Floats) -> Floats:
    """The logarithm of each expert's distances in the decision, from its distances (M, …).

    They add up to the logarithm of the distance by which probabilities are computed. A difference
    of two states, times the calibration's β, is what an expert adds to the logarithm of their odds.
    """
    committee, calibration = clf.committee_, clf.confidence_.calibration
    weights, typical = (each.reshape(-1, *[1] * (nearest.ndim - 1)) for each in committee.powers)
    # Of one expert alone the calibration has the typical distance and what is added to it.
    unit, soft = typical * calibration.typical, committee.soft + calibration.soft
    return np.asarray(weights * np.log(nearest / unit + soft))


def _plain(state: Any) -> Any:
    """As a type of Python, where it is one of numpy."""
    return state.item() if isinstance(state, np.generic) else state


def _rival(clf: StreamClassifier, own: int, nearest: Floats, wanted: Any) -> int:
    """The wanted state if it is another one and known, otherwise the nearest of the others."""
    others = np.arange(len(nearest)) != own
    found = np.flatnonzero(others & (clf.classes_ == wanted))
    return int(found[0]) if len(found) else int(np.argmin(np.where(others, nearest, np.inf)))


def check_step(clf: StreamClassifier, stream: Stream, step: int) -> int:
    """The step, counted from 0, if a complete window ends there.

    Raises
    ------
    InputError
        If none does; it names the next step where one does.
    """
    if not -len(stream) <= step < len(stream):
        raise InputError(f"there is no step {step}: the stream has {len(stream)}, counted from 0")
    step = int(step) % len(stream)
    segments = clf.features_.without_extremes(stream).segments
    full = segments.stop - segments.start >= clf.width_
    first, stop = segments.start[full] + clf.width_ - 1, segments.stop[full]
    if ((first <= step) & (step < stop)).any():
        return step
    if not len(first):
        raise InputError(f"the stream has no unbroken stretch of {clf.width_} steps, a window")
    later = first[first > step]
    near = f"the next is {later[0]}" if len(later) else f"the last is {stop[-1] - 1}"
    raise InputError(
        f"step {step} ends no complete window of {clf.width_} steps, so no state was predicted "
        f"for it; {near}"
    )
