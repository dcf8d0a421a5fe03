"""Expected alignment (Che et al. 2017): series compared along random paths instead of the best.

A *path* of length L through a series of w steps begins at the first step, ends at the last, and
goes on by one step or stays, ``0 = p_1 ≤ … ≤ p_L = w − 1``. A draw is a length L, the same for all
series, and for each series one of its ``C(L−1, w−1)`` paths, all equally likely. The squared
distance of two series is the mean over draws of

    (1/L) Σ_l ‖f(x_{p_l}) − f(y_{q_l})‖²        p the path of x, q the path of y

While a series keeps its paths, this is the squared Euclidean distance of the aligned series, so
its root is a pseudo-metric. Its expectation needs no draws: a step a of x meets a step b of y with
a probability that only w decides (`meeting_weights`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from .lanes import FloatArray, IntArray


class Draws(NamedTuple):
    """Paths of n series.

    Attributes
    ----------
    steps : array of shape (n, n_draws, 2w - 1)
        The path of each series in each draw; what is behind its length has weight 0.
    weights : array of shape (n_draws, 2w - 1)
        ``1 / (n_draws L)`` along a path, so that a distance is a weighted sum.
    """

    steps: IntArray
    weights: FloatArray


def draw_paths(n: int, width: int, n_draws: int, rng: np.random.RandomState) -> Draws:
    """Paths for n series of ``width`` steps, each its own; all lengths from w to 2w − 1 as likely.

    These are the lengths that an alignment of two such series has in dynamic time warping.
    """
    longest = 2 * width - 1
    lengths = rng.randint(width, longest + 1, size=n_draws)
    weights = (np.arange(longest) < lengths[:, None]) / (n_draws * lengths[:, None])
    # Which w − 1 of the L − 1 moves go on: those with the smallest of as many random numbers.
    keys = rng.random_sample((n, n_draws, longest - 1))
    keys[:, np.arange(longest - 1) >= lengths[:, None] - 1] = np.inf
    goes_on = np.zeros(keys.shape, dtype=bool)
    if width > 1:
        chosen = np.argpartition(keys, width - 2, axis=2)[:, :, : width - 1]
        np.put_along_axis(goes_on, chosen, True, axis=2)
    steps = np.zeros((n, n_draws, longest), dtype=np.int64)
    np.cumsum(goes_on, axis=2, out=steps[:, :, 1:])
    return Draws(steps, weights)


def step_probabilities(width: int, length: int) -> FloatArray:
    """How likely a path of this length is at each step in each of its places, (length, width).

    After l of L − 1 moves, w − 1 of which go on, it has gone on a times: hypergeometric.
    """
    place, step = np.arange(length)[:, None], np.arange(width)[None, :]
    logs = (
        _log_choose(place, step)
        + _log_choose(length - 1 - place, width - 1 - step)
        - _log_choose(np.array(length - 1), np.array(width - 1))
    )
    probabilities: FloatArray = np.exp(logs)
    return probabilities


def _log_choose(n: IntArray, k: IntArray) -> FloatArray:
    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 0), np.where(possible, k, 0)
    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.where(possible, logs, -np.inf)


def meeting_weights(width: int) -> FloatArray:
    """The expected weight W of each pair of steps, shape (w, w), symmetric, adding up to 1.

    W is positive semidefinite, and each row adds up to 1/w: no step counts more than another.

    Examples
    --------
    >>> meeting_weights(2).round(3).tolist()
    [[0.458, 0.042], [0.042, 0.458]]
    """
    total = np.zeros((width, width))
    for length in range(width, 2 * width):
        at = step_probabilities(width, length)
        total += at.T @ at / length
    return total / width


def meeting_root(width: int) -> FloatArray:
    """B with ``W = BᵀB``, shape (w, w)."""
    values, vectors = np.linalg.eigh(meeting_weights(width))
    root: FloatArray = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return root


def drawn_distances(F: FloatArray, G: FloatArray, of_F: Draws, of_G: Draws) -> FloatArray:
    """Distances along given paths, of series (n, w, k) and (m, w, k), as (n, m).

    The two draws must be of the same lengths: rows of one ``draw_paths``.
    """
    return _root(_between(_aligned(F, of_F), _aligned(G, of_G)))


def _aligned(F: FloatArray, draws: Draws) -> FloatArray:
    """The series along their paths, weighted and flat."""
    rows = np.arange(len(F))[:, None, None]
    along = F[rows, draws.steps] * np.sqrt(draws.weights)[None, :, :, None]
    return along.reshape(len(F), -1)


class ExpectedAlignment:
    """The expectation over all draws, for series of ``width`` steps.

    With ``W = BᵀB`` it is ``‖BF − BG‖² + s(F) + s(G)``: the distance of the expected aligned
    series, and for each series what its own paths scatter around that,
    ``s(F) = Σ_a ‖F_a‖²/w − ‖BF‖²``. So it is a metric too: the scatter of a series is a direction
    of its own, at a right angle to everything else.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.root = meeting_root(width)

    def centres(self, F: FloatArray) -> FloatArray:
        """The expected aligned series ``BF``, flat, shape (n, w*k)."""
        return np.einsum("ab,nbk->nak", self.root, F).reshape(len(F), -1)

    def scatters(self, F: FloatArray, centres: FloatArray) -> FloatArray:
        """``s(F)`` for each series, shape (n,)."""
        own = np.einsum("nak,nak->n", F, F) / self.width - np.einsum("nc,nc->n", centres, centres)
        return np.maximum(own, 0.0)

    def distances(self, F: FloatArray, G: FloatArray) -> FloatArray:
        """Of every series (n, w, k) to every other one (m, w, k), shape (n, m)."""
        a, b = self.centres(F), self.centres(G)
        return _root(_between(a, b) + self.scatters(F, a)[:, None] + self.scatters(G, b)[None, :])


def _between(a: FloatArray, b: FloatArray) -> FloatArray:
    """Squared Euclidean distances by differences: an expanded square would lose small ones."""
    out = np.empty((len(a), len(b)))
    for i, row in enumerate(a):
        apart = b - row
        out[i] = np.einsum("mc,mc->m", apart, apart)
    return out


def _root(squared: FloatArray) -> FloatArray:
    roots: FloatArray = np.sqrt(squared)
    return roots
