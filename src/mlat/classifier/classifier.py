"""k nearest neighbours over streams: from labelled runs to a state for every step.

Fitting goes one way: settings (:mod:`.setup`), windows, features, metric, references, confidence.
Predicting goes through the references (:mod:`mlat.neighbours.references`) to distances, and from
these to states and probabilities (:mod:`.confidence`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..checks import Floats, Ints
from ..errors import InputError
from ..features.features import Features, lift_runs
from ..features.lifts import Lift
from ..metric.matrix import unmixed
from ..neighbours.references import References, check_channels, steps_inside
from ..stream.stream import Stream, no_state
from ..stream.windows import Windows, sliding_windows
from .confidence import learn_confidence
from .selection import Selection
from .setup import set_up

if TYPE_CHECKING:
    import os

    from ..live import LiveSession


class StreamClassifier(BaseEstimator):  # type: ignore[misc]
    """Predicts the state of a stream at every step, from a few labelled runs.

    The windows of the labelled stream are the references. The state of a step is that of the
    references nearest to the window which ends there.

    Parameters
    ----------
    width : int, default=10
        Steps per window; with ``metric="auto"`` the widest that may be chosen.
    metric : "auto", "euclidean", "mlat", "lmnn" or an estimator, default="auto"
        ``"auto"`` chooses lift, width, metric and number of neighbours: those by which distant
        parts of the training stream predict each other's states best; see ``selection_``. An
        estimator is a transformer over windows, such as :class:`MLAT`.
    lift : Lift or sequence of str, optional
        Features to compute from the channels first, see :class:`~mlat.Lift`; default none. With
        ``metric="auto"`` it is chosen.
    whiten : bool, default=False
        Weigh the lifted channels by how they vary within states (:mod:`mlat.features.whitening`)
        before the metric is learned. With ``metric="auto"`` it is chosen.
    n_neighbors : int, optional
        Default 1. With ``metric="auto"`` it is chosen.
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over the labelled steps of the training
        stream; predicting uses the same mean and scale.
    step : int, default=1
        Keep every ``step``-th window of a run as a reference.
    reach : int, optional
        For ``metric="auto"``: how many steps back its lifts may look; default 100, or two widths
        where that is more, but no more than a fifth of the median run or the width. A state
        depends on no step further back than the width and the reach together.
    unknown_rate : float, default=0.0
        The rate of false alarms: predict the unknown state where a window is farther from every
        reference than all but this fraction of windows like the references. 0 never does.
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
        The channel each feature is computed from.
    windows_ : Windows
        The references, as windows over the training stream's values.
    references_ : References
        The references with their features, state codes, and the exact searches among them.
    selection_ : Selection or None
        What ``"auto"`` tried, what it chose and why.
    confidence_ : Confidence
        From distances to probabilities and to the unknown state; the state filter.
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
        stream = _as_labelled(stream, states, recordings=recordings, time=time)
        setup = set_up(
            stream,
            width=self.width,
            metric=self.metric,
            lift=self.lift,
            whiten=self.whiten,
            n_neighbors=self.n_neighbors,
            scale=self.scale,
            step=self.step,
            reach=self.reach,
            unknown_rate=self.unknown_rate,
            budget=self.budget,
        )
        windows = sliding_windows(stream, setup.width, step=self.step)
        features, plain = _learn_features(stream, windows, setup.lift, self.scale, setup.whiten)
        metric = setup.fit_metric(replace(windows, values=features.mix(plain)))
        references = References(windows, features, metric, plain)
        self._set_fitted(references, stream.channels, setup.n_neighbors, setup.selection)
        self.confidence_ = learn_confidence(
            references,
            stream,
            overlap=self.width_ + features.lift.memory,
            unknown_rate=self.unknown_rate,
        )
        return self

    def _set_fitted(
        self,
        references: References,
        channels: tuple[str, ...],
        n_neighbors: int,
        selection: Selection | None,
    ) -> None:
        """Keep what predicting needs, from fitting or from a model file."""
        if n_neighbors > len(references):
            raise InputError(
                f"n_neighbors is {n_neighbors}, but the stream gives only {len(references)} windows"
            )
        self.references_, self.channels_ = references, channels
        self.n_neighbors_, self.selection_ = n_neighbors, selection
        self.windows_, self.width_ = references.windows, references.windows.width
        self.features_, self.metric_ = references.features, references.metric
        self.classes_, self.unknown_ = references.classes, no_state(references.classes)
        self.n_channels_ = len(channels)
        self.feature_names_ = self.features_.lift.names(channels)
        self.feature_channels_ = self.features_.lift.channels(len(channels))

    @property
    def mean_(self) -> Floats:
        """The mean that is subtracted from each channel, shape (d,)."""
        return self.features_.channels.mean

    @property
    def scale_(self) -> Floats:
        """The standard deviation that each channel is divided by, shape (d,)."""
        return self.features_.channels.scale

    @property
    def reference_features_(self) -> Floats:
        """The features of the references' steps before whitening, shape (T, d'); NaN elsewhere."""
        return self.references_.plain

    def features(self, stream: Stream | ArrayLike) -> Floats:
        """The lifted and scaled channels, shape (T, d'), before whitening; NaN where missing."""
        return self.features_.plain(self._as_stream(stream))

    def metric_matrix(self) -> Floats:
        """M over windows of ``features``, shape (w*d', w*d'), whitening included."""
        check_is_fitted(self, "features_")
        M = np.eye(self.width_ * self.features_.n_features)
        M = M if self.metric_ is None else self.metric_.metric_
        return cast(Floats, unmixed(M, self.features_.mixing, self.width_))

    def kneighbors(
        self, stream: Stream | ArrayLike, n_neighbors: int | None = None
    ) -> tuple[Floats, Ints]:
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
        return self.references_.neighbours(stream, k)

    def class_distances(self, stream: Stream | ArrayLike) -> Floats:
        """The distance to the nearest reference of each state, shape (T, S).

        NaN where there is no complete window.
        """
        stream = self._as_stream(stream)
        return self.references_.class_distances(stream)

    def predict(self, stream: Stream | ArrayLike, *, filtered: bool = False) -> NDArray[Any]:
        """The state at each step, shape (T,): that of the window which ends there.

        ``unknown_`` where there is no complete window: before the first of a recording, after a
        gap and after a missing value. A value too extreme to be compared counts as missing, with a
        warning. With an ``unknown_rate`` above 0 also where the window is
        far from every reference.

        Parameters
        ----------
        filtered : bool, default=False
            Apply the state filter (:mod:`mlat.classifier.state_filter`): the most probable state
            given all windows up to each step, by the transitions of the training stream. It
            changes state less often, and later at a switch.
        """
        return self._predict(self._as_stream(stream), filtered)[0]

    def predict_proba(self, stream: Stream | ArrayLike, *, filtered: bool = False) -> Floats:
        """The probability of each state, shape (T, S); NaN where there is no complete window.

        With one neighbour it is calibrated on the training stream. With several it is the
        fraction of them that is in each state.
        """
        return self._predict(self._as_stream(stream), filtered)[1]

    def _predict(self, stream: Stream, filtered: bool) -> tuple[NDArray[Any], Floats]:
        if self.n_neighbors_ == 1:
            decision = self.confidence_.of_nearest(self.class_distances(stream))
        else:
            decision = self.confidence_.of_votes(*self.kneighbors(stream), self.references_.codes)
        known, codes, proba, is_novel = decision
        if filtered:
            proba = self.confidence_.filter(stream, proba, self.n_neighbors_)
            codes = proba[known].argmax(axis=1)
        states = np.full(len(stream), self.unknown_, dtype=self.classes_.dtype)
        states[known] = self.classes_[codes]
        states[is_novel] = self.unknown_
        return states, proba

    def score(self, stream: Stream | ArrayLike, states: ArrayLike | None = None) -> float:
        """The accuracy over the labelled steps that have a complete window.

        Windows that extend over a switch of states count too, as in a live stream. The unknown
        state, predicted for a window that is far from every reference, counts as wrong.
        """
        stream = _as_labelled(stream, states)
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

    def _as_stream(self, stream: Stream | ArrayLike) -> Stream:
        check_is_fitted(self, "features_")
        if not isinstance(stream, Stream):
            stream = Stream(stream)
        check_channels(stream, self.channels_)
        return self.features_.without_extremes(stream)


def _as_labelled(stream: Stream | ArrayLike, states: ArrayLike | None, **more: Any) -> Stream:
    """A labelled stream, as given or from values and states."""
    if isinstance(stream, Stream):
        if states is not None:
            raise InputError("the stream has states of its own; give it alone")
        return stream
    if states is None:
        raise InputError("fit needs the states: a labelled stream, or values and states")
    return Stream(stream, states, **more)


def _learn_features(
    stream: Stream, windows: Windows, lift: Lift, scale: bool, whiten: bool
) -> tuple[Features, Floats]:
    """The features, and the steps (T, d') of the references under them before whitening."""
    lifted = lift_runs(stream, lift, scale=scale)
    features = lifted.features(scale=scale, whiten=whiten)
    plain = features.lifted(lifted.values)
    # As a model file has it: nothing of runs without a window.
    plain[~steps_inside(windows, between=True)] = np.nan
    return features, plain
