"""What ``predict`` says of a window, asked of only those references that may decide it.

Every number is worked out as :mod:`mlat.class_distances` and :mod:`mlat.neighbors` do, by
differences in one fixed order. They rule out references by bounds of their own, so asking fewer
changes no result, as long as those that matter are among them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...classifier import StreamClassifier
from ...voting import vote

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ExactAnswer:
    """The references of a classifier in the learned space."""

    def __init__(self, clf: StreamClassifier) -> None:
        self._search, self._codes = clf._search, np.asarray(clf._codes, dtype=np.int64)
        self.n_classes = len(clf.classes_)
        self._place = np.empty(len(clf._search), np.int64)  # of each row, state by state
        self._place[clf._search.by_class._rows] = np.arange(len(clf._search))

    def embed(self, window: Floats) -> Floats:
        """A window (w, d') in the learned space, (1, r)."""
        return np.asarray(self._search.embed(window[None]))

    def by_state(self, window: Floats, rows: Ints | None = None) -> tuple[Floats, Ints]:
        """Distances (S,) to the nearest of each state and their rows (S,).

        Infinite and -1 for a state of which none of the ``rows`` is, where these are given.
        """
        z, by_class = self.embed(window), self._search.by_class
        if rows is None:
            nearest, of = by_class.query_rows(z)
            return nearest[0], of[0]
        x = ((z - by_class._mean) / by_class._scale)[0]
        squared = _squared(x, by_class._references, self._place[rows])
        best = np.full(self.n_classes, np.inf)
        found = np.full(self.n_classes, -1, np.int64)
        for row, distance in zip(rows, squared, strict=True):
            code = self._codes[row]
            if distance < best[code]:
                best[code], found[code] = distance, row
        return by_class._scale * np.sqrt(best), found

    def neighbours(self, window: Floats, k: int, rows: Ints | None = None) -> tuple[Floats, Ints]:
        """Distances (k,) and rows (k,) of the nearest, of all or of the given rows."""
        z, nearest = self.embed(window), self._search.nearest
        if rows is None:
            distances, found = nearest.query(z, k)
            return distances[0], found[0]
        rows = np.sort(rows)  # equally near ones come in the order of their rows
        squared = _squared((z - nearest.mean)[0], nearest.references, rows)
        order = np.argsort(squared, kind="stable")[:k]
        return np.sqrt(squared[order]), rows[order]

    def vote(self, distances: Floats, rows: Ints) -> int:
        """The state that k neighbours agree on."""
        return int(vote(self._codes[rows][None], distances[None], self.n_classes)[0][0])


@njit(cache=True, nogil=True)
def _squared(x, references, places):  # type: ignore[no-untyped-def]
    squared = np.empty(len(places))
    for i in range(len(places)):
        total = 0.0
        for f in range(len(x)):
            difference = x[f] - references[places[i], f]
            total += difference * difference
        squared[i] = total
    return squared
