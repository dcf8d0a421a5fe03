"""Expected alignment against all paths, and as a pseudo-metric where time warping is none."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.lab.rivals import dtw
from mlat.lab.rivals.decade import (
    Draws,
    ExpectedAlignment,
    draw_paths,
    drawn_distances,
    meeting_weights,
    step_probabilities,
)
from naive_alignment import naive_squared, violation

seeds = st.integers(0, 2**32 - 1)


def all_paths(width, length):
    for moves in itertools.combinations(range(1, length), width - 1):
        yield np.searchsorted(moves, np.arange(length), side="right")


@settings(max_examples=40)
@given(seeds, st.integers(1, 9), st.integers(1, 6), st.integers(1, 5))
def test_paths_go_from_the_first_step_to_the_last_and_skip_none(seed, width, n_draws, n):
    steps, weights = draw_paths(n, width, n_draws, np.random.RandomState(seed))
    lengths = (weights > 0).sum(axis=1)
    assert ((lengths >= width) & (lengths <= 2 * width - 1)).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1 / n_draws)
    for series, draw in np.ndindex(n, n_draws):
        path = steps[series, draw, : lengths[draw]]
        assert path[0] == 0
        assert path[-1] == width - 1
        assert set(np.diff(path)) <= {0, 1}


def test_all_paths_of_a_length_are_equally_likely():
    steps, weights = draw_paths(4000, 3, 6, np.random.RandomState(0))
    for length in (3, 4, 5):
        drawn = steps[:, (weights > 0).sum(axis=1) == length, :length].reshape(-1, length)
        expected = {tuple(path) for path in all_paths(3, length)}
        found, counts = np.unique(drawn, axis=0, return_counts=True)
        assert {tuple(path) for path in found} == expected
        np.testing.assert_allclose(counts / len(drawn), 1 / len(expected), atol=0.03)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_meetings_are_those_of_all_pairs_of_paths(width):
    expected = np.zeros((width, width))
    for length in range(width, 2 * width):
        paths = np.array(list(all_paths(width, length)))
        at = np.stack([(paths == a).mean(axis=0) for a in range(width)], axis=1)
        np.testing.assert_allclose(step_probabilities(width, length), at)
        for p, q in itertools.product(paths, paths):
            np.add.at(expected, (p, q), 1 / (len(paths) ** 2 * length * width))
    found = meeting_weights(width)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(found.sum(axis=1), 1 / width)
    assert np.linalg.eigvalsh(found).min() > -1e-15


@settings(max_examples=30)
@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_distances_along_paths_are_the_obvious_ones(seed, width, n_draws):
    rng = np.random.RandomState(seed)
    F, G = rng.normal(size=(3, width, 2)), rng.normal(size=(2, width, 2))
    steps, weights = draw_paths(5, width, n_draws, rng)
    found = drawn_distances(F, G, Draws(steps[:3], weights), Draws(steps[3:], weights))
    for i, j in np.ndindex(3, 2):
        expected = naive_squared(F[i], G[j], steps[i], steps[3 + j], weights)
        assert found[i, j] ** 2 == pytest.approx(expected)


@settings(max_examples=60)
@given(seeds, st.integers(1, 8), st.integers(1, 6), st.floats(0.01, 100))
def test_it_is_a_pseudo_metric_while_series_keep_their_paths(seed, width, n_draws, scale):
    rng = np.random.RandomState(seed)
    # Repeated values make many series at distance 0 of each other and many tight triangles.
    F = scale * rng.randint(0, 3, size=(9, width, 2)).astype(float)
    draws = draw_paths(len(F), width, n_draws, rng)
    distances = drawn_distances(F, F, draws, draws)
    np.testing.assert_array_equal(distances, distances.T)
    assert (np.diag(distances) == 0).all()
    assert violation(distances) <= 1e-12 * scale
    expected = ExpectedAlignment(width).distances(F, F)
    assert violation(expected) <= 1e-12 * scale


def test_time_warping_is_no_metric():
    x, y, z = [[0.0], [0.0], [0.0]], [[0.0], [0.0], [2.0]], [[0.0], [2.0], [2.0]]
    warped = np.sqrt(dtw.pairwise(np.array([x, y, z])))
    assert warped[0, 2] > warped[0, 1] + warped[1, 2] + 0.8
    draws = draw_paths(3, 3, 8, np.random.RandomState(0))
    assert violation(drawn_distances(np.array([x, y, z]), np.array([x, y, z]), draws, draws)) <= 0
