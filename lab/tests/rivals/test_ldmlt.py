"""LDMLT: its update, inversions and triplets against slow oracles, and planted channels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_dtw as naive
from mlat import InputError
from mlat_lab.rivals import LDMLT, MDTW, dtw, ldmlt
from mlat_lab.rivals.ldmlt import update

seeds = st.integers(0, 2**32 - 1)


def planted(n=200, width=8, n_noise=6, seed=0):
    """Two labels that differ in the shape of channels 0 and 1; the others are loud noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, width, 2 + n_noise)) * 3.0
    phase = rng.uniform(0, 1, n)[:, None] + np.arange(width) / width
    X[:, :, 0] = np.where(y[:, None] == 1, 1.0, -1.0) + 0.4 * np.sin(2 * np.pi * phase)
    X[:, :, 1] = np.where(y[:, None] == 1, 1.0, -1.0) * np.cos(np.pi * np.arange(width) / width)
    X[:, :, :2] += rng.normal(size=(n, width, 2)) * 0.4
    return X, y


def metric_of_trace_one(rng, d):
    A = rng.normal(size=(d, d + 2))
    return A @ A.T / np.trace(A @ A.T)


def apply_update(M, P, Q, gamma):
    """The compiled update on copies, as a function; P and Q have a column per step."""
    M, P, Q = M.copy(), np.ascontiguousarray(P.T), np.ascontiguousarray(Q.T)
    moved = update(M, P, len(P), Q, len(Q), gamma)
    return M, moved


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 8), st.integers(1, 12), st.integers(1, 12), st.floats(1e-4, 0.5))
def test_update_is_the_papers_formula(seed, d, n_p, n_q, gamma):
    rng = np.random.default_rng(seed)
    M, P, Q = metric_of_trace_one(rng, d), rng.normal(size=(d, n_p)), rng.normal(size=(d, n_q))
    expected, positive = naive.logdet_update(M, P, Q, gamma)
    found, moved = apply_update(M, P, Q, gamma)
    assert positive
    assert moved
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 8), st.integers(1, 12), st.floats(0.9, 1e4))
def test_update_keeps_the_metric_positive_however_long_the_step(seed, d, length, gamma):
    rng = np.random.default_rng(seed)
    M = metric_of_trace_one(rng, d)
    found, _ = apply_update(M, rng.normal(size=(d, length)), rng.normal(size=(d, length)), gamma)
    np.testing.assert_array_equal(found, found.T)
    assert np.trace(found) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(found).min() > -1e-14


def test_update_moves_the_right_way():
    M = np.eye(2) / 2
    P, Q = np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])
    found, _ = apply_update(M, P, Q, 0.1)
    assert found[0, 0] > 0.5 > found[1, 1]


def test_update_leaves_the_metric_where_there_is_no_direction():
    M = np.eye(2) / 2
    found, moved = apply_update(M, np.ones((2, 1)), np.zeros((2, 1)), 0.1)
    assert not moved
    np.testing.assert_array_equal(found, M)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(4, 25), st.integers(2, 4), st.floats(0.5, 30))
def test_inversions_and_triplets_are_the_obvious_ones(seed, n, n_classes, factor):
    rng = np.random.default_rng(seed)
    costs = rng.random((n, n))
    codes = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    inverted = ldmlt.inversions(costs, codes)
    np.testing.assert_array_equal(inverted, naive.inversions(costs, codes))
    if inverted.sum():
        found = ldmlt.select_triplets(costs, codes, inverted, factor)
        np.testing.assert_array_equal(found, naive.triplets(costs, codes, factor).reshape(-1, 3))


def test_planted_channels_are_found_and_help():
    X, y = planted()
    X_test, y_test = planted(seed=1)
    model = LDMLT().fit(X, y)
    weight = np.diag(model.metric_)
    assert weight[:2].min() > 3 * weight[2:].max()
    assert model.score(X_test, y_test) > MDTW().fit(X, y).score(X_test, y_test) + 0.1
    errors = [cycle.inversions for cycle in model.history_]
    assert errors[-1] < 0.1 * errors[0]


