"""LDMLT: a Mahalanobis local distance for dynamic time warping (Mei et al. 2015).

The metric M (d, d) of single steps is learned in cycles. Each cycle computes all DTW distances
under M, picks triplets (i, j of the same label, k of another) that are hard for it, and updates M
once for every triplet that is violated, such that M stays close in LogDet divergence.

First the estimator, then the cycles, then the compiled update.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlat.base.checks import SMALLEST, Floats, Ints, check_real, check_whole
from mlat.base.compiled import jit

from . import dtw
from .dtw import SUMS, accumulate, components, trace_back, transform
from .knn import WindowKNN

# The first of each ranking are skipped: they are mislabelled or outliers more often than others.
N_SKIPPED = 3
# A pivot of I − αQᵀM′Q below this counts as not positive.
SMALLEST_PIVOT = 1e-3
MAX_HALVINGS = 60


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
        How far all updates of a cycle together move the metric.
    margin : float, default=0
        The paper's ρ: a triplet is violated while the cost to the other label is not larger by
        this much, under the metric of trace 1.
    max_iter : int, default=15
        Cycles.
    tol : float, default=1e-4
        Stop when the number of inversions changes by less than this fraction of itself.
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
        Cycles, including the last one that only measures.

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

    def _learn(self, windows: Floats, codes: Ints) -> None:
        self._check_two_classes()
        check_real(self.triplet_factor, "triplet_factor", SMALLEST)
        check_real(self.alpha_factor, "alpha_factor", SMALLEST)
        check_real(self.margin, "margin")
        check_real(self.tol, "tol")
        check_whole(self.max_iter, "max_iter")
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
        self._index = dtw.Index(transform(windows, self.components_), self.band)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._index.query(transform(windows, self.components_), k, self.n_jobs)


class Cycle(NamedTuple):
    """Counts of one cycle of learning."""

    inversions: int
    n_triplets: int
    n_updates: int


def learn_metric(
    X: Floats,
    codes: Ints,
    *,
    triplet_factor: float = 20.0,
    alpha_factor: float = 5.0,
    margin: float = 0.0,
    max_iter: int = 15,
    tol: float = 1e-4,
    band: int | None = None,
) -> tuple[Floats, list[Cycle]]:
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


def inversions(costs: Floats, codes: Ints) -> Ints:
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


def select_triplets(costs: Floats, codes: Ints, inverted: Ints, factor: float) -> Ints:
    """Triplets (i, j same label, k other label) that are hard for the present metric.

    Window i gets ``S² = fraction · factor · n`` of them, where the fraction is its part of all
    inversions: its S farthest windows of the same label with its S nearest of other labels. The
    first three of either ranking are skipped (fewer where a label has no more than that).

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


def _after_skipping(ranking: Ints, n: int) -> Ints:
    skipped = min(N_SKIPPED, len(ranking) - 1)
    return ranking[skipped : skipped + n]


# The compiled update.
#
# Notation of Mei et al.: M has trace 1. P and Q hold, one step a row, the differences of the two
# windows of a pair along the path that aligns them.


@jit(fastmath=SUMS)
def sweep(M: Floats, X: Floats, triplets: Ints, gamma: float, margin: float, band: int) -> int:
    """One update per triplet (i, j same label, k other label) that M violates; their number."""
    _, width, d = X.shape
    local = np.empty((width, width))
    steps = np.empty((2 * width - 1, 2), dtype=np.int64)
    P, Q = np.empty((2 * width - 1, d)), np.empty((2 * width - 1, d))
    image_i, image_j, image_k = np.empty((width, d)), np.empty((width, d)), np.empty((width, d))
    n_updates = 0
    for row in range(len(triplets)):
        i, j, k = triplets[row]
        images(M, X[i], image_i)
        images(M, X[j], image_j)
        images(M, X[k], image_k)
        near, n_p = align(X[i], image_i, X[j], image_j, band, local, steps, P)
        far, n_q = align(X[i], image_i, X[k], image_k, band, local, steps, Q)
        if far - near < margin and update(M, P, n_p, Q, n_q, gamma):
            n_updates += 1
    return n_updates


@jit(fastmath=SUMS)
def images(M: Floats, x: Floats, out: Floats) -> None:
    """``M x`` for each step of a window (w, d)."""
    for a in range(len(x)):
        for f in range(len(M)):
            dot = 0.0
            for g in range(len(M)):
                dot += M[f, g] * x[a, g]
            out[a, f] = dot


