"""LMNN: the large-margin loss over all positive semidefinite matrices (Weinberger & Saul 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import Floats
from .lbfgs import minimize
from .problem import Listener, MarginProblem, Record


@dataclass(frozen=True)
class LMNNSolution:
    """``M = LᵀL``, how the loss fell, and why it stopped."""

    L: Floats
    loss: float
    history: list[Record]
    n_iter: int
    converged: bool
    message: str


class MahalanobisObjective:
    """``E(LᵀL) + Σ weight/2 ‖LᵀL - centre‖²`` and its gradient in L."""

    def __init__(self, problem: MarginProblem) -> None:
        self._loss = problem.linear_loss()
        self.penalties: Sequence[tuple[float, Floats]] = ()
        self.loss = np.inf  # E alone, at the last point asked for

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
    return [(problem.relative_weight(problem.shrinkage), problem.scale * np.eye(size))]


def scaled_identity(problem: MarginProblem) -> Floats:
    """``L0 = √s·I``, the start of every solver."""
    return np.sqrt(problem.scale) * np.eye(problem.width * problem.n_channels)


def solve_lmnn(
    problem: MarginProblem,
    *,
    max_iter: int,
    tol: float,
    init: Floats | None = None,
    listener: Listener | None = None,
) -> LMNNSolution:
    """Minimise the loss over ``L`` (r, w*d) by L-BFGS, from the scaled identity or ``init``."""
    objective = MahalanobisObjective(problem)
    objective.penalties = shrinkage_penalty(problem)
    history: list[Record] = []

    def note(iteration: int, value: float, gradient: float) -> None:
        history.append({"iteration": iteration, "objective": value, "gradient": gradient})
        if listener is not None:
            listener(history[-1])

    start = scaled_identity(problem) if init is None else init
    minimum = minimize(objective, start, max_iter=max_iter, tol=tol, callback=note)
    objective(minimum.x)
    return LMNNSolution(
        minimum.x, objective.loss, history, minimum.n_iter, minimum.converged, minimum.message
    )
