import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.features.features import whitening, within_covariance


def labelled(seed, n=60, d=4, n_states=3):
    rng = np.random.default_rng(seed)
    codes = np.append(np.arange(n_states), rng.integers(n_states, size=n - n_states))
    mixed = (
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        + 5 * rng.normal(size=(n_states, d))[codes]
    )
    return mixed, codes


def naive_covariance(X, codes):
    total = np.zeros((X.shape[1], X.shape[1]))
    for row, code in zip(X, codes, strict=True):
        off = row - X[codes == code].mean(axis=0)
        total += np.outer(off, off)
    return total / len(X)


def power_of(C, power):
    """C to a power, one eigenvector at a time."""
    values, vectors = np.linalg.eigh(C)
    return sum(v**power * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 999),
    power=st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    shrinkage=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_the_metric_is_the_covariance_within_states_to_a_negative_power(seed, power, shrinkage):
    X, codes = labelled(seed)
    C = naive_covariance(X, codes)
    np.testing.assert_allclose(within_covariance(X, codes), C, rtol=1e-10, atol=1e-12)
    shrunk = (1 - shrinkage) * C + shrinkage * np.trace(C) / 4 * np.eye(4)
    W = whitening(X, codes, power, shrinkage)
    np.testing.assert_allclose(W, W.T, atol=1e-9 * np.abs(W).max())
    assert (np.linalg.eigvalsh(W) > 0).all()
    expected = power_of(shrunk, -power)
    np.testing.assert_allclose(W @ W, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


def test_in_full_it_makes_states_round():
    X, codes = labelled(1)
    W = whitening(X, codes, power=1.0, shrinkage=0.0)
    np.testing.assert_allclose(within_covariance(X @ W, codes), np.eye(4), atol=1e-9)


def test_power_nought_is_the_euclidean_distance():
    X, codes = labelled(2)
    np.testing.assert_allclose(whitening(X, codes, power=0.0), np.eye(4), atol=1e-12)


def test_all_shrinkage_is_the_euclidean_distance_but_for_its_scale():
    X, codes = labelled(3)
    W = whitening(X, codes, shrinkage=1.0)
    np.testing.assert_allclose(W / W[0, 0], np.eye(4), atol=1e-10)


@pytest.mark.parametrize("n", [3, 5, 60])
def test_fewer_steps_than_channels_or_equal_channels_are_harmless(n):
    """C is singular; the shrinkage alone makes it invertible, with a ratio of at most 1 + d/s."""
    X, codes = labelled(4, n=n, d=6)
    X[:, 5] = X[:, 4]  # a direction in which nothing ever varies
    W = whitening(X, codes)
    assert np.isfinite(W).all()
    spread = np.linalg.eigvalsh(W @ W)
    if n == 3:  # every step is its state's mean
        np.testing.assert_array_equal(W, np.eye(6))
    else:
        assert spread.max() / spread.min() <= np.sqrt(1 + 0.9 * 6 / 0.1) * (1 + 1e-9)


def test_a_constant_channel_and_a_constant_state():
    X, codes = labelled(5)
    X[:, 1] = 3.0
    X[codes == 2] = X[codes == 2][0]
    W = whitening(X, codes)
    assert np.isfinite(W).all()
    # The constant channel goes with no other, and a state that never moves adds nothing to C.
    np.testing.assert_allclose(W[1, [0, 2, 3]], 0, atol=1e-9)
    moving = codes != 2
    C = within_covariance(X, codes)
    np.testing.assert_allclose(C, within_covariance(X[moving], codes[moving]) * moving.mean())


def test_nothing_varies_at_all():
    codes = np.repeat([0, 1], 5)
    W = whitening(np.eye(2)[codes], codes)
    np.testing.assert_array_equal(W, np.eye(2))


@settings(max_examples=30)
@given(seed=st.integers(0, 999))
def test_what_it_does_not_depend_on(seed):
    X, codes = labelled(seed)
    rng = np.random.default_rng(seed + 1)
    W = whitening(X, codes)
    # Where each state lies, the order of the steps, and what the states are called.
    moved = X + rng.normal(size=(3, 4))[codes] * 100
    np.testing.assert_allclose(whitening(moved, codes), W, rtol=1e-7, atol=1e-9)
    order = rng.permutation(len(X))
    np.testing.assert_allclose(whitening(X[order], codes[order]), W, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(whitening(X, (codes + 1) % 3), W, rtol=1e-9, atol=1e-11)


@settings(max_examples=30)
@given(seed=st.integers(0, 999), factor=st.sampled_from([1e-6, 0.3, 1e4]))
def test_how_it_follows_rotations_and_units(seed, factor):
    X, codes = labelled(seed)
    W = whitening(X, codes)
    R = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    np.testing.assert_allclose(whitening(X @ R, codes), R.T @ W @ R, rtol=1e-6, atol=1e-8)
    # Distances grow with the root of the unit, at power a half; their order stays.
    np.testing.assert_allclose(whitening(X * factor, codes), W / np.sqrt(factor), rtol=1e-7)


def test_a_noisy_channel_counts_less_and_how_much_less():
    rng = np.random.default_rng(6)
    codes = np.repeat([0, 1], 5000)
    X = rng.normal(size=(10_000, 2)) * [1.0, 4.0]
    for power in (0.5, 1.0):
        M = np.square(np.diag(whitening(X, codes, power, shrinkage=0.0)))
        assert M[0] / M[1] == pytest.approx(16**power, rel=0.05)
