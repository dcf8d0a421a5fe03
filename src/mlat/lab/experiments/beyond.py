"""The table beyond the paper's: everyone on the same windows, of ten steps and of one second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from ...classifier.classifier import StreamClassifier
from ...metric.estimators import LMNN, MLAT
from ...stream.windows import as_windows
from ..datasets.catalog import get_set
from ..rivals.knn import MDTW, EuclideanKNN, MetricKNN
from .peers import makers
from .people import People
from .runner import Experiment
from .systems import ALL, N_TARGETS, System

# What a person gets who asks for nothing, and the same with the causal filter over its states.
AUTO, AUTO_FILTERED = "MLAT-auto", "MLAT-auto-filtered"
DISTANCES = ("ED", "MDTW", "LMNN", "MLAT-paper")

TEN_STEPS, ONE_SECOND = "ten steps", "one second"

# Beyond these a single fit takes hours: dynamic time warping grows with the square of the steps,
# a full matrix over windows with the cube of its side. One second of EMG is 1000 steps.
MOST_STEPS, MOST_VALUES = 52, 600


class Decimated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of windows that sees every m-th step of them, where they are long.

    Parameters
    ----------
    classifier : estimator
        A copy of it is fitted.
    most_steps, most_values : int, optional
        m is the least that leaves at most so many steps, and so many values, in a window.

    Attributes
    ----------
    every_ : int
        m.
    classifier_ : fitted classifier
    """

    def __init__(
        self, classifier: Any, most_steps: int | None = None, most_values: int | None = None
    ) -> None:
        self.classifier = classifier
        self.most_steps = most_steps
        self.most_values = most_values

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled windows."""
        windows = as_windows(X)
        self.every_ = self.every(*windows.shape[1:])
        self.classifier_ = clone(self.classifier).fit(self._thin(windows), y)
        self.classes_ = self.classifier_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each window, shape (n,)."""
        labels: NDArray[Any] = self.classifier_.predict(self._thin(as_windows(X)))
        return labels

    def every(self, width: int, n_channels: int) -> int:
        """m for windows of so many steps and channels."""
        bounds = [width]
        if self.most_steps is not None:
            bounds.append(self.most_steps)
        if self.most_values is not None:
            bounds.append(max(1, self.most_values // n_channels))
        return -(-width // min(bounds))

    def _thin(self, windows: NDArray[np.float64]) -> NDArray[np.float64]:
        # The last step is kept, whatever m is: it is the newest.
        return np.ascontiguousarray(windows[:, ::-1][:, :: self.every_][:, ::-1])


def _ed(data_set: str, size: str) -> Any:
    return EuclideanKNN()


def _mdtw(data_set: str, size: str) -> Any:
    return Decimated(MDTW(), most_steps=MOST_STEPS)


def _lmnn(data_set: str, size: str) -> Any:
    metric = LMNN(n_targets=N_TARGETS, target_gap=0, push_weight=0.5)
    return Decimated(MetricKNN(metric=metric), most_values=MOST_VALUES)


def _mlat_paper(data_set: str, size: str) -> Any:
    metric = MLAT.as_in_paper(n_targets=N_TARGETS)
    return Decimated(MetricKNN(metric=metric), most_values=MOST_VALUES)


def _auto(data_set: str, size: str) -> Any:
    return StreamClassifier()


def beyond_systems(python: str | None = None) -> dict[str, System]:
    """Everyone in the table, on all windows.

    Parameters
    ----------
    python : str, optional
        A Python that has aeon; default this one.
    """
    distances = dict(zip(DISTANCES, (_ed, _mdtw, _lmnn, _mlat_paper), strict=True))
    systems = [System(name, make, (ALL,)) for name, make in distances.items()]
    systems += [System(name, make, (ALL,)) for name, make in makers(python).items()]
    systems += [
        System(AUTO, _auto, (ALL,), on_streams=True),
        System(AUTO_FILTERED, _auto, (ALL,), on_streams=True, filtered=True),
    ]
    return {system.name: system for system in systems}


def beyond_experiments(
    people: Mapping[str, People], python: str | None = None
) -> dict[str, Experiment]:
    """The experiment at each width.

    With windows of one second more steps are given, so that there are as many windows.
    """
    systems = beyond_systems(python)
    ten = Experiment(people, systems)
    seconds = {}
    for name, of_set in people.items():
        width = get_set(name).rate
        given = None if of_set.given is None else of_set.given + width - ten.width
        seconds[name] = replace(of_set, given=given, width=width)
    return {TEN_STEPS: ten, ONE_SECOND: Experiment(seconds, systems)}
