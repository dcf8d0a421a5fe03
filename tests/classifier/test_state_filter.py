from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from held_out_streams import WIDTH, learn, turning
from mlat import InputError
from mlat.classifier.confidence import fit_calibration
from mlat.classifier.state_filter import (
    Belief,
    StateFilter,
    filter_proba,
    lasting_filter,
    learn_state_filter,
    smoothed_proba,
)
from state_streams import late_by

seeds = st.integers(0, 2**32 - 1)


def random_case(seed):
    """Probabilities with missing windows and certain ones, starts, and a chain of states."""
    rng = np.random.default_rng(seed)
    n_steps, n_classes = int(rng.integers(0, 40)), int(rng.integers(1, 5))
    proba = rng.dirichlet(np.full(n_classes, rng.choice([0.01, 1.0])), n_steps)
    proba[rng.random(n_steps) < 0.2] = np.nan
    transition = rng.dirichlet(np.ones(n_classes), n_classes) * 0.3 + 0.7 * np.eye(n_classes)
    return proba, rng.random(n_steps) < 0.1, StateFilter(transition, float(rng.uniform(0.05, 1)))


def naive_filter(proba, starts, state_filter):
    """The forward recursion, as it is written in books."""
    n = len(state_filter.transition)
    values, vectors = np.linalg.eig(state_filter.transition.T)
    stationary = np.real(vectors[:, np.argmin(abs(values - 1))])
    stationary = stationary / stationary.sum()
    belief, after_none, result = stationary, True, []
    for p, start in zip(proba, starts, strict=True):
        if start:
            belief, after_none = stationary, True
        belief = [
            sum(belief[b] * state_filter.transition[b, c] for b in range(n)) for c in range(n)
        ]
        if np.isnan(p).any():
            after_none = True
            result.append([np.nan] * n)
            continue
        power = 1.0 if after_none else state_filter.tempering
        belief = np.array([belief[c] * p[c] ** power for c in range(n)])
        belief, after_none = belief / belief.sum(), False
        result.append(belief)
    return np.array(result).reshape(len(proba), n)


@given(seeds)
def test_the_filter_is_the_forward_recursion(seed):
    proba, starts, state_filter = random_case(seed)
    filtered, _ = filter_proba(proba, starts, state_filter)
    np.testing.assert_allclose(filtered, naive_filter(proba, starts, state_filter), atol=1e-9)


@given(seeds, st.lists(st.integers(0, 40), max_size=4))
def test_chunks_do_not_change_a_bit(seed, cuts):
    proba, starts, state_filter = random_case(seed)
    whole, last = filter_proba(proba, starts, state_filter)
    edges = [0, *sorted(min(cut, len(proba)) for cut in cuts), len(proba)]
    parts, belief = [], None
    for begin, end in pairwise(edges):
        part, belief = filter_proba(proba[begin:end], starts[begin:end], state_filter, belief)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(belief.proba, last.proba)
    assert belief.fresh == last.fresh


@given(seeds)
def test_rows_sum_to_one_and_nothing_is_invented(seed):
    proba, starts, state_filter = random_case(seed)
    before = proba.copy()
    filtered, _ = filter_proba(proba, starts, state_filter)
    np.testing.assert_array_equal(proba, before)
    missing = np.isnan(proba).any(axis=1)
    np.testing.assert_array_equal(np.isnan(filtered).any(axis=1), missing)
    np.testing.assert_allclose(filtered[~missing].sum(axis=1), 1)
    # Only the past counts.
    again, _ = filter_proba(proba[:7], starts[:7], state_filter)
    np.testing.assert_array_equal(again, filtered[:7])


@given(seed=seeds)
def test_smoothing_counts_every_sequence_of_states(seed):
    rng = np.random.default_rng(seed)
    n_steps, n = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    proba = rng.dirichlet(np.ones(n), n_steps)
    chain = lasting_filter(float(rng.uniform(1.5, 9)), rng.random((n, n)) + 0.1, 7)
    power = np.full(n_steps, chain.tempering)
    power[[0, -1]] = 1.0  # the first of a segment counts in full, seen from either end
    expected = np.zeros((n_steps, n))
    for path in product(range(n), repeat=n_steps):
        likely = chain.stationary[path[0]] * np.prod(proba[np.arange(n_steps), path] ** power)
        likely *= np.prod([chain.transition[a, b] for a, b in pairwise(path)])
        expected[np.arange(n_steps), path] += likely
    expected /= expected.sum(axis=1, keepdims=True)
    starts = np.arange(2 * n_steps) % n_steps == 0
    twice = smoothed_proba(np.concatenate([proba, proba]), starts, chain)
    np.testing.assert_allclose(twice, np.concatenate([expected, expected]), atol=1e-9)


def test_without_windows_belief_fades_to_the_stationary_one():
    state_filter = StateFilter(np.array([[0.9, 0.1], [0.3, 0.7]]), 0.5)
    np.testing.assert_allclose(state_filter.stationary, [0.75, 0.25])
    after = np.array([0.0, 1.0])
    windows, starts = np.full((200, 2), np.nan), np.zeros(200, bool)
    _, belief = filter_proba(windows, starts, state_filter, Belief(after))
    np.testing.assert_allclose(belief.proba, [0.75, 0.25])


