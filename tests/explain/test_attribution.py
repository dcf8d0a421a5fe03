"""A squared distance and its parts: they add up, and each is what its definition says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import BaseEstimator, TransformerMixin

import mlat
from mlat.explain.attribution import split
from mlat.metric import toeplitz
from mlat.metric.embedding import metric_array, unmixed
from mlat.synthetic import rotating_states

finite = st.floats(-100, 100, allow_subnormal=False)


def random_metric(w, d, seed=0):
    L = np.random.default_rng(seed).normal(size=(w * d, w * d))
    return L.T @ L


def random_blocks(w, d, seed=0):
    A = np.random.default_rng(seed).normal(size=(w, d, d))
    A[0] = A[0] @ A[0].T
    return A


def naive_parts(delta, M):
    """P(m, f) and the parts by step, term by term."""
    w, d = delta.shape
    parts, by_step = np.zeros((w, d)), np.zeros(w)
    for s in range(w):
        for t in range(w):
            for f in range(d):
                for g in range(d):
                    term = delta[s, f] * M[s * d + f, t * d + g] * delta[t, g]
                    parts[abs(s - t), f] += term
                    by_step[s] += term
    return parts, by_step


@pytest.mark.parametrize(("w", "d"), [(1, 1), (1, 3), (4, 1), (5, 3)])
def test_parts_are_those_of_the_double_sum(w, d):
    delta = np.random.default_rng(1).normal(size=(w, d))
    for metric, M in (
        (None, np.eye(w * d)),
        (random_metric(w, d), random_metric(w, d)),
        (random_blocks(w, d), toeplitz.to_matrix(random_blocks(w, d))),
    ):
        found = split(delta, metric)
        parts, by_step = naive_parts(delta, M)
        assert np.allclose(found.by_lag_and_feature, parts)
        assert np.allclose(found.by_step, by_step)


@given(st.data())
def test_every_split_adds_up_to_the_distance(data):
    w, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    delta = data.draw(arrays(float, (w, d), elements=finite))
    L = data.draw(arrays(float, (data.draw(st.integers(1, 6)), w * d), elements=finite))
    found = split(delta, L.T @ L)
    distance = ((L @ delta.ravel()) ** 2).sum()
    # Large parts of either sign cancel: what is exact is exact in units of what was added.
    scale = (np.abs(L) @ np.abs(delta.ravel())).sum() ** 2 + 1e-300
    for parts in (found.by_lag, found.by_feature, found.by_step, found.by_lag_and_feature):
        assert abs(parts.sum() - distance) <= 1e-12 * scale
    channels = np.arange(d) // 2
    assert abs(found.by_channel(channels, 3).sum() - distance) <= 1e-12 * scale


@given(st.data())
def test_euclidean_parts_are_plain_squares(data):
    w, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    delta = data.draw(arrays(float, (w, d), elements=finite))
    found = split(delta)
    assert np.allclose(found.by_feature, (delta**2).sum(axis=0), rtol=1e-12)
    assert np.allclose(found.by_step, (delta**2).sum(axis=1), rtol=1e-12)
    assert found.by_lag[0] == pytest.approx((delta**2).sum())
    assert not found.by_lag[1:].any()


def test_blocks_give_what_their_matrix_gives():
    A = random_blocks(6, 3)
    X, Y = np.random.default_rng(2).normal(size=(2, 6, 3))
    by_blocks, by_matrix = split(X - Y, A), split(X - Y, toeplitz.to_matrix(A))
    assert np.allclose(by_blocks.by_lag_and_feature, by_matrix.by_lag_and_feature)
    assert np.allclose(by_blocks.by_step, by_matrix.by_step)
    assert by_blocks.total == pytest.approx(float(toeplitz.distance(A, X, Y)))


def test_lags_of_a_toeplitz_metric_are_its_blocks_alone():
    A = random_blocks(5, 2)
    only = np.zeros_like(A)
    only[3] = A[3]
    delta = np.random.default_rng(3).normal(size=(5, 2))
    assert split(delta, A).by_lag[3] == pytest.approx(split(delta, only).total)


@pytest.mark.parametrize("metric", [None, random_metric(4, 2), random_blocks(4, 2)])
def test_many_differences_give_their_mean_parts(metric):
    deltas = np.random.default_rng(4).normal(size=(7, 4, 2))
    each = [split(delta, metric) for delta in deltas]
    mean = split(deltas, metric)
    assert np.allclose(mean.by_lag_and_feature, np.mean([p.by_lag_and_feature for p in each], 0))
    assert np.allclose(mean.by_step, np.mean([p.by_step for p in each], axis=0))


def test_an_uneven_matrix_gives_the_parts_of_its_symmetric_half():
    M = np.random.default_rng(5).normal(size=(6, 6))
    delta = np.random.default_rng(6).normal(size=(3, 2))
    uneven, even = split(delta, M), split(delta, (M + M.T) / 2)
    assert np.allclose(uneven.by_lag_and_feature, even.by_lag_and_feature)
    assert uneven.total == pytest.approx(delta.ravel() @ M @ delta.ravel())


def test_parts_are_subtracted_and_shared():
    a, b = split(np.ones((2, 3))), split(2 * np.ones((2, 3)))
    assert (b - a).total == 18
    assert ((b - a) / 18).by_feature.tolist() == [1 / 3] * 3
    assert (a / 0).total == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(mlat.InputError, match=r"shape \(3, 3\) does not fit windows of 2 steps"):
        split(np.zeros((2, 2)), np.eye(3))
    with pytest.raises(mlat.InputError, match=r"delta must have shape"):
        split(np.zeros(4))


# From a metric to what is split


@pytest.mark.parametrize(
    "metric",
    [mlat.MLAT(max_iter=2), mlat.MLAT(solver="admm", max_iter=2), mlat.LMNN(max_iter=2)],
    ids=["filter", "admm", "lmnn"],
)
def test_the_distances_of_every_metric_are_split(metric):
    windows = mlat.sliding_windows(rotating_states(n_channels=3), 4, stride=3)
    metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    Z = metric.transform(windows.X[:2])
    found = split(windows.X[0] - windows.X[1], metric_array(metric, 4, 3))
    assert found.total == pytest.approx(((Z[0] - Z[1]) ** 2).sum())


class Projection(TransformerMixin, BaseEstimator):
    """A transformer that has nothing but a map, linear or not."""

    def __init__(self, linear=True):
        self.linear = linear

    def transform(self, X):
        flat = np.asarray(X).reshape(len(X), -1)
        L = np.random.default_rng(0).normal(size=(flat.shape[1], 5))
        return flat @ L + 3.0 if self.linear else np.tanh(flat @ L)


def test_a_transformer_without_a_matrix_is_asked_for_its_map():
    X = np.random.default_rng(1).normal(size=(2, 4, 3))
    Z = Projection().transform(X)
    found = split(X[0] - X[1], metric_array(Projection(), 4, 3))
    assert found.total == pytest.approx(((Z[0] - Z[1]) ** 2).sum())
    with pytest.raises(mlat.InputError, match="Projection is not linear"):
        metric_array(Projection(linear=False), 4, 3)
    with pytest.raises(mlat.InputError, match="too large"):
        metric_array(Projection(), 1000, 5)


@pytest.mark.parametrize("metric", [None, random_metric(4, 3), random_blocks(4, 3)])
def test_a_distance_after_mixing_is_split_before_it(metric):
    W = np.random.default_rng(2).normal(size=(3, 3))
    delta = np.random.default_rng(3).normal(size=(4, 3))
    before = split(delta, unmixed(metric, W, 4))
    after = split(delta @ W, metric)
    assert before.total == pytest.approx(after.total)
    assert np.allclose(before.by_lag, after.by_lag)  # mixing knows no time
    assert unmixed(metric, None, 4) is metric
