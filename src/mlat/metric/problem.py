"""The large-margin problem that every solver is given: windows, states, targets and weights.

A solver sees a :class:`Problem`: the loss ``E`` (Eq. 2) as a function of a linear map L
(``linear_loss``) or of filter taps H (``filter_loss``), and the scale to start from. Windows are
the steps of runs and where windows begin in them; they are laid out one by one only where a matrix
product needs them so. Windows that overlap need it not: their filter loss is summed along the runs
(:class:`mlat.metric.loss.ToeplitzLoss`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular

from ..base.checks import Floats, Ints
from ..base.fixed_order import exponent_of
from ..stream.windows import Windows, windows_per_step
from . import toeplitz
from .loss import LargeMarginLoss, LinearLoss, ToeplitzLoss, pull
from .toeplitz import correlations

Loss = Callable[[Floats], tuple[float, Floats]]

# The margin is 1, so the start fixes what a margin means. Scaled to this mean target distance the
# loss starts with some impostors, and not with nearly all windows as impostors.
TARGET_DISTANCE = 4.0
# Segments shorter than this are not worth the bookkeeping of the running sums.
MIN_SEGMENT = 32
BLOCK = 512  # windows laid out at a time
VALUES = 2**24  # of parts of all windows that are laid out at a time
NEARLY_SINGULAR = 1e-6  # the least part of Cholesky's diagonal in its largest
# A constant channel this many powers of two above all differences is left out: what its rounding
# leaves would be seen beside them.
CONSTANT = 30
ALL = slice(None)


def relative_weight(problem: Problem, weight: float) -> float:
    """``weight · 2E(M0)/‖M0‖²``: a quadratic penalty that means the same on every data set."""
    size = problem.width * problem.n_channels
    return weight * 2 * problem.initial_loss / (problem.scale**2 * size)


def scale_for(total: float, count: int) -> float:
    """The scale for ``count`` target distances whose sum is ``total``."""
    # Identical targets (a constant stream) give no scale: any will do.
    return TARGET_DISTANCE * count / total if total > 0 else 1.0


@dataclass(eq=False)
class Problem:
    """A large-margin problem over windows in memory.

    A subclass sums the loss otherwise: over a working set, or on a device.

    Parameters
    ----------
    windows : Windows
        Their states ``y`` are indices from 0. The loss depends on differences of windows alone.
    targets : array of shape (n, k)
        From :func:`mlat.metric.targets.select_targets`.
    push_weight : float
        The paper's c.
    shrinkage : float
        Weight of ``½‖M - M0‖²`` towards the scaled identity M0, relative to the loss: see
        :func:`relative_weight`.

    Attributes
    ----------
    width, n_channels : int
    scale : float
        The s of ``M0 = s·I``, at which the mean target distance is ``TARGET_DISTANCE``.
    initial_loss : float
        ``E(M0)``.
    """

    windows: Windows
    targets: Ints
    push_weight: float = 0.5
    shrinkage: float = 0.0

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def width(self) -> int:
        return self.windows.width

    @property
    def n_channels(self) -> int:
        return self.windows.values.shape[1]

    @property
    def codes(self) -> Ints:
        return self.windows.y

    @cached_property
    def steps(self) -> Floats:
        """The steps (T, d), centred: smaller numbers, smaller rounding errors."""
        return self.windows.values - self.windows.values.mean(axis=0)

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return self.steps.astype(np.float32)

    def flat(self, rows: Ints | slice = ALL, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Some windows of the centred steps laid out, shape (m, w*d)."""
        return self._laid_out(self.windows.start[rows], self.width, dtype)

    def _laid_out(self, start: Ints, width: int, dtype: DTypeLike) -> NDArray[Any]:
        steps = self._single if dtype == np.float32 else self.steps
        d = self.n_channels
        every = sliding_window_view(steps.reshape(-1), width * d)[::d]
        return every[start]

    def margin_loss(self) -> LargeMarginLoss:
        return LargeMarginLoss(self.codes, self.targets, self.push_weight)

    def linear_loss(self) -> Loss:
        """``E(LᵀL)`` and its gradient as a function of L (r, w*d)."""
        return self._linear_loss

    def filter_loss(self) -> Loss:
        """``E`` and its gradient as a function of the taps H (q, r, d)."""
        return self._filter_loss

    @cached_property
    def _linear_loss(self) -> LinearLoss:
        margin = self.margin_loss()
        pull = (1 - self.push_weight) * self.spread()
        return LinearLoss(self.flat(margin.order), margin, pull)

    @cached_property
    def _filter_loss(self) -> Loss:
        segments = self.segments()
        if len(self) >= MIN_SEGMENT * len(segments):
            return DiagonalLoss(self, segments)
        if self.width * self.n_channels <= len(self):
            return FilterLoss(self.linear_loss(), self.width)
        return ConvolutionLoss(self)

    def segments(self) -> list[Ints]:
        """The windows of which each begins one step after the one before, in the same state."""
        order = np.argsort(self.windows.start, kind="stable")
        before, after = order[:-1], order[1:]
        follows = self.windows.start[after] == self.windows.start[before] + 1
        follows &= self.codes[after] == self.codes[before]
        return np.split(order, np.flatnonzero(~follows) + 1)

    def spread(self, dtype: DTypeLike = np.float64) -> Floats:
        """``Σ (x_i - x_j)(x_i - x_j)ᵀ / n`` over all targets j of all windows i, (w*d, w*d)."""
        n, w, d = len(self), self.width, self.n_channels
        weights = np.full(self.targets.shape, 1 / n)
        total = np.zeros((w * d, w * d))
        some = max(1, VALUES // (n * d))
        for first in range(0, w, some):
            last = min(first + some, w)
            X = self._laid_out(self.windows.start + first, last - first, dtype)
            force = np.zeros_like(X)
            pull(X, self.targets, weights, force)
            for begin in range(0, n, BLOCK):
                rows = slice(begin, begin + BLOCK)
                total[:, first * d : last * d] += self.flat(rows, dtype).T @ force[rows]
        return (total + total.T) / 2

    def target_spread(self) -> tuple[float, int]:
        """The sum of the squared Euclidean distances to all targets, and their number."""
        total, count = 0.0, 0
        for column in self.targets.T:
            there = np.flatnonzero(column >= 0)
            count += len(there)
            for begin in range(0, len(there), BLOCK):
                rows = there[begin : begin + BLOCK]
                total += float(((self.flat(rows) - self.flat(column[rows])) ** 2).sum())
        return total, count

    @cached_property
    def scale(self) -> float:
        return scale_for(*self.target_spread())

    @cached_property
    def initial_loss(self) -> float:
        tap = np.sqrt(self.scale) * np.eye(self.n_channels)  # E(s·I) is that of one tap
        return self.filter_loss()(tap[None])[0]

    @property
    def step_moments(self) -> Floats:
        """``Σ x xᵀ`` over the steps x of all windows, centred; (d, d)."""
        often, values = windows_per_step(self.windows)[:, None], self.windows.values
        steps = values - (often * values).sum(axis=0) / often.sum()
        return (often * steps).T @ steps


# The loss as a function of filter taps, in the ways it can be summed.


class DiagonalLoss:
    """By :class:`mlat.metric.loss.ToeplitzLoss`: the cost does not grow with the width."""

    def __init__(self, problem: Problem, segments: list[Ints]) -> None:
        order = np.concatenate(segments)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        targets, start, w = problem.targets[order], problem.windows.start, problem.width
        self.width = w
        self.margin = ToeplitzLoss(
            [problem.steps[start[rows[0]] : start[rows[-1]] + w] for rows in segments],
            np.array([problem.codes[rows[0]] for rows in segments]),
            np.where(targets >= 0, rank[targets], -1),
            w,
            problem.push_weight,
        )

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        value, in_blocks = self.margin(toeplitz.autocorrelation(H, self.width))
        return value, toeplitz.autocorrelation_gradient(H, in_blocks)


class ConvolutionLoss:
    """Through the embedding itself, for windows of more values than there are windows."""

    def __init__(self, problem: Problem) -> None:
        self.margin, self.width = problem.margin_loss(), problem.width
        flat = problem.flat(self.margin.order)
        self.X = X = flat.reshape(len(flat), self.width, problem.n_channels)
        # The pull is linear in M, and so in the blocks: Σ_m <pull(m), A(m)>.
        pulled = self.margin.pull_force(flat).reshape(X.shape)
        self.pull = correlations(pulled, X, self.width) + correlations(X, pulled, self.width)
        self.pull[0] /= 2

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        n = len(self.X)
        pushed = self.margin.push(toeplitz.convolve(H, self.X).reshape(n, -1))
        rows = np.flatnonzero(pushed.force.any(axis=1))
        in_T = pushed.force[rows].T @ self.X.reshape(n, -1)[rows]
        value = float(np.vdot(self.pull, toeplitz.autocorrelation(H, self.width)))
        gradient = toeplitz.autocorrelation_gradient(H, self.pull)
        gradient += 2 * toeplitz.convolution_matrix_gradient(in_T, H.shape, self.width)
        return pushed.value + value, gradient


class FilterLoss:
    """From the loss as a function of a linear map, for windows that do not overlap.

    Any R with ``RᵀR = M`` gives the distances of the convolution T with H, and has w*d rows where T
    has (w+q-1)r. ``dE/dT = Q dE/dR`` with ``T = QR``; for the R of Cholesky, which is much sooner
    found, ``Q = T R⁻¹``.
    """

    def __init__(self, loss: Loss, width: int) -> None:
        self.loss, self.width = loss, width

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        T = toeplitz.convolution_matrix(H, self.width)
        R = _cholesky(toeplitz.to_matrix(toeplitz.autocorrelation(H, self.width)))
        if R is None:
            Q, R = np.linalg.qr(T)
            value, in_R = self.loss(R)
            in_T = Q @ in_R
        else:
            value, in_R = self.loss(R)
            in_T = T @ solve_triangular(R, in_R)
        return value, toeplitz.convolution_matrix_gradient(in_T, H.shape, self.width)


def _cholesky(M: Floats) -> Floats | None:
    """The upper R with ``RᵀR = M``, or None for an M that is singular or nearly so."""
    try:
        R: Floats = np.linalg.cholesky(M).astype(np.float64, copy=False).T
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diagonal(R)
    return R if diagonal.min() > NEARLY_SINGULAR * diagonal.max() else None


@dataclass(frozen=True, eq=False)
class Unit:
    """The unit in which windows are measured before a metric is learned from them.

    It is a power of two. Dividing by it changes no digit, so windows in any unit give the same
    metric, to the last bit, and neither overflow nor vanish when they are squared.

    Attributes
    ----------
    exponent : int
    offset : array of shape (d,)
        What is subtracted from each channel first.
    """

    exponent: int
    offset: Floats

    @classmethod
    def of(cls, low: Floats, high: Floats) -> Unit:
        """The power of two above the largest range of a channel, for channels from low to high.

        The loss depends on differences alone.
        """
        half_range = high / 2 - low / 2  # a range may overflow
        if not half_range.any():
            return cls(0, low)
        exponent = exponent_of(half_range) + 1
        towers = (half_range == 0) & (np.frexp(low)[1] > exponent + CONSTANT)
        return cls(exponent, np.where(towers, low, 0.0))

    def __call__(self, values: Floats) -> Floats:
        """Values (..., d) in this unit."""
        if self.offset.any():
            values = values - self.offset
        return np.ldexp(values, -self.exponent) if self.exponent else values
