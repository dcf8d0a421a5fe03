"""The matrix of a metric: its distances are those of the transformer, before and after mixing."""

import numpy as np
import pytest

import mlat
from mlat.metric.matrix import metric_array, unmix_blocks, unmixed
from mlat.metric.toeplitz import to_matrix
from mlat.stream import sliding_windows
from mlat.synthetic import rotating_states

WIDTH, CHANNELS = 4, 3
WINDOWS = sliding_windows(rotating_states(n_channels=CHANNELS, run_length=40), WIDTH)
METRICS = [mlat.MLAT(max_iter=3), mlat.MLAT(solver="admm", max_iter=3), mlat.LMNN(max_iter=3)]


def matrix_of(array):
    """The matrix (w*d, w*d) that an array of ``metric_array`` stands for."""
    if array is None:
        return np.eye(WIDTH * CHANNELS)
    return to_matrix(array) if array.ndim == 3 else array


@pytest.mark.parametrize("metric", METRICS, ids=["filter", "admm", "lmnn"])
def test_distances_are_those_of_the_transformer(metric):
    fitted = metric.fit(WINDOWS.X, WINDOWS.y, start=WINDOWS.start, run=WINDOWS.run)
    M = matrix_of(metric_array(fitted, WIDTH, CHANNELS))
    X = np.asarray(WINDOWS.X[:20])
    Z = fitted.transform(X)
    delta = (X[0] - X[1:]).reshape(19, -1)
    np.testing.assert_allclose(
        np.einsum("ni,ij,nj->n", delta, M, delta), ((Z[0] - Z[1:]) ** 2).sum(axis=1), rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["identity", "blocks", "matrix"])
def test_mixing_before_the_metric_is_a_metric_of_its_own(kind):
    rng = np.random.default_rng(0)
    W = rng.normal(size=(CHANNELS, CHANNELS))
    blocks = rng.normal(size=(WIDTH, CHANNELS, CHANNELS))
    blocks[0] = blocks[0] @ blocks[0].T
    array = {"identity": None, "blocks": blocks, "matrix": to_matrix(blocks)}[kind]
    delta = rng.normal(size=(WIDTH, CHANNELS))
    mixed = (delta @ W).ravel()
    before = matrix_of(unmixed(array, W, WIDTH))
    assert delta.ravel() @ before @ delta.ravel() == pytest.approx(mixed @ matrix_of(array) @ mixed)
    assert unmixed(array, None, WIDTH) is array
    assert unmix_blocks(blocks, None) is blocks
