"""Whitening: a metric from the covariance within states (relevant component analysis).

A direction that varies much within a state says little about the state. Relevant component
analysis (Bar-Hillel et al. 2005) uses the metric ``M = C⁻¹``, with C the covariance within states.
Here it is ``M = C^-power``: power 0 is the Euclidean distance, 1 is relevant component analysis.
A power of 0.5 is more robust if C is estimated from few runs: a direction that happens to vary
little in them gets less weight than with power 1.
"""

from __future__ import annotations

import numpy as np

from ..base.checks import Floats, Ints

POWER = 0.5
SHRINKAGE = 0.1


def within_covariance(X: Floats, codes: Ints) -> Floats:
    """The covariance of steps (n, d) around the mean of their state."""
    centred = X - _means(X, codes)[codes]
    covariance: Floats = centred.T @ centred / len(X)
    return covariance


def whitening(X: Floats, codes: Ints, power: float = POWER, shrinkage: float = SHRINKAGE) -> Floats:
    """W, symmetric, with ``W² = C^-power``: Euclidean distance on ``X @ W`` is that metric.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        The state of each step, as an index from 0; every index occurs.
    shrinkage : float
        From 0 to 1: C is mixed with this fraction of the identity times the mean variance, so that
        it can be inverted even if there are few steps.
    """
    C = within_covariance(X, codes)
    level = np.trace(C) / len(C)
    if level <= 0:  # nothing varies within states
        return np.eye(len(C))
    eigenvalues, vectors = np.linalg.eigh((1 - shrinkage) * C + shrinkage * level * np.eye(len(C)))
    W: Floats = (vectors * eigenvalues ** (-power / 2)) @ vectors.T
    return W


def _means(X: Floats, codes: Ints) -> Floats:
    n_states = int(codes.max()) + 1
    totals = np.zeros((n_states, X.shape[1]))
    np.add.at(totals, codes, X)
    return totals / np.bincount(codes, minlength=n_states)[:, None]
