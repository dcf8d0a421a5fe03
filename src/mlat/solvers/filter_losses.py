"""The loss as a function of filter taps, in the two ways that it can be summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import lags, toeplitz
from ..diagonals import DiagonalMarginLoss
from ..folding import unfold

if TYPE_CHECKING:
    from .problem import Problem

Floats = NDArray[np.float64]

# Running sums along diagonals cost about 8d products a pair of windows, convolving the windows
# w·q·r·d a window. This ratio of the two lies between two problems that were timed: at 0.02
# (n=3500, d=3, w=10) convolving is the faster way, at 0.27 (n=2500, d=27, w=10) the other.
CONVOLVE_BELOW = 0.1
# Shorter stretches than this are not worth the bookkeeping of the running sums.
MIN_STRETCH = 32


def blocks_loss(
    problem: Problem, n_taps: int, n_filters: int
) -> Callable[[Floats], tuple[float, Floats]]:
    """``E`` and ``dE/dH`` as a function of the taps, by whichever way is the cheaper one."""
    n, w = problem.X.shape[:2]
    stretches = stretches_of(problem)
    overlap = n >= MIN_STRETCH * len(stretches)
    if overlap and w * n_taps * n_filters > 4 * CONVOLVE_BELOW * n:
        return DiagonalLoss(problem, stretches)
    return ConvolutionLoss(problem)


def stretches_of(problem: Problem) -> list[tuple[np.ndarray, Floats]]:
    """The rows and the steps of the stretches the windows came from, each within one cell."""
    run = problem.run
    if problem.share is not None:
        run = np.unique(np.stack([run, problem.share.cell]), axis=1, return_inverse=True)[1]
    return unfold(problem.X, problem.start, run)


class DiagonalLoss:
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
            None if problem.share is None else problem.share.take(order),
        )

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        value, in_blocks = self.margin(toeplitz.autocorrelation(H, self.width))
        return value, toeplitz.autocorrelation_gradient(H, in_blocks)


class ConvolutionLoss:
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
