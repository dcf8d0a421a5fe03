import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlat.base.fixed_order import Product

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
