"""Clusters of neighbours in time find what the plain search finds, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.neighbours import search as search_module
from mlat.neighbours.clusters import DIRECTIONS, IN_CLUSTER, IN_GROUP, TimeClusters
from mlat.neighbours.search import ClassDistances


def walks(rng, n, r):
    return np.cumsum(rng.normal(size=(n, r)), axis=0) * 10.0 ** rng.integers(-3, 4)


def always(monkeypatch):
    """Clusters of however few references, whatever they pass over."""
    monkeypatch.setattr(search_module, "MANY_REFERENCES", 1)
    for most in ("MOST_LEFT", "MOST_LEFT_OF_MANY"):
        monkeypatch.setattr(search_module, most, np.inf)


def both_ways(references, codes, n_classes, points, monkeypatch):
    found = []
    always(monkeypatch)
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
    always(monkeypatch)
    rng = np.random.default_rng(1)
    references = np.cumsum(rng.normal(size=(8000, 6)), axis=0)
    found = ClassDistances(references, np.repeat([0, 1], 4000), 2)
    points = references[::200] + 0.1 * rng.normal(size=(40, 6))
    found.query(points)
    assert found.clusters.n_looked_at < 0.2 * len(references) * len(points)


def test_clusters_are_asked_where_they_pass_over_most_references(monkeypatch):
    monkeypatch.setattr(search_module, "MANY_REFERENCES", 1)
    rng = np.random.default_rng(2)
    codes = np.repeat([0, 1], 4000)
    noise = rng.normal(size=(8000, 60))
    smooth = np.sin(0.003 * np.arange(8000)[:, None] + rng.uniform(0, 6, 60)) + 0.003 * noise
    shares = []
    for references, few, many in ((smooth, True, True), (noise, False, False)):
        found = ClassDistances(references, codes, 2)
        shares.append(found.share_left)
        assert ClassDistances(references, codes, 2).share_left == shares[-1]
        for n, expected in ((1, few), (40, many)):
            before = found.clusters.n_looked_at
            found.query(references[::200][:n] + 0.01)
            assert (found.clusters.n_looked_at > before) == expected
    assert shares[0] < 0.03
    assert shares[1] > 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_the_share_left_counts_what_the_bounds_leave(seed, n, r):
    rng = np.random.default_rng(seed)
    points = walks(rng, n, r)
    points /= np.abs(points).max()
    half = n // 2
    clusters = TimeClusters(points, np.arange(n), np.array([0, half, half, n]))
    x, reach = walks(rng, 3, r) / 100, rng.uniform(-0.1, 1.0, (3, 3))
    p = min(r, DIRECTIONS)
    seen, y = points @ clusters._basis, x @ clusters._basis
    read = 0
    for q in range(3):
        for s, (begin, end) in enumerate(((0, half), (half, half), (half, n))):
            read += p * -(-len(range(begin, end, IN_CLUSTER)) // IN_GROUP)
            for first in range(begin, end, IN_CLUSTER):
                own = seen[first : min(first + IN_CLUSTER, end)]
                radius = np.linalg.norm(own - own.mean(axis=0), axis=1).max()
                if np.linalg.norm(y[q] - own.mean(axis=0)) - radius <= reach[q, s]:
                    read += p * len(own)
                    read += r * int((np.linalg.norm(own - y[q], axis=1) <= reach[q, s]).sum())
    # Single precision may decide otherwise about a reference that is just within reach.
    assert abs(clusters.share_left(x, reach) * 3 * n * r - read) <= 2 * (p + r)
