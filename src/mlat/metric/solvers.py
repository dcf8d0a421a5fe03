"""The three solvers: filters, L-BFGS over all PSD matrices (LMNN), and the paper's ADMM.

**filter.** Let ``H`` be q filter taps of shape r × d and L the full convolution of a window with
them. Then ``M = LᵀL`` is block Toeplitz (Definition 5) with blocks ``A(m) = Σ_p H(p)ᵀ H(p+m)``, and
PSD as a Gram matrix. Both constraints of Eq. 6 hold for any taps, so the loss is minimised over the
taps by L-BFGS, and no ADMM is needed.

**lmnn.** ``E(M)`` (Eq. 2) is minimised over ``M = LᵀL`` by L-BFGS in L, so that M is PSD by
construction (Weinberger & Saul 2009).

**admm.** Algorithm 1 of the paper. ``E(M)`` is minimised over PSD block-Toeplitz M (Eq. 6) by
splitting the two constraints (Eq. 7): M is PSD, Z is block Toeplitz, and the scaled dual U drives
them together. Eq. 8 updates M, Z and U in turn.

**L-BFGS** (:func:`minimize`). The loss has kinks, so the line search asks only for the weak Wolfe
conditions, by bracketing and bisection (Lewis & Overton 2013): it needs no interpolation through a
kink, and the curvature it guarantees keeps the update positive definite.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..base.checks import Floats
from . import toeplitz
from .problem import Loss, Problem, relative_weight

Record = dict[str, float]
Listener = Callable[[Record], Any]

MORE_TAPS = 10  # so many taps beyond the width are worth their time
INNER_ITER = 3  # L-BFGS steps of each M-update, which begins where the last one ended

ARMIJO = 1e-4  # sufficient decrease
CURVATURE = 0.9  # weak Wolfe
MAX_LINE_STEPS = 30
FIRST_STEP = 0.1  # the length of the first trial step, relative to ‖x0‖
NEGLIGIBLE = 0.01  # a value below this fraction of the first counts as that fraction
PATIENCE = 5  # iterations over which the relative decrease is averaged


@dataclass(frozen=True, kw_only=True)
class Solution:
    """What a solver found, the loss E, a record of each iteration, and why it stopped.

    ``found`` are filter taps (q, r, d), or the L (r, w*d) of ``M = LᵀL``. Where M is only nearly
    Toeplitz, ``blocks`` (w, d, d) give a metric that is exactly both Toeplitz and PSD.
    """

    found: Floats
    loss: float
    history: list[Record]
    n_iter: int
    converged: bool
    message: str
    blocks: Floats | None = None


def solve_filter(
    problem: Problem,
    *,
    n_taps: int | None = None,
    n_filters: int | None = None,
    max_iter: int,
    tol: float,
    init: Floats | None = None,
    random_state: int | np.random.RandomState | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Minimise the loss over the taps, from the scaled identity or from ``init`` (q, r, d)."""
    w, d = problem.width, problem.n_channels
    taps = (
        initial_taps(problem, n_taps or default_taps(w), n_filters or d, random_state)
        if init is None
        else init
    )
    loss = problem.filter_loss()

    def objective(H: Floats) -> tuple[float, Floats]:
        value, gradient = loss(H)
        if problem.shrinkage:
            penalty, in_blocks = shrinkage_of_blocks(problem, toeplitz.autocorrelation(H, w))
            value += penalty
            gradient = gradient + toeplitz.autocorrelation_gradient(H, in_blocks)
        return value, gradient

    best = minimize(objective, taps, max_iter=max_iter, tol=tol, listener=listener)
    return replace(best, loss=loss(best.found)[0])


def default_taps(width: int) -> int:
    """Twice the width reaches nearly every PSD Toeplitz metric; for long windows, ten more taps."""
    return width + min(width, MORE_TAPS)


def initial_taps(
    problem: Problem,
    n_taps: int,
    n_filters: int,
    random_state: int | np.random.RandomState | None = None,
) -> Floats:
    """The scaled identity as taps: the identity at lag 0, the others 0.

    Fewer filters than channels begin with the leading principal directions of the steps.
    Additional filters begin small and random, since equal ones would stay equal.
    """
    d = problem.n_channels
    H = np.zeros((n_taps, n_filters, d))
    if n_filters >= d:
        H[0, :d] = np.eye(d)
        if n_filters > d:
            rng = check_random_state(random_state)
            H[:, d:] = 0.01 * rng.normal(size=(n_taps, n_filters - d, d))
    else:
        H[0] = np.linalg.svd(problem.step_moments)[2][:n_filters]
    return np.sqrt(problem.scale) * H


