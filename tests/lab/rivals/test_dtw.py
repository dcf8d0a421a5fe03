import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive_dtw as naive
from mlat import InputError
from mlat.lab.bench import dtw as bench
from mlat.lab.rivals import LDMLT, MDTW, EuclideanKNN, dtw
from mlat.lab.rivals import dtw_kernels as lanes

seeds = st.integers(0, 2**32 - 1)
bands = st.one_of(st.none(), st.integers(0, 4))


def stream_windows(rng, n, width, d, smooth=True):
    """Windows of one stream, each the one before it moved on by one step."""
    values = rng.normal(size=(n + width - 1, d))
    values = np.cumsum(values, axis=0) if smooth else values
    return sliding_window_view(values, width, axis=0).transpose(0, 2, 1)


def mixed_windows(rng, width, d):
    """Runs long and short, with windows between them that overlap with none."""
    parts = [stream_windows(rng, n, width, d) for n in (70, 3, 40, 1)]
    return np.concatenate([parts[0], rng.normal(size=(9, width, d)), *parts[1:]])


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), bands)
def test_cost_and_path_are_the_best_of_all_alignments(seed, n, m, d, band):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-2, 3, (m, d)).astype(float)
    if band is not None and band < abs(n - m):
        with pytest.raises(InputError, match=f"at least {abs(n - m)}"):
            dtw.cost(x, y, band=band)
        return
    assert dtw.cost(x, y, band=band) == naive.cost_by_enumeration(x, y, band)
    path = dtw.path(x, y, band=band)
    assert [tuple(step) for step in path.tolist()] in list(naive.every_path(n, m, band))
    assert naive.path_cost(x, y, path) == dtw.cost(x, y, band=band)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 7), st.integers(1, 5))
def test_distinct_points_rebuild_the_windows(seed, width, d):
    X = mixed_windows(np.random.default_rng(seed), width, d)
    points, first = lanes.distinct_points(X)
    np.testing.assert_array_equal(points[first[:, None] + np.arange(width)], X)
    assert len(points) < X.shape[0] * width or width == 1


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(1, 8), bands, st.integers(1, 4))
def test_search_finds_what_trying_all_finds(seed, width, d, band, k):
    rng = np.random.default_rng(seed)
    X, Y = mixed_windows(rng, width, d)[60:90], mixed_windows(rng, width, d)
    costs, windows = dtw.nearest(X, Y, k, band=band)
    expected, order = naive.nearest(X, Y, k, band)
    np.testing.assert_allclose(costs, expected, rtol=1e-12)
    np.testing.assert_array_equal(windows, order)
    every = dtw.pairwise(X, Y, band=band)
    np.testing.assert_allclose(every, naive.pairwise(X, Y, band), rtol=1e-12)
    # The search abandons; what it keeps is the same number to the last bit.
    np.testing.assert_array_equal(costs, np.sort(every, axis=1)[:, :k])
    assert every[3, 5] == dtw.cost(X[3], Y[5], band=band)


@pytest.mark.parametrize("kept_bytes", [0, 30_000, 1 << 22])
@pytest.mark.parametrize("smooth", [True, False])
def test_tiles_and_threads_change_nothing(monkeypatch, kept_bytes, smooth):
    rng = np.random.default_rng(0)
    Y = np.concatenate([stream_windows(rng, 300, 8, 3, smooth), rng.normal(size=(150, 8, 3))])
    X = np.concatenate([stream_windows(rng, 60, 8, 3, smooth), rng.normal(size=(20, 8, 3))])
    every = dtw.pairwise(X, Y)
    monkeypatch.setattr(dtw, "KEPT_BYTES", kept_bytes)
    for n_jobs in (None, 2):
        costs, windows = dtw.nearest(X, Y, 3, n_jobs=n_jobs)
        np.testing.assert_array_equal(costs, np.sort(every, axis=1)[:, :3])
        np.testing.assert_array_equal(windows, np.argsort(every, axis=1, kind="stable")[:, :3])


