"""Confusions of predicted and true states, counted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat
from explain_models import train
from mlat.explain.confusions import (
    BETTER,
    HELD_OUT_LEVEL,
    NOT_BETTER,
    TOO_FEW_RUNS,
    Confusions,
    count_confusions,
    held_out_confusions,
)
from mlat.synthetic import rotating_states


@given(st.lists(st.tuples(st.sampled_from(["a", "bb", "c", ""]), st.sampled_from(["a", "bb", ""]))))
def test_confusions_are_counted(pairs):
    true, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    if not any(true):
        with pytest.raises(mlat.InputError, match="no states"):
            count_confusions(np.array(true, dtype=str), np.array(predicted, dtype=str))
        return
    found = count_confusions(true, predicted, known=["known"])
    assert "known" in found.states
    for i, t in enumerate(found.states):
        for j, p in enumerate(found.states):
            assert found.counts[i, j] == pairs.count((t, p))
    judged = [(t, p) for t, p in pairs if t and p]
    assert found.n_judged == len(judged)
    assert found.n_unjudged == sum(bool(t) and not p for t, p in pairs)
    if judged:
        assert found.accuracy == sum(t == p for t, p in judged) / len(judged)


def test_recall_and_precision():
    found = count_confusions([0, 0, 0, 1, 2], [0, 0, 1, 1, -1], known=[0, 1, 3])
    assert found.states.tolist() == [0, 1, 2, 3]
    assert np.array_equal(found.recall, [2 / 3, 1, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found.precision, [1, 1 / 2, np.nan, np.nan], equal_nan=True)
    assert np.isnan(count_confusions(["a"], [""]).accuracy)


def test_confusions_of_what_does_not_fit_are_refused():
    with pytest.raises(mlat.InputError, match="names and others numbers"):
        count_confusions(["a"], [1])
    with pytest.raises(mlat.InputError, match="one entry per step"):
        count_confusions(["a", "b"], ["a"])
    with pytest.raises(mlat.InputError, match="1 predicted states for 480 steps"):
        count_confusions(train, ["a"])


# Better than guessing


def balanced(true: list[str], told: list[str]) -> float:
    """The mean of the recall of each state, worked out plainly."""
    recalls = []
    for state in sorted(set(true)):
        answers = [t for s, t in zip(true, told, strict=True) if s == state]
        recalls.append(answers.count(state) / len(answers))
    return sum(recalls) / len(recalls)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("abc")), min_size=1))
def test_balanced_accuracy_and_what_guessing_gives(pairs):
    true, told = [t for t, _ in pairs], [p for _, p in pairs]
    found = count_confusions(true, told)
    assert found.balanced_accuracy == pytest.approx(balanced(true, told))
    # Whoever always says one state has these, whatever the stream.
    always = max(set(true), key=lambda state: (true.count(state), -ord(state)))
    assert found.most_frequent == (always, true.count(always) / len(true))
    constant = count_confusions(true, [always] * len(true))
    assert constant.balanced_accuracy == pytest.approx(found.guessing)
    assert constant.accuracy == pytest.approx(found.most_frequent[1])
    assert constant.verdict() != BETTER


def test_runs_count_and_not_steps():
    states, lengths = list("abcabc"), [2, 3, 1, 4, 2, 3]
    told = ["aa", "bbb", "a", "aaaa", "cc", "ccc"]
    true = [s for s, n in zip(states, lengths, strict=True) for _ in range(n)]
    found = count_confusions(true, list("".join(told)))
    assert found.n_runs == 6
    at = [balanced(true, list("".join(told)))]
    deals = []
    for deal in set(itertools.permutations(states)):
        dealt = [s for s, n in zip(deal, lengths, strict=True) for _ in range(n)]
        deals.append(balanced(dealt, list("".join(told))))
    assert found.p_value == pytest.approx(np.mean(np.array(deals) >= at[0] - 1e-9))
    # A hundred times as many steps are not more evidence.
    longer = count_confusions(np.repeat(true, 100), np.repeat(list("".join(told)), 100))
    assert longer.p_value == found.p_value


def test_runs_end_with_their_state_and_their_recording_alone():
    values = np.zeros((8, 1))
    values[1] = np.nan
    states = ["a", "a", "a", "", "a", "b", "a", "a"]
    told = ["a"] * 8
    assert count_confusions(mlat.Stream(values, states), told).n_runs == 3
    recordings = [0, 0, 0, 0, 1, 1, 1, 2]
    assert count_confusions(mlat.Stream(values, states, recordings=recordings), told).n_runs == 5


def test_few_runs_tell_nothing():
    def perfect(n_states: int, n_runs: int) -> Confusions:
        states = np.repeat(np.tile(np.arange(n_states), n_runs), 50)
        return count_confusions(states, states)

    assert perfect(2, 1).verdict() == TOO_FEW_RUNS
    assert perfect(2, 2).verdict() == TOO_FEW_RUNS  # one of six ways to deal them
    assert perfect(1, 9).verdict() == TOO_FEW_RUNS
    for shape in ((2, 3), (4, 1), (3, 2), (2, 30)):
        assert perfect(*shape).verdict() == BETTER
        assert perfect(*shape).verdict(HELD_OUT_LEVEL) == BETTER
    wrong = count_confusions([0] * 50 + [1] * 50, [1] * 50 + [0] * 50)
    assert wrong.verdict() == NOT_BETTER


def test_the_unknown_state_is_wrong_where_there_was_a_window():
    true, told = ["a", "a", "a", "b", "b"], ["", "", "a", "b", ""]
    found = count_confusions(true, told, complete=[False, True, True, True, False])
    assert (found.n_judged, found.n_unjudged, found.unknown.tolist()) == (3, 2, [1, 0])
    assert found.accuracy == 2 / 3
    assert found.recall.tolist() == [0.5, 1.0]
    assert found.balanced_accuracy == 0.75
    assert found.precision.tolist() == [1.0, 1.0]


def noise(rng: np.random.Generator, n_states: int, n_runs: int, length: int) -> mlat.Stream:
    order = np.concatenate([rng.permutation(n_states) for _ in range(n_runs)])
    return mlat.Stream(rng.normal(size=(len(order) * length, 2)), np.repeat(order, length))


@pytest.mark.parametrize(("n_states", "n_runs"), [(2, 5), (3, 3), (4, 2)])
def test_noise_is_caught(n_states, n_runs):
    rng = np.random.default_rng(n_states)
    new, held_out = [], []
    for _ in range(30):
        stream = noise(rng, n_states, n_runs, 30)
        clf = mlat.StreamClassifier(4, metric="euclidean").fit(stream)
        other = noise(rng, n_states, n_runs, 30)
        found = count_confusions(other, clf.predict(other), complete=clf.ends_window(other))
        new.append(found.verdict())
        found = held_out_confusions(clf)
        held_out.append(found.verdict(HELD_OUT_LEVEL))
    assert new.count(NOT_BETTER) >= 26  # 28.5 are expected, and fewer than 26 once in 60 times
    assert held_out.count(NOT_BETTER) >= 27


def test_what_is_learned_is_no_false_alarm():
    for seed in range(15):
        stream, other = (
            rotating_states(n_channels=4, noise=0.3, random_state=2 * seed + i) for i in range(2)
        )
        clf = mlat.StreamClassifier(8, metric="euclidean").fit(stream)
        found = count_confusions(other, clf.predict(other), complete=clf.ends_window(other))
        assert found.verdict() == BETTER
        found = held_out_confusions(clf)
        assert found.verdict(HELD_OUT_LEVEL) == BETTER


def test_an_interval_is_of_runs():
    true, told = np.repeat(list("abab"), 50), np.repeat(list("abbb"), 50)
    found = count_confusions(true, told)
    assert found.balanced_accuracy == 0.75
    assert found.interval == (0.5, 1.0)  # one of two runs of a is wrong: drawn never, once or twice
    assert count_confusions(true, true).interval == (1.0, 1.0)
    assert count_confusions(true[:150], true[:150]).interval is None  # b has one run
    many = np.tile(np.repeat(list("ab"), 5), 50)
    half = many.copy()
    half[:250] = "a"
    low, high = count_confusions(many, half).interval
    assert 0.65 < low < 0.75 < high < 0.85