def test_a_window_that_contradicts_the_belief_wholly_is_passed_over():
    belief, window = Belief(np.array([1.0, 0.0])), np.array([[0.0, 1.0]])
    state_filter = StateFilter(np.array([[1.0, 0.0], [0.5, 0.5]]), 1.0)
    _, after = filter_proba(window, np.array([False]), state_filter, belief)
    np.testing.assert_array_equal(after.proba, [1.0, 0.0])


# --- Learning how states follow each other ----------------------------------------------------


def test_a_run_ends_after_as_many_steps_as_the_median_run():
    codes = np.repeat([0, 1, 0, 2], [300, 400, 500, 2000])
    starts = np.arange(len(codes)) == 0
    state_filter = learn_state_filter(codes, starts, 3, overlap=10)
    end = 1 / 450
    np.testing.assert_allclose(np.diag(state_filter.transition), 1 - end)
    # 0 was followed by 1 and by 2, 1 by 0, 2 by nothing; each once more.
    np.testing.assert_allclose(state_filter.transition[0], [1 - end, end / 2, end / 2])
    np.testing.assert_allclose(state_filter.transition[1], [end * 2 / 3, 1 - end, end / 3])
    np.testing.assert_allclose(state_filter.transition[2], [end / 2, end / 2, 1 - end])
    assert state_filter.tempering == 0.2


def test_recordings_cut_runs_but_are_no_switches():
    codes = np.repeat([0, -1, 0, 1, 1], 200)
    starts = np.isin(np.arange(1000), [0, 600, 800])
    state_filter = learn_state_filter(codes, starts, 2, overlap=2)
    end = 1 / 200
    np.testing.assert_allclose(state_filter.transition, [[1 - end, end], [end, 1 - end]])
    assert state_filter.tempering == 1.0


@pytest.mark.parametrize("length", [60, 199])
def test_where_runs_are_short_it_changes_nothing(length):
    codes = np.repeat([0, 1, 0, 1], length)
    state_filter = learn_state_filter(codes, np.arange(len(codes)) == 0, 2, 10)
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1], len(codes))
    filtered, _ = filter_proba(proba, np.zeros(len(codes), bool), state_filter)
    np.testing.assert_allclose(filtered, proba)


@given(seeds)
def test_transitions_are_probabilities_whatever_the_stream(seed):
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(0, 30)), int(rng.integers(1, 5))
    codes = np.repeat(rng.integers(-1, n_classes, n), int(rng.integers(1, 300)))
    starts, overlap = rng.random(len(codes)) < 0.002, int(rng.integers(1, 9))
    state_filter = learn_state_filter(codes, starts, n_classes, overlap)
    np.testing.assert_allclose(state_filter.transition.sum(axis=1), 1)
    assert (state_filter.transition > 0).all()
    np.testing.assert_allclose(
        state_filter.stationary @ state_filter.transition, state_filter.stationary
    )


# --- What it costs and what it is worth -------------------------------------------------------


def test_on_a_stream_of_long_runs_it_gains_and_its_delay_is_small():
    gains, added = [], []
    for seed in range(4):
        train = turning(seed, runs_per_state=2, run_length=300, noise=1.1)
        learned = learn(train)
        calibration = fit_calibration(learned.held_out, learned.codes, learned.blocks)
        starts = np.arange(len(train)) == 0
        state_filter = learn_state_filter(train.codes, starts, 3, WIDTH)
        new = turning(100 + seed, runs_per_state=4, run_length=400, noise=1.1)
        proba = calibration.proba(learned.nearest(new))
        starts = np.arange(len(new)) == 0
        filtered, _ = filter_proba(proba, starts, state_filter)
        known = ~np.isnan(proba[:, 0])
        raw, smooth = np.full((2, len(new)), -1)
        raw[known], smooth[known] = proba[known].argmax(axis=1), filtered[known].argmax(axis=1)
        gains.append((smooth == new.codes).mean() - (raw == new.codes).mean())
        before, after = (late_by(new.codes, p) for p in (raw, smooth))
        assert np.isfinite(after).all()
        added.append(np.median(after) - np.median(before))
    assert np.mean(gains) > 0.03
    assert np.mean(added) < 2 * WIDTH


def test_bad_input_is_named():
    state_filter = StateFilter(np.eye(2), 1.0)
    with pytest.raises(InputError, match=r"shape \(T, 2\), not \(4, 3\)"):
        filter_proba(np.ones((4, 3)), np.zeros(4, bool), state_filter)
    with pytest.raises(InputError, match="4 steps and 3 starts"):
        filter_proba(np.ones((4, 2)), np.zeros(3, bool), state_filter)
    with pytest.raises(InputError, match="4 states and 3 starts"):
        learn_state_filter(np.zeros(4, int), np.zeros(3, bool), 1, 1)
    with pytest.raises(InputError, match="overlap must be at least 1, not 0"):
        learn_state_filter(np.zeros(4, int), np.zeros(4, bool), 1, 0)
