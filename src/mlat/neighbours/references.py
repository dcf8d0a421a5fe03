"""The references of a classifier, and the search among them for the windows of a stream.

What is kept is the features of the references' steps, a w-th of the windows. The points of the
learned space are computed from them, and are held only in the form that the search needs, which is
built at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..base.checks import Bools, Floats, Ints
from ..base.errors import InputError
from ..base.work import n_threads, run_each
from ..features.features import Features, View
from ..metric.embedding import Embedding, Mahalanobis, smallest_space, transform_windows
from ..metric.estimators import MarginMetric
from ..metric.forest import Forest
from ..stream.stream import Stream
from ..stream.windows import Windows, counts_inside, flatten, sliding_windows
from .search import MANY_REFERENCES, ClassDistances, NearestNeighbors

BLOCK, LEAST_BLOCK = 4096, 512  # windows embedded at a time
ALL = slice(None)


class References:
    """Labelled windows, their features and the exact searches among them.

    Parameters
    ----------
    windows : Windows
        The references, over raw channels.
    features : Features
        From the channels to the features that all experts share.
    metric : fitted transformer, or None for Euclidean distance
    steps : array of shape (T, d'), optional
        The features of the references' steps, NaN elsewhere; default computed from ``windows``.
    view : View, optional
        What the metric sees of the features, where it is not all of them as they are.

    Attributes
    ----------
    windows, features, metric, steps, view
        As given.
    classes : array of shape (S,)
        The states.
    codes : array of shape (n,)
        The state of each reference, as an index into ``classes``.
    embed : callable
        From windows (n, w, d') of what the metric sees to the learned space, (n, r).
    """

    def __init__(
        self,
        windows: Windows,
        features: Features,
        metric: Any,
        steps: Floats | None = None,
        view: View | None = None,
    ) -> None:
        self.windows, self.features, self.metric = windows, features, metric
        self.view = View() if view is None else view
        self.steps = features.of_runs(windows) if steps is None else steps
        self.classes, codes = np.unique(windows.y, return_inverse=True)
        self.codes = codes.astype(np.int64, copy=False)
        self.embed = embedding(metric)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Ints | slice) -> Floats:
        """The features of some references, shape (n, w, d')."""
        return self._windows_over(self.steps)[self.windows.start[rows]]

    def _windows_over(self, steps: Floats) -> Floats:
        """Every window of steps (T, d'), shape (T-w+1, w, d'), as a view."""
        return replace(self.windows, values=steps).view

    def take(self, rows: Ints) -> References:
        """Some of the references only."""
        windows = self.windows.take(rows)
        steps = self.steps.copy()
        steps[~steps_inside(windows, between=self.features.lift.memory > 0)] = np.nan
        return References(windows, self.features, self.metric, steps, self.view)

    @cached_property
    def by_class(self) -> ClassDistances:
        """The search for the nearest reference of each state, built at first use."""
        return ClassDistances.of_blocks(
            self.embedded_blocks(), self.n_dimensions, self.codes, len(self.classes)
        )

    def free_search(self) -> None:
        """Give back the memory of a search among many references; its next use builds it again."""
        if len(self) >= MANY_REFERENCES:
            self.__dict__.pop("by_class", None)

    @property
    def nearest(self) -> NearestNeighbors:
        """The search for the k nearest references, whatever their state."""
        return self.by_class.nearest

    @cached_property
    def n_dimensions(self) -> int:
        """Of the learned space, r."""
        one = self[:1] if len(self) else np.zeros((1, self.windows.width, self.steps.shape[1]))
        return int(self.embed(self.view(one)).shape[1])

    @property
    def n_seen(self) -> int:
        """Features that the metric sees of a step."""
        columns = self.view.columns
        return self.steps.shape[1] if columns is None else len(columns)

    def embedded(self, rows: Ints | slice = ALL) -> Floats:
        """Some references in the learned space, shape (n, r): computed, not kept."""
        points = np.empty((len(self.codes[rows]), self.n_dimensions))
        for block, Z in self.embedded_blocks(rows):
            points[block] = Z
        return points

    def embedded_blocks(self, rows: Ints | slice = ALL) -> Iterator[tuple[slice, Floats]]:
        """The same, a block at a time: its positions among the rows, and its points."""
        return self.embed_steps(self.steps, self.windows.start[rows])

    def embed_steps(self, features: Floats, start: Ints) -> Iterator[tuple[slice, Floats]]:
        """Windows over steps (T, d') of features, by where they start, in blocks."""
        windows = self._windows_over(self.view(features))
        for begin in range(0, len(start), BLOCK):
            block = slice(begin, begin + BLOCK)
            yield block, self.embed(windows[start[block]])

    def neighbours(
        self, stream: Stream, k: int, features: Floats | None = None
    ) -> tuple[Floats, Ints]:
        """Distances (T, k) and rows (T, k) of the nearest; NaN and -1 without a window."""
        distances = np.full((len(stream), k), np.nan)
        rows = np.full((len(stream), k), -1, np.int64)
        search = self.nearest

        def find(ends: Ints, Z: Floats) -> None:
            distances[ends], rows[ends] = search.query(Z, k)

        self._of_stream(find, stream, features)
        return distances, rows

    def class_distances(self, stream: Stream, features: Floats | None = None) -> Floats:
        """The distance to the nearest of each state, shape (T, S); NaN without a window.

        ``features`` (T, d') are those of the stream, where they are known already.
        """
        nearest, search = np.full((len(stream), len(self.classes)), np.nan), self.by_class

        def find(ends: Ints, Z: Floats) -> None:
            nearest[ends] = search.query(Z)

        self._of_stream(find, stream, features)
        return nearest

    def distances_at(self, features: Floats, ends: Ints) -> Floats:
        """The same for the windows that end at some steps (n,) only, shape (n, S)."""
        start = ends - self.windows.width + 1
        points = [Z for _, Z in self.embed_steps(features, start)]
        return self.by_class.query(np.concatenate(points))

    def _of_stream(
        self,
        find: Callable[[Ints, Floats], None],
        stream: Stream,
        features: Floats | None,
    ) -> None:
        """Find something for every window of a stream: the step at which it ends, and its point."""
        windows = self._windows_over(
            self.view(self.features(stream) if features is None else features)
        )
        start = sliding_windows(stream, self.windows.width, labelled=False).start
        self.in_blocks(
            lambda block, Z: find(start[block] + self.windows.width - 1, Z),
            len(start),
            lambda block: windows[start[block]],
        )

    def in_blocks(
        self,
        find: Callable[[slice, Floats], None],
        n: int,
        windows: Callable[[slice], Floats],
    ) -> None:
        """Find something for n windows, a block at a time: which they are, and their points (m, r).

        In threads, where the metric is known to bear that.
        """
        threads = 1
        if n > LEAST_BLOCK and (self.metric is None or isinstance(self.metric, OURS)):
            threads = n_threads()
        size = min(BLOCK, max(LEAST_BLOCK, -(-n // threads)))

        def one(begin: int) -> None:
            block = slice(begin, min(begin + size, n))
            find(block, np.asarray(self.embed(windows(block))))

        run_each(one, range(0, n, size), min(threads, -(-n // size)))


OURS = MarginMetric | Mahalanobis | Forest


def embedding(metric: Any) -> Embedding:
    """From windows (n, w, d') to the space where distances are Euclidean, made ready once."""
    if metric is None:
        return flatten
    if isinstance(metric, MarginMetric):
        return smallest_space(metric.embedding(), metric.width_, metric.n_channels_)
    if isinstance(metric, Mahalanobis | Forest):
        return metric.embedding()
    return partial(transform_windows, metric)


def steps_inside(windows: Windows, *, between: bool) -> Bools:
    """Which steps are inside some window, shape (T,).

    ``between`` adds those between and before the windows of a run from which it is lifted.
    """
    start, stop = windows.start, windows.start + windows.width
    if between:
        runs, first = [rows for _, rows in windows.by_run()], windows.first_needed()
        start = np.array([first[rows].min() for rows in runs], np.int64)
        stop = np.array([stop[rows].max() for rows in runs], np.int64)
    inside: Bools = counts_inside(start, stop, len(windows.values)) > 0
    return inside


def compact(windows: Windows, *, between: bool) -> Windows:
    """The same windows over the steps inside some of them only; ``between`` as above."""
    return windows.compact(steps_inside(windows, between=between))


def check_channels(stream: Stream, channels: tuple[str, ...]) -> None:
    """Refuse a stream of other channels than those that were learned from.

    Raises
    ------
    InputError
    """
    if stream.n_channels != len(channels):
        raise InputError(
            f"the stream has {stream.n_channels} channels, the model was learned on "
            f"{len(channels)} ({', '.join(channels)})"
        )
    unnamed = {f"x{i}" for i in range(len(channels))}
    # Channels without names of their own cannot be compared by name.
    if stream.channels != channels and unnamed not in (set(stream.channels), set(channels)):
        raise InputError(
            f"the stream's channels are {', '.join(stream.channels)}; the model was "
            f"learned on {', '.join(channels)}; choose the same, in the same order"
        )
