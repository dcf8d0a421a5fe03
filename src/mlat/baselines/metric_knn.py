"""Nearest neighbours under a learned metric of windows."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import clone

from ..neighbors import NearestNeighbors
from .lanes import FloatArray, IntArray
from .timed_knn import TimedKNN


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
    >>> from mlat.baselines import MetricKNN
    >>> from mlat.datasets.synthetic import rotating_states
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

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        self.metric_ = None
        if self.metric is not None:
            metric = clone(self.metric)
            accepted = inspect.signature(metric.fit).parameters
            when = {name: given for name, given in self._when._asdict().items() if name in accepted}
            self.metric_ = metric.fit(windows, codes, **when)
        self._references = NearestNeighbors(self._embed(windows))

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        return self._references.query(self._embed(windows), k)

    def _embed(self, windows: FloatArray) -> FloatArray:
        if self.metric_ is None:
            return windows.reshape(len(windows), -1)
        embedded: FloatArray = self.metric_.transform(windows)
        return embedded
