"""Why a step got its state, in figures.

The squared distance of its window to the nearest reference of the predicted state, and that to the
nearest of another state, each split into features and lags (:mod:`mlat.explain.attribution`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..checks import Floats, Ints
from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..metric.matrix import metric_array, unmixed
from ..stream.stream import Stream
from .attribution import Parts, split

# -------------------------------------------------------------------- references
# A classifier's references as its metric sees them, for whoever looks into a model.

BLOCK = 4096  # embedded at a time


class References:
    """The reference windows by their features, and distances to them.

    Parameters
    ----------
    clf : fitted StreamClassifier

    Attributes
    ----------
    metric : None, array of shape (w*d', w*d') or (w, d', d')
        Over the features before whitening, as :func:`mlat.explain.attribution.split` takes it.
    """

    def __init__(self, clf: StreamClassifier) -> None:
        self.clf = clf
        self._start = clf.windows_.start
        # Every window over the reference steps; a reference is the one at its start.
        windows = sliding_window_view(clf.reference_features_, clf.width_, axis=0)
        self._windows = windows.transpose(0, 2, 1)
        learned = metric_array(clf.metric_, clf.width_, self._windows.shape[2])
        self.metric = unmixed(learned, clf.features_.mixing, clf.width_)

    def __len__(self) -> int:
        return len(self._start)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> Floats:
        """The features of some references, shape (n, w, d')."""
        return self._windows[self._start[rows]]

    def embed(self, X: Floats) -> Floats:
        """Windows (n, w, d') in the learned space."""
        metric, seen = self.clf.metric_, self.clf.features_.mix(X)
        return seen.reshape(len(X), -1) if metric is None else np.asarray(metric.transform(seen))

    def embedded(self) -> Iterator[tuple[slice, Floats]]:
        """The references in the learned space, a block of rows at a time."""
        for begin in range(0, len(self), BLOCK):
            rows = slice(begin, begin + BLOCK)
            yield rows, self.embed(self[rows])

    def distances(self, window: Floats) -> Floats:
        """From a window (w, d') to every reference, by differences as the classifier's own."""
        z = self.embed(window[None])
        distances = np.empty(len(self))
        for rows, Z in self.embedded():
            distances[rows] = np.sqrt(((Z - z) ** 2).sum(axis=1))
        return distances


@dataclass(frozen=True, eq=False)
class Towards:
    """A state, its references nearest to a window, and the parts of the distance to the first.

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


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one step got its state.

    Attributes
    ----------
    step, width : int
        The window is of the steps ``step - width + 1`` to ``step``.
    predicted : str, int or None
        The predicted state; None if the classifier declined to tell one.
    true : str, int or None
        The true state; None where it is not known.
    switches : array
        Steps within the window at which the true state is another than at the step before.
    own, other : Towards
        The predicted state (the nearest, if none was predicted), and the one it is held against.
    features : tuple of d' names
    channels : array of shape (d',)
        The channel each feature is of.
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
        """What was predicted and what is true, in one line."""
        told = "no state predicted" if self.predicted is None else f"predicted {self.predicted}"
        if self.true is None:
            return f"Step {self.step}: {told}"
        right = "which is right" if self.true == self.predicted else f"truly {self.true}"
        return f"Step {self.step}: {told}, {right}"

    @property
    def margin(self) -> Parts:
        """What each part adds to the other state's being farther away."""
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
    """Why ``clf`` tells the state that it tells at ``step``.

    Parameters
    ----------
    clf : fitted StreamClassifier
    stream : Stream
    step : int
        A step that ends a complete window.
    n_neighbors : int, default=3
        References of each of the two states, fewer where a state has no more.
    against : str or int, optional
        The state to hold the predicted one against. Default the true state if another was
        predicted and the model knows it, otherwise the nearest of the others.
    predicted : str or int, optional
        The state that was predicted, if it is known already.
    """
    step = check_step(clf, stream, step)
    if n_neighbors < 1:
        raise InputError(f"n_neighbors must be at least 1, not {n_neighbors}")
    past = stream[: step + 1]  # what follows has no part in a prediction
    told = clf.predict(past)[-1] if predicted is None else predicted
    query = clf.features(past)[-clf.width_ :]
    references = References(clf)
    distances = references.distances(query)
    of_state = [np.flatnonzero(clf.windows_.y == state) for state in clf.classes_]
    nearest = np.array([distances[rows].min() for rows in of_state])
    is_own = clf.classes_ == told if told != clf.unknown_ else nearest == nearest.min()
    own = int(np.argmax(is_own))
    other = _rival(clf, own, nearest, past.states[-1] if against is None else against)
    if against is not None and clf.classes_[other] != against:
        names = ", ".join(str(state) for state in np.delete(clf.classes_, own))
        raise InputError(f"{against!s} is not one of the other states: {names}")

    def towards(code: int) -> Towards:
        rows = of_state[code]
        rows = rows[np.argsort(distances[rows], kind="stable")][:n_neighbors]
        parts = split(query - references[rows[:1]], references.metric)
        return Towards(clf.classes_[code].item(), rows, distances[rows], parts)

    start = step - clf.width_ + 1
    return Explanation(
        step=step,
        width=clf.width_,
        predicted=None if told == clf.unknown_ else _plain(told),
        true=_plain(past.states[-1]) if past.labelled[-1] else None,
        switches=start + 1 + np.flatnonzero(np.diff(past.codes[start:])),
        own=towards(own),
        other=towards(other),
        features=tuple(clf.feature_names_),
        channels=clf.feature_channels_,
    )


def _plain(state: Any) -> Any:
    return state.item() if isinstance(state, np.generic) else state


def _rival(clf: StreamClassifier, own: int, nearest: Floats, wanted: Any) -> int:
    """The wanted state if it is another one and known, otherwise the nearest of the others."""
    others = np.arange(len(nearest)) != own
    asked = np.flatnonzero(others & (clf.classes_ == wanted))
    return int(asked[0]) if len(asked) else int(np.argmin(np.where(others, nearest, np.inf)))


def check_step(clf: StreamClassifier, stream: Stream, step: int) -> int:
    """The step, counted from 0, if a complete window ends there; an error otherwise."""
    if not -len(stream) <= step < len(stream):
        raise InputError(f"there is no step {step}: the stream has {len(stream)}, counted from 0")
    step = int(step) % len(stream)
    segments = stream.segments
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
