"""Nearest neighbours under a learned metric of windows."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ...checks import Floats, Ints, check_whole
from ...errors import InputError
from ...metric.targets import when_of
from ...neighbours.search import NearestNeighbors
from ...neighbours.votes import vote
from ...stream.windows import as_windows, check_finite, flatten, fold
from . import dtw
from .dtw_kernels import pack

# -------------------------------------------------------------------- knn
# The interface that the window-level nearest-neighbour classifiers share.


class WindowKNN(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """k nearest neighbours over windows, (n, w, d) or flat (n, w*d).

    A subclass says how it learns from windows and how it searches them.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    windows_ : array of shape (n, w, d)
    codes_ : array of shape (n,)
        The index in ``classes_`` of each window's label.
    n_features_in_ : int
        ``w * d``.
    """

    width: int | None
    n_neighbors: int

    @abstractmethod
    def _learn(self, windows: Floats, codes: Ints) -> None:
        """Set whatever ``_search`` needs."""

    @abstractmethod
    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        """Distances and positions of the k nearest training windows, shapes (n, k)."""

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
        y : array of shape (n,)
        """
        width = check_whole(self.width, "width", optional=True)
        check_whole(self.n_neighbors, "n_neighbors")
        X = as_windows(X)
        if _is_folded(X):
            width = fold(X, width).shape[1]
        flat, labels = validate_data(
            self, flatten(X), y, dtype=np.float64, order="C", ensure_all_finite=False
        )
        check_classification_targets(labels)
        windows = check_finite(np.ascontiguousarray(fold(flat, width)))
        if len(windows) < self.n_neighbors:
            raise InputError(
                f"n_neighbors is {self.n_neighbors} but there are {len(windows)} windows"
            )
        self.classes_, codes = np.unique(labels, return_inverse=True)
        # Not the caller's memory: changing that array later must not change predictions.
        self.windows_ = windows.copy()
        self.codes_ = codes.astype(np.int64)
        self._learn(self.windows_, self.codes_)
        return self

    def kneighbors(
        self, X: Any, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Floats, Ints] | Ints:
        """The nearest training windows of each window, nearest first.

        Returns
        -------
        distances : array of shape (n, n_neighbors)
            Only with ``return_distance``.
        windows : array of shape (n, n_neighbors)
            Positions in the training windows; of those equally near, the earlier first.
        """
        windows = self._check_windows(X)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check_whole(k, "n_neighbors")
        if k > len(self.windows_):
            raise InputError(
                f"n_neighbors is {k} but there are {len(self.windows_)} training windows"
            )
        distances, nearest = self._search(windows, int(k))
        return (distances, nearest) if return_distance else nearest

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each window, shape (n,).

        The label that most neighbours have; a tie goes to the smaller sum of distances, then to
        the label that comes first.
        """
        codes, _ = self._vote(X)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """The share of the neighbours that has each label, shape (n, n_classes)."""
        return self._vote(X)[1]

    def _vote(self, X: Any) -> tuple[Ints, Floats]:
        distances, nearest = self.kneighbors(X)
        return vote(self.codes_[nearest], distances, len(self.classes_))

    def _check_windows(self, X: Any) -> Floats:
        check_is_fitted(self)
        shape = self.windows_.shape[1:]
        X = as_windows(X)
        if _is_folded(X) and X.shape[1:] != shape:
            raise InputError(
                f"windows have shape {X.shape[1:]} but {type(self).__name__} was fitted on "
                f"windows of shape {shape}; (steps, channels) must agree"
            )
        flat = validate_data(
            self, flatten(X), dtype=np.float64, order="C", ensure_all_finite=False, reset=False
        )
        return check_finite(np.ascontiguousarray(fold(flat, shape[0])))


def _is_folded(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 3


# -------------------------------------------------------------------- timed_knn
# The same interface for those who ask when windows were, as neighbours in time are near-copies.


class When(NamedTuple):
    """What ``fit`` was told."""

    start: ArrayLike | None
    run: ArrayLike | None

    def of(self, codes: Ints) -> tuple[Ints, Ints]:
        """The step each window begins at and the run it lies in, checked."""
        return when_of(codes, self.start, self.run)


class TimedKNN(WindowKNN):
    """k nearest neighbours over windows whose times are known while it learns."""

    _when: When

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        start: ArrayLike | None = None,
        run: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
        y : array of shape (n,)
        start : array of shape (n,), optional
            The step each window begins at. Default: the row number.
        run : array of shape (n,), optional
            The run each window lies in. Default: neighbouring rows of one label are a run.
        """
        self._when = When(start, run)
        try:
            return super().fit(X, y)
        finally:
            del self._when


