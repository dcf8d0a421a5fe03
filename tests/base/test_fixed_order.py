import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.base.fixed_order import TILE, Product, in_tiles, multiply_tiles

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


@pytest.mark.parametrize("m", [1, 3, 4, 7, 33])
def test_a_product_with_tiles_is_the_same_in_any_company(m):
    rng = np.random.default_rng(21)
    for part in (1, 3, 8):
        X = rng.normal(size=(m, 4 * part)).astype(np.float32)
        B = rng.normal(size=(4 * part, 9 * TILE))
        out, alone = np.empty((m, 9 * TILE), np.float32), np.empty((1, 9 * TILE), np.float32)
        multiply_tiles(X, in_tiles(B), 4, out)
        np.testing.assert_allclose(out, X @ B, atol=1e-5)
        for i in range(m):
            multiply_tiles(X[i : i + 1], in_tiles(B), 4, alone)
            np.testing.assert_array_equal(alone[0], out[i])
