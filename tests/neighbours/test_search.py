from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat.base.fixed_order import TILE
from mlat.metric import nearest as nearest_module
from mlat.neighbours import search as module
from mlat.neighbours.search import ClassDistances, NearestNeighbors
from naive import naive_neighbors

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_neighbours_are_the_naive_ones(seed, r, k, whole_numbers):
    rng = np.random.default_rng(seed)
    references, queries = rng.normal(size=(20, r)), rng.normal(size=(9, r))
    if whole_numbers:  # many ties
        references, queries = np.round(references), np.round(queries)
    distances, rows = NearestNeighbors(references).query(queries, k)
    expected_distances, expected_rows = naive_neighbors(queries, references, k)
    np.testing.assert_allclose(distances, expected_distances, atol=1e-12)
    if whole_numbers:
        # Centring rounds: rows of truly equal distance may swap, distances may not.
        for q, row in enumerate(rows):
            np.testing.assert_allclose(
                np.sqrt(((queries[q] - references[row]) ** 2).sum(axis=1)), expected_distances[q]
            )
            assert len(set(row)) == k
    else:
        np.testing.assert_array_equal(rows, expected_rows)


def test_points_far_from_the_origin_and_close_together_stay_apart():
    """Single precision alone would see them all at one place."""
    rng = np.random.default_rng(0)
    references = 1e6 + rng.normal(size=(200, 3))
    queries = references[::10] + 1e-4
    distances, rows = NearestNeighbors(references).query(queries)
    np.testing.assert_array_equal(rows[:, 0], np.arange(0, 200, 10))
    np.testing.assert_allclose(distances, 1e-4 * np.sqrt(3), rtol=1e-4)


def test_a_far_query_among_near_references():
    rng = np.random.default_rng(1)
    references = rng.normal(size=(50, 4)) * 1e-3
    queries = np.full((1, 4), 1e5) + rng.normal(size=(1, 4))
    _, rows = NearestNeighbors(references).query(queries, 3)
    exact = np.sqrt(((queries[0].astype(np.longdouble) - references) ** 2).sum(axis=1))
    kth = np.sort(exact)[2]
    assert (exact[rows[0]] <= kth * (1 + 1e-12)).all()


def test_blocks_of_queries_do_not_matter():
    rng = np.random.default_rng(0)
    search = NearestNeighbors(rng.normal(size=(30, 2)))
    queries = rng.normal(size=(1500, 2))
    whole = search.query(queries, 2)
    for q in (0, 511, 512, 1499):
        distance, row = search.query(queries[q : q + 1], 2)
        np.testing.assert_array_equal(row[0], whole[1][q])
        np.testing.assert_allclose(distance[0], whole[0][q], rtol=1e-14)


def test_more_neighbours_than_references():
    with pytest.raises(InputError, match="n_neighbors is 5, but there are 3"):
        NearestNeighbors(np.zeros((3, 1))).query(np.zeros((1, 1)), 5)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-100, 1e-25, 1e25, 1e100, 1e170, 1e300])
def test_the_scale_does_not_change_the_neighbours(scale):
    rng = np.random.default_rng(1)
    references, queries = rng.normal(size=(60, 4)), rng.normal(size=(20, 4))
    distances, rows = NearestNeighbors(scale * references).query(scale * queries, 3)
    expected_distances, expected_rows = naive_neighbors(queries, references, 3)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(distances / scale, expected_distances, rtol=1e-9)


# --- The nearest of every state -----------------------------------------------------------------


def nearest_by_class(Z, references, codes, n_classes, *, exclude=None):
    return ClassDistances(references, codes, n_classes).query(Z, exclude=exclude)


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
        monkeypatch.setattr(nearest_module, "CANDIDATES", TILE)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("whole_numbers", [False, True])
def test_distances_are_the_naive_ones(seed, whole_numbers):
    rng = np.random.default_rng(seed)
    r, n_classes = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    references, Z = rng.normal(size=(150, r)), rng.normal(size=(11, r))
    if whole_numbers:  # many ties
        references, Z = np.round(references), np.round(Z)
    codes = rng.integers(0, n_classes, 150)
    exclude = np.sort(rng.integers(0, 151, (11, 2)), axis=1)
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
    monkeypatch.setattr(nearest_module, "CANDIDATES", TILE)
    np.testing.assert_array_equal(nearest_by_class(Z, references, codes, 4), whole)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-25, 1.0, 1e25, 1e170, 1e300])
def test_no_scale_is_too_small_or_too_large(scale):
    rng = np.random.default_rng(1)
    references, Z = rng.normal(size=(60, 4)), rng.normal(size=(20, 4))
    codes = rng.integers(0, 3, 60)
    nearest = nearest_by_class(scale * Z, scale * references, codes, 3)
    np.testing.assert_allclose(nearest / scale, naive_nearest(Z, references, codes, 3), rtol=1e-9)


def test_states_far_from_the_origin_and_close_together_stay_apart():
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


def test_bad_states_are_named():
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


@given(seeds, st.integers(1, 5), st.booleans())
def test_the_neighbours_whatever_their_state_are_those_of_the_plain_search(seed, k, whole_numbers):
    rng = np.random.default_rng(seed)
    references, Z = rng.normal(size=(30, 3)), rng.normal(size=(9, 3))
    if whole_numbers:  # many ties
        references, Z = np.round(references), np.round(Z)
    shared = ClassDistances(references, rng.integers(0, 4, 30), 4).nearest.query(Z, k)
    for found, expected in zip(shared, NearestNeighbors(references).query(Z, k), strict=True):
        np.testing.assert_array_equal(found, expected)
