import math
import warnings
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mlat import LMNN, MLAT, StreamClassifier
from mlat.classifier.selection import (
    ERRORS,
    LEAST_LEAD,
    LIFTS,
    STEEPNESS,
    Choice,
    Scores,
    Trial,
    default_reach,
    evenly,
    fair_rows,
    is_ahead,
    judge,
    learn_metric,
    run_length,
    select,
)
from mlat.stream.stream import Stream
from mlat.stream.windows import sliding_windows
from state_streams import clusters, energy_states, level_states

# Scores


def naive_scores(references, known, windows, codes, k):
    """Soft and hard scores, one window and one reference at a time."""
    soft, right = [], []
    for window, code in zip(windows, codes, strict=True):
        distance = [math.dist(window, r) for r in references]
        near = {}
        for mine in (True, False):
            among = sorted(d for d, c in zip(distance, known, strict=True) if (c == code) == mine)
            near[mine] = sum(among[:k]) / len(among[:k])
        margin = (near[False] - near[True]) / (near[False] + near[True])
        soft.append(1 / (1 + math.exp(-STEEPNESS * margin)))
        votes = {}
        for d, c in sorted(zip(distance, known.tolist(), strict=True))[:k]:
            count, total = votes.get(c, (0, 0.0))
            votes[c] = (count + 1, total + d)
        winner = min(votes, key=lambda c: (-votes[c][0], votes[c][1], c))
        right.append(winner == code)
    return np.array(soft), np.array(right, dtype=float)


@settings(max_examples=40)
@given(seed=st.integers(0, 999), k=st.sampled_from([1, 2, 5]), n=st.integers(3, 30))
def test_scores_are_those_of_plain_loops(seed, k, n):
    rng = np.random.default_rng(seed)
    known = np.append([0, 1, 2], rng.integers(3, size=n))
    references = rng.normal(size=(len(known), 4)) + known[:, None] * 0.5
    codes = np.append([0, 1, 2], rng.integers(3, size=7))
    windows = rng.normal(size=(10, 4)) + codes[:, None] * 0.5
    scores = judge(references, known, windows, codes, np.arange(10), k)
    soft, right = naive_scores(references, known, windows, codes, k)
    np.testing.assert_allclose(scores.soft, soft, rtol=1e-6)
    np.testing.assert_array_equal(scores.right, right)
    # Every state counts the same, however many windows it has.
    by_state = [np.mean(soft[codes == c]) for c in range(3)]
    assert scores.score == pytest.approx(np.mean(by_state))
    assert scores.balanced_accuracy == pytest.approx(
        np.mean([right[codes == c].mean() for c in range(3)])
    )


def test_a_window_equal_to_references_of_both_states_gets_one_half():
    same = np.zeros((2, 3))
    scores = judge(same, np.array([0, 1]), same[:1], np.array([1]), np.array([0]), 1)
    assert scores.soft.tolist() == [0.5]


def test_more_neighbours_than_a_state_has():
    references, known = np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1])
    scores = judge(references, known, np.array([[8.0]]), np.array([1]), np.array([0]), 5)
    # Its own state is 1 away, the other 7.5 on average.
    assert scores.soft[0] == pytest.approx(1 / (1 + math.exp(-STEEPNESS * 6.5 / 8.5)))
    assert scores.right.tolist() == [0.0]


def marks_of(soft, block, codes=None):
    codes = np.zeros(len(soft), int) if codes is None else codes
    return Scores(np.array(soft), np.ones(len(soft)), np.array(codes), np.array(block))


def test_the_error_of_a_lead_is_over_blocks():
    best = marks_of([0.5] * 6, [0, 0, 0, 3, 3, 9])
    rival = marks_of([0.6, 0.7, 0.8, 0.5, 0.5, 0.9], [0, 0, 0, 3, 3, 9])
    by_block = [0.2, 0.0, 0.4]
    error = np.std(by_block, ddof=1) / math.sqrt(3)
    assert rival.error(best) == pytest.approx(error)
    lead = np.mean([0.1, 0.2, 0.3, 0, 0, 0.4])
    assert is_ahead(rival, best) == (lead > ERRORS * error)
    assert not is_ahead(best, rival)


