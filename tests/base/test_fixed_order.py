import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.base.compiled import jit
from mlat.base.fixed_order import (
    TILE,
    Product,
    in_tiles,
    least_of_tile,
    move_tile,
    multiply_tiles,
)

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


def test_sums_move_on_by_one_a_tile_at_a_time():
    @jit()
    def move(sums, more, squared, least):
        for tile in range(len(least) - 1, -1, -1):
            least[tile] = move_tile(sums, more, squared, tile * TILE)

    @jit()
    def least_of(squared, product, least):
        for tile in range(len(least)):
            least[tile] = least_of_tile(squared, product, tile * TILE)

    rng = np.random.default_rng(21)
    sums, more = rng.normal(size=3 * TILE + 1), rng.normal(size=3 * TILE).astype(np.float32)
    squared, least, before = rng.normal(size=3 * TILE), np.empty(3), sums.copy()
    squared[:5] = np.inf
    move(sums, more, squared, least)
    np.testing.assert_array_equal(sums[1:], before[:-1] + more)
    np.testing.assert_array_equal(least, (squared - 2 * sums[1:]).reshape(3, TILE).min(axis=1))
    squared, least = squared.astype(np.float32), np.empty(3, np.float32)
    least_of(squared, more, least)
    np.testing.assert_array_equal(least, (squared - 2 * more).reshape(3, TILE).min(axis=1))
