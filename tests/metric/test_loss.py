import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric import loss as losses
from mlat.metric import toeplitz
from mlat.metric.loss import LargeMarginLoss
from mlat.metric.problem import DiagonalLoss
from mlat.metric.toeplitz import anticausal, causal, correlations
from naive import naive_gradient, naive_loss
from problems import central_differences, random_problem


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0, "run"])
)
def test_loss_and_gradient_are_the_naive_ones(seed, c, gap):
    problem = random_problem(seed, gap=gap, push_weight=c)
    flat = problem.flat()
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
    Z = np.random.default_rng(1).normal(size=(len(problem), 2))
    np.testing.assert_allclose(loss(Z)[1], central_differences(loss, Z), atol=1e-6)


def test_absent_targets_neither_pull_nor_push():
    codes, Z = np.array([0, 0, 1, 1]), np.array([[0.0], [1.0], [0.5], [9.0]])
    value, gradient = LargeMarginLoss(codes, np.full((4, 2), -1))(Z)
    assert value == 0
    assert not gradient.any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0, 3, "run"]))
def test_along_diagonals_the_loss_is_the_same(seed, piece, gap):
    problem = random_problem(seed, gap=gap)
    rng = np.random.default_rng(seed)
    w, d = problem.width, problem.n_channels
    H = 0.4 * rng.normal(size=(w, d, d))
    segments = problem.segments()
    assert [len(rows) for rows in segments] == [12, 6, 19, 15, 9]
    np.testing.assert_array_equal(np.concatenate(segments), np.arange(len(problem)))
    default, losses.PIECE = losses.PIECE, piece
    try:
        loss = DiagonalLoss(problem, segments).margin
    finally:
        losses.PIECE = default
    value, in_blocks = loss(toeplitz.autocorrelation(H, w))
    X = problem.flat().reshape(-1, w, d)
    Z = toeplitz.convolve(H, X).reshape(len(X), -1)
    expected, in_Z = problem.margin_loss()(Z)
    assert value == pytest.approx(expected, rel=1e-9)
    in_L = (in_Z.T @ X.reshape(len(Z), -1)).reshape(2 * w - 1, d, w, d)
    in_H = np.stack([sum(in_L[t + p, :, t] for t in range(w)) for p in range(w)])
    np.testing.assert_allclose(toeplitz.autocorrelation_gradient(H, in_blocks), in_H, atol=1e-7)


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize(("T", "q"), [(9, 1), (9, 4), (9, 20), (80, 40), (30, 60)])
def test_sums_over_lags_are_the_obvious_ones(batch, T, q):
    rng = np.random.default_rng(T + q)
    x, y = rng.normal(size=(*batch, T, 3)), rng.normal(size=(*batch, T, 2))
    taps = rng.normal(size=(q, 2, 3))
    filtered, back = np.zeros_like(y), np.zeros_like(x)
    correlated = np.zeros((q, 2, 3))
    for t in range(T):
        for m in range(q):
            if t - m >= 0:
                filtered[..., t, :] += x[..., t - m, :] @ taps[m].T
                correlated[m] += np.tensordot(
                    y[..., t, :].reshape(-1, 2), x[..., t - m, :].reshape(-1, 3), axes=(0, 0)
                )
            if t + m < T:
                back[..., t, :] += y[..., t + m, :] @ taps[m]
    np.testing.assert_allclose(causal(x, taps), filtered, atol=1e-10)
    np.testing.assert_allclose(anticausal(y, taps), back, atol=1e-10)
    np.testing.assert_allclose(correlations(y, x, q), correlated, atol=1e-10)
