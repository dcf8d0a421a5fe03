"""ED: nearest neighbours under the Euclidean distance of windows."""

from __future__ import annotations

import numpy as np

from . import dtw
from .knn import WindowKNN
from .lanes import FloatArray, IntArray, pack

# An alignment that pairs each step with itself only: the Euclidean distance, with the search, the
# bounds and the order of ties of dynamic time warping.
NO_WARPING = 0


class EuclideanKNN(WindowKNN):
    """k nearest neighbours under the Euclidean distance of whole windows.

    It does not scale: put a scaler in front (a ``Pipeline``, or the stream's own).

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. It does not change a distance.
    n_neighbors : int, default=1
    n_jobs : int, optional
        Threads for the search; -1 is one per processor.

    Examples
    --------
    >>> X = [[0.0, 0.0], [3.0, 4.0]]
    >>> distances, windows = EuclideanKNN().fit(X, ["rest", "walk"]).kneighbors([[3.0, 0.0]])
    >>> distances.tolist(), windows.tolist()
    ([[3.0]], [[0]])
    """

    def __init__(
        self, width: int | None = None, n_neighbors: int = 1, n_jobs: int | None = None
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        self._packed = pack(windows, NO_WARPING)

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        costs, nearest = dtw.search(windows, self._packed, k, band=NO_WARPING, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest
