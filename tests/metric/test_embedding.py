"""Windows under a metric: its maps, and its matrix, before and after mixing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import mlat
from mlat.base.errors import InputError
from mlat.metric import Mahalanobis, toeplitz
from mlat.metric.embedding import (
    Convolution,
    Linear,
    convolution,
    metric_array,
    unmix_blocks,
    unmixed,
)
from mlat.metric.toeplitz import to_matrix
from mlat.stream import sliding_windows
from mlat.synthetic import rotating_states

WIDTH, CHANNELS = 4, 3
WINDOWS = sliding_windows(rotating_states(n_channels=CHANNELS, run_length=40), WIDTH)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 20)
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


@given(seeds, sizes, sizes, st.integers(1, 4), st.integers(1, 4))
def test_a_convolution_is_that_of_the_taps(seed, width, n_taps, r, d):
    rng = np.random.default_rng(seed)
    taps, X = rng.normal(size=(n_taps, r, d)), rng.normal(size=(3, width, d))
    expected = X.reshape(3, -1) @ toeplitz.convolution_matrix(taps, width).T
    for embed in (convolution(taps, width), Convolution(taps, width)):
        np.testing.assert_allclose(embed(X), expected, atol=1e-12)


@pytest.mark.parametrize(("width", "n_taps"), [(10, 20), (40, 50), (100, 100)])
def test_a_window_is_the_same_among_others_and_alone(width, n_taps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(33, width, 5))
    filtered = Convolution(rng.normal(size=(n_taps, 5, 5)), width)
    linear = Linear(rng.normal(size=(70, width * 5)))
    for embed in (filtered, linear):
        together = embed(X)
        for some in (slice(0, 1), slice(32, 33), slice(3, 10)):
            np.testing.assert_array_equal(embed(X[some]), together[some])
        assert embed(X[:0]).shape == (0, together.shape[1])


def test_long_windows_go_by_the_fourier_transform():
    rng = np.random.default_rng(0)
    taps, X = rng.normal(size=(60, 8, 8)), rng.normal(size=(4, 50, 8))
    assert isinstance(convolution(taps[:10], 10), Linear)
    filtered = convolution(taps, 50)
    assert isinstance(filtered, Convolution)
    expected = X.reshape(4, -1) @ toeplitz.convolution_matrix(taps, 50).T
    np.testing.assert_allclose(filtered(X), expected, atol=1e-12 * np.abs(expected).max())


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


train, test = rotating_states(), rotating_states(random_state=1)


def test_distances_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    L, X = rng.normal(size=(3, 8)), rng.normal(size=(5, 4, 2))
    metric = Mahalanobis(L).fit(X)
    Z = metric.transform(X)
    difference = (X[0] - X[1]).ravel()
    assert ((Z[0] - Z[1]) ** 2).sum() == pytest.approx(difference @ metric.metric_ @ difference)
    np.testing.assert_allclose(Mahalanobis(L, width=4).fit_transform(X.reshape(5, 8)), Z)
    np.testing.assert_array_equal(clone(metric).fit(X).transform(X), Z)
    np.testing.assert_allclose(Mahalanobis().fit_transform(X), X.reshape(5, 8))
    assert list(metric.get_feature_names_out()) == ["mahalanobis0", "mahalanobis1", "mahalanobis2"]


@pytest.mark.parametrize(
    ("L", "message"),
    [(np.ones((2, 7)), r"shape \(r, 8\)"), (np.ones(8), "shape"), ([[np.nan] * 8], "NaN")],
)
def test_what_is_no_map_of_the_windows(L, message):
    with pytest.raises(InputError, match=message):
        Mahalanobis(L).fit(np.zeros((2, 4, 2)))
    with pytest.raises(InputError, match="windows of 3 steps and 2 channels"):
        Mahalanobis(np.ones((2, 8))).fit(np.zeros((2, 4, 2))).transform(np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    "metric",
    [
        PCA(4, whiten=True),
        LinearDiscriminantAnalysis(),
        make_pipeline(StandardScaler(), PCA(4)),
        Mahalanobis(np.random.default_rng(0).normal(size=(5, 8 * train.n_channels))),
    ],
    ids=["PCA", "LDA", "pipeline", "Mahalanobis"],
)
@pytest.mark.parametrize("whiten", [False, True])
def test_a_linear_metric_of_ones_own_is_saved_as_its_map(metric, whiten, tmp_path):
    clf = mlat.StreamClassifier(8, metric=metric, whiten=whiten).fit(train)
    clf.save(tmp_path / "m.mlat")
    back = mlat.load(tmp_path / "m.mlat")
    assert type(back.metric_) is Mahalanobis
    np.testing.assert_allclose(back.class_distances(test), clf.class_distances(test), rtol=1e-6)
    np.testing.assert_allclose(back.predict_proba(test), clf.predict_proba(test), rtol=1e-5)
    back.save(tmp_path / "again.mlat")
    assert (tmp_path / "again.mlat").read_bytes() == (tmp_path / "m.mlat").read_bytes()
    refitted = clone(back).fit(train)  # nothing is learned: the same map
    np.testing.assert_allclose(refitted.class_distances(test), clf.class_distances(test), rtol=1e-6)
    live = back.live()
    told = [p.state for row in test.values[:30] for p in live.push(row)]
    assert told == back.predict(test)[:30].tolist()


class Learned(mlat.MLAT):
    """A class of one's own over ours."""


def test_others_are_refused_by_name(tmp_path):
    clf = mlat.StreamClassifier(8, metric=FunctionTransformer(np.square)).fit(train)
    with pytest.raises(InputError, match=r"FunctionTransformer cannot be saved: .* not linear"):
        clf.save(tmp_path / "m.mlat")
    own = mlat.StreamClassifier(8, metric=Learned(max_iter=3)).fit(train)
    own.save(tmp_path / "m.mlat")
    back = mlat.load(tmp_path / "m.mlat")
    assert back.metric_.name == "Learned"
    np.testing.assert_allclose(back.class_distances(test), own.class_distances(test), rtol=1e-6)
