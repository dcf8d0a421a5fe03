"""k nearest neighbours over panels: sets of separate series, each with one class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..base.checks import Floats, check_whole
from ..base.errors import InputError
from ..metric.estimators import LMNN, MLAT
from ..stream.panel import as_panel, series_windows

METRICS = {"mlat": MLAT, "lmnn": LMNN}


class PanelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
        self,
        metric: Any = "mlat",
        *,
        n_neighbors: int = 1,
        scale: bool = True,
        time_axis: int = 2,
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
        windows = series_windows(X, y, time_axis=self.time_axis)
        n, w, d = windows.X.shape
        check_whole(self.n_neighbors, "n_neighbors")
        if n < self.n_neighbors:
            raise InputError(f"n_neighbors is {self.n_neighbors}, but there are {n} series")
        self.n_timepoints_, self.n_channels_ = w, d
        values = windows.X.reshape(-1, d)
        self.mean_ = values.mean(axis=0) if self.scale else np.zeros(d)
        deviation = values.std(axis=0) if self.scale else np.ones(d)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.metric_ = self._new_metric()
        scaled = (windows.X - self.mean_) / self.scale_
        if self.metric_ is not None:
            order = {"start": windows.start, "run": windows.run}
            order = order if isinstance(self.metric_, MLAT | LMNN) else {}
            self.metric_.fit(self._for_metric(scaled), windows.y, **order)
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
                f"steps and {learned[1]} channels were learned"
            )
        return self._embed((panel - self.mean_) / self.scale_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each series, shape (n,)."""
        embedded = self.transform(X)
        predicted: NDArray[Any] = self._neighbours.predict(embedded)
        return predicted

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The fraction of the nearest series in each class, shape (n, S)."""
        embedded = self.transform(X)
        fractions: Floats = self._neighbours.predict_proba(embedded)
        return fractions

    def _new_metric(self) -> Any:
        if not isinstance(self.metric, str):
            return clone(self.metric)
        if self.metric == "euclidean":
            return None
        if self.metric not in METRICS:
            known = ", ".join(f'"{name}"' for name in (*METRICS, "euclidean"))
            raise InputError(f"metric must be {known} or an estimator, not {self.metric!r}")
        return METRICS[self.metric]()

    def _for_metric(self, panel: Floats) -> Floats:
        # Those of scikit-learn take flat windows.
        is_ours = isinstance(self.metric_, MLAT | LMNN)
        return panel if is_ours else panel.reshape(len(panel), -1)

    def _embed(self, panel: Floats) -> Floats:
        if self.metric_ is None:
            return panel.reshape(len(panel), -1)
        embedded: Floats = np.asarray(self.metric_.transform(self._for_metric(panel)))
        return embedded
