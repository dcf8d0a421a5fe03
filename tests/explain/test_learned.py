"""What a metric learned, in numbers."""

from __future__ import annotations

import numpy as np

import mlat
from mlat.explain import learned
from mlat.metric import toeplitz
from plot_checks import fitted


def test_fractions_by_lag_and_channel():
    blocks = np.zeros((2, 2, 2))
    blocks[0] = np.diag([3.0, 1.0])
    assert learned.channel_fractions(blocks).tolist() == [0.75, 0.25]
    assert learned.lag_fractions(blocks).tolist() == [1.0, 0.0]
    blocks[1] = [[1.0, 0.0], [2.0, 0.0]]
    squares = (toeplitz.to_matrix(blocks) ** 2).sum()
    assert np.allclose(learned.lag_fractions(blocks), [20 / squares, 10 / squares])
    assert learned.lag_fractions(0 * blocks).tolist() == [0, 0]
    assert learned.channel_fractions(0 * blocks).tolist() == [0, 0]


def test_spectrum_of_a_metric():
    metric = fitted(mlat.MLAT(max_iter=3))
    found = learned.spectrum(metric)
    assert np.isclose(found.eigenvalues.sum(), np.trace(metric.metric_))
    assert (np.diff(found.eigenvalues) <= 0).all()
    assert 1 <= found.effective_rank <= 12
