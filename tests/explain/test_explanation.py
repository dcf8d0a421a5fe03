"""Why a step got its state, what a model goes by, and how often it is right, in figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat
from mlat.explain import explanation as references
from mlat.explain.attribution import split
from mlat.explain.confusions import count_confusions
from mlat.explain.explanation import check_step, explain
from mlat.explain.usage import usage
from mlat.synthetic import rotating_states

WIDTH = 6
LIFT = ["identity", "running_deviation"]
train = rotating_states(n_channels=3, drift=0.3, noise=0.3)
test = rotating_states(n_channels=3, drift=0.3, noise=0.3, random_state=1)

KINDS = {
    "euclidean": {"metric": "euclidean"},
    "whitened": {"metric": "euclidean", "whiten": True},
    "filter": {"metric": mlat.MLAT(max_iter=5)},
    "admm": {"metric": mlat.MLAT(solver="admm", max_iter=3)},
    "lmnn": {"metric": mlat.LMNN(max_iter=5), "n_neighbors": 3},
    "lifted": {"metric": mlat.MLAT(max_iter=5), "lift": LIFT},
    "all": {"metric": mlat.LMNN(max_iter=5), "lift": LIFT, "whiten": True, "n_neighbors": 2},
}


@pytest.fixture(scope="module", params=KINDS)
def clf(request):
    return mlat.StreamClassifier(WIDTH, **KINDS[request.param]).fit(train)


def plain(**options):
    return mlat.StreamClassifier(WIDTH, metric="euclidean", **options).fit(train)


# One step


def test_an_explanation_has_the_distances_of_the_classifier(clf):
    predicted = clf.predict(test)
    nearest = clf.class_distances(test)
    rows = clf.kneighbors(test, 4)[1]
    for step in (WIDTH - 1, 100, 205, len(test) - 1):
        found = explain(clf, test, step, n_neighbors=4)
        assert found.predicted == found.own.state == predicted[step]
        assert found.true == test.states[step]
        for towards in (found.own, found.other):
            code = clf.classes_.tolist().index(towards.state)
            assert towards.distances[0] == pytest.approx(nearest[step, code])
            assert towards.parts.total == pytest.approx(nearest[step, code] ** 2)
            assert (np.diff(towards.distances) >= 0).all()
            assert (clf.windows_.y[towards.rows] == towards.state).all()
        mine = clf.windows_.y[rows[step]] == found.own.state
        assert found.own.rows[: mine.sum()].tolist() == rows[step][mine].tolist()
        assert found.margin.total == pytest.approx(
            found.other.distances[0] ** 2 - found.own.distances[0] ** 2
        )


def test_parts_are_those_of_the_metric_before_whitening(clf):
    found = explain(clf, test, 100)
    start = clf.windows_.start[found.other.rows[0]]
    delta = clf.features(test)[95:101] - clf.reference_features_[start : start + WIDTH]
    expected = split(delta, clf.metric_matrix())
    assert np.allclose(found.other.parts.by_lag_and_feature, expected.by_lag_and_feature)
    assert found.features == clf.feature_names_
    assert len(found.channels) == len(found.features)


def test_a_mistake_is_held_against_the_true_state():
    clf = plain()
    predicted = clf.predict(test)
    nearest = clf.class_distances(test)
    judged = predicted != ""
    for step in np.flatnonzero(judged & (predicted != test.states))[:5]:
        assert explain(clf, test, step).other.state == test.states[step]
    for step in np.flatnonzero(judged & (predicted == test.states))[:5]:
        second = clf.classes_[np.argsort(nearest[step])[1]]
        assert explain(clf, test, step).other.state == second
        assert explain(clf, test, step).headline.endswith("which is right")
    assert explain(clf, test, 100, against="still").other.state == "still"


def test_a_state_that_cannot_be_held_against_is_refused():
    clf = plain()
    own = explain(clf, test, 100).own.state
    for state in (own, "walking"):
        with pytest.raises(mlat.InputError, match=f"{state} is not one of the other states"):
            explain(clf, test, 100, against=state)
    with pytest.raises(mlat.InputError, match="at least 1"):
        explain(clf, test, 100, n_neighbors=0)


def test_switches_within_the_window_are_named():
    clf = plain()
    assert explain(clf, test, 62).switches.tolist() == [60]
    assert explain(clf, test, 59).switches.tolist() == []
    unlabelled = mlat.Stream(test.values, channels=test.channels)
    found = explain(clf, unlabelled, 62)
    assert found.switches.tolist() == []
    assert found.true is None
    assert found.headline == f"Step 62: predicted {found.predicted}"


def test_a_window_like_none_is_explained_by_the_nearest():
    clf = plain(unknown_rate=0.05)
    far = mlat.Stream(test.values + 100, test.states, channels=test.channels)
    assert clf.predict(far)[100] == ""
    found = explain(clf, far, 100)
    assert found.predicted is None
    assert found.own.distances[0] <= found.other.distances[0]
    assert found.headline.startswith("Step 100: no state predicted, truly")


def test_a_known_prediction_is_taken():
    assert explain(plain(), test, 100, predicted="still").own.state == "still"


def test_numbered_states():
    numbered = mlat.Stream(train.values, train.codes)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(numbered)
    found = explain(clf, mlat.Stream(test.values, test.codes), 100)
    assert found.own.state in range(4)
    assert found.true == test.codes[100]


def test_steps_without_a_window_are_refused():
    clf = plain()
    values = test.values[:40].copy()
    values[20] = np.nan
    stream = mlat.Stream(values, recordings=[0] * 30 + [1] * 10)
    assert [check_step(clf, stream, step) for step in (5, 19, 26, 29, 35, -1)] == [
        5,
        19,
        26,
        29,
        35,
        39,
    ]
    for step, near in ((0, 5), (4, 5), (20, 26), (25, 26), (30, 35), (34, 35)):
        with pytest.raises(mlat.InputError, match=f"step {step} ends no .*; the next is {near}$"):
            check_step(clf, stream, step)
    with pytest.raises(mlat.InputError, match=r"the last is 19$"):
        check_step(clf, stream[:22], 21)
    for step in (40, -41):
        with pytest.raises(mlat.InputError, match=f"there is no step {step}"):
            check_step(clf, stream, step)
    with pytest.raises(mlat.InputError, match="no unbroken stretch of 6 steps"):
        check_step(clf, stream[:4], 2)


# A model


def naive_usage(clf):
    """By its definition, over all references, one at a time."""
    windows, M = clf.windows_, clf.metric_matrix()
    X = np.stack([clf.reference_features_[s : s + clf.width_] for s in windows.start])
    Z = X.reshape(len(X), -1)
    total, farther = np.zeros(X.shape[1:]), 0.0
    for i in range(len(X)):
        D = np.einsum("ij,jk,ik->i", Z - Z[i], M, Z - Z[i])
        same = windows.y == windows.y[i]
        own = np.argmin(np.where(same & (windows.run != windows.run[i]), D, np.inf))
        other = np.argmin(np.where(same, np.inf, D))
        total += split(X[i] - X[other], M).by_lag_and_feature
        total -= split(X[i] - X[own], M).by_lag_and_feature
        farther += D[other]
    return total / farther


def test_usage_is_what_its_definition_says(clf):
    found = usage(clf, max_judged=10**6)
    assert found.n_judged == len(clf.windows_)
    assert np.allclose(found.shares.by_lag_and_feature, naive_usage(clf), atol=1e-8)
    assert found.shares.total == pytest.approx(1 - found.own.total / found.other.total)


def test_references_are_searched_block_by_block(monkeypatch):
    clf = plain()
    expected, used = explain(clf, test, 100), usage(clf)
    monkeypatch.setattr(references, "BLOCK", 7)
    assert explain(clf, test, 100).other.rows.tolist() == expected.other.rows.tolist()
    assert np.array_equal(explain(clf, test, 100).own.distances, expected.own.distances)
    shares = usage(clf).shares.by_lag_and_feature
    assert np.allclose(shares, used.shares.by_lag_and_feature)


def test_what_does_not_tell_is_not_used():
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1] * 3, 40)
    values = np.stack([3.0 * states, np.zeros(240), np.zeros(240)], axis=1)
    values[:, :2] += rng.normal(size=(240, 2))  # a channel that tells, noise, and a still one
    clf = mlat.StreamClassifier(5, metric="euclidean").fit(values, states)
    tells, noise, still = usage(clf).shares.by_feature
    assert tells > 0.5
    assert abs(noise) < 0.1
    assert still == 0


def test_usage_of_few_references_and_of_single_runs():
    assert usage(plain(), max_judged=8).n_judged == 8
    once = rotating_states(n_channels=2, run_length=30, runs_per_state=1)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(once)
    assert usage(clf).n_judged == len(clf.windows_)
    short = rotating_states(n_channels=2, run_length=2 * WIDTH - 1, runs_per_state=1)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(short)
    with pytest.raises(mlat.InputError, match="learn from more runs"):
        usage(clf)


# Confusions


@given(st.lists(st.tuples(st.sampled_from(["a", "bb", "c", ""]), st.sampled_from(["a", "bb", ""]))))
def test_confusions_are_counted(pairs):
    true, told = [t for t, _ in pairs], [p for _, p in pairs]
    if not any(true):
        with pytest.raises(mlat.InputError, match="no states"):
            count_confusions(np.array(true, dtype=str), np.array(told, dtype=str))
        return
    found = count_confusions(true, told, known=["known"])
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
