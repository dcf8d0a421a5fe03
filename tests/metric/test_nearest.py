import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric import nearest as module
from mlat.metric.nearest import Places, nearest
from mlat.stream.windows import Windows


def naive_nearest(X, others, k, rows, permitted):
    """Every permitted pair, sorted by distance and then by row."""
    found = np.full((len(X), k), -1)
    for q, x in enumerate(X):
        pairs = [
            (float(((x - y) ** 2).sum()), row)
            for i, (y, row) in enumerate(zip(others, rows, strict=True))
            if permitted(q, i)
        ]
        for place, (_, row) in enumerate(sorted(pairs)[:k]):
            found[q, place] = row
    return found


@pytest.fixture(params=["whole", "small blocks"])
def blocks(request, monkeypatch):
    if request.param == "small blocks":
        monkeypatch.setattr(module, "BLOCK", 3)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [1, 3, 25])
def test_the_nearest_are_the_naive_ones_and_ties_go_to_the_lower_row(seed, k):
    rng = np.random.default_rng(seed)
    # Whole numbers: many ties, and distances that are exact.
    X, others = rng.integers(-2, 3, (11, 2)), rng.integers(-2, 3, (20, 2))
    rows = rng.permutation(40)[:20]
    found = nearest(X, others, k, rows=rows)
    expected = naive_nearest(X, others, k, rows, lambda q, i: True)
    np.testing.assert_array_equal(found.rows, expected)
    np.testing.assert_array_equal(np.isinf(found.squared), expected < 0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_windows_too_near_in_time_are_excluded(seed, k):
    rng = np.random.default_rng(seed)
    n = 20
    places = Places(
        np.arange(n), rng.integers(0, 30, n), rng.integers(0, 3, n), rng.integers(0, 9, n)
    )
    X = rng.integers(-2, 3, (n, 2))

    def permitted(q, i):
        near = abs(int(places.start[q] - places.start[i])) < places.gap[q]
        return q != i and not (places.run[q] == places.run[i] and near)

    found = nearest(X, X, k, places=(places, places))
    np.testing.assert_array_equal(found.rows, naive_nearest(X, X, k, range(n), permitted))


def test_nothing_to_compare_finds_nothing():
    assert (nearest(np.zeros((2, 3)), np.empty((0, 3)), 1).rows == -1).all()
    assert nearest(np.empty((0, 3)), np.zeros((2, 3)), 1).rows.shape == (0, 1)


@given(st.integers(0, 2**32 - 1), st.integers(-1000, 1000), st.booleans())
def test_no_unit_is_too_small_or_too_large(seed, power, many):
    """With few pairs, and with so many that products are in single precision."""
    rng = np.random.default_rng(seed)
    X, others = rng.normal(size=(9, 3)), rng.normal(size=(30, 3))
    expected = nearest(X, others, 4).rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY_PAIRS", 0 if many else module.MANY_PAIRS)
        found = nearest(np.ldexp(X, power), np.ldexp(others, power), 4)
    np.testing.assert_array_equal(found.rows, expected)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 4))
def test_windows_that_share_steps_find_the_same(seed, width, k):
    """By the steps they share, in tiles and blocks that end within runs, bit by bit."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 120, rng.integers(1, 5))
    whole = rng.random() < 0.5  # whole numbers: many ties
    runs, starts, windows = [], [], []
    for run, length in enumerate(lengths):
        steps = rng.normal(size=(length + width - 1, 2)) + run
        steps = np.round(steps) if whole else steps * 10.0 ** rng.integers(-3, 4)
        views = np.lib.stride_tricks.sliding_window_view(steps, width, axis=0).transpose(0, 2, 1)
        windows.append(views.reshape(length, -1))
        runs.append(np.full(length, run))
        starts.append(1000 * run + np.arange(length))
    X = np.concatenate(windows)
    n = len(X)
    start, run = np.concatenate(starts), np.concatenate(runs)
    shared = Windows.of_array(X.reshape(n, width, 2), run, start, run)
    places = Places(np.arange(n), start, run, rng.integers(0, 99, n))
    rows = rng.permutation(2 * n)[:n]
    expected = nearest(X, X, k, rows=rows, places=(places, places))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "OTHERS", module.CHUNK)
        patch.setattr(module, "WINDOWS", 7)
        patch.setattr(module, "n_threads", lambda: 1 + seed % 3)
        ways = []
        patch.setattr(module, "nearest", lambda *a, **b: ways.append("plain") or nearest(*a, **b))
        found = module.nearest_windows(shared, k, rows=rows, places=places)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.squared, expected.squared)
    assert bool(ways) == ((lengths + width - 1).sum() > 2 * n)


def test_windows_that_share_nothing_are_compared_as_they_are():
    X = np.random.default_rng(0).normal(size=(50, 12))
    places = Places(np.arange(50), np.arange(50), np.zeros(50, int), np.full(50, 3))
    alone = Windows.of_array(X.reshape(50, 4, 3), places.run, places.start, places.run)
    found = module.nearest_windows(alone, 2, rows=np.arange(50), places=places)
    expected = nearest(X, X, 2, places=(places, places))
    np.testing.assert_array_equal(found.rows, expected.rows)
