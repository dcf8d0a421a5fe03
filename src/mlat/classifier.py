"""k nearest neighbours over streams: from labelled runs to a state for every step."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from . import progress
from .errors import InputError
from .estimators import MLAT
from .neighbors import NearestNeighbors
from .stream import Stream, no_state
from .voting import vote
from .windows import Windows, sliding_windows

if TYPE_CHECKING:
    import os

Floats = NDArray[np.float64]

BLOCK = 4096  # windows embedded at a time


class StreamClassifier(BaseEstimator):  # type: ignore[misc]
    """Tells the state of a stream at every step, from a few labelled runs.

    The windows of the labelled stream are the references; the state of a step is that of the
    nearest references of the window which ends there.

    Parameters
    ----------
    width : int, default=10
        Steps per window.
    metric : estimator or "euclidean", optional
        A transformer over windows, such as :class:`MLAT` or :class:`LMNN`; default ``MLAT()``.
    n_neighbors : int, default=1
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over the labelled steps of the training
        stream, and by the same figures ever after.
    step : int, default=1
        Keep every ``step``-th window of a run as a reference.

    Attributes
    ----------
    classes_ : array of shape (S,)
        The states it can predict.
    unknown_ : ``""`` or -1
        The unknown state, predicted where there is no complete window.
    metric_ : fitted transformer, or None for Euclidean distance
    windows_ : Windows
        The references, as windows over the training stream's values.
    channels_ : tuple of str
    mean_, scale_ : arrays of shape (d,)
    n_channels_ : int

    Examples
    --------
    >>> import mlat
    >>> from mlat.datasets.synthetic import rotating_states
    >>> clf = mlat.StreamClassifier(width=16).fit(rotating_states(random_state=0))
    >>> again = rotating_states(random_state=1)
    >>> clf.predict(again)[:3].tolist()
    ['', '', '']
    >>> clf.score(again) > 0.6
    True
    """

    def __init__(
        self,
        width: int = 10,
        *,
        metric: Any = None,
        n_neighbors: int = 1,
        scale: bool = True,
        step: int = 1,
    ) -> None:
        self.width = width
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.scale = scale
        self.step = step

    def fit(
        self,
        stream: Stream | ArrayLike,
        states: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Self:
        """Learn from a labelled stream, or from values (T, d) and their states (T,)."""
        if not isinstance(stream, Stream):
            if states is None:
                raise InputError("fit needs the states: fit(stream) or fit(values, states)")
            stream = Stream(stream, states, recordings=recordings, time=time)
        elif states is not None:
            raise InputError("the stream has states of its own; give it alone")
        if not isinstance(self.n_neighbors, int | np.integer) or self.n_neighbors < 1:
            raise InputError(f"n_neighbors must be at least 1, not {self.n_neighbors!r}")
        windows = sliding_windows(stream, self.width, step=self.step)
        classes = np.unique(windows.y)
        if len(classes) < 2:
            raise InputError(
                f"the stream has windows of one state only, {classes[0]!s}; "
                "label at least two states"
            )
        mean, deviation = self._channel_scale(stream)
        metric = self._fit_metric(windows, mean, deviation)
        return self._remember(windows, classes, mean, deviation, metric, stream.channels)

    def _remember(
        self,
        windows: Windows,
        classes: NDArray[Any],
        mean: Floats,
        deviation: Floats,
        metric: Any,
        channels: tuple[str, ...],
    ) -> Self:
        """Everything that predicting needs, from fitting or from a model file."""
        self.windows_, self.classes_, self.channels_ = windows, classes, channels
        self.mean_, self.scale_, self.metric_ = mean, deviation, metric
        self.n_channels_ = len(mean)
        self.unknown_ = no_state(classes)
        self._codes = np.searchsorted(classes, windows.y)
        self._search = NearestNeighbors(np.concatenate([*self._embed(windows)]))
        if self.n_neighbors > len(self._search):
            raise InputError(
                f"n_neighbors is {self.n_neighbors}, but the stream gives only "
                f"{len(self._search)} windows"
            )
        return self

    def _channel_scale(self, stream: Stream) -> tuple[Floats, Floats]:
        if not self.scale:
            return np.zeros(stream.n_channels), np.ones(stream.n_channels)
        steps = stream.values[stream.labelled & ~stream.missing].astype(np.float64)
        deviation = steps.std(axis=0)
        # A channel that never moves says nothing: centred it is 0, whatever it is divided by.
        flat = deviation <= 1e-12 * np.abs(steps).max(axis=0)
        return steps.mean(axis=0), np.where(flat, 1.0, deviation)

    def _fit_metric(self, windows: Windows, mean: Floats, deviation: Floats) -> Any:
        if isinstance(self.metric, str):
            if self.metric != "euclidean":
                raise InputError(
                    f'metric must be "euclidean" or an estimator such as mlat.MLAT(), '
                    f"not {self.metric!r}"
                )
            return None
        metric = clone(MLAT() if self.metric is None else self.metric)
        X = (windows.X - mean) / deviation
        accepted = inspect.signature(metric.fit).parameters
        when = {"start": windows.start, "run": windows.run}
        return metric.fit(X, windows.y, **{k: v for k, v in when.items() if k in accepted})

    def _embed(self, windows: Windows) -> Iterator[Floats]:
        """The windows in the learned space, a block at a time."""
        view = windows.view
        for begin in range(0, len(windows), BLOCK):
            X = (view[windows.start[begin : begin + BLOCK]] - self.mean_) / self.scale_
            flat = X.reshape(len(X), -1)
            yield flat if self.metric_ is None else self.metric_.transform(X)

    def _as_stream(self, stream: Stream | ArrayLike) -> Stream:
        check_is_fitted(self)
        if not isinstance(stream, Stream):
            stream = Stream(stream)
        elif stream.n_channels == self.n_channels_ and stream.channels != self.channels_:
            names = {f"x{i}" for i in range(self.n_channels_)}
            # Channels that were never named cannot be told apart by name.
            if not (set(stream.channels) == names or set(self.channels_) == names):
                raise InputError(
                    f"the stream's channels are {', '.join(stream.channels)}; the model was "
                    f"learned on {', '.join(self.channels_)}; choose and order them alike"
                )
        if stream.n_channels != self.n_channels_:
            raise InputError(
                f"the stream has {stream.n_channels} channels, the model was learned on "
                f"{self.n_channels_} ({', '.join(self.channels_)})"
            )
        return stream

    def kneighbors(
        self, stream: Stream | ArrayLike, n_neighbors: int | None = None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The nearest references of the window that ends at each step.

        Returns
        -------
        distances : array of shape (T, k)
            In the learned space, nearest first; NaN where there is no complete window.
        rows : array of shape (T, k)
            Rows of ``windows_``; -1 where there is no complete window.
        """
        stream = self._as_stream(stream)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        windows = sliding_windows(stream, self.width, labelled=False)
        distances = np.full((len(stream), k), np.nan)
        rows = np.full((len(stream), k), -1, np.int64)
        ends = windows.start + self.width - 1
        n_blocks = -(-len(windows) // BLOCK)
        for i, Z in enumerate(self._embed(windows)):
            progress.report("neighbours", i + 1, n_blocks, {})
            at = ends[i * BLOCK : (i + 1) * BLOCK]
            distances[at], rows[at] = self._search.query(Z, k)
        return distances, rows

    def predict(self, stream: Stream | ArrayLike) -> NDArray[Any]:
        """The state at each step, shape (T,): that of the window which ends there.

        ``unknown_`` where there is none: before the first full window of a recording, after a gap
        and after a missing value.
        """
        return self._predict(stream)[0]

    def predict_proba(self, stream: Stream | ArrayLike) -> Floats:
        """The share of each state among the neighbours, shape (T, S); NaN where unknown."""
        return self._predict(stream)[1]

    def _predict(self, stream: Stream | ArrayLike) -> tuple[NDArray[Any], Floats]:
        distances, rows = self.kneighbors(stream)
        known = rows[:, 0] >= 0
        states = np.full(len(rows), self.unknown_, dtype=self.classes_.dtype)
        shares = np.full((len(rows), len(self.classes_)), np.nan)
        if known.any():
            codes, shares[known] = vote(
                self._codes[rows[known]], distances[known], len(self.classes_)
            )
            states[known] = self.classes_[codes]
        return states, shares

    def score(self, stream: Stream | ArrayLike, states: ArrayLike | None = None) -> float:
        """The share of labelled steps whose state is predicted, among those with a full window.

        Windows that reach across a switch of states count too: a live stream has them.
        """
        if not isinstance(stream, Stream):
            stream = Stream(stream, states)
        elif states is not None:
            raise InputError("the stream has states of its own; give it alone")
        predicted = self.predict(stream)
        judged = stream.labelled & (predicted != self.unknown_)
        if not judged.any():
            raise InputError("no labelled step of the stream has a complete window to judge")
        return float((predicted[judged] == stream.states[judged]).mean())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file (no pickle); read it back with :func:`mlat.load`."""
        from .files.model_file import save

        save(self, path)
