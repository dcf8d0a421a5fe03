"""Drift: which channels of a stream lie outside what the references cover, and since when.

A sensor that is strapped on anew, or one that is failing, moves the level of a channel. Its mean
over some time is then higher or lower than any that the references have, and states are told wrong
without a word. Means are over as many steps as a state depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints

if TYPE_CHECKING:
    from .classifier import StreamClassifier

# How many deviations of the training stream a mean may lie beyond those of the references, and in
# how many stretches, and which share of all, it is farther before it is said.
MARGIN = 1.0
LEAST = 3
SHARE = 0.1


class Drift(NamedTuple):
    """A channel outside what the references cover.

    Attributes
    ----------
    channel : str
    by : float
        How many deviations of the training stream its mean is above the highest of the references,
        or, below 0, below the lowest; the mean over the stretches that are outside.
    share : float
        Of the stretches.
    since : int
        The step at which the first of them begins.
    """

    channel: str
    by: float
    share: float
    since: int

    def __str__(self) -> str:
        higher = "higher" if self.by > 0 else "lower"
        return (
            f"{self.channel} is {abs(self.by):.1f} deviations {higher} than in training in "
            f"{self.share:.0%} of the stream, first at step {self.since}"
        )


class DriftWatch:
    """Follows the levels of a stream's channels, however it is cut into pieces.

    ``first`` is the number of the first step that it is given.
    """

    def __init__(self, classifier: StreamClassifier, first: int = 0) -> None:
        self._names = classifier.channels_
        self._scaling = classifier.features_.channels
        self._size = classifier.width_ + classifier.features_.lift.memory
        self._low, self._high = self._covered(classifier)
        self._rest = np.empty((0, len(self._names)))
        self._n, self._begin = 0, first  # stretches with a value, and where the next begins
        self._outside = np.zeros(len(self._names), np.int64)
        self._since: Ints = np.full(len(self._names), -1)
        self._by = np.zeros(len(self._names))

    def _covered(self, classifier: StreamClassifier) -> tuple[Floats, Floats]:
        """The lowest and the highest mean of each channel over stretches of the references."""
        windows, means = classifier.windows_, []
        for _, rows in windows.by_run():
            start, stop = windows.start[rows].min(), windows.start[rows].max() + windows.width
            run = self._scaling(windows.values[start:stop])
            n = max(len(run) // self._size, 1)
            means += [part.mean(axis=0) for part in np.array_split(run, n)]
        every = np.array(means).reshape(-1, len(self._names))
        if not len(every):  # a session that starts without references
            return np.full(every.shape[1], -np.inf), np.full(every.shape[1], np.inf)
        return every.min(axis=0), every.max(axis=0)

    def push(self, values: NDArray[np.floating]) -> bool:
        """Take the next steps (t, d), and return whether they may change what is found.

        Steps with a missing value count for nothing.
        """
        self._rest = np.concatenate([self._rest, self._scaling(values)])
        n = len(self._rest) // self._size
        if not n:
            return False
        parts = self._rest[: n * self._size].reshape(n, self._size, -1)
        self._rest = self._rest[n * self._size :]
        lacks: Bools = np.asarray(np.isnan(parts).any(axis=2))
        known: Ints = self._size - lacks.sum(axis=1)
        there = np.flatnonzero(known)
        total = np.where(lacks[:, :, None], 0.0, parts).sum(axis=1)
        mean = total[there] / known[there, None]
        by = np.maximum(mean - self._high, 0.0) + np.minimum(mean - self._low, 0.0)
        outside: Bools = np.asarray(np.abs(by) > MARGIN)
        first = self._begin + there * self._size
        for channel in np.flatnonzero(outside.any(axis=0) & (self._since < 0)):
            self._since[channel] = first[int(np.argmax(outside[:, channel]))]
        self._outside += outside.sum(axis=0)
        self._by += np.where(outside, by, 0.0).sum(axis=0)
        self._n += len(mean)
        self._begin += n * self._size
        return True

    def found(self) -> list[Drift]:
        """The channels that are outside, farthest first."""
        enough = (self._outside >= LEAST) & (self._outside >= SHARE * self._n)
        found = [
            Drift(
                self._names[c],
                float(self._by[c] / self._outside[c]),
                float(self._outside[c] / self._n),
                int(self._since[c]),
            )
            for c in np.flatnonzero(enough)
        ]
        return sorted(found, key=lambda one: -abs(one.by))
