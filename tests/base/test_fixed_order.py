import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat
from mlat.base.fixed_order import Convolution, Linear, Product
from mlat.metric import toeplitz

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 20)


@given(seeds, st.integers(0, 9), sizes, sizes)
def test_a_product_is_summed_in_order(seed, n, k, r):
    rng = np.random.default_rng(seed)
    X, B = rng.normal(size=(n, k)), rng.normal(size=(k, r))
    expected = np.zeros((n, r))
    for i in range(k):
        expected += X[:, i : i + 1] * B[i]
    product = Product(B)
    np.testing.assert_array_equal(product(X), expected)
    np.testing.assert_array_equal(product(X[:, None]), expected[:, None])


@given(seeds, sizes, sizes, st.integers(1, 4), st.integers(1, 4))
def test_a_convolution_is_that_of_the_taps(seed, width, n_taps, r, d):
    rng = np.random.default_rng(seed)
    taps, X = rng.normal(size=(n_taps, r, d)), rng.normal(size=(3, width, d))
    found = Convolution(taps, width)(X)
    np.testing.assert_allclose(found, toeplitz.convolve(taps, X).reshape(3, -1), atol=1e-12)


@pytest.mark.parametrize(("width", "n_taps"), [(10, 20), (40, 50), (100, 100)])
def test_a_window_is_the_same_among_others_and_alone(width, n_taps):
    # The first by plain sums, the others by the Fourier transform.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(33, width, 5))
    convolution = Convolution(rng.normal(size=(n_taps, 5, 5)), width)
    linear = Linear(rng.normal(size=(70, width * 5)))
    for embed in (convolution, linear):
        together = embed(X)
        for some in (slice(0, 1), slice(32, 33), slice(3, 10)):
            np.testing.assert_array_equal(embed(X[some]), together[some])
        assert embed(X[:0]).shape == (0, together.shape[1])


def test_long_taps_go_by_the_fourier_transform():
    rng = np.random.default_rng(0)
    taps, X = rng.normal(size=(60, 2, 3)), rng.normal(size=(4, 50, 3))
    convolution = Convolution(taps, 50)
    assert not convolution.by_sums
    expected = toeplitz.convolve(taps, X).reshape(4, -1)
    np.testing.assert_allclose(convolution(X), expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    "metric", [mlat.MLAT(max_iter=1), mlat.MLAT(solver="admm", max_iter=1), mlat.LMNN(max_iter=1)]
)
def test_metrics_embed_a_window_the_same_alone_and_among_others(metric):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5, 3)), np.repeat([0, 1], 30)
    together = metric.fit(X, y).transform(X)
    alone = np.concatenate([metric.transform(X[i : i + 1]) for i in range(60)])
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_allclose(together @ together.T, _gram(metric, X), rtol=1e-9, atol=1e-9)


def _gram(metric, X):
    flat = X.reshape(len(X), -1)
    return flat @ metric.metric_ @ flat.T
