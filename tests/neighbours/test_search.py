import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat.neighbours.search import NearestNeighbors
from naive import naive_neighbors


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
