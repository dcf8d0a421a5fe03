"""Small large-margin problems for the tests of Phase II."""

from __future__ import annotations

import numpy as np

from mlat.metric import Problem, toeplitz
from mlat.metric.targets import select_targets
from mlat.stream.windows import Windows


def random_problem(
    seed=0, lengths=(15, 9, 22, 18, 12), codes=(0, 1, 0, 1, 2), width=4, d=3, k=2, gap=0, **weights
):
    """Overlapping windows of random runs, and their targets."""
    rng = np.random.default_rng(seed)
    runs = [rng.normal(size=(length, d)) + rng.normal(size=d) for length in lengths]
    windows = [
        np.lib.stride_tricks.sliding_window_view(r, width, axis=0).transpose(0, 2, 1) for r in runs
    ]
    sizes = [len(w) for w in windows]
    code = np.repeat(codes, sizes)
    run = np.repeat(np.arange(len(runs)), sizes)
    start = np.concatenate([100 * i + np.arange(s) for i, s in enumerate(sizes)])
    joined = Windows.of_array(np.concatenate(windows), code, start, run)
    return Problem(joined, select_targets(joined, k, gap=gap, start=start), **weights)


def loss_of(problem, M):
    """The loss of a problem at a given matrix."""
    root = np.linalg.cholesky(M + 1e-10 * np.trace(M) / len(M) * np.eye(len(M)))
    return problem.margin_loss()(problem.flat() @ root)[0]


def central_differences(fun, x, step=1e-6):
    """The gradient of ``fun(x)[0]`` by central differences, entry by entry."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        gradient[place] = (fun(x + shift)[0] - fun(x - shift)[0]) / (2 * step)
    return gradient


def planted_problem(seed, n_per_state=30, n_states=4, width=6, d=3, n_test=100):
    """Windows whose right metric is a known block-Toeplitz matrix.

    Each state is a mean window plus noise of covariance ``M*⁻¹``: the Mahalanobis distance with
    ``M*`` is then the one to use. Returns ``M*``, training windows and labels, test ones.
    """
    rng = np.random.default_rng(seed)
    taps = np.zeros((3, d, d))
    taps[0] = np.diag(np.linspace(2.0, 0.5, d))
    taps[1:] = rng.normal(size=(2, d, d)) * 0.5
    planted = toeplitz.to_matrix(toeplitz.autocorrelation(taps, width)) + 0.05 * np.eye(width * d)
    colour = np.linalg.cholesky(np.linalg.inv(planted))
    means = 0.45 * rng.normal(size=(n_states, width * d))

    def draw(n):
        y = np.repeat(np.arange(n_states), n)
        X = means[y] + rng.normal(size=(len(y), width * d)) @ colour.T
        return X.reshape(len(y), width, d), y

    return planted, draw(n_per_state), draw(n_test)


def alignment(M, planted):
    """The cosine between two matrices: 1 where one is a multiple of the other."""
    return np.vdot(M, planted) / (np.linalg.norm(M) * np.linalg.norm(planted))
