"""What a person would use instead of nearest neighbours under a learned metric."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from ...stream.windows import as_windows, flatten
from .aeon_peer import AeonPeer
from .aeon_worker import METHODS

# From the name of a data set and a size to a fresh estimator, as ``System.make`` is.
Maker = Callable[[str, str], Any]


class FlatWindows(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn over windows (n, w, d), to which every value is a feature.

    Not a scikit-learn ``Pipeline``: that describes its steps by a text which leaves out defaults
    and holds addresses, where a fingerprint needs all parameters and nothing else.

    Parameters
    ----------
    classifier : estimator
        A copy of it is fitted.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    classifier_ : fitted classifier
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d)
        y : array of shape (n,)
        """
        self.classifier_ = clone(self.classifier).fit(flatten(as_windows(X)), y)
        self.classes_ = self.classifier_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each window, shape (n,)."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classifier_.predict(flatten(as_windows(X)))
        return labels


def rbf_svm(data_set: str, size: str) -> FlatWindows:
    """A support vector machine with Gaussian kernels and scikit-learn's defaults."""
    return FlatWindows(SVC())


def extra_trees(data_set: str, size: str) -> FlatWindows:
    """500 extremely randomised trees; more trees than the default of 100 never hurt."""
    return FlatWindows(ExtraTreesClassifier(n_estimators=500, random_state=0, n_jobs=1))


def boosting(data_set: str, size: str) -> FlatWindows:
    """Gradient boosting over histograms with scikit-learn's defaults.

    With 10,000 windows or fewer these learn from all of them. With more they would stop early,
    judged by some put aside at random, which overlap the others.
    """
    return FlatWindows(HistGradientBoostingClassifier(random_state=0))


def _aeon(name: str, python: str | None, data_set: str, size: str) -> AeonPeer:
    return AeonPeer(name, python)


def makers(python: str | None = None) -> dict[str, Maker]:
    """All peers by name, each as what ``System.make`` is; they can be sent to other processes.

    Parameters
    ----------
    python : str, optional
        A Python that has aeon and torch, as for :class:`AeonPeer`.
    """
    flat: dict[str, Maker] = {"SVM": rbf_svm, "ExtraTrees": extra_trees, "Boosting": boosting}
    return flat | {name: partial(_aeon, name, python) for name in METHODS}
