"""Dynamic time warping against all alignments, and its search against all pairs."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import naive_dtw as naive
from mlat import InputError
from mlat_lab.bench import dtw as bench
from mlat_lab.rivals import dtw

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
    points, first = dtw.distinct_points(X)
    np.testing.assert_array_equal(points[first[:, None] + np.arange(width)], X)
    assert len(points) < X.shape[0] * width or width == 1


@pytest.mark.slow
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


@pytest.mark.parametrize("values", [1e200, 1e-200])
def test_extreme_values_still_give_neighbours(values):
    X = np.array([[[0.0]], [[values]]])
    _, windows = dtw.nearest(X, X, 2)
    assert sorted(windows[0].tolist()) == [0, 1]


def test_benchmark_measures_us_and_names_a_peer_that_is_missing():
    rows = list(bench.run(("stream", "random", "noise"), (), n_test=20, sizes={2: 70}))
    assert [row["case"] for row in rows] == ["stream", "random", "noise"]
    assert all(row["CPU_s"] > 0 for row in rows)
    (_, row) = bench.run(
        ("noise",), ("tslearn",), n_test=5, sizes={2: 9}, peer_python=sys.executable
    )
    assert row["CPU_s"] is None or row["same"]
    assert "_note" in row or row["system"] != "tslearn"
    with pytest.raises(InputError, match="no peer named 'fast'"):
        list(bench.run(peers=("fast",)))
    with pytest.raises(InputError, match="cannot run /no/python"):
        list(bench.run(("noise",), ("aeon",), n_test=5, sizes={2: 9}, peer_python="/no/python"))


X_OK = np.zeros((6, 4, 2))
X_NAN = X_OK.copy()
X_NAN[2, 1, 0] = np.nan


@pytest.mark.parametrize(
    ("do", "line"),
    [
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
