"""The compiled loops of LDMLT: one sweep of LogDet updates over triplets.

Notation of Mei et al.: M (d, d) has trace 1; P and Q hold, one step a row, the differences of the
two windows of a pair along the path that aligns them.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from . import point_costs
from .dtw_kernels import accumulate, trace_back
from .lanes import FloatArray, IntArray
from .point_costs import Function

# Sums of finite numbers may be taken in any order here: nothing is compared for equality.
jit: Callable[[Function], Function] = numba.njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract"}
)

# A pivot of I − αQᵀM′Q below this counts as not positive.
SMALLEST_PIVOT = 1e-3
MAX_HALVINGS = 60


@jit
def quadratic_form(M: FloatArray, x: FloatArray, Mx: FloatArray) -> float:
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


@point_costs.jit
def subtract_outer(M: FloatArray, weight: float, x: FloatArray) -> None:
    """``M ← M − weight · x xᵀ``, in place.

    In the order that is written, which keeps M symmetric to the last bit: the product of the two
    entries is the same for (f, g) and (g, f).
    """
    for f in range(len(x)):
        for g in range(len(x)):
            M[f, g] -= weight * (x[f] * x[g])


@jit
def add_rank_one(M: FloatArray, x: FloatArray, alpha: float, Mx: FloatArray) -> bool:
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


@jit
def leverage(M: FloatArray, Q: FloatArray, length: int) -> float:
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


@jit
def update(M: FloatArray, P: FloatArray, n_p: int, Q: FloatArray, n_q: int, gamma: float) -> bool:
    """Move M, in place, so that P becomes shorter and Q longer; False if Q gives no direction.

    ``P[:n_p]`` and ``Q[:n_q]`` are used. Where the step is too long for M to stay positive
    definite, α is halved until it is not.
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


@jit
def images(M: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """``M x`` for each step of a window (w, d)."""
    for a in range(len(x)):
        for f in range(len(M)):
            dot = 0.0
            for g in range(len(M)):
                dot += M[f, g] * x[a, g]
            out[a, f] = dot


@jit
def align(
    x: FloatArray,
    Mx: FloatArray,
    y: FloatArray,
    My: FloatArray,
    band: int,
    local: FloatArray,
    steps: IntArray,
    differences: FloatArray,
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


@jit
def sweep(
    M: FloatArray, X: FloatArray, triplets: IntArray, gamma: float, margin: float, band: int
) -> int:
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
