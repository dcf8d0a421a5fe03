"""The interface that the window-level nearest-neighbour classifiers share."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import InputError
from ..folding import as_windows, check_finite, flatten, fold
from ..voting import vote
from .lanes import FloatArray, IntArray


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
    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        """Set whatever ``_search`` needs."""

    @abstractmethod
    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Distances and positions of the k nearest training windows, shapes (n, k)."""

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
        y : array of shape (n,)
        """
        width = check_count(self.width, "width", optional=True)
        check_count(self.n_neighbors, "n_neighbors")
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
    ) -> tuple[FloatArray, IntArray] | IntArray:
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
        check_count(k, "n_neighbors")
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

    def predict_proba(self, X: Any) -> FloatArray:
        """The share of the neighbours that has each label, shape (n, n_classes)."""
        return self._vote(X)[1]

    def _vote(self, X: Any) -> tuple[IntArray, FloatArray]:
        distances, nearest = self.kneighbors(X)
        return vote(self.codes_[nearest], distances, len(self.classes_))

    def _check_windows(self, X: Any) -> FloatArray:
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


def check_count(value: Any, name: str, *, optional: bool = False) -> int | None:
    """A parameter that counts something, or one clear line about it."""
    if optional and value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)
