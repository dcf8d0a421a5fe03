"""Solver LMNN: the large-margin loss over all PSD matrices (Weinberger & Saul 2009).

``E(M)`` (Eq. 2) is minimised over ``M = LᵀL`` by L-BFGS in L, so that M is PSD by construction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.checks import Floats
from .problem import Listener, MarginProblem, Solution, descend, relative_weight


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
