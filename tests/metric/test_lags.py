import numpy as np
import pytest

from mlat.metric import lags


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
    np.testing.assert_allclose(lags.causal(x, taps), filtered, atol=1e-10)
    np.testing.assert_allclose(lags.anticausal(y, taps), back, atol=1e-10)
    np.testing.assert_allclose(lags.correlations(y, x, q), correlated, atol=1e-10)
