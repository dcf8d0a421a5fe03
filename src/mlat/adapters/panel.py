"""Panels: sets of separate series of equal length with a class each, as aeon and sktime have them.

A series of a panel is one window, and a run of its own: no two of them overlap.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..base.checks import Floats, check_whole
from ..base.errors import InputError
from ..classifier.classifier import NAMED
from ..features.features import EXTREME
from ..metric.embedding import fit_windows, transform_windows
from ..stream.windows import (
    FEWEST_LOOKED_AT,
    MOST_LOOKED_AT,
    ROUGH,
    SMOOTH,
    Windows,
    flatten,
    roughness,
)


class PanelClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The class of a series: that of the nearest training series under a learned metric.

    Parameters
    ----------
    metric : "mlat", "lmnn", "euclidean" or an estimator, default="mlat"
        Over whole series.
    n_neighbors : int, default=1
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over all training series.
    time_axis : 1 or 2, default=2
        Which axis of X is the time: 2 for (n, channels, time), as aeon and sktime have it, 1 for
        (n, time, channels). An array (n, time) is one channel.

    Attributes
    ----------
    classes_ : array of shape (S,)
    metric_ : fitted transformer, or None for Euclidean distance
    mean_, scale_ : arrays of shape (channels,)
    n_timepoints_, n_channels_ : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 2, 30)), np.repeat(["a", "b"], 10)
    >>> X[y == "b"] += np.sin(np.arange(30))
    >>> PanelClassifier().fit(X, y).predict(X[:2]).tolist()
    ['a', 'a']
    """

    def __init__(
        self, metric: Any = "mlat", *, n_neighbors: int = 1, scale: bool = True, time_axis: int = 2
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.scale = scale
        self.time_axis = time_axis

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric, and keep the series.

        Raises
        ------
        InputError
            If shapes do not fit, values are missing, a class has one series only, or a parameter
            is wrong.
        """
        check_classification_targets(y)
        windows = series_windows(X, column_or_1d(y, warn=True), time_axis=self.time_axis)
        _refuse_extreme(windows.X)
        n, w, d = windows.X.shape
        if not w * d:  # in the words of scikit-learn
            nothing = f"0 feature(s) (shape={np.shape(X)})"
            raise InputError(f"{nothing} while a minimum of 1 is required.")
        check_whole(self.n_neighbors, "n_neighbors")
        if n < self.n_neighbors:
            raise InputError(f"n_neighbors is {self.n_neighbors}, but there are {n} series")
        self.n_timepoints_, self.n_channels_ = w, d
        self.n_features_in_ = np.asarray(X).shape[1]  # as scikit-learn counts, for any axis
        values = windows.X.reshape(-1, d)
        self.mean_ = values.mean(axis=0) if self.scale else np.zeros(d)
        deviation = values.std(axis=0) if self.scale else np.ones(d)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.metric_ = self._new_metric()
        scaled = (windows.X - self.mean_) / self.scale_
        if self.metric_ is not None:
            fit_windows(self.metric_, scaled, windows.y, start=windows.start, run=windows.run)
        self._neighbours = KNeighborsClassifier(self.n_neighbors, algorithm="brute")
        self._neighbours.fit(self._embed(scaled), windows.y)
        self.classes_ = self._neighbours.classes_
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Series in the learned space, shape (n, r), where distances are Euclidean."""
        check_is_fitted(self, "classes_")
        panel = as_panel(X, self.time_axis)
        learned = self.n_timepoints_, self.n_channels_
        if panel.shape[1:] != learned:
            raise InputError(
                f"series of {panel.shape[1]} steps and {panel.shape[2]} channels, but {learned[0]} "
                f"steps and {learned[1]} channels were learned: X has {np.asarray(X).shape[1]} "
                f"features, but PanelClassifier is expecting {self.n_features_in_} features as "
                "input"
            )
        _refuse_extreme(panel)
        return self._embed((panel - self.mean_) / self.scale_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each series, shape (n,)."""
        embedded = self.transform(X)
        return np.asarray(self._neighbours.predict(embedded))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The fraction of the nearest series in each class, shape (n, S)."""
        embedded = self.transform(X)
        return np.asarray(self._neighbours.predict_proba(embedded))

    def _new_metric(self) -> Any:
        if not isinstance(self.metric, str):
            return clone(self.metric)
        if self.metric == "euclidean":
            return None
        if self.metric not in NAMED:
            known = ", ".join(f'"{name}"' for name in (*NAMED, "euclidean"))
            raise InputError(f"metric must be {known} or an estimator, not {self.metric!r}")
        return NAMED[self.metric]()

    def _embed(self, panel: Floats) -> Floats:
        if self.metric_ is None:
            return np.asarray(flatten(panel))
        return transform_windows(self.metric_, panel)


def series_windows(X: ArrayLike, y: ArrayLike, *, time_axis: int) -> Windows:
    """The series of a panel as windows, each a run of its own.

    Parameters
    ----------
    X : array of shape (n, channels, time) or (n, time, channels), or (n, time) for one channel
    y : array of shape (n,)
        The class of each series.
    time_axis : 1 or 2
        Which axis of three is the time: 2 is how aeon and sktime have it. Nothing is guessed.

    Returns
    -------
    Windows
        For ``MLAT().fit(windows)``.

    Raises
    ------
    InputError
        If the shapes do not fit together.

    Warns
    -----
    UserWarning
        If the other axis seems to be the time.

    Examples
    --------
    >>> panel = np.zeros((5, 3, 40))  # 5 series of 3 channels
    >>> series_windows(panel, ["a", "b", "a", "b", "a"], time_axis=2).X.shape
    (5, 40, 3)
    """
    panel = as_panel(X, time_axis)
    states = np.asarray(y)
    if states.shape != (len(panel),):
        raise InputError(
            f"y must have one class for each of {len(panel)} series, not {states.shape}"
        )
    n, w, d = panel.shape
    start = np.arange(n) * w
    return Windows(panel.reshape(n * w, d), w, start, np.arange(n), states)


def as_panel(X: Any, time_axis: int) -> Floats:
    """A panel as windows (n, w, d) of float64; see :func:`series_windows`."""
    if time_axis not in (1, 2):
        raise InputError(f"time_axis must be 1 or 2, not {time_axis!r}")
    if hasattr(X, "tocsr"):
        raise InputError("a panel is dense, not a sparse matrix; give X.toarray()")
    panel = np.asarray(X, dtype=np.float64)
    if panel.ndim == 2:
        return np.ascontiguousarray(panel[:, :, None])
    if panel.ndim != 3:
        raise InputError(
            "a panel has shape (n, channels, time) or (n, time, channels), or (n, time) for one "
            f"channel, not {panel.shape}; series of different length are not taken. Reshape your "
            "data to one of these"
        )
    panel = panel.transpose(0, 2, 1) if time_axis == 2 else panel
    _warn_if_transposed(panel, np.shape(X), time_axis)
    return np.ascontiguousarray(panel)


def _refuse_extreme(panel: Floats) -> None:
    """Raise `InputError` for a value of (n, w, d) with which no distance can be computed."""
    fits = np.abs(panel) < EXTREME  # NaN does not
    if not fits.all():
        series, step, channel = np.argwhere(~fits)[0].tolist()
        raise InputError(
            f"X holds {panel[series, step, channel]} in series {series}, step {step}, channel "
            f"{channel}; NaN or inf, and values of {EXTREME:g} and more, are not taken: leave such "
            "series out, or fill them in"
        )


def _warn_if_transposed(panel: Floats, shape: tuple[int, ...], time_axis: int) -> None:
    n, w, d = panel.shape
    if n * w < FEWEST_LOOKED_AT or w == 1 or d < 4 or np.isnan(panel).any():
        return
    flat = panel[:: max(1, n // MOST_LOOKED_AT)].reshape(-1, w * d)
    if roughness(flat, w, d) < ROUGH or roughness(flat, d, w, is_turned=True) >= SMOOTH:
        return
    warnings.warn(
        f"X has shape {shape}, and axis {3 - time_axis} seems to be the time: values there go on "
        f"smoothly, those of axis {time_axis} do not; give time_axis={3 - time_axis}",
        UserWarning,
        stacklevel=4,
    )


class ClassifierOfPanels:
    """What the classifiers of aeon and of sktime have in common."""

    def __init__(self, metric: Any = "mlat", n_neighbors: int = 1, scale: bool = True) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.scale = scale
        super().__init__()

    def _fit(self, X: Floats, y: NDArray[Any]) -> Self:
        panel = PanelClassifier(self.metric, n_neighbors=self.n_neighbors, scale=self.scale)
        self.panel_ = panel.fit(X, y)
        return self

    def _predict(self, X: Floats) -> NDArray[Any]:
        return self.panel_.predict(X)

    def _predict_proba(self, X: Floats) -> Floats:
        return self.panel_.predict_proba(X)


class TransformerOfPanels:
    """The same of the transformers."""

    def __init__(self, metric: Any = "mlat", scale: bool = True) -> None:
        self.metric = metric
        self.scale = scale
        super().__init__()

    def _fit(self, X: Floats, y: Any = None) -> Self:
        self.panel_ = PanelClassifier(self.metric, scale=self.scale).fit(X, np.asarray(y))
        return self