def test_a_lead_from_one_block_never_counts_and_a_steady_one_always():
    best, rival = marks_of([0.5, 0.5], [0, 0]), marks_of([0.9, 0.9], [0, 0])
    assert not is_ahead(rival, best)
    even = marks_of([0.5, 0.5], [0, 1])
    assert is_ahead(marks_of([0.51, 0.51], [0, 1]), even)
    unseen = 0.5 + LEAST_LEAD / 2
    assert not is_ahead(marks_of([unseen, unseen], [0, 1]), even)
    assert not is_ahead(best, best)


# What a metric is learned from


@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.integers(1, 200))
def test_small_states_are_kept_whole(sizes, most):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = fair_rows(labels, most)
    assert (np.diff(rows) > 0).all()
    kept = np.bincount(labels[rows], minlength=len(sizes))
    assert kept.sum() <= max(most, 2 * len(sizes))
    if sum(sizes) <= most:
        np.testing.assert_array_equal(rows, np.arange(len(labels)))
    # Nobody who gave up windows has fewer than one who kept all of them, and two at least.
    cut = kept < sizes
    if cut.any():
        assert kept[cut].min() >= min(2, most)
        assert kept[cut].min() + 1 >= kept[~cut].max(initial=0)
        assert np.ptp(kept[cut]) <= 1
    for state in np.flatnonzero(cut):  # evenly spaced, from the first to the last
        mine = rows[labels[rows] == state]
        assert mine[0] == np.flatnonzero(labels == state)[0]
        assert mine[-1] == np.flatnonzero(labels == state)[-1]
        assert np.ptp(np.diff(mine)) <= 1


def test_rows_evenly_spaced():
    assert evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert evenly(10, 4).tolist() == [0, 3, 6, 9]
    assert len(evenly(10_000, 3000)) <= 3000


def test_a_state_of_one_window_is_not_learned_from():
    choice = Choice("channels as they are", 50, 10, metric="MLAT", shrinkage=1.0)
    windows = sliding_windows(clusters(0, [60, 60, 10]), 10)
    assert (windows.y == "c").sum() == 1
    metric = learn_metric(choice, windows, 500)
    without = learn_metric(choice, windows.take(windows.y != "c"), 500)
    np.testing.assert_array_equal(metric.blocks_, without.blocks_)
    assert learn_metric(choice, sliding_windows(clusters(0, [60, 10, 10]), 10), 500) is None


# Choices


def test_a_choice_makes_what_it_says():
    choice = Choice("running energies", 40, 12)
    assert choice.make_lift().get_params() == {"maps": LIFTS["running energies"], "reach": 40}
    assert choice.make_metric() is None
    lmnn = choice.but(metric="LMNN", shrinkage=0.5, n_targets=7).make_metric()
    assert isinstance(lmnn, LMNN)
    assert (lmnn.shrinkage, lmnn.n_targets) == (0.5, 7)
    mlat = choice.but(metric="MLAT", shrinkage=2.0, n_taps=3).make_metric(max_iter=9)
    assert isinstance(mlat, MLAT)
    assert (mlat.solver, mlat.n_taps, mlat.max_iter) == ("filter", 3, 9)
    assert choice.but(metric="MLAT", solver="admm").make_metric().solver == "admm"


def test_what_differs_reads_differently():
    base = Choice("running energies", 50, 10, metric="MLAT", shrinkage=1.0)
    others = [
        *[base.but(lift=lift) for lift in LIFTS if lift != base.lift],
        *[base.but(reach=51), base.but(width=9), base.but(whiten=True)],
        *[base.but(metric="LMNN"), base.but(metric="euclidean"), base.but(shrinkage=0.1)],
        *[base.but(solver="admm"), base.but(n_taps=1), base.but(n_targets=10)],
        base.but(n_neighbors=5),
    ]
    texts = {str(choice) for choice in [base, *others]}
    assert len(texts) == 1 + len(others)
    assert str(base) == "running energies over 50 steps, 10 steps, MLAT filter, shrinkage 1"
    assert {f.name for f in fields(Choice)} >= {"lift", "reach", "width", "n_neighbors"}


