"""The large-margin problem that every solver is given: windows, states, targets and weights.

A solver sees a :class:`MarginProblem`: the loss ``E`` (Eq. 2) as a function of a linear map L
(``linear_loss``) or of filter taps H (``filter_loss``), and the scale to start from. The filter
loss is summed in one of two ways, whichever is cheaper: along the diagonals of all pairs of windows
(:mod:`mlat.metric.toeplitz_loss`), or through the embedding (:mod:`mlat.metric.loss`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.checks import Floats, Ints
from ..stream.windows import unfold
from . import toeplitz
from .loss import LargeMarginLoss, LinearLoss, LossPart
from .toeplitz_loss import ToeplitzLoss, correlations

Loss = Callable[[Floats], tuple[float, Floats]]
Record = dict[str, float]
Listener = Callable[[Record], Any]

# The margin is 1, so the start fixes what a margin means. Scaled to this mean target distance the
# loss starts with some impostors, and not with nearly all windows as impostors.
TARGET_DISTANCE = 4.0
# Running sums along diagonals cost about 8d products a pair of windows, convolving the windows
# w·q·r·d a window. This ratio of the two lies between two problems that were timed: at 0.02
# (n=3500, d=3, w=10) convolving is the faster way, at 0.27 (n=2500, d=27, w=10) the other.
CONVOLVE_BELOW = 0.1
# Segments shorter than this are not worth the bookkeeping of the running sums.
MIN_SEGMENT = 32


@dataclass(frozen=True, kw_only=True)
class Solution:
    """How a solver ended: the loss E, a record of each iteration, and why it stopped."""

    loss: float
    history: list[Record]
    n_iter: int
    converged: bool
    message: str


class MarginProblem(ABC):
    """A large-margin problem as the solvers see it, wherever its windows are.

    Attributes
    ----------
    shrinkage : float
        Weight of ``½‖M - M0‖²`` towards the scaled identity M0, relative to the loss: see
        ``relative_weight``.
    scale : float
        The s of ``M0 = s·I``, at which the mean target distance is ``TARGET_DISTANCE``.
    initial_loss : float
        ``E(M0)``.
    step_moments : array of shape (d, d)
        ``Σ x xᵀ`` over the steps x of all windows, centred.
    """

    shrinkage: float

    @property
    @abstractmethod
    def width(self) -> int: ...

    @property
    @abstractmethod
    def n_channels(self) -> int: ...

    @property
    @abstractmethod
    def scale(self) -> float: ...

    @property
    @abstractmethod
    def initial_loss(self) -> float: ...

    @property
    @abstractmethod
    def step_moments(self) -> Floats: ...

    @abstractmethod
    def linear_loss(self) -> Loss:
        """``E(LᵀL)`` and its gradient as a function of L (r, w*d)."""

    @abstractmethod
    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        """``E`` and its gradient as a function of the taps H (q, r, d)."""

    def relative_weight(self, weight: float) -> float:
        """``weight · 2E(M0)/‖M0‖²``: a quadratic penalty that means the same on every data set."""
        size = self.width * self.n_channels
        return weight * 2 * self.initial_loss / (self.scale**2 * size)


def scale_for(total: float, count: int) -> float:
    """The scale for ``count`` target distances whose sum is ``total``."""
    # Identical targets (a constant stream) give no scale: any will do.
    return TARGET_DISTANCE * count / total if total > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Problem(MarginProblem):
    """A large-margin problem over windows in memory.

    Parameters
    ----------
    X : array of shape (n, w, d)
        Windows; the loss depends on their differences alone.
    codes : array of shape (n,)
        States as indices from 0.
    targets : array of shape (n, k)
        From :func:`mlat.metric.targets.select_targets`.
    start, run : arrays of shape (n,)
        The step each window begins at, and its run.
    push_weight : float
        The paper's c.
    shrinkage : float
        As in :class:`MarginProblem`.
    part : LossPart, optional
        Which part of the loss to sum, where the rest is summed elsewhere.
    """

    X: Floats
    codes: Ints
    targets: Ints
    start: Ints
    run: Ints
    push_weight: float = 0.5
    shrinkage: float = 0.0
    part: LossPart | None = None

    @property
    def width(self) -> int:
        return self.X.shape[1]

    @property
    def n_channels(self) -> int:
        return self.X.shape[2]

    @cached_property
    def flat(self) -> Floats:
        """The windows as (n, w*d), centred: smaller numbers, smaller rounding errors."""
        flat = self.X.reshape(len(self.X), -1)
        return flat - flat.mean(axis=0)

    def margin_loss(self) -> LargeMarginLoss:
        return LargeMarginLoss(self.codes, self.targets, self.push_weight, self.part)

    def linear_loss(self) -> Loss:
        return LinearLoss(self.flat, self.margin_loss())

    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        return filter_loss(self, n_taps, n_filters)

    def target_spread(self) -> tuple[float, int]:
        """The sum of the squared Euclidean distances to all targets, and their number."""
        total, count = 0.0, 0
        pulled = True if self.part is None else self.part.pulled
        for column in self.targets.T:
            rows = np.flatnonzero((column >= 0) & pulled)
            apart = self.flat[rows] - self.flat[column[rows]]
            total += float((apart**2).sum())
            count += len(rows)
        return total, count

    def loss_at_identity(self, scale: float) -> float:
        """``E(s·I)``."""
        return self.margin_loss()(np.sqrt(scale) * self.flat)[0]

    @cached_property
    def scale(self) -> float:
        return scale_for(*self.target_spread())

    @cached_property
    def initial_loss(self) -> float:
        return self.loss_at_identity(self.scale)

    @property
    def step_moments(self) -> Floats:
        steps = self.flat.reshape(-1, self.n_channels)
        return steps.T @ steps


# The loss as a function of filter taps, in the two ways it can be summed.


def filter_loss(problem: Problem, n_taps: int, n_filters: int) -> Loss:
    """``E`` and ``dE/dH`` as a function of the taps, by the cheaper way."""
    n, w = problem.X.shape[:2]
    segments = segments_of(problem)
    overlap = n >= MIN_SEGMENT * len(segments)
    if overlap and w * n_taps * n_filters > 4 * CONVOLVE_BELOW * n:
        return DiagonalLoss(problem, segments)
    return ConvolutionLoss(problem)


def segments_of(problem: Problem) -> list[tuple[Ints, Floats]]:
    """Rows and steps of the segments of stream the windows came from, each within one cell."""
    run = problem.run
    if problem.part is not None:
        run = np.unique(np.stack([run, problem.part.cell]), axis=1, return_inverse=True)[1]
    return unfold(problem.X, problem.start, run)


class DiagonalLoss:
    """By :mod:`mlat.metric.toeplitz_loss`: the cost does not grow with the width."""

    def __init__(self, problem: Problem, segments: list[tuple[Ints, Floats]]) -> None:
        order = np.concatenate([rows for rows, _ in segments])
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        targets = problem.targets[order]
        mean = problem.X.mean(axis=(0, 1))
        self.width = problem.width
        self.margin = ToeplitzLoss(
            [steps - mean for _, steps in segments],
            np.array([problem.codes[rows[0]] for rows, _ in segments]),
            np.where(targets >= 0, rank[targets], -1),
            problem.width,
            problem.push_weight,
            None if problem.part is None else problem.part.take(order),
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
        n, w, d = self.X.shape
        pulled = self.margin.pull_force(self.X.reshape(n, w * d)).reshape(n, w, d)
        self.pull = correlations(pulled, self.X, w) + correlations(self.X, pulled, w)
        self.pull[0] /= 2

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        n, w, _ = self.X.shape
        q, r, _ = H.shape
        Z = toeplitz.convolve(H, self.X)
        pushed, rows, force = self.margin.push(Z.reshape(n, -1))
        blocks = toeplitz.autocorrelation(H, w)
        value = pushed + float(np.vdot(self.pull, blocks))
        gradient = toeplitz.autocorrelation_gradient(H, self.pull)
        force = force.reshape(len(rows), w + q - 1, r)
        return value, gradient + 2 * toeplitz.convolution_gradient(force, self.X[rows], q)
