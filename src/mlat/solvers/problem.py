"""What every solver is given: windows, states, targets and the weights of the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..margin import LargeMarginLoss

Floats = NDArray[np.float64]
Record = dict[str, float]
Listener = Callable[[Record], Any]

# The margin is 1, so the start fixes what a margin means. Scaled to this mean target distance the
# loss starts with neither no impostors nor nearly all windows as impostors.
TARGET_DISTANCE = 4.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A large-margin problem over windows.

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
    """

    X: Floats
    codes: NDArray[np.int64]
    targets: NDArray[np.int64]
    start: NDArray[np.int64]
    run: NDArray[np.int64]
    push_weight: float = 0.5
    shrinkage: float = 0.0

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
        return LargeMarginLoss(self.codes, self.targets, self.push_weight)

    @cached_property
    def scale(self) -> float:
        """The s of ``M0 = s·I``, at which the mean target distance is ``TARGET_DISTANCE``."""
        total, count = 0.0, 0
        for column in self.targets.T:
            rows = np.flatnonzero(column >= 0)
            apart = self.flat[rows] - self.flat[column[rows]]
            total += float((apart**2).sum())
            count += len(rows)
        # Identical targets (a constant stream) give no scale: any will do.
        return TARGET_DISTANCE * count / total if total > 0 else 1.0

    @cached_property
    def initial_loss(self) -> float:
        """``E(M0)``."""
        return self.margin_loss()(np.sqrt(self.scale) * self.flat)[0]

    def relative_weight(self, weight: float) -> float:
        """``weight · 2E(M0)/‖M0‖²``: a quadratic penalty that means the same on every data set."""
        size = self.width * self.n_channels
        return weight * 2 * self.initial_loss / (self.scale**2 * size)