def shrinkage_of_blocks(problem: Problem, blocks: Floats) -> tuple[float, Floats]:
    """``λ/2 ‖M - M0‖²`` and its gradient, from the blocks alone."""
    weight = relative_weight(problem, problem.shrinkage)
    apart = blocks.copy()
    apart[0] -= problem.scale * np.eye(problem.n_channels)
    count = toeplitz.occurrences(problem.width)[:, None, None]
    return weight / 2 * toeplitz.squared_norm(apart), weight * count * apart


def solve_lmnn(
    problem: Problem,
    *,
    max_iter: int,
    tol: float,
    init: Floats | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Minimise the loss over ``L`` (r, w*d), from the scaled identity or from ``init``."""
    objective = MahalanobisObjective(problem)
    objective.penalties = shrinkage_penalty(problem)
    start = scaled_identity(problem) if init is None else init
    loss = problem.linear_loss()
    best = minimize(objective, start, max_iter=max_iter, tol=tol, listener=listener)
    return replace(best, loss=loss(best.found)[0])


class MahalanobisObjective:
    """``E(LᵀL) + Σ weight/2 ‖LᵀL - centre‖²`` and its gradient in L."""

    def __init__(self, problem: Problem) -> None:
        self._loss = problem.linear_loss()
        self.penalties: Sequence[tuple[float, Floats]] = ()  # (weight, centre)
        self.loss = np.inf  # E alone, at the last L

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        self.loss, gradient = self._loss(L)
        value = self.loss
        if self.penalties:
            M = L.T @ L
            for weight, centre in self.penalties:
                apart = M - centre
                value += weight / 2 * float(np.vdot(apart, apart))
                gradient += 2 * weight * (L @ apart)  # ∂/∂L = 2 L ∂/∂M, M symmetric
        return value, gradient


def shrinkage_penalty(problem: Problem) -> list[tuple[float, Floats]]:
    """The penalty ``λ/2 ‖M - M0‖²`` towards the scaled identity; none for λ = 0."""
    if not problem.shrinkage:
        return []
    size = problem.width * problem.n_channels
    return [(relative_weight(problem, problem.shrinkage), problem.scale * np.eye(size))]


def scaled_identity(problem: Problem) -> Floats:
    """``L0 = √s·I``, the start of every solver."""
    return np.sqrt(problem.scale) * np.eye(problem.width * problem.n_channels)


def solve_admm(
    problem: Problem,
    *,
    rho: float = 0.3,
    max_iter: int = 100,
    tol: float = 1e-3,
    init: Floats | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Algorithm 1: the paper's result ``M = LᵀL``, PSD and nearly Toeplitz, as ``found``.

    ``blocks`` are Z plus the smallest multiple of the identity that makes it PSD.

    Parameters
    ----------
    problem : Problem
    rho : float
        The penalty ρ, relative to the loss (``relative_weight``).
    max_iter : int
        The paper's K.
    tol : float
        The relative tolerance of Boyd et al. (2011, section 3.3); the absolute one is the same
        fraction of the size of M0's entries.
    init : array of shape (r, w*d), optional
        Where L begins; default the scaled identity.
    listener : callable, optional
        Called with each iteration's record.
    """
    w = problem.width
    objective = MahalanobisObjective(problem)
    weight = relative_weight(problem, rho)
    L = scaled_identity(problem) if init is None else init
    M = L.T @ L
    Z, U = toeplitz.project(M, w), np.zeros_like(M)
    memory = Curvature()
    entries = np.sqrt(M.size)
    absolute = tol * problem.scale / np.sqrt(len(M))
    history: list[Record] = []
    message, converged = "the iteration limit was reached", False
    for iteration in range(1, max_iter + 1):
        # M-update (Eq. 9) over L, with the shrinkage as part of the loss. Between updates only the
        # centre of the quadratic moves, so the curvature is kept.
        objective.penalties = [*shrinkage_penalty(problem), (weight, Z - U)]
        L = minimize(objective, L, max_iter=INNER_ITER, tol=0.0, memory=memory).found
        objective(L)
        M = L.T @ L
        # Z-update (Eq. 10), and U-update (Eq. 8c).
        previous, Z = Z, toeplitz.project(M + U, w)
        U = U + M - Z
        record: Record = {
            "iteration": iteration,
            "objective": objective.loss,
            "primal": float(np.linalg.norm(M - Z)),
            "dual": weight * float(np.linalg.norm(Z - previous)),
            "primal_tolerance": entries * absolute
            + tol * max(float(np.linalg.norm(M)), float(np.linalg.norm(Z))),
            "dual_tolerance": weight * (entries * absolute + tol * float(np.linalg.norm(U))),
        }
        history.append(record)
        if listener is not None:
            listener(record)
        if (
            record["primal"] <= record["primal_tolerance"]
            and record["dual"] <= record["dual_tolerance"]
        ):
            message, converged = "both residuals are within their tolerances", True
            break
    blocks = toeplitz.nearest_psd_shift(toeplitz.project_to_blocks(Z, w))
    return Solution(
        found=L,
        blocks=blocks,
        loss=objective.loss,
        history=history,
        n_iter=iteration,
        converged=converged,
        message=message,
    )


def minimize(
    fun: Loss,
    x0: Floats,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    memory: Curvature | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Minimise ``fun`` from ``x0`` by L-BFGS; the ``loss`` of the solution is its least value.

    Parameters
    ----------
    fun : callable
        Maps an array of any shape to its value and gradient.
    x0 : array
    max_iter : int
    tol : float
        Stop when the value decreases by less than ``tol`` of itself per iteration, on average over
        the last 5, or when the gradient vanishes. A value below a hundredth of the first counts
        as that hundredth, so that a solved problem is not refined without end.
    memory : Curvature, optional
        Curvature to begin with; it is updated. For a sequence of problems that differ little.
    listener : callable, optional
        Called with each iteration's record: the value, and the norm of the gradient.
    """
    shape = np.shape(x0)

    def flat(x: Floats) -> tuple[float, Floats]:
        value, gradient = fun(x.reshape(shape))
        return float(value), gradient.ravel()

    x = np.array(x0, dtype=np.float64).ravel()
    value, gradient = flat(x)
    memory = Curvature() if memory is None else memory
    values, history = [value], list[Record]()
    message, converged = "the iteration limit was reached", False
    while len(history) < max_iter:
        norm = float(np.linalg.norm(gradient))
        if norm <= 1e-12 * max(1.0, abs(value)):
            message, converged = "the gradient vanished", True
            break
        direction = -memory.inverse_hessian_times(gradient)
        slope = float(np.vdot(direction, gradient))
        if slope >= 0:  # rounding errors have made the memory useless
            memory.clear()
            direction, slope = -gradient, -(norm**2)
        start = 1.0 if memory else FIRST_STEP * max(float(np.linalg.norm(x)), 1e-8) / norm
        found, lower, there = _weak_wolfe(flat, x, value, slope, direction, start)
        if lower >= value:
            if memory:  # it may describe another piece of the loss
                memory.clear()
                continue
            message, converged = "no step lowers the value any further", True
            break
        memory.add(found - x, there - gradient)
        x, value, gradient = found, lower, there
        values.append(value)
        size = float(np.linalg.norm(gradient))
        history.append({"iteration": len(values) - 1, "objective": value, "gradient": size})
        if listener is not None:
            listener(history[-1])
        if len(values) > PATIENCE:
            fall = (values[-1 - PATIENCE] - value) / PATIENCE
            if fall <= tol * max(abs(value), NEGLIGIBLE * abs(values[0])):
                message, converged = "the value stopped falling", True
                break
    return Solution(
        found=x.reshape(shape),
        loss=value,
        history=history,
        n_iter=len(history),
        converged=converged,
        message=message,
    )


def _weak_wolfe(
    fun: Loss, x: Floats, value: float, slope: float, direction: Floats, start: float
) -> tuple[Floats, float, Floats]:
    """A point along the direction with its value and gradient; x where none has a lower value."""
    low, high, step = 0.0, np.inf, start
    best = x, value, direction
    for _ in range(MAX_LINE_STEPS):
        candidate = x + step * direction
        trial, gradient = fun(candidate)
        if trial < best[1]:
            best = candidate, trial, gradient
        if not trial <= value + ARMIJO * step * slope:  # also catches NaN
            high = step
        elif float(np.vdot(direction, gradient)) < CURVATURE * slope:
            low = step
        else:
            return candidate, trial, gradient
        step = (low + high) / 2 if np.isfinite(high) else 2 * step
        if best[1] < value and np.isfinite(high) and high - low < 1e-3 * high:
            break
    return best


class Curvature(deque[tuple[Floats, Floats, float]]):
    """The last steps and changes of the gradient, which approximate the inverse Hessian."""

    def __init__(self, size: int = 10) -> None:
        super().__init__(maxlen=size)

    def add(self, change: Floats, bend: Floats) -> None:
        """Remember a step and what it changed in the gradient, where it has a curvature above 0."""
        curvature = float(np.vdot(change, bend))
        if curvature > 1e-12 * float(np.linalg.norm(change) * np.linalg.norm(bend)):
            self.append((change, bend, curvature))

    def inverse_hessian_times(self, gradient: Floats) -> Floats:
        """By the two-loop recursion (Nocedal & Wright, Algorithm 7.4)."""
        result, weights = gradient.copy(), []
        for change, bend, curvature in reversed(self):
            weights.append(float(change @ result) / curvature)
            result -= weights[-1] * bend
        if self:
            _, bend, curvature = self[-1]
            result *= curvature / float(bend @ bend)
        for (change, bend, curvature), weight in zip(self, reversed(weights), strict=True):
            result += (weight - float(bend @ result) / curvature) * change
        return result
