"""Epochs of training, judged by nearest neighbours after each, until that gets no better."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import progress
from ..voting import vote
from .deep import Weights, take_weights
from .deep_validation import Division
from .lanes import FloatArray, IntArray


class Epoch(NamedTuple):
    """What one epoch came to.

    Attributes
    ----------
    loss : float
        Mean over the epoch.
    accuracy : float
        Of nearest neighbours on the validation windows, after it; NaN without such windows.
    """

    loss: float
    accuracy: float


class Learner(Protocol):
    """A network that learns from windows, one epoch at a time."""

    network: Any

    def epoch(self) -> float:
        """Go once through the windows to learn from; the mean loss."""

    def neighbours(self, k: int) -> tuple[FloatArray, IntArray]:
        """For each window to judge by, distances and positions of the nearest to learn from."""


class Trained(NamedTuple):
    """The weights of the best epoch, its number from 0, and all epochs."""

    weights: Weights
    best: int
    history: list[Epoch]


def train(
    learner: Learner,
    codes: IntArray,
    division: Division,
    *,
    max_iter: int,
    patience: int,
    n_neighbors: int,
    task: str,
) -> Trained:
    """Train for at most ``max_iter`` epochs and keep the best.

    The best is the one most accurate on the validation windows; of epochs that are equally
    accurate, the one with the smaller loss. It ends after ``patience`` epochs without more
    accuracy. Without validation windows it runs to the end, and the last epoch counts.
    """
    judged = len(division.judge) > 0
    history: list[Epoch] = []
    weights, best, highest, waited = take_weights(learner.network), -1, -np.inf, 0
    for number in range(max_iter):
        loss = learner.epoch()
        accuracy = _accuracy(learner, codes, division, n_neighbors) if judged else np.nan
        history.append(Epoch(loss, accuracy))
        figures = {"loss": loss, "accuracy": accuracy} if judged else {"loss": loss}
        progress.report(task, number + 1, max_iter, figures)
        more = accuracy > highest
        if not judged or more or (accuracy == highest and loss < history[best].loss):
            weights, best = take_weights(learner.network), number
        highest, waited = max(highest, accuracy), 0 if more else waited + 1
        if judged and waited >= patience:
            break
    return Trained(weights, best, history)


def _accuracy(learner: Learner, codes: IntArray, division: Division, k: int) -> float:
    k = min(k, len(division.learn))
    distances, nearest = learner.neighbours(k)
    found = vote(codes[division.learn][nearest], distances, int(codes.max()) + 1)[0]
    return float(np.mean(found == codes[division.judge]))


def batches(n: int, size: int, rng: np.random.RandomState) -> list[IntArray]:
    """Rows 0 to n − 1 once each, in random order, in parts as near to ``size`` as can be equal."""
    return np.array_split(rng.permutation(n), max(1, round(n / size)))
