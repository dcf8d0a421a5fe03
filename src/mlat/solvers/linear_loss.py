"""The loss as a function of any linear map of the windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..margin import LargeMarginLoss

Floats = NDArray[np.float64]


class LinearLoss:
    """``E(LᵀL)`` and its gradient in L, for windows ``flat`` of shape (n, w*d).

    The pull towards targets is a fixed quadratic form ``tr(L C Lᵀ)``; only the push depends on
    which margins are violated, and its gradient only on the windows that violate them.
    """

    def __init__(self, flat: Floats, margin: LargeMarginLoss) -> None:
        self.flat, self.margin = flat, margin
        self.pull = margin.pull_matrix(flat)

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        pushed, rows, force = self.margin.push(self.flat @ L.T)
        pulled = L @ self.pull
        value = pushed + float(np.vdot(pulled, L))
        return value, 2 * (pulled + force.T @ self.flat[rows])
