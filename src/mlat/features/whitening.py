"""Whitening: a metric from how the steps of one state vary (relevant component analysis).

What varies much within a state says little about the state. Relevant component analysis
(Bar-Hillel et al. 2005) weighs differences by the inverse of the covariance C within states,
``M = C⁻¹``. Here the power is a choice: ``M = C^-power``, between the Euclidean distance (0) and
theirs (1). Half way is the more robust where C is known from few runs, because a direction that
happens to be still in them is not blown up as far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats

POWER = 0.5
SHRINKAGE = 0.1


def within_covariance(X: Floats, codes: NDArray[np.int64]) -> Floats:
    """The covariance of steps (n, d) around the mean of their state."""
    centred = X - _means(X, codes)[codes]
    covariance: Floats = centred.T @ centred / len(X)
    return covariance


def whitening(
    X: Floats, codes: NDArray[np.int64], power: float = POWER, shrinkage: float = SHRINKAGE
) -> Floats:
    """W, symmetric, with ``W² = C^-power``: Euclidean distance on ``X @ W`` is that metric.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        The state of each step, as an index from 0; every index occurs.
    shrinkage : float
        The share of the mean variance in C, so that C can be inverted however few steps there are.
    """
    C = within_covariance(X, codes)
    level = np.trace(C) / len(C)
    if level <= 0:  # nothing varies within states
        return np.eye(len(C))
    eigenvalues, vectors = np.linalg.eigh((1 - shrinkage) * C + shrinkage * level * np.eye(len(C)))
    W: Floats = (vectors * eigenvalues ** (-power / 2)) @ vectors.T
    return W


def _means(X: Floats, codes: NDArray[np.int64]) -> Floats:
    n_states = int(codes.max()) + 1
    totals = np.zeros((n_states, X.shape[1]))
    np.add.at(totals, codes, X)
    return totals / np.bincount(codes, minlength=n_states)[:, None]