# -------------------------------------------------------------------- euclidean
# ED: nearest neighbours under the Euclidean distance of windows.

# An alignment that pairs each step with itself only: the Euclidean distance, with the search, the
# bounds and the order of ties of dynamic time warping.
NO_WARPING = 0


class EuclideanKNN(WindowKNN):
    """k nearest neighbours under the Euclidean distance of whole windows.

    It does not scale: put a scaler in front (a ``Pipeline``, or the stream's own).

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. It does not change a distance.
    n_neighbors : int, default=1
    n_jobs : int, optional
        Threads for the search; -1 is one per processor.

    Examples
    --------
    >>> X = [[0.0, 0.0], [3.0, 4.0]]
    >>> distances, windows = EuclideanKNN().fit(X, ["rest", "walk"]).kneighbors([[3.0, 0.0]])
    >>> distances.tolist(), windows.tolist()
    ([[3.0]], [[0]])
    """

    def __init__(
        self, width: int | None = None, n_neighbors: int = 1, n_jobs: int | None = None
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs

    def _learn(self, windows: Floats, codes: Ints) -> None:
        self._packed = pack(windows, NO_WARPING)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        costs, nearest = dtw.search(windows, self._packed, k, band=NO_WARPING, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest


# -------------------------------------------------------------------- mdtw
# MDTW: nearest neighbours under multivariate dynamic time warping.


class MDTW(WindowKNN):
    """k nearest neighbours under dependent multivariate DTW (Berndt & Clifford 1994).

    One alignment serves all channels; its cost is the sum of the squared Euclidean distances of
    the steps it pairs, and the distance is the root of that. The search is exact.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    n_neighbors : int, default=1
    band : int, optional
        Pair only steps at most this far apart (Sakoe & Chiba); default: any.
    n_jobs : int, optional
        Threads for the search; -1 is one per processor.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[[0.0], [0.0], [5.0]], [[0.0], [3.0], [0.0]]])
    >>> MDTW().fit(X, ["late", "middle"]).predict([[[0.0], [5.0], [5.0]]])
    array(['late'], dtype='<U6')
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        band: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.band = band
        self.n_jobs = n_jobs

    def _learn(self, windows: Floats, codes: Ints) -> None:
        n_steps = windows.shape[1]
        self._reach = dtw.check_band(self.band, n_steps, n_steps)
        self._packed = pack(windows, self._reach)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        costs, nearest = dtw.search(windows, self._packed, k, band=self._reach, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest


class MetricKNN(TimedKNN):
    """k nearest neighbours after a transformer such as ``MLAT`` or ``LMNN`` has learned a metric.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    metric : estimator, optional
        A transformer over windows (n, w, d); a copy of it is fitted. Default: the Euclidean
        distance.
    n_neighbors : int, default=1

    Attributes
    ----------
    metric_ : fitted transformer, or None

    Examples
    --------
    >>> import mlat
    >>> from mlat.lab.rivals import MetricKNN
    >>> from mlat.synthetic import rotating_states
    >>> first, second = (
    ...     mlat.sliding_windows(rotating_states(random_state=seed), width=10) for seed in (0, 1)
    ... )
    >>> learned = MetricKNN(metric=mlat.MLAT())
    >>> learned = learned.fit(first.X, first.y, start=first.start, run=first.run)
    >>> learned.score(second.X, second.y) > MetricKNN().fit(first.X, first.y).score(
    ...     second.X, second.y
    ... )
    True
    """

    def __init__(self, width: int | None = None, metric: Any = None, n_neighbors: int = 1) -> None:
        self.width = width
        self.metric = metric
        self.n_neighbors = n_neighbors

    def _learn(self, windows: Floats, codes: Ints) -> None:
        self.metric_ = None
        if self.metric is not None:
            metric = clone(self.metric)
            accepted = inspect.signature(metric.fit).parameters
            when = {name: given for name, given in self._when._asdict().items() if name in accepted}
            self.metric_ = metric.fit(windows, codes, **when)
        self._references = NearestNeighbors(self._embed(windows))

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._references.query(self._embed(windows), k)

    def _embed(self, windows: Floats) -> Floats:
        if self.metric_ is None:
            return windows.reshape(len(windows), -1)
        embedded: Floats = self.metric_.transform(windows)
        return embedded
