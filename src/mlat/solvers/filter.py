"""Solver ``filter``: a metric that is block Toeplitz and positive semidefinite by construction.

Let ``H`` be q filter taps of shape r × d and L the full convolution of a window with them. Then
``M = LᵀL`` is block Toeplitz with blocks ``A(m) = Σ_p H(p)ᵀ H(p+m)``, and PSD because it is a Gram
matrix. Nothing has to be enforced: the loss is minimised over the taps by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import lags, toeplitz
from ..diagonals import DiagonalMarginLoss
from ..folding import unfold
from ..optim import minimize
from .problem import Floats, Listener, Problem, Record

# Running sums along diagonals cost about 8d products a pair of windows, convolving the windows
# w·q·r·d a window. This ratio of the two lies between two problems that were timed: at 0.02
# (n=3500, d=3, w=10) convolving is the faster way, at 0.27 (n=2500, d=27, w=10) the other.
CONVOLVE_BELOW = 0.1
# How many taps beyond the width are worth their time.
MORE_TAPS = 10
# Shorter stretches than this are not worth the bookkeeping of the running sums.
MIN_STRETCH = 32


@dataclass(frozen=True)
class FilterSolution:
    """Taps ``H`` (q, r, d), how the loss fell, and why it stopped."""

    taps: Floats
    loss: float
    history: list[Record]
    n_iter: int
    converged: bool
    message: str


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
) -> FilterSolution:
    """Minimise the loss over the taps, from the scaled identity or from ``init`` (q, r, d)."""
    w, d = problem.width, problem.n_channels
    taps = (
        initial_taps(problem, n_taps or default_taps(w), n_filters or d, random_state)
        if init is None
        else init
    )
    loss = blocks_loss(problem, *taps.shape[:2])
    history: list[Record] = []

    def objective(H: Floats) -> tuple[float, Floats]:
        value, gradient = loss(H)
        if problem.shrinkage:
            penalty, in_blocks = _shrinkage(problem, toeplitz.autocorrelation(H, w))
            value += penalty
            gradient = gradient + toeplitz.autocorrelation_gradient(H, in_blocks)
        return value, gradient

    def note(iteration: int, value: float, gradient: float) -> None:
        history.append({"iteration": iteration, "objective": value, "gradient": gradient})
        if listener is not None:
            listener(history[-1])

    minimum = minimize(objective, taps, max_iter=max_iter, tol=tol, callback=note)
    value, _ = loss(minimum.x)
    return FilterSolution(
        minimum.x, value, history, minimum.n_iter, minimum.converged, minimum.message
    )


def default_taps(width: int) -> int:
    """Twice the width reaches nearly every metric there is; for long windows ten more must do."""
    return width + min(width, MORE_TAPS)


def initial_taps(
    problem: Problem,
    n_taps: int,
    n_filters: int,
    random_state: int | np.random.RandomState | None = None,
) -> Floats:
    """The scaled identity as taps: one at lag 0, the others 0.

    Fewer filters than channels begin with the leading principal directions of the steps; more
    begin small and random, since equal ones would stay equal.
    """
    d = problem.n_channels
    H = np.zeros((n_taps, n_filters, d))
    if n_filters >= d:
        H[0, :d] = np.eye(d)
        if n_filters > d:
            rng = (
                np.random.RandomState(random_state)
                if not isinstance(random_state, np.random.RandomState)
                else random_state
            )
            H[:, d:] = 0.01 * rng.normal(size=(n_taps, n_filters - d, d))
    else:
        steps = problem.flat.reshape(-1, d)
        H[0] = np.linalg.svd(steps.T @ steps)[2][:n_filters]
    return np.sqrt(problem.scale) * H


def blocks_loss(
    problem: Problem, n_taps: int, n_filters: int
) -> Callable[[Floats], tuple[float, Floats]]:
    """``E`` and ``dE/dH`` as a function of the taps, by whichever way is the cheaper one."""
    n, w = problem.X.shape[:2]
    stretches = unfold(problem.X, problem.start, problem.run)
    overlap = n >= MIN_STRETCH * len(stretches)
    if overlap and w * n_taps * n_filters > 4 * CONVOLVE_BELOW * n:
        return _DiagonalLoss(problem, stretches)
    return _ConvolutionLoss(problem)


class _DiagonalLoss:
    """Through :mod:`mlat.diagonals`: the cost of an evaluation does not grow with the width."""

    def __init__(self, problem: Problem, stretches: list[tuple[np.ndarray, Floats]]) -> None:
        order = np.concatenate([rows for rows, _ in stretches])
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        targets = problem.targets[order]
        mean = problem.X.mean(axis=(0, 1))
        self.width = problem.width
        self.margin = DiagonalMarginLoss(
            [steps - mean for _, steps in stretches],
            np.array([problem.codes[rows[0]] for rows, _ in stretches]),
            np.where(targets >= 0, rank[targets], -1),
            problem.width,
            problem.push_weight,
        )

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        value, in_blocks = self.margin(toeplitz.autocorrelation(H, self.width))
        return value, toeplitz.autocorrelation_gradient(H, in_blocks)


class _ConvolutionLoss:
    """Through the embedding itself, for short windows and for windows that do not overlap."""

    def __init__(self, problem: Problem) -> None:
        self.X = np.ascontiguousarray(problem.X - problem.X.mean(axis=(0, 1)))
        self.margin = problem.margin_loss()
        # The pull is linear in M, and so in the blocks: Σ_m <pull(m), A(m)>.
        self.pull = self._pull_in_blocks()

    def _pull_in_blocks(self) -> Floats:
        n, w, d = self.X.shape
        pulled = self.margin.pull_force(self.X.reshape(n, w * d)).reshape(n, w, d)
        sums = lags.correlations(pulled, self.X, w) + lags.correlations(self.X, pulled, w)
        sums[0] /= 2
        return sums

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        n, w, _ = self.X.shape
        q, r, _ = H.shape
        Z = toeplitz.convolve(H, self.X)
        pushed, rows, force = self.margin.push(Z.reshape(n, -1))
        blocks = toeplitz.autocorrelation(H, w)
        value = pushed + float(np.vdot(self.pull, blocks))
        gradient = toeplitz.autocorrelation_gradient(H, self.pull)
        force, X = force.reshape(len(rows), w + q - 1, r), self.X[rows]
        for p in range(q):
            gradient[p] += 2 * np.tensordot(force[:, p : p + w], X, axes=([0, 1], [0, 1]))
        return value, gradient


def _shrinkage(problem: Problem, blocks: Floats) -> tuple[float, Floats]:
    """``λ/2 ‖M - M0‖²`` and its gradient, from the blocks alone."""
    weight = problem.relative_weight(problem.shrinkage)
    apart = blocks.copy()
    apart[0] -= problem.scale * np.eye(problem.n_channels)
    count = toeplitz.occurrences(problem.width)[:, None, None]
    return weight / 2 * toeplitz.squared_norm(apart), weight * count * apart
