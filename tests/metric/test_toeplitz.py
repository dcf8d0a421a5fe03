import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError, Stream, sliding_windows
from mlat.metric import toeplitz
from mlat.synthetic import rotating_states
from naive import naive_projection
from problems import central_differences

sizes = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))


def random_matrix(w, d, seed):
    return np.random.default_rng(seed).normal(size=(w * d, w * d))


@given(sizes)
def test_projection_is_the_naive_one(size):
    w, d, seed = size
    M = random_matrix(w, d, seed)
    np.testing.assert_allclose(toeplitz.project(M, w), naive_projection(M, w), atol=1e-12)


@given(sizes)
def test_projection_is_idempotent_symmetric_and_toeplitz(size):
    w, d, seed = size
    projected = toeplitz.project(random_matrix(w, d, seed), w)
    np.testing.assert_allclose(toeplitz.project(projected, w), projected, atol=1e-12)
    np.testing.assert_allclose(projected, projected.T, atol=1e-15)
    assert toeplitz.is_toeplitz(projected, w)


@given(sizes, st.integers(0, 2**32 - 1))
def test_projection_is_the_closest(size, other):
    w, d, seed = size
    M = random_matrix(w, d, seed)
    projected = toeplitz.project(M, w)
    elsewhere = toeplitz.project(random_matrix(w, d, other), w)
    # The remainder is orthogonal to the whole subspace, so nothing in it is nearer.
    assert abs(np.vdot(M - projected, elsewhere)) < 1e-9 * (1 + np.linalg.norm(M) * w * d)
    assert np.linalg.norm(M - projected) <= np.linalg.norm(M - elsewhere) + 1e-12


@given(sizes)
def test_blocks_and_matrix_are_inverse(size):
    w, d, seed = size
    rng = np.random.default_rng(seed)
    blocks = rng.normal(size=(w, d, d))
    blocks[0] += blocks[0].T
    matrix = toeplitz.to_matrix(blocks)
    np.testing.assert_allclose(toeplitz.project_to_blocks(matrix, w), blocks, atol=1e-12)
    for s in range(w):
        for t in range(w):
            block = matrix[s * d : (s + 1) * d, t * d : (t + 1) * d]
            expected = blocks[s - t] if s >= t else blocks[t - s].T
            np.testing.assert_array_equal(block, expected)
    np.testing.assert_allclose(toeplitz.squared_norm(blocks), np.linalg.norm(matrix) ** 2)


@given(sizes, st.integers(1, 9), st.integers(1, 4))
def test_filters_give_a_toeplitz_psd_metric(size, q, r):
    w, d, seed = size
    H = np.random.default_rng(seed).normal(size=(q, r, d))
    L = toeplitz.convolution_matrix(H, w)
    blocks = toeplitz.autocorrelation(H, w)
    M = toeplitz.to_matrix(blocks)
    np.testing.assert_allclose(M, L.T @ L, atol=1e-10)
    assert toeplitz.is_toeplitz(L.T @ L, w)
    assert toeplitz.is_psd(M)
    X = np.random.default_rng(seed + 1).normal(size=(5, w, d))
    np.testing.assert_allclose(
        toeplitz.convolve(H, X).reshape(5, -1), X.reshape(5, -1) @ L.T, atol=1e-10
    )
    flat = (X[:1] - X[1:]).reshape(4, -1)
    np.testing.assert_allclose(
        toeplitz.distance(blocks, X[:1], X[1:]), np.einsum("ni,ij,nj->n", flat, M, flat), atol=1e-9
    )


def test_long_filters_by_fourier_transform_are_the_direct_sums():
    rng = np.random.default_rng(0)
    H, X = rng.normal(size=(150, 2, 3)), rng.normal(size=(4, 150, 3))
    expected = X.reshape(4, -1) @ toeplitz.convolution_matrix(H, 150).T
    np.testing.assert_allclose(toeplitz.convolve(H, X).reshape(4, -1), expected, atol=1e-9)


@pytest.mark.parametrize("q", [2, 4, 7])
def test_autocorrelation_gradient_by_finite_differences(q):
    rng = np.random.default_rng(q)
    H, G = rng.normal(size=(q, 2, 3)), rng.normal(size=(4, 3, 3))

    def fun(H):
        return np.vdot(G, toeplitz.autocorrelation(H, 4)), None

    # G(0) counts through the symmetric part only, as A(0) is symmetric.
    gradient = toeplitz.autocorrelation_gradient(H, G)
    np.testing.assert_allclose(gradient, central_differences(fun, H), atol=1e-7)


@given(sizes)
def test_shift_makes_any_blocks_psd_and_keeps_them_toeplitz(size):
    w, d, seed = size
    blocks = toeplitz.project_to_blocks(random_matrix(w, d, seed), w)
    shifted = toeplitz.nearest_psd_shift(blocks)
    assert np.linalg.eigvalsh(toeplitz.to_matrix(shifted))[0] >= 0
    np.testing.assert_array_equal(shifted[1:], blocks[1:])


def test_theorem_1_the_residual_falls_as_the_run_grows():
    residuals = []
    for length in (50, 200, 800, 3200, 12800):
        stream = rotating_states({"a": 0.1}, run_length=length, runs_per_state=1, n_channels=3)
        residuals.append(toeplitz.covariance_residual(sliding_windows(stream, 10).X))
    assert all(later < earlier for earlier, later in itertools.pairwise(residuals))
    assert residuals[-1] < 0.02 < residuals[0]


def test_what_is_not_toeplitz_or_psd_is_told_apart():
    M = np.diag([1.0, 2.0, 1.0, 2.0])
    assert toeplitz.is_toeplitz(M, 2)
    assert not toeplitz.is_toeplitz(M, 4)
    assert toeplitz.is_psd(M)
    assert not toeplitz.is_psd(-M)
    with pytest.raises(InputError, match="does not divide into 3"):
        toeplitz.project(M, 3)
    with pytest.raises(InputError, match=r"blocks must have shape \(w, d, d\)"):
        toeplitz.to_matrix(M)
    with pytest.raises(InputError, match="do not fit blocks"):
        toeplitz.distance(np.zeros((2, 2, 2)), np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="n > 1"):
        toeplitz.covariance_residual(np.zeros((1, 2, 2)))


def test_stream_values_are_not_changed():
    stream = Stream(np.arange(12.0).reshape(6, 2), ["a"] * 6)
    before = stream.values.copy()
    toeplitz.covariance_residual(sliding_windows(stream, 2).X)
    np.testing.assert_array_equal(stream.values, before)
