import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric import impostors
from problems import random_problem


def embeddings(seed, n, r, n_steps):
    """A walk of embeddings such as an optimiser takes: small steps, and now and then a leap."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, r))
    for step in range(n_steps):
        scale = 1.0 if step % 7 == 3 else 0.01
        Z = Z + scale * rng.normal(size=(n, r)) * rng.random()
        yield Z


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 1.0]))
def test_remembered_pairs_never_change_a_result(seed, fraction):
    """The pruned search finds exactly what a fresh one finds, along any path."""
    problem = random_problem(seed % 5)
    loss = problem.margin_loss()
    kept, impostors.KEPT_FRACTION = impostors.KEPT_FRACTION, fraction
    try:
        for Z in embeddings(seed, len(problem.X), 3, 15):
            value, gradient = loss(Z)
            fresh_value, fresh_gradient = problem.margin_loss()(Z)
            assert value == fresh_value
            np.testing.assert_array_equal(gradient, fresh_gradient)
    finally:
        impostors.KEPT_FRACTION = kept


def test_the_list_of_pairs_is_really_used():
    problem = random_problem(0)
    loss = problem.margin_loss()
    rng = np.random.default_rng(0)
    # States mostly apart, so that few pairs matter.
    Z = rng.normal(size=(len(problem.X), 3)) + 4 * problem.codes[:, None]
    for _ in range(20):
        Z = Z + 1e-6 * rng.normal(size=Z.shape)
        loss(Z)
    assert loss.impostors.n_searches < 12
