"""A classifier of river: it starts from nothing, learns step by step and forgets.

Steps come as dictionaries. The window that ends at a step is compared with the windows of labelled
steps that are still known. The metric is Euclidean at first, and learned anew from what is known
each time the number of labelled windows has doubled, up to ``learn_until``.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from ..checks import Floats, check_whole
from ..errors import InputError
from ..metric.estimators import MLAT


class MLATClassifier(base.Classifier):  # type: ignore[misc]
    """Nearest neighbours of the last steps, under a metric that is learned on the way.

    The order of steps matters: each call of ``learn_one`` is the next step of one stream.
    ``predict_one`` looks at a step after those that were learned, and changes nothing. A step
    without a label is observed by ``learn_one(x, None)``: it is part of the windows to come.

    Parameters
    ----------
    width
        Steps per window; before there are so many, the shorter window is compared with the ends of
        the known ones.
    n_neighbors
        Nearest windows that vote.
    max_references
        How many labelled windows are known: of each state the newest ``max_references`` divided by
        the number of states, so that a frequent state does not push out a rare one. The others are
        forgotten.
    learn_from
        The number of labelled windows at which the metric is first learned; then at twice as many,
        and so on. 0 keeps the Euclidean distance.
    learn_until
        The number of labelled windows after which the metric stays.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = MLATClassifier(width=2)
    >>> accuracy = evaluate.progressive_val_score(
    ...     datasets.Phishing(), model, metrics.Accuracy()
    ... )
    >>> accuracy.get() > 0.8
    True
    """

    def __init__(
        self,
        width: int = 10,
        n_neighbors: int = 1,
        max_references: int = 1000,
        learn_from: int = 200,
        learn_until: int = 3200,
    ) -> None:
        check_whole(width, "width")
        check_whole(n_neighbors, "n_neighbors")
        check_whole(max_references, "max_references")
        check_whole(learn_from, "learn_from", 0)
        check_whole(learn_until, "learn_until", 0)
        self.width = width
        self.n_neighbors = n_neighbors
        self.max_references = max_references
        self.learn_from = learn_from
        self.learn_until = learn_until
        self._names: list[Any] = []
        self._recent: list[Floats] = []  # the last steps, at most width
        self._windows: dict[Any, list[Floats]] = {}  # of each state, the oldest first
        self._numbers: dict[Any, list[int]] = {}  # and the steps that they end at
        self._mean: Floats = np.zeros(0)
        self._squares: Floats = np.zeros(0)
        self._unit = self._mean, self._squares  # what is subtracted and divided by
        self._n_steps = 0
        self._n_learned = 0
        self._metric: MLAT | None = None
        self._cache: tuple[Floats, NDArray[Any]] | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any = None) -> None:
        """Take the next step; with a label, the window that ends there is known from now on."""
        step = self._as_step(x, new=True)
        self._n_steps += 1
        change = step - self._mean
        self._mean = self._mean + change / self._n_steps
        self._squares = self._squares + change * (step - self._mean)
        self._recent = [*self._recent, step][-self.width :]
        if (
            self._metric is None and math.log2(self._n_steps).is_integer()
        ):  # often at first, when it changes most
            self._unit, self._cache = self._scale(), None
        if y is None:
            return
        window = np.stack(self._recent)
        self._windows.setdefault(y, []).append(window)
        self._numbers.setdefault(y, []).append(self._n_steps)
        if self._cache is not None and len(window) == self.width:
            known, states = self._cache
            states = np.append(states, np.empty(1, dtype=object))
            states[-1] = y
            self._cache = np.vstack([known, self._embed(window[None])]), states
        self._forget()
        self._n_learned += 1
        if self._is_time_to_learn():
            self._learn_metric()

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """The fraction of the nearest windows in each known state; empty before any is known."""
        if not self._windows:
            return {}
        recent = [*self._recent, self._as_step(x)][-self.width :]
        longest = max(len(window) for windows in self._windows.values() for window in windows)
        window = np.stack(recent[-longest:])  # the very first windows are shorter
        references, states = self._embedded(len(window))
        distances = ((references - self._embed(window[None])) ** 2).sum(axis=1)
        k = min(self.n_neighbors, len(distances))
        nearest = np.argpartition(distances, k - 1)[:k]
        # The nearest comes first, and wins a draw.
        votes = Counter(states[i] for i in nearest[np.argsort(distances[nearest], kind="stable")])
        proba = {state: votes.get(state, 0) / k for state in votes}
        return proba | {state: 0.0 for state in self._windows if state not in proba}

    def _as_step(self, x: dict[Any, Any], new: bool = False) -> Floats:
        """The values by channel; one that is absent has its mean, a new channel is 0 before."""
        if new:
            for name in x:
                if name not in self._names:
                    self._add_channel(name)
        values = self._mean.copy()
        for i, name in enumerate(self._names):
            value = x.get(name)
            if value is not None and math.isfinite(value):
                values[i] = float(value)
        return values

    def _add_channel(self, name: Any) -> None:
        self._names.append(name)
        self._mean, self._squares = np.append(self._mean, 0.0), np.append(self._squares, 0.0)
        self._recent = [np.append(step, 0.0) for step in self._recent]
        for state, windows in self._windows.items():
            self._windows[state] = [np.pad(window, ((0, 0), (0, 1))) for window in windows]
        self._unit, self._metric, self._cache = self._scale(), None, None

    def _forget(self) -> None:
        room = max(1, self.max_references // len(self._windows))
        for state, windows in self._windows.items():
            old = len(windows) - room
            if old <= 0:
                continue
            if self._cache is not None:
                known, states = self._cache
                full = sum(len(window) == self.width for window in windows[:old])
                rows = np.flatnonzero(states == state)[:full]
                self._cache = np.delete(known, rows, axis=0), np.delete(states, rows)
            self._windows[state] = windows[old:]
            self._numbers[state] = self._numbers[state][old:]

    def _is_time_to_learn(self) -> bool:
        if not self.learn_from or not self.learn_from <= self._n_learned <= self.learn_until:
            return False
        doublings = math.log2(self._n_learned / self.learn_from)
        return doublings.is_integer()

    def _learn_metric(self) -> None:
        full = {
            state: [i for i, window in enumerate(windows) if len(window) == self.width]
            for state, windows in self._windows.items()
        }
        full = {state: rows for state, rows in full.items() if len(rows) > 1}
        if len(full) < 2:
            return
        X = np.stack([self._windows[state][i] for state, rows in full.items() for i in rows])
        numbers = np.array([self._numbers[state][i] for state, rows in full.items() for i in rows])
        codes = np.repeat(np.arange(len(full)), [len(rows) for rows in full.values()])
        run = _runs(numbers, codes)
        self._unit, self._cache = self._scale(), None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                metric = MLAT().fit(self._scaled(X), codes, start=numbers, run=run)
        except InputError:  # too few runs to learn from
            return
        self._metric = metric

    def _scale(self) -> tuple[Floats, Floats]:
        deviation = np.sqrt(self._squares / max(self._n_steps, 1))
        return self._mean, np.where(deviation > 0, deviation, 1.0)

    def _scaled(self, windows: Floats) -> Floats:
        mean, deviation = self._unit
        scaled: Floats = (windows - mean) / deviation
        return scaled

    def _embed(self, windows: Floats) -> Floats:
        scaled = self._scaled(windows)
        if self._metric is None or windows.shape[1] < self.width:
            return scaled.reshape(len(scaled), -1)
        return self._metric.embedding()(scaled)

    def _embedded(self, length: int) -> tuple[Floats, NDArray[Any]]:
        """The known windows, or their last ``length`` steps, and their states."""
        if self._cache is not None and length == self.width:
            return self._cache
        ends = [
            (window[-length:], state)
            for state, windows in self._windows.items()
            for window in windows
            if len(window) >= length
        ]
        states = np.empty(len(ends), dtype=object)
        states[:] = [state for _, state in ends]
        found = self._embed(np.stack([window for window, _ in ends])), states
        if length == self.width:
            self._cache = found
        return found


def _runs(numbers: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """The run of each window: successive steps of one state."""
    order = np.argsort(numbers, kind="stable")
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(numbers[order]) != 1) | (np.diff(codes[order]) != 0)
    run = np.empty(len(order), dtype=np.int64)
    run[order] = np.cumsum(begins)
    return run