def test_ties_go_to_the_earlier_window():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (400, 4, 1)).astype(float)
    X = rng.integers(0, 2, (30, 4, 1)).astype(float)
    _, windows = dtw.nearest(X, Y, 5)
    np.testing.assert_array_equal(
        windows, np.argsort(dtw.pairwise(X, Y), axis=1, kind="stable")[:, :5]
    )


def test_a_large_offset_costs_no_precision():
    rng = np.random.default_rng(0)
    X, Y = stream_windows(rng, 20, 5, 3), stream_windows(rng, 90, 5, 3)
    costs, windows = dtw.nearest(X, Y)
    far_costs, far_windows = dtw.nearest(X + 2.0**30, Y + 2.0**30)
    np.testing.assert_array_equal(windows, far_windows)
    np.testing.assert_allclose(costs, far_costs, rtol=1e-5)


def test_a_band_of_zero_is_euclidean():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 6, 4)), rng.integers(0, 3, 150)
    Q = rng.normal(size=(40, 6, 4))
    peer = KNeighborsClassifier(4, algorithm="brute").fit(X.reshape(150, -1), y)
    expected, nearest = peer.kneighbors(Q.reshape(40, -1))
    for model in (EuclideanKNN(n_neighbors=4), MDTW(n_neighbors=4, band=0)):
        distances, windows = model.fit(X, y).kneighbors(Q)
        np.testing.assert_allclose(distances, expected)
        np.testing.assert_array_equal(windows, nearest)


def test_warping_finds_a_shifted_shape():
    bump = np.exp(-((np.arange(12) - 5.0) ** 2) / 2)
    X = np.stack([bump, np.roll(bump, 3) * 0.5])[:, :, None]
    query = np.roll(bump, 3)[None, :, None]
    assert MDTW().fit(X, ["high", "low"]).predict(query).tolist() == ["high"]
    assert EuclideanKNN().fit(X, ["high", "low"]).predict(query).tolist() == ["low"]


@pytest.mark.parametrize("values", [1e200, 1e-200])
def test_extreme_values_still_give_neighbours(values):
    X = np.array([[[0.0]], [[values]]])
    _, windows = dtw.nearest(X, X, 2)
    assert sorted(windows[0].tolist()) == [0, 1]


@pytest.mark.parametrize("model", [MDTW(), EuclideanKNN(), LDMLT(max_iter=2)])
def test_flat_and_folded_windows_are_the_same(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5, 3)), np.repeat(["walk", "rest"], 30)
    folded = clone(model).fit(X, y)
    flat = clone(model).set_params(width=5).fit(X.reshape(60, -1), y)
    Q = rng.normal(size=(10, 5, 3))
    distances, windows = folded.kneighbors(Q, 3)
    for other in (flat.kneighbors(Q.reshape(10, -1), 3), flat.kneighbors(Q, 3)):
        np.testing.assert_array_equal(distances, other[0])
        np.testing.assert_array_equal(windows, other[1])
    np.testing.assert_array_equal(windows, folded.kneighbors(Q.tolist(), 3, False))
    np.testing.assert_array_equal(folded.predict(Q), flat.predict(Q.reshape(10, -1)))
    assert folded.predict_proba(Q).sum(axis=1).tolist() == [1.0] * 10


def test_predictions_do_not_follow_the_callers_array():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(30, 4, 2)), rng.normal(size=(9, 4, 2))
    model = MDTW().fit(X, np.arange(30) % 3)
    before = model.kneighbors(Q)[0]
    X[:] = 0.0
    np.testing.assert_array_equal(model.kneighbors(Q)[0], before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).kneighbors(Q)[0], before)


def test_estimators_live_in_pipelines_and_searches():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 2
    X[y == 1, ::2] += 2.0
    pipeline = make_pipeline(StandardScaler(), MDTW(width=4))
    grid = {"mdtw__band": [0, None], "mdtw__n_neighbors": [1, 3]}
    found = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.9


