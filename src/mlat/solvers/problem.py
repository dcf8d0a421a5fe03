"""What every solver is given: windows, states, targets and the weights of the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..margin import LargeMarginLoss
from ..shares import Share
from .filter_losses import blocks_loss
from .linear_loss import LinearLoss

Floats = NDArray[np.float64]
Loss = Callable[[Floats], tuple[float, Floats]]
Record = dict[str, float]
Listener = Callable[[Record], Any]

# The margin is 1, so the start fixes what a margin means. Scaled to this mean target distance the
# loss starts with neither no impostors nor nearly all windows as impostors.
TARGET_DISTANCE = 4.0


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
    """The scale for ``count`` target distances that are ``total`` together."""
    # Identical targets (a constant stream) give no scale: any will do.
    return TARGET_DISTANCE * count / total if total > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Problem(MarginProblem):
    """A large-margin problem over windows that are here.

    Parameters
    ----------
    X : array of shape (n, w, d)
        Windows; the loss depends on their differences alone.
    codes : array of shape (n,)
        States as indices from 0.
    targets : array of shape (n, k)
        From :func:`mlat.targets.select_targets`.
    start, run : arrays of shape (n,)
        When each window begins, and in which run.
    push_weight : float
        The paper's c.
    shrinkage : float
        Weight of ``½‖M - M0‖²`` towards the scaled identity M0, relative to the loss: see
        ``relative_weight``.
    share : Share, optional
        Which part of the loss to sum, where the rest is summed elsewhere.
    """

    X: Floats
    codes: NDArray[np.int64]
    targets: NDArray[np.int64]
    start: NDArray[np.int64]
    run: NDArray[np.int64]
    push_weight: float = 0.5
    shrinkage: float = 0.0
    share: Share | None = None

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
        return LargeMarginLoss(self.codes, self.targets, self.push_weight, self.share)

    def linear_loss(self) -> Loss:
        return LinearLoss(self.flat, self.margin_loss())

    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        return blocks_loss(self, n_taps, n_filters)

    def target_spread(self) -> tuple[float, int]:
        """The squared Euclidean distances of all targets together, and their number."""
        total, count = 0.0, 0
        pulled = True if self.share is None else self.share.pulled
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
