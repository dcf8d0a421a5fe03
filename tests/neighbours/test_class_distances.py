from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat.classifier.held_out import held_out_gap, rows_nearby, time_blocks
from mlat.neighbours import class_distances as module
from mlat.neighbours.class_distances import ClassDistances, nearest_by_class

seeds = st.integers(0, 2**32 - 1)


def naive_nearest(Z, references, codes, n_classes, exclude=None):
    """Every distance, one pair at a time."""
    nearest = np.full((len(Z), n_classes), np.inf)
    for q, z in enumerate(Z):
        for i, (reference, code) in enumerate(zip(references, codes, strict=True)):
            if exclude is not None and exclude[q][0] <= i < exclude[q][1]:
                continue
            nearest[q, code] = min(nearest[q, code], np.sqrt(((z - reference) ** 2).sum()))
    return nearest


@pytest.fixture(params=["whole", "small blocks"])
def blocks(request, monkeypatch):
    if request.param == "small blocks":
        monkeypatch.setattr(module, "QUERIES", 3)
        monkeypatch.setattr(module, "REFERENCES", 7)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("whole_numbers", [False, True])
def test_distances_are_the_naive_ones(seed, whole_numbers):
    rng = np.random.default_rng(seed)
    r, n_classes = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    references, Z = rng.normal(size=(20, r)), rng.normal(size=(11, r))
    if whole_numbers:  # many ties
        references, Z = np.round(references), np.round(Z)
    codes = rng.integers(0, n_classes, 20)
    exclude = np.sort(rng.integers(0, 21, (11, 2)), axis=1)
    for left_out in (None, exclude):
        nearest = nearest_by_class(Z, references, codes, n_classes, exclude=left_out)
        expected = naive_nearest(Z, references, codes, n_classes, left_out)
        np.testing.assert_allclose(nearest, expected, atol=1e-12)


@given(seeds, st.lists(st.integers(0, 40), max_size=4))
def test_a_window_has_the_same_distances_in_any_company(seed, cuts):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, 40))
    search = ClassDistances(rng.normal(size=(50, r)), rng.integers(0, 3, 50), 3)
    Z = rng.normal(size=(40, r))
    exclude = np.sort(rng.integers(0, 51, (40, 2)), axis=1)
    whole = search.query(Z, exclude=exclude)
    edges = [0, *sorted(cuts), 40]
    parts = [search.query(Z[a:b], exclude=exclude[a:b]) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_blocks_do_not_change_a_bit(monkeypatch):
    rng = np.random.default_rng(0)
    references, Z = rng.normal(size=(300, 9)), rng.normal(size=(100, 9))
    codes = rng.integers(0, 4, 300)
    whole = nearest_by_class(Z, references, codes, 4)
    monkeypatch.setattr(module, "QUERIES", 7)
    monkeypatch.setattr(module, "REFERENCES", 32)
    np.testing.assert_array_equal(nearest_by_class(Z, references, codes, 4), whole)


@pytest.mark.parametrize("scale", [1e-100, 1e-25, 1.0, 1e25, 1e100])
def test_no_scale_is_too_small_or_too_large(scale):
    rng = np.random.default_rng(1)
    references, Z = rng.normal(size=(60, 4)), rng.normal(size=(20, 4))
    codes = rng.integers(0, 3, 60)
    nearest = nearest_by_class(scale * Z, scale * references, codes, 3)
    np.testing.assert_allclose(nearest / scale, naive_nearest(Z, references, codes, 3), rtol=1e-9)


def test_points_far_from_the_origin_and_close_together_stay_apart():
    rng = np.random.default_rng(0)
    references = 1e6 + rng.normal(size=(200, 3))
    codes = np.arange(200) % 2
    nearest = nearest_by_class(references[::10] + 1e-4, references, codes, 2)
    np.testing.assert_allclose(nearest[:, 0], 1e-4 * np.sqrt(3), rtol=1e-4)
    assert (nearest[:, 1] > 0.01).all()


def test_a_far_query_beyond_single_precision():
    references = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    nearest = nearest_by_class(np.array([[1e40, 0.0]]), references, np.array([0, 1, 1]), 2)
    np.testing.assert_allclose(nearest, [[1e40, 1e40]])


def test_missing_windows_and_missing_states():
    Z = np.array([[np.nan, 0.0], [0.0, 0.0]])
    nearest = nearest_by_class(Z, np.ones((2, 2)), np.array([0, 2]), 3)
    assert np.isnan(nearest[0]).all()
    np.testing.assert_allclose(nearest[1], [np.sqrt(2), np.inf, np.sqrt(2)])
    assert nearest_by_class(np.empty((0, 2)), np.ones((2, 2)), np.array([0, 2]), 3).shape == (0, 3)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="2 references and 3 codes"):
        nearest_by_class(np.ones((1, 1)), np.ones((2, 1)), np.zeros(3, int), 1)
    with pytest.raises(InputError, match="0 to 1, not 0 to 2"):
        nearest_by_class(np.ones((1, 1)), np.ones((2, 1)), np.array([0, 2]), 2)
    with pytest.raises(InputError, match=r"\(m, 1\), not \(1, 2\)"):
        nearest_by_class(np.ones((1, 2)), np.ones((2, 1)), np.array([0, 1]), 2)
    with pytest.raises(InputError, match=r"\(1, 2\), not \(2, 2\)"):
        nearest_by_class(
            np.ones((1, 1)), np.ones((2, 1)), np.array([0, 1]), 2, exclude=np.zeros((2, 2), int)
        )