@jit(fastmath=SUMS)
def align(
    x: Floats,
    Mx: Floats,
    y: Floats,
    My: Floats,
    band: int,
    local: Floats,
    steps: Ints,
    differences: Floats,
) -> tuple[float, int]:
    """Cost and length of the best alignment under M; the paired differences are written."""
    width, d = x.shape
    for a in range(width):
        for b in range(width):
            total = 0.0
            for f in range(d):
                total += (x[a, f] - y[b, f]) * (Mx[a, f] - My[b, f])
            local[a, b] = total
    table = accumulate(local, band)
    length = trace_back(table, steps)
    for step in range(length):
        for f in range(d):
            differences[step, f] = x[steps[step, 0], f] - y[steps[step, 1], f]
    return table[width - 1, width - 1], length


@jit(fastmath=SUMS)
def update(M: Floats, P: Floats, n_p: int, Q: Floats, n_q: int, gamma: float) -> bool:
    """Move M, in place, so that P becomes shorter and Q longer; False if Q gives no direction.

    ``P[:n_p]`` and ``Q[:n_q]`` are used. While the step is too long for M to stay positive
    definite, α is halved.
    """
    trace = leverage(M, Q, n_q)
    if not 0.0 < trace < np.inf:
        return False
    alpha = gamma / trace
    Mx = np.empty(len(M))
    before = M.copy()
    for _ in range(MAX_HALVINGS):
        positive = True
        for step in range(n_p):
            positive = positive and add_rank_one(M, P[step], alpha, Mx)
        for step in range(n_q):
            positive = positive and add_rank_one(M, Q[step], -alpha, Mx)
        if positive:
            trace = 0.0
            for f in range(len(M)):
                trace += M[f, f]
            M /= trace
            return True
        M[:] = before
        alpha /= 2.0
    return False


@jit(fastmath=SUMS)
def leverage(M: Floats, Q: Floats, length: int) -> float:
    """``tr((I − M)⁻¹ M Q Qᵀ)``; infinite if I − M is not positive definite.

    ``(I − M)⁻¹ M = (I − M)⁻¹ − I``, so with the Cholesky factor C of I − M the trace is the sum of
    ``‖C⁻¹q‖² − ‖q‖²`` over the steps q.
    """
    d = len(M)
    C = np.empty((d, d))
    for f in range(d):
        for g in range(f + 1):
            value = (1.0 if f == g else 0.0) - M[f, g]
            for h in range(g):
                value -= C[f, h] * C[g, h]
            if f == g:
                if value <= 1e-12:
                    return np.inf
                C[f, f] = np.sqrt(value)
            else:
                C[f, g] = value / C[g, g]
    solved = np.empty(d)
    total = 0.0
    for step in range(length):
        for f in range(d):
            value = Q[step, f]
            for h in range(f):
                value -= C[f, h] * solved[h]
            solved[f] = value / C[f, f]
            total += solved[f] * solved[f] - Q[step, f] * Q[step, f]
    return total


@jit(fastmath=SUMS)
def add_rank_one(M: Floats, x: Floats, alpha: float, Mx: Floats) -> bool:
    """``M ← (M⁻¹ + α x xᵀ)⁻¹`` (Sherman-Morrison), in place; False if that is not positive.

    The rows of P one after the other make the update of the whole: ``(M⁻¹ + α P Pᵀ)⁻¹`` is
    Woodbury's ``M − α M P (I + α Pᵀ M P)⁻¹ Pᵀ M``, and with −α the pivots met on the way are those
    of ``I − α Qᵀ M Q``, which is positive definite exactly if all of them are positive.
    """
    pivot = 1.0 + alpha * quadratic_form(M, x, Mx)
    if pivot < SMALLEST_PIVOT:
        return False
    subtract_outer(M, alpha / pivot, Mx)
    return True


@jit(fastmath=SUMS)
def quadratic_form(M: Floats, x: Floats, Mx: Floats) -> float:
    """``xᵀ M x``, leaving ``M x`` in ``Mx``."""
    d = len(M)
    total = 0.0
    for f in range(d):
        dot = 0.0
        for g in range(d):
            dot += M[f, g] * x[g]
        Mx[f] = dot
        total += x[f] * dot
    return total


@jit()
def subtract_outer(M: Floats, weight: float, x: Floats) -> None:
    """``M ← M − weight · x xᵀ``, in place.

    In the order that is written, which keeps M symmetric to the last bit: the product of the two
    entries is the same for (f, g) and (g, f).
    """
    for f in range(len(x)):
        for g in range(len(x)):
            M[f, g] -= weight * (x[f] * x[g])