def test_distance_is_dtw_under_the_metric():
    X, y = planted(n=40)
    model = LDMLT(max_iter=3).fit(X, y)
    L = model.components_
    np.testing.assert_allclose(L.T @ L, model.metric_, atol=1e-12)
    distances, windows = model.kneighbors(X[:3], 2)
    for i in range(3):
        mapped = X[windows[i, 1]] @ L.T
        assert distances[i, 1] == pytest.approx(np.sqrt(naive.cost(X[i] @ L.T, mapped)))


@settings(max_examples=10, deadline=None)
@given(seeds, st.integers(2, 5), st.floats(1, 50), st.floats(0.1, 100))
def test_metric_is_positive_semidefinite_with_trace_d(seed, d, triplet_factor, alpha_factor):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(24, 4, d)), rng.integers(0, 3, 24)
    M, cycles = ldmlt.learn_metric(
        X, y, triplet_factor=triplet_factor, alpha_factor=alpha_factor, max_iter=4
    )
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.trace(M) == pytest.approx(d)
    assert np.linalg.eigvalsh(M).min() > -1e-12
    assert 1 <= len(cycles) <= 5


def test_learning_is_deterministic():
    X, y = planted(n=60)
    first, second = LDMLT().fit(X, y), LDMLT().fit(X, y)
    np.testing.assert_array_equal(first.metric_, second.metric_)
    assert first.history_ == second.history_


def test_the_scale_and_offset_of_the_data_do_not_matter():
    X, y = planted(n=60)
    M = LDMLT().fit(X, y).metric_
    # Powers of two, so that scaling is exact and no path turns on a rounding.
    np.testing.assert_allclose(LDMLT().fit(X * 8.0, y).metric_, M, rtol=1e-6, atol=1e-9)


def test_mapped_windows_still_overlap():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 3))
    X = np.lib.stride_tricks.sliding_window_view(values, 7, axis=0).transpose(0, 2, 1)
    mapped = dtw.transform(X, rng.normal(size=(3, 3)))
    assert len(dtw.distinct_points(mapped)[0]) == 50


def test_one_channel_leaves_nothing_to_learn():
    X, y = np.random.default_rng(0).normal(size=(20, 5, 1)), np.arange(20) % 2
    model = LDMLT().fit(X, y)
    assert model.metric_.tolist() == [[1.0]]
    np.testing.assert_allclose(model.kneighbors(X, 3)[0], MDTW().fit(X, y).kneighbors(X, 3)[0])


def test_a_band_is_used_in_learning_and_search():
    X, y = planted(n=40)
    model = LDMLT(band=0, max_iter=2).fit(X, y)
    L = model.components_
    expected = ((X[:5, None] - X[None]) @ L.T) ** 2
    np.testing.assert_allclose(
        model.kneighbors(X[:5], 2)[0][:, 1] ** 2, np.sort(expected.sum((2, 3)), axis=1)[:, 1]
    )
    assert dtw.cost(X[0], X[1], band=0) == pytest.approx(((X[0] - X[1]) ** 2).sum())


@pytest.mark.parametrize(
    ("parameters", "y", "line"),
    [
        ({}, [1, 1, 1, 1], "at least 2 classes; y holds 1 class, 1"),
        ({"max_iter": 0}, [0, 0, 1, 1], "max_iter must be a whole number of at least 1, not 0"),
        ({"alpha_factor": -1.0}, [0, 0, 1, 1], "alpha_factor must be .* above 0, not -1.0"),
        ({"margin": np.nan}, [0, 0, 1, 1], "margin must be a finite number, not nan"),
        ({"triplet_factor": "all"}, [0, 0, 1, 1], "triplet_factor must be .* not 'all'"),
    ],
)
def test_bad_input_is_one_clear_line(parameters, y, line):
    with pytest.raises(InputError, match=line):
        LDMLT(**parameters).fit(np.zeros((4, 3, 2)), y)
