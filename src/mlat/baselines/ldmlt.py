"""LDMLT: a Mahalanobis local distance for dynamic time warping (Mei et al. 2015)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from . import dtw
from .knn import WindowKNN, check_count
from .lanes import FloatArray, IntArray, distinct_points, pack
from .ldmlt_kernels import sweep

# The first few of each ranking are left out: they are mislabelled or odd more often than others.
N_SKIPPED = 3


class Cycle(NamedTuple):
    """What one cycle of learning saw and did."""

    inversions: int
    n_triplets: int
    n_updates: int


def inversions(costs: FloatArray, codes: IntArray) -> IntArray:
    """For each window, how many pairs (j same label, k other label) have k nearer than j.

    Parameters
    ----------
    costs : array of shape (n, n)
    codes : array of shape (n,)

    Returns
    -------
    array of shape (n,)
    """
    count = np.zeros(len(codes), dtype=np.int64)
    for i, code in enumerate(codes):
        same = codes == code
        others = np.sort(costs[i, ~same])
        same[i] = False
        count[i] = np.searchsorted(others, costs[i, same], side="left").sum()
    return count


def select_triplets(
    costs: FloatArray, codes: IntArray, inverted: IntArray, factor: float
) -> IntArray:
    """Triplets (i, j same label, k other label) that are hard for the present metric.

    Window i gets ``S² = share · factor · n`` of them, share being its part of all inversions: its
    S farthest windows of the same label with its S nearest of the others, less the first three of
    either ranking (fewer where a label has no more than that).

    Returns
    -------
    array of shape (n_triplets, 3)
    """
    n = len(codes)
    side = np.rint(np.sqrt(inverted / max(inverted.sum(), 1) * factor * n)).astype(int)
    parts = [np.empty((0, 3), dtype=np.int64)]
    for i in np.argsort(codes, kind="stable"):
        same = codes == codes[i]
        others = np.flatnonzero(~same)
        same[i] = False
        friends = np.flatnonzero(same)
        if not side[i] or not len(friends) or not len(others):
            continue
        far = friends[np.argsort(-costs[i, friends], kind="stable")]
        near = others[np.argsort(costs[i, others], kind="stable")]
        k, j = np.meshgrid(
            _after_skipping(near, side[i]), _after_skipping(far, side[i]), indexing="ij"
        )
        parts.append(np.stack([np.full(j.size, i), j.ravel(), k.ravel()], axis=1))
    return np.concatenate(parts)


def _after_skipping(ranking: IntArray, n: int) -> IntArray:
    skipped = min(N_SKIPPED, len(ranking) - 1)
    return ranking[skipped : skipped + n]


def learn_metric(
    X: FloatArray,
    codes: IntArray,
    *,
    triplet_factor: float = 20.0,
    alpha_factor: float = 5.0,
    margin: float = 0.0,
    max_iter: int = 15,
    tol: float = 1e-4,
    band: int | None = None,
) -> tuple[FloatArray, list[Cycle]]:
    """The metric M of single steps, shape (d, d), positive semidefinite with trace d.

    Parameters
    ----------
    X : array of shape (n, w, d)
    codes : array of shape (n,)
        Labels as numbers.

    Returns
    -------
    M : array of shape (d, d)
    cycles : list of Cycle
        One per cycle, and a last one without updates for the metric that is returned.
    """
    _, width, d = X.shape
    reach = dtw.check_band(band, width, width)
    X = np.ascontiguousarray(X - X.mean(axis=(0, 1)))
    M = np.eye(d) / d
    factor, before, cycles = triplet_factor, None, []
    for cycle in range(max_iter + 1):
        costs = dtw.pairwise(transform(X, components(M)), band=band)
        inverted = inversions(costs, codes)
        error = int(inverted.sum())
        done = cycle == max_iter or error == 0 or d == 1
        if before is not None:
            factor *= error / before
            done = done or abs(before - error) < tol * before
        triplets = select_triplets(costs, codes, inverted, factor)
        if done or not len(triplets):
            cycles.append(Cycle(error, len(triplets), 0))
            break
        n_updates = sweep(M, X, triplets, alpha_factor / len(triplets), margin, reach)
        cycles.append(Cycle(error, len(triplets), n_updates))
        before = error
    L = components(M)
    return L.T @ L * d, cycles


def components(M: FloatArray) -> FloatArray:
    """L with ``M = LᵀL``, for a matrix that rounding may have left a hair short of positive."""
    values, vectors = np.linalg.eigh(M)
    L: FloatArray = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return L


def transform(X: FloatArray, L: FloatArray) -> FloatArray:
    """``L x`` for every step of windows (n, w, d).

    Steps that windows share are mapped once, so the results are shared to the last bit too, and a
    search still finds that the windows overlap.
    """
    points, first = distinct_points(X)
    mapped: FloatArray = (points @ L.T)[first[:, None] + np.arange(X.shape[1])]
    return mapped


class LDMLT(WindowKNN):
    """k nearest neighbours under DTW with a learned Mahalanobis local distance.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel, and there
        is nothing to learn.
    n_neighbors : int, default=1
    triplet_factor : float, default=20
        Triplets of a cycle, per window.
    alpha_factor : float, default=5
        How far a cycle's updates go, together.
    margin : float, default=0
        A triplet is violated while the other label is not farther by this cost, under the metric
        of trace 1: the paper's ρ.
    max_iter : int, default=15
        Cycles.
    tol : float, default=1e-4
        Stop when the number of inversions changes by less than this part of itself.
    band : int, optional
        Pair only steps at most this far apart; default: any.
    n_jobs : int, optional
        Threads for the search.

    Attributes
    ----------
    metric_ : array of shape (d, d)
    components_ : array of shape (d, d)
        L with ``metric_ = LᵀL``.
    history_ : list of Cycle
    n_iter_ : int
        Cycles, with the last one that only measures.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5, 2)), np.arange(60) % 2
    >>> X[y == 1, :, 0] += 2.0  # what tells the labels apart
    >>> X[:, :, 1] *= 5.0  # loud noise
    >>> M = LDMLT().fit(X, y).metric_
    >>> bool(M[0, 0] > 5 * M[1, 1])
    True
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        triplet_factor: float = 20.0,
        alpha_factor: float = 5.0,
        margin: float = 0.0,
        max_iter: int = 15,
        tol: float = 1e-4,
        band: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.triplet_factor = triplet_factor
        self.alpha_factor = alpha_factor
        self.margin = margin
        self.max_iter = max_iter
        self.tol = tol
        self.band = band
        self.n_jobs = n_jobs

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        if len(self.classes_) < 2:
            raise InputError(
                f"LDMLT needs windows of at least 2 classes; y holds 1 class, {self.classes_[0]!s}"
            )
        _check_number(self.triplet_factor, "triplet_factor", above=0)
        _check_number(self.alpha_factor, "alpha_factor", above=0)
        _check_number(self.margin, "margin")
        _check_number(self.tol, "tol")
        check_count(self.max_iter, "max_iter")
        self.metric_, self.history_ = learn_metric(
            windows,
            codes,
            triplet_factor=self.triplet_factor,
            alpha_factor=self.alpha_factor,
            margin=self.margin,
            max_iter=self.max_iter,
            tol=self.tol,
            band=self.band,
        )
        self.n_iter_ = len(self.history_)
        self.components_ = components(self.metric_)
        self._reach = dtw.check_band(self.band, windows.shape[1], windows.shape[1])
        self._packed = pack(transform(windows, self.components_), self._reach)

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        mapped = transform(windows, self.components_)
        costs, nearest = dtw.search(mapped, self._packed, k, band=self._reach, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest


def _check_number(value: Any, name: str, *, above: float = -np.inf) -> None:
    if not isinstance(value, int | float | np.number) or not above < value < np.inf:
        over = "" if above == -np.inf else f" above {above}"
        raise InputError(f"{name} must be a finite number{over}, not {value!r}")
