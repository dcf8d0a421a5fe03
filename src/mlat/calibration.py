"""How sure a prediction is: from distances to probabilities that come true as often as they say.

The probability of a state falls with a power of the distance to its nearest reference,

    p_c ∝ (d_c + soft · typical)^(-β),

which depends on the ratios of distances alone once they are large: a window that is far from every
reference is not sure of any state. The small constant keeps equal references (d = 0) from being
certain. β is fitted on left-out training windows. Averaged over a synthetic stream and held-out
windows of the development persons the log loss was less than with exp(-β d_c), exp(-β d_c²) or
exp(-β d_c/d_min): mostly by SCMA, where new windows are far from all references. On Vicon, and in
the calibration error, exp(-β d_c) was a little better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SOFT = 0.3
# Platt's correction: as if there were this many more blocks, of each state alike. Without it β has
# no bound where every left-out window is right, and a metric learned on these very windows makes
# them look better separated than new ones are.
PRIOR_BLOCKS = 2.0
LOG_BETA = (-4.0, 6.0)  # hardly a preference, to all but certainty


@dataclass(frozen=True)
class Calibration:
    """Probabilities from the distances to the nearest reference of each state.

    Attributes
    ----------
    beta : float
        How fast the probability falls with the distance.
    typical : float
        The median distance to the nearest reference.
    """

    beta: float
    typical: float

    def proba(self, nearest: Floats) -> Floats:
        """The probability of each state, shape (T, S); NaN where there are no distances.

        No state is more probable than that of the nearest reference; states equally near are
        equally probable.
        """
        nearest = np.asarray(nearest, dtype=np.float64)
        result = np.full(nearest.shape, np.nan)
        known = ~np.isnan(nearest).any(axis=1) & np.isfinite(nearest).any(axis=1)
        weights = np.exp(-self.beta * _excess(nearest[known], self.typical))
        result[known] = weights / weights.sum(axis=1, keepdims=True)
        return result


def fit_calibration(nearest: Floats, codes: Ints, blocks: Ints | None = None) -> Calibration:
    """Fit β by the least log loss on left-out training windows.

    Parameters
    ----------
    nearest : array of shape (n, S)
        The distance to the nearest reference of each state, the window's own time left out (see
        :mod:`mlat.left_out`). Rows with a NaN, or without a reference of the own state, are
        passed over.
    codes : array of shape (n,)
        The state of each window.
    blocks : array of shape (n,), optional
        Windows of one block are near-copies and count as one observation against the prior.
        Default each window for itself.

    Returns
    -------
    Calibration

    Notes
    -----
    β is only as good as the left-out windows are like new ones. Where all the training windows of
    a state are of one short time, or the metric could fit them all, probabilities are too sure.
    """
    nearest, codes = np.asarray(nearest, dtype=np.float64), np.asarray(codes)
    if nearest.ndim != 2 or len(codes) != len(nearest):
        raise InputError(
            f"nearest must have shape (n, S) and codes (n,), not {nearest.shape} and {codes.shape}"
        )
    own = nearest[np.arange(len(codes)), codes]
    use = np.isfinite(own) & ~np.isnan(nearest).any(axis=1)
    typical = _typical(nearest[use])
    if not use.any():  # nothing learned: the nearest, but hardly
        return Calibration(float(np.exp(LOG_BETA[0])), typical)
    n_blocks = int(use.sum()) if blocks is None else len(np.unique(blocks[use]))
    smoothing = PRIOR_BLOCKS / (n_blocks + PRIOR_BLOCKS)
    excess = _excess(nearest[use], typical)
    there = np.isfinite(excess)
    # Expected excess under the targets: the own state, and a little of every one there is.
    everywhere = np.where(there, excess, 0.0).sum(axis=1) / there.sum(axis=1)
    of_own = excess[np.arange(len(excess)), codes[use]]
    target = (1 - smoothing) * of_own + smoothing * everywhere

    def loss(log_beta: float) -> float:
        beta = np.exp(log_beta)
        return float((beta * target + np.log(np.exp(-beta * excess).sum(axis=1))).mean())

    found = minimize_scalar(loss, bounds=LOG_BETA, method="bounded", options={"xatol": 1e-4})
    return Calibration(float(np.exp(found.x)), typical)


def _excess(nearest: Floats, typical: float) -> Floats:
    """By how much the logarithm of each distance exceeds the row's least, softened near 0."""
    # In units of the typical distance, so that no scale of the data is too small or too large.
    logarithm = np.log(nearest / typical + SOFT)
    excess: Floats = logarithm - logarithm.min(axis=1, keepdims=True, initial=np.inf)
    return excess


def _typical(nearest: Floats) -> float:
    """The median least distance; of all positive distances, where most windows have an equal."""
    if len(nearest):
        least = float(np.median(nearest.min(axis=1)))
        if least > 0:
            return least
    positive = nearest[np.isfinite(nearest) & (nearest > 0)]
    return float(np.median(positive)) if len(positive) else 1.0