# The search


@pytest.mark.parametrize("n_runs", [1, 2])
def test_where_energy_tells_it_is_used(n_runs):
    train = energy_states(0, n_runs=n_runs)
    clf = StreamClassifier().fit(train)
    choice = clf.selection_.choice
    assert choice.lift != "channels as they are"
    assert set(LIFTS[choice.lift]) & {"log_magnitude", "running_magnitude", "running_deviation"}
    plain = StreamClassifier(metric="euclidean").fit(train)
    fresh = energy_states(1, n_runs=2)
    assert clf.score(fresh) > plain.score(fresh) + 0.25
    assert clf.score(fresh) > 0.85


@pytest.mark.parametrize("seed", [0, 20])
@pytest.mark.parametrize("misleading", [False, True])
def test_where_the_level_tells_nothing_is_lost(seed, misleading):
    train = level_states(seed, misleading=misleading)
    clf = StreamClassifier().fit(train)
    plain = StreamClassifier(metric="euclidean").fit(train)
    fresh = [
        level_states(seed + i, misleading=misleading, n_runs=4, recordings=True) for i in (1, 2)
    ]
    score, usual = (np.mean([c.score(f) for f in fresh]) for c in (clf, plain))
    assert score > usual - 0.01
    if misleading:
        assert clf.selection_.choice.lift == "channels as they are"


def test_the_same_stream_gets_the_same_choice():
    train = level_states(3, run_length=120, n_runs=1)
    first, second = (select(train, 10, budget=1e9) for _ in range(2))
    assert first.choice == second.choice
    assert first.why == second.why
    for one, other in zip(first.trials, second.trials, strict=True):
        assert one.choice == other.choice
        assert (one.score, one.balanced_accuracy, one.error) == (
            other.score,
            other.balanced_accuracy,
            other.error,
        )


def test_without_time_it_keeps_the_usual():
    selection = select(energy_states(0), 10, budget=0)
    assert len(selection.trials) == 1
    assert selection.choice == selection.trials[0].choice
    assert selection.choice.lift == "channels and running energies"
    assert selection.choice.whiten
    assert selection.trials[0].kept
    assert "the budget of 0 s ended the search" in selection.why


def test_without_anything_to_judge_it_keeps_the_simplest():
    stream = clusters(0, [40, 40])
    selection = select(stream, 10)
    assert selection.trials == []
    assert selection.choice == Choice("channels as they are", default_reach(stream, 10), 10)
    assert selection.why.startswith("nothing can be judged: fewer than two states have windows far")


def test_only_what_was_chosen_on_the_way_is_kept():
    selection = select(energy_states(0), 10)
    kept = [trial for trial in selection.trials if trial.kept]
    assert kept[0] is selection.trials[0]  # the usual, with which everything began
    assert kept[-1].choice == selection.choice
    assert len(kept) <= 5
    assert selection.chosen == str(selection.choice)
    assert len({trial.choice for trial in selection.trials}) == len(selection.trials)
    assert selection.seconds >= sum(trial.seconds for trial in selection.trials) > 0
    assert all(
        0 <= trial.score <= 1 and 0 <= trial.balanced_accuracy <= 1 for trial in selection.trials
    )


