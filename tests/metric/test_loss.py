import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric.loss import LargeMarginLoss
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
