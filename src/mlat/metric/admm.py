"""Solver ``admm``: Algorithm 1 of the paper.

``E(M)`` is minimised over PSD block-Toeplitz M (Eq. 6) by splitting the two constraints (Eq. 7):
M is PSD, Z is block Toeplitz, and the scaled dual U drives them together. Eq. 8 updates M, Z and U
in turn.
"""

from __future__ import annotations

import numpy as np

from ..base.checks import Floats
from . import toeplitz
from .lbfgs import Memory, minimize
from .lmnn import MahalanobisObjective, scaled_identity, shrinkage_penalty
from .problem import Listener, MarginProblem, Record, Solution, relative_weight

INNER_ITER = 3  # L-BFGS steps of each M-update, which begins where the last one ended


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
    memory = Memory(L.size)
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
