"""Why a state is predicted at a step."""

from __future__ import annotations

import numpy as np
import pytest

import mlat
from explain_models import KINDS, WIDTH, plain, test, train
from mlat.explain.attribution import split
from mlat.explain.explanation import check_step, explain


@pytest.fixture(scope="module", params=KINDS)
def clf(request):
    return mlat.StreamClassifier(WIDTH, **KINDS[request.param]).fit(train)


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
        assert found.leading.margin.total == pytest.approx(
            found.other.distances[0] ** 2 - found.own.distances[0] ** 2
        )


def test_parts_are_those_of_the_metric_before_whitening(clf):
    found = explain(clf, test, 100)
    start = clf.windows_.start[found.other.rows[0]]
    delta = clf.features(test)[95:101] - clf.reference_features_[start : start + WIDTH]
    expected = split(delta, clf.metric_matrix())
    assert np.allclose(found.other.parts.by_lag_and_feature, expected.by_lag_and_feature)
    assert found.leading.features == clf.feature_names_
    assert len(found.leading.channels) == len(found.leading.features)


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
