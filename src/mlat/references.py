"""A classifier's references as its metric sees them, for whoever looks into a model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .attribution import metric_array, unmixed
from .classifier import StreamClassifier

Floats = NDArray[np.float64]

BLOCK = 4096  # embedded at a time


class References:
    """The reference windows by their features, and distances to them.

    Parameters
    ----------
    clf : fitted StreamClassifier

    Attributes
    ----------
    metric : None, array of shape (w*d', w*d') or (w, d', d')
        Over the features before whitening, as :func:`mlat.attribution.split` takes it.
    """

    def __init__(self, clf: StreamClassifier) -> None:
        self.clf = clf
        self._start = clf.windows_.start
        # Every window over the reference steps; a reference is the one at its start.
        windows = sliding_window_view(clf.reference_features_, clf.width_, axis=0)
        self._windows = windows.transpose(0, 2, 1)
        learned = metric_array(clf.metric_, clf.width_, self._windows.shape[2])
        self.metric = unmixed(learned, clf.features_.mixing, clf.width_)

    def __len__(self) -> int:
        return len(self._start)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> Floats:
        """The features of some references, shape (n, w, d')."""
        return self._windows[self._start[rows]]

    def embed(self, X: Floats) -> Floats:
        """Windows (n, w, d') in the learned space."""
        metric, seen = self.clf.metric_, self.clf.features_.mix(X)
        return seen.reshape(len(X), -1) if metric is None else np.asarray(metric.transform(seen))

    def embedded(self) -> Iterator[tuple[slice, Floats]]:
        """The references in the learned space, a block of rows at a time."""
        for begin in range(0, len(self), BLOCK):
            rows = slice(begin, begin + BLOCK)
            yield rows, self.embed(self[rows])

    def distances(self, window: Floats) -> Floats:
        """From a window (w, d') to every reference, by differences as the classifier's own."""
        z = self.embed(window[None])
        distances = np.empty(len(self))
        for rows, Z in self.embedded():
            distances[rows] = np.sqrt(((Z - z) ** 2).sum(axis=1))
        return distances