@pytest.mark.parametrize(("width", "expected"), [(3, {3}), (10, {10}), (25, {10, 25}), (60, {10})])
def test_wider_windows_are_tried_where_the_stream_is_long_enough(width, expected):
    # A run of 300 steps leaves 100 between its ends: 50 steps at most.
    stream = energy_states(0, factors=(0.5, 2.0))
    selection = select(stream, width, budget=2)
    assert {trial.choice.width for trial in selection.trials} == expected
    # The usual reach, and half of it for what looks back.
    reach = default_reach(stream, width)
    assert {trial.choice.reach for trial in selection.trials} <= {reach, reach // 2}
    assert selection.trials[0].choice.reach == reach


@pytest.mark.parametrize(
    ("length", "width", "expected"),
    [(60, 10, 12), (510, 10, 100), (5000, 10, 100), (20, 10, 10), (5000, 80, 160), (100, 80, 80)],
)
def test_the_reach_is_a_fifth_of_a_run_at_most(length, width, expected):
    states = np.repeat(["a", "b", "a"], length)
    values = np.zeros((3 * length, 1))
    values[length // 2] = np.nan  # does not end a run
    stream = Stream(values, states)
    assert run_length(stream) == length
    assert default_reach(stream, width) == expected


def test_the_best_of_those_ahead_is_taken_not_the_surest():
    # Far clusters of a level each: the channels as they are give no mistake.
    stream = clusters(1, [150, 150, 150])
    selection = select(stream, 10)
    best = max(trial.score for trial in selection.trials)
    chosen = next(t for t in selection.trials if t.choice == selection.choice)
    assert chosen.score >= best - 0.01


def test_the_reach_can_be_given():
    selection = select(energy_states(0), 10, reach=20, budget=0)
    assert selection.choice.reach == 20
    assert selection.choice.make_lift().memory == 20


# The classifier with metric="auto"


def fit(stream, **options):
    """A warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return StreamClassifier(**options).fit(stream)


def with_constant(stream, channels):
    values = stream.values.copy()
    values[:, channels] = 7.1
    return Stream(values, stream.states, recordings=stream.recordings)


def fresh_clusters(seed, n_states, n_channels=2):
    """Without a switch: a lift that looks far back is as late at one as it looks back."""
    return clusters(seed, [60] * n_states, n_channels, recordings=True)


EDGES = {
    "one run of each state": lambda seed: clusters(seed, [150, 150, 150]),
    "two states": lambda seed: clusters(seed, [100, 100]),
    "60 channels": lambda seed: clusters(seed, [65, 65, 65], n_channels=60),
    "20 windows of each state": lambda seed: clusters(seed, [29, 29, 29]),
    "20 windows of each state, twice": lambda seed: clusters(seed, [29] * 6, states="abcabc"),
    "2000 windows against 30": lambda seed: clusters(seed, [2009, 39]),
    "2000 windows against 30, twice": lambda seed: clusters(seed, [1009, 24] * 2, states="abab"),
    "a channel that stands still": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [1]),
    "only one channel moves": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [0, 2]),
    "one state has no second episode": lambda seed: clusters(seed, [80, 80, 80], states="aba"),
}


@pytest.mark.parametrize("name", EDGES)
def test_every_stream_gets_a_sensible_classifier(name):
    train = EDGES[name](0)
    clf = fit(train, budget=0.5 if "60" in name else 60)
    fresh = fresh_clusters(1, len(train.classes), train.n_channels)
    if "channel" in name and "60" not in name:
        still = np.flatnonzero(np.ptp(train.values, axis=0) == 0)
        fresh = with_constant(fresh, still)
    assert clf.classes_.tolist() == train.classes.tolist()
    assert clf.score(fresh) > 0.95
    proba = clf.predict_proba(fresh)
    assert np.isfinite(proba).all(axis=1).sum() == (61 - clf.width_) * len(train.classes)
    assert len(clf.selection_.chosen) > 10


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_state_of_one_window_disturbs_no_other(repeats):
    """One window a run has no target to learn from; it is a reference, as good as it can be."""
    train = clusters(0, [90, 90, 10] * repeats, states="abc" * repeats)
    clf = fit(train)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert (clf.windows_.y == "c").sum() == repeats
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    assert clf.predict(train.values[:190], filtered=True).shape == (190,)


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_any_kind(seed):
    train, fresh = clusters(seed, [80, 80]), fresh_clusters(seed + 5, 2)
    clf = fit(train, budget=1)
    single = fit(Stream(train.values.astype(np.float32), train.states), budget=1)
    assert single.score(Stream(fresh.values.astype(np.float32), fresh.states)) > 0.9
    numbered = fit(Stream(np.round(10 * train.values).astype(int), train.codes + 4), budget=1)
    predicted = numbered.predict(np.round(10 * fresh.values).astype(int))
    assert numbered.unknown_ == -1
    assert set(predicted) == {-1, 4, 5}
    assert np.mean(predicted == fresh.codes + 4) > 0.85
    assert clf.predict(fresh).dtype.kind == "U"


def test_missing_values_recordings_and_unlabelled_segments():
    train = clusters(0, [120, 120, 120, 120], states="abab")
    values, states = train.values.copy(), train.states.copy()
    values[[50, 130, 131, 300], [0, 1, 0, 1]] = np.nan
    states[200:240] = ""
    recordings = np.arange(480) // 160
    clf = fit(Stream(values, states, recordings=recordings))
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    fresh = clusters(1, [100, 100])
    broken = fresh.values.copy()
    broken[70, 1] = np.nan
    predicted = clf.predict(Stream(broken, recordings=np.arange(200) >= 150))
    unknown = np.flatnonzero(predicted == "")
    w = clf.width_ - 1
    expected = [*range(w), *range(70, 71 + w), *range(150, 150 + w)]
    assert unknown.tolist() == expected


def test_a_channel_that_stands_still_within_runs_adds_no_noise():
    """As a switch or a setting does: its deviation is nothing, and not the rounding of it."""

    def with_setting(stream, seed):
        level = np.random.default_rng(seed).choice([0.1, 0.7, 0.3], size=len(stream.runs))
        return Stream(
            np.column_stack([stream.values, np.repeat(level, stream.runs.length)]), stream.states
        )

    train = with_setting(energy_states(0, n_runs=3, run_length=150), 0)
    clf = fit(train, budget=0)  # the usual: channels and running energies
    setting = clf.feature_channels_ == 2
    names = np.array(clf.feature_names_)[setting]
    features = clf.features(train)[10:]
    for name, feature in zip(names, features[:, setting].T, strict=True):
        if "deviation" in name or "difference" in name:
            reach = clf.features_.lift.reach
            inside = [feature[a:b][reach + 10 : -10] for a, b, _ in train.runs]
            assert max(np.abs(part).max() for part in inside) < 1e-9


def test_the_selection_tells_what_was_tried_and_why():
    clf = fit(energy_states(0), reach=30)
    selection = clf.selection_
    assert len(selection.trials) > 5
    assert all(isinstance(trial, Trial) for trial in selection.trials)
    assert selection.choice in [trial.choice for trial in selection.trials]
    assert selection.chosen == str(selection.choice)
    assert f"energies over {selection.choice.reach} steps" in selection.chosen
    assert selection.choice.reach <= 30
    assert f"{len(selection.trials)} choices tried" in selection.why
    assert "standard errors" in selection.why
    # And the classifier is what was chosen.
    choice = selection.choice
    assert (clf.width_, clf.n_neighbors_) == (choice.width, choice.n_neighbors)
    assert clf.features_.lift.get_params() == choice.make_lift().get_params()
    assert (clf.features_.mixing is not None) == choice.whiten
    assert type(clf.metric_) is type(choice.make_metric())
    assert len(clf.feature_names_) == clf.features_.n_features == len(clf.feature_channels_)


def test_the_same_stream_gives_the_same_classifier():
    train, fresh = clusters(0, [80, 80]), clusters(1, [60, 60])
    first, second = fit(train, budget=1e9), fit(train, budget=1e9)
    assert first.selection_.choice == second.selection_.choice
    np.testing.assert_array_equal(first.predict_proba(fresh), second.predict_proba(fresh))
    assert clone(first).get_params() == first.get_params()


def test_a_selection_has_a_short_text():
    selection = select(energy_states(0), 10, budget=0)
    assert repr(selection) == (
        f"<Selection: {selection.chosen}; 1 tried in {selection.seconds:.1f} s, balanced accuracy "
        f"{selection.trials[0].balanced_accuracy:.1%}>"
    )
    assert "balanced" not in repr(select(clusters(0, [40, 40]), 10))
