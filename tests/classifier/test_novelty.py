import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from left_out_streams import learn, stream
from mlat import InputError
from mlat.classifier.confidence import fit_threshold, is_unknown, least_distance

seeds = st.integers(0, 2**32 - 1)
ALPHAS = (0.01, 0.05, 0.1)


def naive_threshold(nearest, alpha, blocks):
    """The smallest distance with enough weight at or below it, or the largest there is."""
    distance = [min(row) for row in nearest]
    n_blocks = len(set(blocks))
    for level in sorted(distance):
        weight = 0.0
        for block in set(blocks):
            own = [d for d, b in zip(distance, blocks, strict=True) if b == block]
            weight += sum(d <= level for d in own) / len(own) / (n_blocks + 1)
        if weight >= 1 - alpha - 1e-12:
            return level
    return max(distance)


@given(seeds, st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 0.9]))
def test_the_threshold_is_the_naive_one(seed, alpha):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    nearest = rng.integers(0, 20, (n, 3)).astype(float)
    blocks = rng.integers(0, 6, n)
    assert fit_threshold(nearest, alpha, blocks) == naive_threshold(nearest, alpha, blocks)
    alone = fit_threshold(nearest, alpha)
    assert alone == naive_threshold(nearest, alpha, list(range(n)))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_independent_windows_raise_the_false_alarms_asked_for(alpha):
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(300):
        threshold = fit_threshold(rng.exponential(size=(199, 1)), alpha)
        rates.append(np.exp(-threshold))  # the true rate of that threshold
    assert np.mean(rates) == pytest.approx(alpha, rel=0.15)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_blocks_of_near_copies_raise_no_more_than_asked_for(alpha):
    """Windows of a block share a level: the windows are many, what they say is little."""
    rng = np.random.default_rng(1)
    rates = []
    for _ in range(200):
        level = rng.normal(size=120)
        nearest = np.repeat(level, 20)[:, None] + 0.1 * rng.normal(size=(2400, 1))
        threshold = fit_threshold(nearest, alpha, np.repeat(np.arange(120), 20))
        new = rng.normal(size=2000) + 0.1 * rng.normal(size=2000)
        rates.append((new > threshold).mean())
    assert alpha / 4 < np.mean(rates) <= alpha * 1.1


def test_fresh_streams_raise_about_the_false_alarms_asked_for_and_unseen_states_are_found():
    alarms, found = [], []
    for seed in range(6):
        learned = learn(stream(seed, runs_per_state=4, run_length=300))
        known = learned.nearest(stream(100 + seed, runs_per_state=6, run_length=200))
        unseen = learned.nearest(stream(200 + seed, {"fast": 0.23}, runs_per_state=5))
        thresholds = [fit_threshold(learned.left_out, a, learned.blocks) for a in ALPHAS]
        alarms.append([is_unknown(known, t).mean() for t in thresholds])
        found.append([is_unknown(unseen, t).mean() for t in thresholds])
    rates, shares = np.mean(alarms, axis=0), np.mean(found, axis=0)
    assert (rates > np.array(ALPHAS) / 4).all(), rates
    assert (rates < np.array(ALPHAS) * 2).all(), rates
    # At 1 % the threshold is about the largest of a hundred blocks, and half go unnoticed.
    assert (shares > [0.4, 0.85, 0.85]).all(), shares


def test_no_rate_no_alarms():
    nearest = np.ones((3, 2))
    assert fit_threshold(nearest, 0.0) == np.inf
    assert fit_threshold(np.full((3, 2), np.nan), 0.1) == np.inf
    assert not is_unknown(np.full((1, 2), 1e300), np.inf).any()


def test_missing_windows_are_passed_over_and_raise_no_alarm():
    nearest = np.array([[1.0, 9.0], [np.nan, np.nan], [9.0, 2.0], [3.0, 9.0]])
    assert fit_threshold(nearest, 0.25) == fit_threshold(nearest[[0, 2, 3]], 0.25) == 3.0
    assert is_unknown(nearest, 1.5).tolist() == [False, False, True, True]
    np.testing.assert_array_equal(least_distance(nearest), [1.0, np.nan, 2.0, 3.0])


def test_bad_input_is_named():
    for alpha in (-0.1, 1.0, np.nan):
        with pytest.raises(InputError, match="alpha must be from 0 to less than 1"):
            fit_threshold(np.ones((2, 2)), alpha)
    with pytest.raises(InputError, match=r"not \(2,\)"):
        fit_threshold(np.ones(2), 0.1)