@pytest.mark.parametrize("name", ["EuclideanKNN", "MDTW", "LDMLT"])
def test_scikit_learn_accepts_it_with_no_check_skipped(name):
    # One of the checks is skipped unless this variable is set before SciPy is first imported.
    code = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        f"from mlat.lab.rivals import {name}\n"
        f"statuses = {{r['status'] for r in check_estimator({name}(), on_skip=None)}}\n"
        "assert statuses == {'passed'}, statuses\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_benchmark_measures_us_and_names_a_peer_that_is_missing():
    rows = list(bench.run(("stream", "random", "noise"), (), n_test=20, sizes={2: 70}))
    assert [row.case for row in rows] == ["stream", "random", "noise"]
    assert all(row.seconds > 0 for row in rows)
    (_, row) = bench.run(
        ("noise",), ("tslearn",), n_test=5, sizes={2: 9}, peer_python=sys.executable
    )
    assert row.seconds is None or row.agrees
    assert row.note or row.version
    with pytest.raises(InputError, match="no peer named 'fast'"):
        list(bench.run(peers=("fast",)))
    with pytest.raises(InputError, match="cannot run /no/python"):
        list(bench.run(("noise",), ("aeon",), n_test=5, sizes={2: 9}, peer_python="/no/python"))


X_OK, Y_OK = np.zeros((6, 4, 2)), [0, 0, 0, 1, 1, 1]
X_NAN = X_OK.copy()
X_NAN[2, 1, 0] = np.nan


@pytest.mark.parametrize(
    ("do", "line"),
    [
        (lambda: MDTW().fit(X_NAN, Y_OK), "NaN in window 2, step 1, channel 0"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(X_NAN), "NaN in window 2, step 1, channel 0"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(np.zeros((1, 7))), "7 features"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(np.zeros((1, 2, 4))), r"\(2, 4\).*\(4, 2\)"),
        (lambda: MDTW(width=3).fit(X_OK, Y_OK), r"width is 3"),
        (lambda: MDTW(width=3).fit(np.zeros((6, 8)), Y_OK), "8 features do not fold"),
        (lambda: MDTW(width=0).fit(X_OK, Y_OK), "width must be a whole number .* not 0"),
        (lambda: MDTW(n_neighbors=7).fit(X_OK, Y_OK), "n_neighbors is 7 but there are 6"),
        (lambda: MDTW(n_neighbors=1.5).fit(X_OK, Y_OK), "n_neighbors must be a whole number"),
        (lambda: MDTW().fit(X_OK, Y_OK).kneighbors(X_OK, 9), "n_neighbors is 9 but there are 6"),
        (lambda: MDTW(band=-1).fit(X_OK, Y_OK), "band must be .* not -1"),
        (lambda: MDTW(band=0.5).fit(X_OK, Y_OK), "band must be .* not 0.5"),
        (lambda: dtw.path(np.zeros((3, 1)), np.zeros((9, 1)), band=2), "3 and 9 .* at least 6"),
        (lambda: dtw.cost(np.zeros((3, 1)), np.zeros((3, 2))), "1 channels and y has 2"),
        (lambda: dtw.cost([[np.nan]], [[0.0]]), "x has NaN or infinity at step 0"),
        (lambda: dtw.cost([0.0], [[0.0]]), r"x must have shape \(steps, channels\), not \(1,\)"),
        (lambda: dtw.nearest(X_OK, X_OK[:, :3]), r"\(4, 2\).*\(3, 2\)"),
        (lambda: dtw.pairwise(X_OK[0]), r"\(n, w, d\), not \(4, 2\)"),
        (lambda: dtw.pairwise(X_NAN), "window 2, step 1, channel 0"),
    ],
)
def test_bad_input_is_one_clear_line(do, line):
    with pytest.raises(ValueError, match=line) as caught:
        do()
    assert "\n" not in str(caught.value)
