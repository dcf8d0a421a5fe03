"""Why a state is predicted at a step.

The squared distance of the step's window to the nearest reference of the predicted state, and that
to the nearest of another state, each split into features and lags
(:mod:`mlat.explain.attribution`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import Floats, Ints, ShortRepr
from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..metric.matrix import metric_array, unmixed
from ..neighbours.references import References
from ..stream.stream import Stream
from .attribution import Parts, split


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
    own, other : Towards
        The predicted state (the nearest, if none is predicted), and the one it is compared with.
    features : tuple of d' names
    channels : array of shape (d',)
        The channel of each feature.
    """

    step: int
    width: int
    predicted: Any
    true: Any
    switches: Ints
    own: Towards
    other: Towards
    features: tuple[str, ...]
    channels: Ints

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
    def margin(self) -> Parts:
        """How much farther away the other state is, by parts."""
        return self.other.parts - self.own.parts


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
    query = clf.features(past)[-clf.width_ :]
    references, metric = clf.references_, metric_before_whitening(clf)
    distances = _distances(references, query)
    of_state = [np.flatnonzero(references.codes == code) for code in range(len(clf.classes_))]
    nearest = np.array([distances[rows].min() for rows in of_state])
    is_own = clf.classes_ == state if state != clf.unknown_ else nearest == nearest.min()
    own = int(np.argmax(is_own))
    other = _rival(clf, own, nearest, past.states[-1] if against is None else against)
    if against is not None and clf.classes_[other] != against:
        names = ", ".join(str(name) for name in np.delete(clf.classes_, own))
        raise InputError(f"{against!s} is not one of the other states: {names}")

    def towards(code: int) -> Towards:
        rows = of_state[code]
        rows = rows[np.argsort(distances[rows], kind="stable")][:n_neighbors]
        parts = split(query - references[rows[:1]], metric)
        return Towards(clf.classes_[code].item(), rows, distances[rows], parts)

    start = step - clf.width_ + 1
    return Explanation(
        step=step,
        width=clf.width_,
        predicted=None if state == clf.unknown_ else _plain(state),
        true=_plain(past.states[-1]) if past.labelled[-1] else None,
        switches=start + 1 + np.flatnonzero(np.diff(past.codes[start:])),
        own=towards(own),
        other=towards(other),
        features=tuple(clf.feature_names_),
        channels=clf.feature_channels_,
    )


def metric_before_whitening(clf: StreamClassifier) -> Floats | None:
    """The metric over ``clf.features``, as :func:`mlat.explain.attribution.split` takes it."""
    learned = metric_array(clf.metric_, clf.width_, clf.features_.n_features)
    return unmixed(learned, clf.features_.mixing, clf.width_)


def _distances(references: References, window: Floats) -> Floats:
    """From a window (w, d') before whitening to every reference, by differences as in predict."""
    z = references.embed(references.features.mix(window[None]))
    distances = np.empty(len(references))
    for rows, Z in references.embedded_blocks():
        distances[rows] = np.sqrt(((Z - z) ** 2).sum(axis=1))
    return distances


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
