"""Limited-memory BFGS with a weak-Wolfe line search.

The large-margin loss has kinks, so the line search asks only for the weak Wolfe conditions, by
bracketing and bisection (Lewis & Overton 2013): it needs no interpolation through a kink, and the
curvature it guarantees keeps the update positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.checks import Floats

Objective = Callable[[Floats], tuple[float, Floats]]

ARMIJO = 1e-4  # sufficient decrease
CURVATURE = 0.9  # weak Wolfe
MAX_LINE_STEPS = 30
FIRST_STEP = 0.1  # the length of the first trial step, relative to ‖x0‖
NEGLIGIBLE = 0.01  # a value below this fraction of the first counts as that fraction
PATIENCE = 5  # iterations over which the relative decrease is averaged


@dataclass(frozen=True)
class Minimum:
    """Where the minimiser stopped, and why."""

    x: Floats
    value: float
    gradient: Floats
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str


def minimize(
    fun: Objective,
    x0: Floats,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    memory: Curvature | None = None,
    callback: Callable[[int, float, float], Any] | None = None,
) -> Minimum:
    """Minimise ``fun`` from ``x0``.

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
    callback : callable, optional
        Called with the iteration, the value and the gradient's norm.
    """
    shape = np.shape(x0)

    def flat(x: Floats) -> tuple[float, Floats]:
        value, gradient = fun(x.reshape(shape))
        return float(value), gradient.ravel()

    x = np.array(x0, dtype=np.float64).ravel()
    value, gradient = flat(x)
    n_evaluations = 1
    pairs = Curvature(x.size) if memory is None else memory
    history = [value]
    message, converged, iteration = "the iteration limit was reached", False, 0
    while iteration < max_iter:
        norm = float(np.linalg.norm(gradient))
        if norm <= 1e-12 * max(1.0, abs(value)):
            message, converged = "the gradient vanished", True
            break
        direction = -pairs.inverse_hessian_times(gradient)
        slope = float(np.vdot(direction, gradient))
        if slope >= 0:  # rounding errors have made the memory useless
            pairs.clear()
            direction, slope = -gradient, -(norm**2)
        start = FIRST_STEP * max(float(np.linalg.norm(x)), 1e-8) / norm if not pairs.count else 1.0
        found = _weak_wolfe(flat, x, value, slope, direction, start)
        n_evaluations += found.n_evaluations
        if found.value >= value:
            if pairs.count:  # the memory may describe another piece of the loss
                pairs.clear()
                continue
            message, converged = "no step lowers the value any further", True
            break
        iteration += 1
        change, bend = found.x - x, found.gradient - gradient
        curvature = float(np.vdot(change, bend))
        if curvature > 1e-12 * float(np.linalg.norm(change) * np.linalg.norm(bend)):
            pairs.add(change, bend)
        x, value, gradient = found.x, found.value, found.gradient
        history.append(value)
        if callback is not None:
            callback(iteration, value, float(np.linalg.norm(gradient)))
        if len(history) > PATIENCE:
            fall = (history[-1 - PATIENCE] - value) / PATIENCE
            if fall <= tol * max(abs(value), NEGLIGIBLE * abs(history[0])):
                message, converged = "the value stopped falling", True
                break
    return Minimum(
        x.reshape(shape),
        value,
        gradient.reshape(shape),
        iteration,
        n_evaluations,
        converged,
        message,
    )


@dataclass(frozen=True)
class _Step:
    x: Floats
    value: float
    gradient: Floats
    n_evaluations: int


def _weak_wolfe(
    fun: Objective, x: Floats, value: float, slope: float, direction: Floats, start: float
) -> _Step:
    low, high, step = 0.0, np.inf, start
    best = _Step(x, value, direction, 0)
    for count in range(1, MAX_LINE_STEPS + 1):
        candidate = x + step * direction
        trial, gradient = fun(candidate)
        if trial < best.value:
            best = _Step(candidate, trial, gradient, count)
        if not trial <= value + ARMIJO * step * slope:  # also catches NaN
            high = step
        elif float(np.vdot(direction, gradient)) < CURVATURE * slope:
            low = step
        else:
            return _Step(candidate, trial, gradient, count)
        step = (low + high) / 2 if np.isfinite(high) else 2 * step
        if best.value < value and np.isfinite(high) and high - low < 1e-3 * high:
            break
    return _Step(best.x, best.value, best.gradient, count)


class Curvature:
    """The last pairs of steps and gradient changes, which approximate the inverse Hessian.

    The two-loop recursion (Nocedal & Wright, Algorithm 7.4) only ever combines the 2m remembered
    vectors and the gradient, so it runs on their inner products (Chen, Wang & Zhou 2014): the long
    vectors are read by four matrix-vector products and nothing else.
    """

    def __init__(self, n_parameters: int, size: int = 10) -> None:
        self.size = size
        self.count = 0
        # Rows 0 … m-1 hold steps, rows m … 2m-1 gradient changes; the oldest is overwritten.
        self.vectors = np.zeros((2 * size, n_parameters))
        self.products = np.zeros((2 * size, 2 * size))

    def clear(self) -> None:
        self.count = 0
        self.vectors[:] = 0
        self.products[:] = 0

    def add(self, change: Floats, bend: Floats) -> None:
        for row, vector in (
            (self.count % self.size, change),
            (self.size + self.count % self.size, bend),
        ):
            self.vectors[row] = vector
            self.products[row] = self.products[:, row] = self.vectors @ vector
        self.count += 1

    def inverse_hessian_times(self, gradient: Floats) -> Floats:
        if not self.count:
            return gradient
        m, B = self.size, self.products
        newest_first = [i % m for i in range(self.count - 1, max(self.count - m, 0) - 1, -1)]
        with_gradient = self.vectors @ gradient
        # The result is factor * gradient + coefficients @ vectors.
        coefficients, factor = np.zeros(2 * m), 1.0
        weights = {}
        for i in newest_first:
            along = coefficients @ B[i] + factor * with_gradient[i]
            weights[i] = along / B[i, m + i]
            coefficients[m + i] -= weights[i]
        newest = newest_first[0]
        scale = B[newest, m + newest] / B[m + newest, m + newest]
        coefficients *= scale
        factor *= scale
        for i in reversed(newest_first):
            along = coefficients @ B[m + i] + factor * with_gradient[m + i]
            coefficients[i] += weights[i] - along / B[i, m + i]
        direction: Floats = coefficients @ self.vectors
        direction += factor * gradient
        return direction
