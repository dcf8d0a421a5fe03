"""Solver ``filter``: a metric that is block Toeplitz and positive semidefinite by construction.

Let ``H`` be q filter taps of shape r × d and L the full convolution of a window with them. Then
``M = LᵀL`` is block Toeplitz (Definition 5) with blocks ``A(m) = Σ_p H(p)ᵀ H(p+m)``, and PSD as a
Gram matrix. Both constraints of Eq. 6 hold for any taps, so the loss is minimised over the taps by
L-BFGS, and no ADMM is needed.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..base.checks import Floats
from . import toeplitz
from .problem import Listener, MarginProblem, Solution, descend, relative_weight

MORE_TAPS = 10  # so many taps beyond the width are worth their time


def solve_filter(
    problem: MarginProblem,
    *,
    n_taps: int | None = None,
    n_filters: int | None = None,
    max_iter: int,
    tol: float,
    init: Floats | None = None,
    random_state: int | np.random.RandomState | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Minimise the loss over the taps, from the scaled identity or from ``init`` (q, r, d)."""
    w, d = problem.width, problem.n_channels
    taps = (
        initial_taps(problem, n_taps or default_taps(w), n_filters or d, random_state)
        if init is None
        else init
    )
    loss = problem.filter_loss()

    def objective(H: Floats) -> tuple[float, Floats]:
        value, gradient = loss(H)
        if problem.shrinkage:
            penalty, in_blocks = shrinkage_of_blocks(problem, toeplitz.autocorrelation(H, w))
            value += penalty
            gradient = gradient + toeplitz.autocorrelation_gradient(H, in_blocks)
        return value, gradient

    return descend(objective, loss, taps, max_iter=max_iter, tol=tol, listener=listener)


def default_taps(width: int) -> int:
    """Twice the width reaches nearly every PSD Toeplitz metric; for long windows, ten more taps."""
    return width + min(width, MORE_TAPS)


def initial_taps(
    problem: MarginProblem,
    n_taps: int,
    n_filters: int,
    random_state: int | np.random.RandomState | None = None,
) -> Floats:
    """The scaled identity as taps: the identity at lag 0, the others 0.

    Fewer filters than channels begin with the leading principal directions of the steps.
    Additional filters begin small and random, since equal ones would stay equal.
    """
    d = problem.n_channels
    H = np.zeros((n_taps, n_filters, d))
    if n_filters >= d:
        H[0, :d] = np.eye(d)
        if n_filters > d:
            rng = check_random_state(random_state)
            H[:, d:] = 0.01 * rng.normal(size=(n_taps, n_filters - d, d))
    else:
        H[0] = np.linalg.svd(problem.step_moments)[2][:n_filters]
    return np.sqrt(problem.scale) * H


def shrinkage_of_blocks(problem: MarginProblem, blocks: Floats) -> tuple[float, Floats]:
    """``λ/2 ‖M - M0‖²`` and its gradient, from the blocks alone."""
    weight = relative_weight(problem, problem.shrinkage)
    apart = blocks.copy()
    apart[0] -= problem.scale * np.eye(problem.n_channels)
    count = toeplitz.occurrences(problem.width)[:, None, None]
    return weight / 2 * toeplitz.squared_norm(apart), weight * count * apart
