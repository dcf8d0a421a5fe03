"""MDTW: nearest neighbours under multivariate dynamic time warping."""

from __future__ import annotations

import numpy as np

from . import dtw
from .knn import WindowKNN
from .lanes import FloatArray, IntArray, pack


class MDTW(WindowKNN):
    """k nearest neighbours under dependent multivariate DTW (Berndt & Clifford 1994).

    One alignment serves all channels; its cost is the sum of the squared Euclidean distances of
    the steps it pairs, and the distance is the root of that. The search is exact.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    n_neighbors : int, default=1
    band : int, optional
        Pair only steps at most this far apart (Sakoe & Chiba); default: any.
    n_jobs : int, optional
        Threads for the search; -1 is one per processor.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[[0.0], [0.0], [5.0]], [[0.0], [3.0], [0.0]]])
    >>> MDTW().fit(X, ["late", "middle"]).predict([[[0.0], [5.0], [5.0]]])
    array(['late'], dtype='<U6')
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        band: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.band = band
        self.n_jobs = n_jobs

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        n_steps = windows.shape[1]
        self._reach = dtw.check_band(self.band, n_steps, n_steps)
        self._packed = pack(windows, self._reach)

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        costs, nearest = dtw.search(windows, self._packed, k, band=self._reach, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest
