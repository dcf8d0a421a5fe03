import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_dtw as naive
from mlat import InputError
from mlat.neighbours.votes import vote


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 15), st.integers(1, 6))
def test_vote_is_the_obvious_one(seed, k, n_classes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, (20, k))
    # Whole numbers: sums tie often, and are exact in any order.
    distances = rng.integers(0, 3, (20, k)).astype(float)
    codes, proba = vote(labels, distances, n_classes)
    expected_codes, expected_proba = naive.vote(labels, distances, n_classes)
    np.testing.assert_array_equal(codes, expected_codes)
    np.testing.assert_allclose(proba, expected_proba)


def test_a_tie_goes_to_the_smaller_sum_then_to_the_first_label():
    labels = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [2, 1, 1, 1]])
    distances = np.array([[1.0, 2.0, 3.0, 3.5], [1.0, 2.0, 3.0, 4.0], [0.0, 9.0, 9.0, 9.0]])
    codes, proba = vote(labels, distances, 3)
    assert codes.tolist() == [1, 0, 1]
    assert proba[2].tolist() == [0.0, 0.75, 0.25]


def test_no_windows_give_no_votes():
    codes, proba = vote(np.empty((0, 3), int), np.empty((0, 3)), 2)
    assert codes.shape == (0,)
    assert proba.shape == (0, 2)


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"\(2, 1\) and \(1, 2\)"):
        vote(np.zeros((2, 1), int), np.zeros((1, 2)), 2)
    with pytest.raises(InputError, match="0 to 1, not 0 to 2"):
        vote(np.array([[0, 2]]), np.zeros((1, 2)), 2)


@pytest.mark.parametrize("k", [2, 4, 5, 6])
def test_the_label_is_that_of_the_greatest_fraction(k):
    rng = np.random.default_rng(k)
    codes, proba = vote(rng.integers(0, 4, (500, k)), rng.random((500, k)), 4)
    np.testing.assert_array_equal(codes, proba.argmax(axis=1))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
