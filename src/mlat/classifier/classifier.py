"""k nearest neighbours over streams: from labelled runs to a state for every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..checks import Floats
from ..errors import InputError
from ..features.features import Features, lift_runs
from ..metric.matrix import unmixed
from ..neighbours.references import ReferenceSearch, check_channels
from ..stream.stream import Stream, no_state
from ..stream.windows import Windows, sliding_windows
from .confidence import learn_confidence
from .setup import Setup, as_labelled, set_up

if TYPE_CHECKING:
    import os

    from ..live import LiveSession


class StreamClassifier(BaseEstimator):  # type: ignore[misc]
    """Tells the state of a stream at every step, from a few labelled runs.

    The windows of the labelled stream are the references; the state of a step is that of the
    nearest references of the window which ends there.

    Parameters
    ----------
    width : int, default=10
        Steps per window; with ``metric="auto"`` the widest that may be chosen.
    metric : "auto", "euclidean", "mlat", "lmnn" or an estimator, default="auto"
        ``"auto"`` decides for itself on lift, width, metric and number of neighbours, by how well
        parts of the training stream far from each other tell each other's states; see
        ``selection_``. An estimator is a transformer over windows, such as :class:`MLAT`.
    lift : Lift or sequence of str, optional
        What to make of the channels first, see :class:`~mlat.Lift`; default nothing. With
        ``metric="auto"`` it is chosen.
    whiten : bool, default=False
        Weigh the lifted channels by how they vary within states (:mod:`mlat.features.whitening`)
        before the metric is learned. With ``metric="auto"`` it is chosen.
    n_neighbors : int, optional
        Default 1. With ``metric="auto"`` it is chosen.
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over the labelled steps of the training
        stream, and by the same figures ever after.
    step : int, default=1
        Keep every ``step``-th window of a run as a reference.
    reach : int, optional
        For ``metric="auto"``: how many steps back its lifts may look; default 100, or two widths
        where that is more, but no more than a fifth of the usual run or the width. A state depends
        on no step further back than the width and the reach together.
    unknown_rate : float, default=0.0
        Predict the unknown state where a window is farther from every reference than this share
        of windows like the references would be. 0 never does.
    budget : float, default=60.0
        Seconds after which ``metric="auto"`` tries nothing more.

    Attributes
    ----------
    classes_ : array of shape (S,)
        The states it can predict.
    unknown_ : ``""`` or -1
        The unknown state, predicted where there is no complete window.
    width_ : int
        Steps per window, given or chosen.
    n_neighbors_ : int
    metric_ : fitted transformer, or None for Euclidean distance
    features_ : Features
        From the channels to what the metric sees.
    feature_names_ : tuple of str
    feature_channels_ : array of shape (d',)
        The channel each feature is made of.
    windows_ : Windows
        The references, as windows over the training stream's values.
    selection_ : Selection or None
        What ``"auto"`` tried, what it chose and why.
    confidence_ : Confidence
    channels_ : tuple of str

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
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
        metric: Any = "auto",
        lift: Any = None,
        whiten: bool = False,
        n_neighbors: int | None = None,
        scale: bool = True,
        step: int = 1,
        reach: int | None = None,
        unknown_rate: float = 0.0,
        budget: float = 60.0,
    ) -> None:
        self.width = width
        self.metric = metric
        self.lift = lift
        self.whiten = whiten
        self.n_neighbors = n_neighbors
        self.scale = scale
        self.step = step
        self.reach = reach
        self.unknown_rate = unknown_rate
        self.budget = budget

    def fit(
        self,
        stream: Stream | ArrayLike,
        states: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Self:
        """Learn from a labelled stream, or from values (T, d) and their states (T,)."""
        stream = as_labelled(stream, states, recordings=recordings, time=time)
        setup = set_up(self, stream)
        windows = sliding_windows(stream, setup.width, step=self.step)
        lifted = lift_runs(stream, setup.lift, scale=self.scale)
        features = lifted.features(scale=self.scale, whiten=setup.whiten)
        seen = features.mix(features.lifted(lifted.values))
        metric = setup.fit_metric(
            Windows(seen, windows.width, windows.start, windows.run, windows.y)
        )
        self._remember(windows, features, metric, stream.channels, setup)
        self.confidence_ = learn_confidence(
            self._search.by_class,
            self._search.embedded,
            windows,
            self._codes,
            stream,
            overlap=self.width_ + features.lift.memory,
            unknown_rate=self.unknown_rate,
        )
        return self

    def _remember(
        self,
        windows: Windows,
        features: Features,
        metric: Any,
        channels: tuple[str, ...],
        setup: Setup,
    ) -> Self:
        """Everything that predicting needs, from fitting or from a model file."""
        self.windows_, self.channels_ = windows, channels
        self.classes_ = np.unique(windows.y)
        self.features_, self.metric_ = features, metric
        self.width_, self.n_neighbors_ = windows.width, setup.n_neighbors
        self.selection_ = setup.selection
        self.n_channels_ = len(channels)
        self.feature_names_ = features.lift.names(channels)
        self.feature_channels_ = features.lift.channels(len(channels))
        self.unknown_ = no_state(self.classes_)
        self._codes = np.searchsorted(self.classes_, windows.y)
        self._search = ReferenceSearch(windows, features, metric, self._codes, len(self.classes_))
        if self.n_neighbors_ > len(self._search):
            raise InputError(
                f"n_neighbors is {self.n_neighbors_}, but the stream gives only "
                f"{len(self._search)} windows"
            )
        return self

    @property
    def mean_(self) -> Floats:
        """The mean of each channel, shape (d,), that is taken off it."""
        return self.features_.channels.mean

    @property
    def scale_(self) -> Floats:
        """The deviation of each channel, shape (d,), that it is divided by."""
        return self.features_.channels.scale

    @property
    def reference_features_(self) -> Floats:
        """The features of the training stream's steps, shape (T, d'); NaN outside runs."""
        return self._search.plain

    def features(self, stream: Stream | ArrayLike) -> Floats:
        """The lifted and scaled channels, shape (T, d'), before whitening; NaN where missing."""
        return self.features_.plain(self._as_stream(stream))

    def metric_matrix(self) -> Floats:
        """M over windows of ``features``, shape (w*d', w*d'), whitening included."""
        check_is_fitted(self, "features_")
        M = np.eye(self.width_ * self.features_.n_features)
        M = M if self.metric_ is None else self.metric_.metric_
        return cast(Floats, unmixed(M, self.features_.mixing, self.width_))

    def _as_stream(self, stream: Stream | ArrayLike) -> Stream:
        check_is_fitted(self, "features_")
        if not isinstance(stream, Stream):
            stream = Stream(stream)
        check_channels(stream, self.channels_)
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
        k = self.n_neighbors_ if n_neighbors is None else n_neighbors
        return self._search.neighbours(stream, k)

    def class_distances(self, stream: Stream | ArrayLike) -> Floats:
        """The distance to the nearest reference of each state, shape (T, S); NaN where unknown."""
        return self._search.class_distances(self._as_stream(stream))

    def predict(self, stream: Stream | ArrayLike, *, filtered: bool = False) -> NDArray[Any]:
        """The state at each step, shape (T,): that of the window which ends there.

        ``unknown_`` where there is none: before the first full window of a recording, after a gap
        and after a missing value; and, if ``unknown_rate`` asks for it, where the window is like
        no reference.

        Parameters
        ----------
        filtered : bool, default=False
            Let states persist: the most probable state given all windows up to each step, by the
            transitions of the training stream. Steadier, and late at a switch.
        """
        return self._predict(self._as_stream(stream), filtered)[0]

    def predict_proba(self, stream: Stream | ArrayLike, *, filtered: bool = False) -> Floats:
        """The probability of each state, shape (T, S); NaN where there is no complete window.

        With one neighbour it is calibrated on the training stream; with several it is each
        state's share among them.
        """
        return self._predict(self._as_stream(stream), filtered)[1]

    def _predict(self, stream: Stream, filtered: bool) -> tuple[NDArray[Any], Floats]:
        states = np.full(len(stream), self.unknown_, dtype=self.classes_.dtype)
        if self.n_neighbors_ == 1:
            told = self.confidence_.of_nearest(self.class_distances(stream))
        else:
            told = self.confidence_.of_votes(*self.kneighbors(stream), self._codes)
        known, codes, proba, strange = told
        if filtered:
            proba = self.confidence_.filter(stream, proba, self.n_neighbors_)
            codes = proba[known].argmax(axis=1)
        states[known] = self.classes_[codes]
        states[strange] = self.unknown_
        return states, proba

    def score(self, stream: Stream | ArrayLike, states: ArrayLike | None = None) -> float:
        """The share of labelled steps whose state is predicted, among those with a full window.

        Windows that reach across a switch of states count too: a live stream has them. So do
        windows that are like no reference; the unknown state is then counted as wrong.
        """
        stream = as_labelled(stream, states)
        predicted, proba = self._predict(self._as_stream(stream), filtered=False)
        judged = stream.labelled & ~np.isnan(proba[:, 0])
        if not judged.any():
            raise InputError("no labelled step of the stream has a complete window to judge")
        return float((predicted[judged] == stream.states[judged]).mean())

    def live(self, **options: Any) -> LiveSession:
        """A session that takes a stream as it arrives; its states are those of ``predict``.

        See :class:`mlat.live.core.options.LiveOptions` for the options.
        """
        from ..live import LiveSession

        return LiveSession(self, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file (no pickle); read it back with :func:`mlat.load`."""
        from .model_file import save

        save(self, path)