# --- Which references to leave out ------------------------------------------------------------


def random_windows(seed):
    """Starts and states of windows in the order of a stream, with gaps and with time going back."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    start = np.cumsum(rng.choice([1, 1, 1, 2, 7], n))
    if rng.random() < 0.3:
        start[n // 2 :] -= start[n // 2]
    codes = np.repeat(rng.integers(0, 3, n), rng.integers(1, 9, n))[:n]
    return start, codes


def naive_nearby(start, codes, gap, i):
    """The rows around i that a walk to either side meets."""
    rows = {i}
    for way in (-1, 1):
        j = i + way
        while (
            0 <= j < len(start)
            and codes[j] == codes[i]
            and way * (start[j] - start[j - way]) > 0
            and abs(start[j] - start[i]) < gap
        ):
            rows.add(j)
            j += way
    return rows


@given(seeds, st.integers(1, 12))
def test_rows_nearby_are_those_a_walk_meets(seed, gap):
    start, codes = random_windows(seed)
    gaps = gap + np.arange(len(start)) % 3
    for every in (gap, gaps):
        rows = rows_nearby(start, codes, every)
        for i, (first, last) in enumerate(rows):
            own = every if np.isscalar(every) else every[i]
            assert set(range(first, last)) == naive_nearby(start, codes, own, i)


@given(seeds, st.integers(1, 10))
def test_blocks_are_short_and_of_one_state(seed, length):
    start, codes = random_windows(seed)
    blocks = time_blocks(start, codes, length)
    assert blocks[0] == 0
    assert set(np.diff(blocks)) <= {0, 1}
    for block in np.unique(blocks):
        rows = blocks == block
        assert len(np.unique(codes[rows])) == 1
        assert np.ptp(start[rows]) < length


def test_the_gap_is_ten_widths_or_half_of_a_short_state():
    start = np.concatenate([np.arange(500), 500 + np.arange(41)])
    codes = np.repeat([0, 1], [500, 41])
    gap = held_out_gap(start, codes, width=8)
    assert set(gap[codes == 0]) == {80}
    assert set(gap[codes == 1]) == {20}
    # So every window has a reference of its own state left.
    rows = rows_nearby(start, codes, gap)
    Z = np.zeros((len(start), 1))
    nearest = nearest_by_class(Z, Z, codes, 2, exclude=rows)
    assert np.isfinite(nearest).all()


def test_windows_left_out_need_a_gap():
    with pytest.raises(InputError, match="gap must be at least 1, not 0"):
        rows_nearby(np.arange(3), np.zeros(3, int), 0)
    with pytest.raises(InputError, match="length must be at least 1, not 0"):
        time_blocks(np.arange(3), np.zeros(3, int), 0)
    assert rows_nearby(np.empty(0, int), np.empty(0, int), 1).shape == (0, 2)
    assert time_blocks(np.empty(0, int), np.empty(0, int), 1).shape == (0,)
