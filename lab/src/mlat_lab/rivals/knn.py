"""k nearest neighbours over windows: the interface of the rivals, and the simplest of them.

``WindowKNN`` and ``TimedKNN`` are the bases that a rival derives from. It says how it learns and
how it searches; checks, votes and probabilities are here. ``EuclideanKNN`` and ``MDTW`` learn
nothing, ``MetricKNN`` searches after any transformer such as ``MLAT``.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mlat.base.checks import Floats, Ints, check_whole
from mlat.base.errors import InputError
from mlat.metric.embedding import fit_windows, transform_windows
from mlat.metric.targets import when_of
from mlat.neighbours.search import NearestNeighbors
from mlat.neighbours.votes import vote
from mlat.stream.windows import as_windows, check_finite, flatten, fold

from . import dtw


class _KNN(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """What both bases share: everything but ``fit``."""

    width: int | None
    n_neighbors: int

    @abstractmethod
    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        """Distances and positions of the k nearest training windows, shapes (n, k)."""

    def _store(self, X: Any, y: ArrayLike) -> None:
        """Check the training windows and their labels, and keep them."""
        width = None if self.width is None else check_whole(self.width, "width")
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
        # Not the caller's memory: a later change of that array must not change predictions.
        self.windows_ = windows.copy()
        self.codes_ = codes.astype(np.int64)

    def _check_two_classes(self) -> None:
        if len(self.classes_) < 2:
            raise InputError(
                f"{type(self).__name__} needs windows of at least 2 classes; "
                f"y holds 1 class, {self.classes_[0]!s}"
            )

    def kneighbors(
        self, X: Any, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Floats, Ints] | Ints:
        """The nearest training windows of each window, nearest first.

        Returns
        -------
        distances : array of shape (n, n_neighbors)
            Only with ``return_distance``.
        windows : array of shape (n, n_neighbors)
            Positions in the training windows; of windows at equal distance, the earlier first.
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
        """The fraction of the neighbours that has each label, shape (n, n_classes)."""
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


class WindowKNN(_KNN):
    """k nearest neighbours over windows, (n, w, d) or flat (n, w*d).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    windows_ : array of shape (n, w, d)
    codes_ : array of shape (n,)
        The index in ``classes_`` of each window's label.
    n_features_in_ : int
        ``w * d``.
    """

    @abstractmethod
    def _learn(self, windows: Floats, codes: Ints) -> None:
        """Set what ``_search`` needs."""

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
        y : array of shape (n,)
        """
        self._store(X, y)
        self._learn(self.windows_, self.codes_)
        return self


class TimedKNN(_KNN):
    """The same for rivals that use the time of windows when they learn.

    Neighbours in time are near-copies of each other, so such a rival keeps them apart.
    """

    @abstractmethod
    def _learn(self, windows: Floats, codes: Ints, start: Ints, run: Ints) -> None:
        """Set what ``_search`` needs; ``start`` and ``run``, shape (n,), are as in ``fit``."""

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
        self._store(X, y)
        self._learn(self.windows_, self.codes_, *when_of(self.codes_, start, run))
        return self


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
        # A band of 0 pairs each step with itself only: the Euclidean distance, with the search and
        # the order of ties of DTW.
        self._index = dtw.Index(windows, band=0)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._index.query(windows, k, self.n_jobs)


class MDTW(WindowKNN):
    """k nearest neighbours under dependent multivariate DTW (Berndt & Clifford 1994).

    One alignment serves all channels. Its cost is the sum of the squared Euclidean distances of
    the steps it pairs; the distance is the square root. The search is exact.

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
        self._index = dtw.Index(windows, self.band)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._index.query(windows, k, self.n_jobs)


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
    >>> from mlat_lab.rivals import MetricKNN
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

    def _learn(self, windows: Floats, codes: Ints, start: Ints, run: Ints) -> None:
        self.metric_ = None
        if self.metric is not None:
            self.metric_ = fit_windows(clone(self.metric), windows, codes, start=start, run=run)
        self._references = NearestNeighbors(self._embed(windows))

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._references.query(self._embed(windows), k)

    def _embed(self, windows: Floats) -> Floats:
        if self.metric_ is None:
            return windows.reshape(len(windows), -1)
        return transform_windows(self.metric_, windows)
