"""Clusters of neighbours in time find what the plain search finds, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.neighbours import search as search_module
from mlat.neighbours.search import ClassDistances


def walks(rng, n, r):
    return np.cumsum(rng.normal(size=(n, r)), axis=0) * 10.0 ** rng.integers(-3, 4)


def both_ways(references, codes, n_classes, points, monkeypatch):
    found = []
    for many in (1, 10**9):
        monkeypatch.setattr(search_module, "MANY_REFERENCES", many)
        found.append(ClassDistances(references, codes, n_classes).query_rows(points))
    return found


@given(st.integers(0, 2**32 - 1), st.integers(1, 120), st.integers(1, 70), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_clusters_find_what_the_plain_search_finds(seed, n, r, n_classes):
    rng = np.random.default_rng(seed)
    references = walks(rng, n, r)
    codes = np.sort(rng.integers(0, n_classes, n))
    if seed % 3 == 0:  # equally near references: the first of them counts
        references = references[rng.integers(0, n, n)]
        codes = rng.integers(0, n_classes, n)
    points = np.concatenate([references[:5], references[:5] + rng.normal(size=r), walks(rng, 9, r)])
    with pytest.MonkeyPatch.context() as patch:
        (near, rows), (plain_near, plain_rows) = both_ways(
            references, codes, n_classes, points, patch
        )
    np.testing.assert_array_equal(near, plain_near)
    np.testing.assert_array_equal(rows, plain_rows)


def test_points_far_out_and_missing_values_are_as_without_clusters(monkeypatch):
    rng = np.random.default_rng(0)
    references, codes = walks(rng, 60, 4), np.repeat([0, 1, 3], 20)
    points = np.stack([references[3], np.full(4, 1e40), [np.nan, 0, 0, 0]])
    (near, rows), (plain_near, plain_rows) = both_ways(references, codes, 4, points, monkeypatch)
    np.testing.assert_array_equal(near, plain_near)
    np.testing.assert_array_equal(rows, plain_rows)
    assert np.isnan(near[2]).all()


def test_most_references_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(search_module, "MANY_REFERENCES", 1)
    rng = np.random.default_rng(1)
    references = np.cumsum(rng.normal(size=(8000, 6)), axis=0)
    found = ClassDistances(references, np.repeat([0, 1], 4000), 2)
    points = references[::200] + 0.1 * rng.normal(size=(40, 6))
    found.query(points)
    assert found.clusters.n_looked_at < 0.2 * len(references) * len(points)
