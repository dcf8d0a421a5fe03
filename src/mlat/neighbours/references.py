"""The references of a classifier, and what of them is near the windows of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import progress
from ..checks import Floats, Ints
from ..errors import InputError
from ..features.features import Features
from ..metric.estimators import Embedding, MarginMetric
from ..stream.stream import Stream
from ..stream.windows import Windows, flatten, sliding_windows
from .search import ClassDistances, NearestNeighbors

BLOCK = 4096  # windows embedded at a time


class ReferenceSearch:
    """Labelled windows in the learned space.

    Parameters
    ----------
    windows : Windows
        The references, over raw channels.
    features : Features
    metric : fitted transformer, or None for Euclidean distance
    codes : array of shape (n,)
        The state of each reference.
    n_classes : int

    Attributes
    ----------
    plain : array of shape (T, d')
        The features of the references' steps, before whitening.
    embedded : array of shape (n, r)
    nearest : NearestNeighbors
    by_class : ClassDistances
    embed : callable
        From windows (n, w, d') of features to the learned space (n, r).
    """

    def __init__(
        self, windows: Windows, features: Features, metric: Any, codes: Ints, n_classes: int
    ) -> None:
        self._width, self._features = windows.width, features
        self.embed = embedding(metric)
        self.plain = features.of_runs(windows)
        seen = features.mix(self.plain)
        self.embedded = np.concatenate([*self._embed(seen, windows.start)])
        self.nearest = NearestNeighbors(self.embedded)
        self.by_class = ClassDistances(self.embedded, codes, n_classes)

    def __len__(self) -> int:
        return len(self.nearest)

    def neighbours(self, stream: Stream, k: int) -> tuple[Floats, Ints]:
        """Distances (T, k) and rows (T, k) of the nearest; NaN and -1 without a window."""
        distances = np.full((len(stream), k), np.nan)
        rows = np.full((len(stream), k), -1, np.int64)
        for at, Z in self._blocks(stream):
            distances[at], rows[at] = self.nearest.query(Z, k)
        return distances, rows

    def class_distances(self, stream: Stream) -> Floats:
        """The distance to the nearest of each state, shape (T, S); NaN without a window."""
        nearest = np.full((len(stream), self.by_class.n_classes), np.nan)
        for at, Z in self._blocks(stream):
            nearest[at] = self.by_class.query(Z)
        return nearest

    def _blocks(self, stream: Stream) -> Iterator[tuple[Ints, Floats]]:
        """The steps at which windows end, and the windows in the learned space, some at a time."""
        start = sliding_windows(stream, self._width, labelled=False).start
        ends = start + self._width - 1
        for i, Z in enumerate(self._embed(self._features(stream), start)):
            progress.report("neighbours", i + 1, -(-len(start) // BLOCK), {})
            yield ends[i * BLOCK : (i + 1) * BLOCK], Z

    def _embed(self, seen: Floats, start: Ints) -> Iterator[Floats]:
        """Windows over features, by where they start."""
        nothing = np.empty(0)
        view = Windows(seen, self._width, start, nothing.astype(np.int64), nothing).view
        for begin in range(0, len(start), BLOCK):
            yield self.embed(view[start[begin : begin + BLOCK]])


def embedding(metric: Any) -> Embedding:
    """From windows (n, w, d') to the space where distances are Euclidean, made ready once."""
    if metric is None:
        return flatten
    return metric.embedding() if isinstance(metric, MarginMetric) else metric.transform


def check_channels(stream: Stream, channels: tuple[str, ...]) -> None:
    """Refuse a stream of other channels than those that were learned from."""
    if stream.n_channels != len(channels):
        raise InputError(
            f"the stream has {stream.n_channels} channels, the model was learned on "
            f"{len(channels)} ({', '.join(channels)})"
        )
    unnamed = {f"x{i}" for i in range(len(channels))}
    # Channels that were never named cannot be told apart by name.
    if stream.channels != channels and unnamed not in (set(stream.channels), set(channels)):
        raise InputError(
            f"the stream's channels are {', '.join(stream.channels)}; the model was "
            f"learned on {', '.join(channels)}; choose and order them alike"
        )
