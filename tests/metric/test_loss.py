import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric import impostors, toeplitz
from mlat.metric import toeplitz_loss as running_sums
from mlat.metric.loss import LargeMarginLoss
from mlat.metric.toeplitz_loss import DiagonalMarginLoss
from mlat.stream.windows import unfold
from naive import naive_gradient, naive_loss
from problems import central_differences, random_problem


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0, "run"])
)
def test_loss_and_gradient_are_the_naive_ones(seed, c, gap):
    problem = random_problem(seed, gap=gap, push_weight=c)
    flat = problem.X.reshape(len(problem.X), -1)
    L = 0.4 * np.random.default_rng(seed).normal(size=(5, flat.shape[1]))
    value, in_Z = problem.margin_loss()(flat @ L.T)
    M = L.T @ L
    arguments = (M, flat, problem.codes, problem.targets, c)
    assert value == pytest.approx(naive_loss(*arguments), rel=1e-9)
    # dE/dL = 2 L dE/dM, and dE/dL = (dE/dZ)ᵀ X.
    np.testing.assert_allclose(in_Z.T @ flat, 2 * L @ naive_gradient(*arguments), atol=1e-8)


def test_gradient_by_finite_differences():
    problem = random_problem(3)
    loss = problem.margin_loss()
    Z = np.random.default_rng(1).normal(size=(len(problem.X), 2))
    np.testing.assert_allclose(loss(Z)[1], central_differences(loss, Z), atol=1e-6)


def test_absent_targets_neither_pull_nor_push():
    codes, Z = np.array([0, 0, 1, 1]), np.array([[0.0], [1.0], [0.5], [9.0]])
    value, gradient = LargeMarginLoss(codes, np.full((4, 2), -1))(Z)
    assert value == 0
    assert not gradient.any()


def embeddings(seed, n, r, n_steps):
    """A walk of embeddings such as an optimiser takes: small steps, and now and then a leap."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, r))
    for step in range(n_steps):
        scale = 1.0 if step % 7 == 3 else 0.01
        Z = Z + scale * rng.normal(size=(n, r)) * rng.random()
        yield Z


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 1.0]))
def test_remembered_pairs_never_change_a_result(seed, share):
    """The pruned search finds exactly what a fresh one finds, along any path."""
    problem = random_problem(seed % 5)
    loss = problem.margin_loss()
    kept, impostors.KEPT_SHARE = impostors.KEPT_SHARE, share
    try:
        for Z in embeddings(seed, len(problem.X), 3, 15):
            value, gradient = loss(Z)
            fresh_value, fresh_gradient = problem.margin_loss()(Z)
            assert value == fresh_value
            np.testing.assert_array_equal(gradient, fresh_gradient)
    finally:
        impostors.KEPT_SHARE = kept


def test_the_list_of_pairs_is_really_used():
    problem = random_problem(0)
    loss = problem.margin_loss()
    rng = np.random.default_rng(0)
    # States mostly apart, so that few pairs matter.
    Z = rng.normal(size=(len(problem.X), 3)) + 4 * problem.codes[:, None]
    searches = 0
    original = loss._search._search

    def counted(*arguments):
        nonlocal searches
        searches += 1
        return original(*arguments)

    loss._search._search = counted
    for _ in range(20):
        Z = Z + 1e-6 * rng.normal(size=Z.shape)
        loss(Z)
    assert searches < 12


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0, 3, "run"]))
def test_along_diagonals_the_loss_is_the_same(seed, piece, gap):
    problem = random_problem(seed, gap=gap)
    rng = np.random.default_rng(seed)
    w, d = problem.width, problem.n_channels
    H = 0.4 * rng.normal(size=(w, d, d))
    stretches = unfold(problem.X, problem.start, problem.run)
    assert [len(rows) for rows, _ in stretches] == [12, 6, 19, 15, 9]
    states = np.array([problem.codes[rows[0]] for rows, _ in stretches])
    default, running_sums.PIECE = running_sums.PIECE, piece
    try:
        loss = DiagonalMarginLoss([s for _, s in stretches], states, problem.targets, w)
    finally:
        running_sums.PIECE = default
    value, in_blocks = loss(toeplitz.autocorrelation(H, w))
    Z = toeplitz.convolve(H, problem.X).reshape(len(problem.X), -1)
    expected, in_Z = problem.margin_loss()(Z)
    assert value == pytest.approx(expected, rel=1e-9)
    in_L = (in_Z.T @ problem.X.reshape(len(Z), -1)).reshape(2 * w - 1, d, w, d)
    in_H = np.stack([sum(in_L[t + p, :, t] for t in range(w)) for p in range(w)])
    np.testing.assert_allclose(toeplitz.autocorrelation_gradient(H, in_blocks), in_H, atol=1e-7)


def test_unfold_believes_the_values_not_the_claim():
    problem = random_problem(0)
    X = problem.X.copy()
    X[5, 0, 0] += 1  # no longer the continuation of window 4
    stretches = unfold(X, problem.start, problem.run)
    assert len(stretches) == 6
    for rows, steps in stretches:
        for i, row in enumerate(rows):
            np.testing.assert_array_equal(X[row], steps[i : i + problem.width])
