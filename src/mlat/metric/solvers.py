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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils import check_random_state

from ..base.checks import Floats
from . import toeplitz
from .lbfgs import Curvature, minimize
from .problem import Listener, MarginProblem, Record, Solution, descend, relative_weight

MORE_TAPS = 10  # so many taps beyond the width are worth their time
INNER_ITER = 3  # L-BFGS steps of each M-update, which begins where the last one ended


def solve_filter(
    problem: MarginProblem,
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

    return descend(objective, loss, taps, max_iter=max_iter, tol=tol, listener=listener)


def default_taps(width: int) -> int:
    """Twice the width reaches nearly every PSD Toeplitz metric; for long windows, ten more taps."""
    return width + min(width, MORE_TAPS)


def initial_taps(
    problem: MarginProblem,
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


def shrinkage_of_blocks(problem: MarginProblem, blocks: Floats) -> tuple[float, Floats]:
    """``λ/2 ‖M - M0‖²`` and its gradient, from the blocks alone."""
    weight = relative_weight(problem, problem.shrinkage)
    apart = blocks.copy()
    apart[0] -= problem.scale * np.eye(problem.n_channels)
    count = toeplitz.occurrences(problem.width)[:, None, None]
    return weight / 2 * toeplitz.squared_norm(apart), weight * count * apart


def solve_lmnn(
    problem: MarginProblem,
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
    return descend(objective, loss, start, max_iter=max_iter, tol=tol, listener=listener)


class MahalanobisObjective:
    """``E(LᵀL) + Σ weight/2 ‖LᵀL - centre‖²`` and its gradient in L."""

    def __init__(self, problem: MarginProblem) -> None:
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


def shrinkage_penalty(problem: MarginProblem) -> list[tuple[float, Floats]]:
    """The penalty ``λ/2 ‖M - M0‖²`` towards the scaled identity; none for λ = 0."""
    if not problem.shrinkage:
        return []
    size = problem.width * problem.n_channels
    return [(relative_weight(problem, problem.shrinkage), problem.scale * np.eye(size))]


def scaled_identity(problem: MarginProblem) -> Floats:
    """``L0 = √s·I``, the start of every solver."""
    return np.sqrt(problem.scale) * np.eye(problem.width * problem.n_channels)


def solve_admm(
    problem: MarginProblem,
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
    problem : MarginProblem
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
    memory = Curvature(L.size)
    entries = np.sqrt(M.size)
    absolute = tol * problem.scale / np.sqrt(len(M))
    history: list[Record] = []
    message, converged = "the iteration limit was reached", False
    for iteration in range(1, max_iter + 1):
        # M-update (Eq. 9) over L, with the shrinkage as part of the loss. Between updates only the
        # centre of the quadratic moves, so the curvature is kept.
        objective.penalties = [*shrinkage_penalty(problem), (weight, Z - U)]
        L = minimize(objective, L, max_iter=INNER_ITER, tol=0.0, memory=memory).x
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
