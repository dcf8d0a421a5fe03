"""Why a committee predicts a state: what each expert says, and what that adds up to."""

from __future__ import annotations

import numpy as np
import pytest

import mlat
from explain_models import COMMITTEE_WIDTH, committee, plain, split_vote, test
from mlat.explain import experts_of, explain, measure_usage
from mlat.explain.experts import expert_of


def test_opinions_are_the_distances_of_each_expert():
    clf = committee()
    distances, together = clf.expert_distances(test), clf.class_distances(test)
    assert len(clf.experts_) > 1
    assert {expert.windows.width for expert in clf.experts_} == {1, COMMITTEE_WIDTH}
    for step in [COMMITTEE_WIDTH - 1, 100, *split_vote(clf, test)[:5]]:
        found = explain(clf, test, step)
        assert found.predicted == clf.predict(test)[step]
        assert np.allclose(found.nearest, together[step])
        assert [one.name for one in found.opinions] == [m.name for m in clf.committee_.deciding]
        assert sum(one.weight for one in found.opinions) == pytest.approx(1)
        for one, D in zip(found.opinions, distances, strict=True):
            assert np.allclose(one.nearest, D[step])
            assert one.state == clf.classes_[D[step].argmin()]
            for towards in (one.own, one.other):
                code = clf.classes_.tolist().index(towards.state)
                assert towards.distances[0] == pytest.approx(D[step, code])
                assert (clf.windows_.y[towards.rows] == towards.state).all()


def test_what_experts_add_is_the_log_odds_of_the_probabilities():
    clf = committee()
    proba = clf.predict_proba(test)
    for step in split_vote(clf, test)[:8]:
        found = explain(clf, test, step)
        own, other = (
            proba[step, clf.classes_.tolist().index(s.state)] for s in (found.own, found.other)
        )
        assert found.log_odds == pytest.approx(np.log(own / other))
        assert found.leading.log_odds == max(one.log_odds for one in found.opinions)
    one = plain()
    p = one.predict_proba(test)[100]
    found = explain(one, test, 100)
    codes = [one.classes_.tolist().index(s.state) for s in (found.own, found.other)]
    assert found.log_odds == pytest.approx(np.log(p[codes[0]] / p[codes[1]]))


def test_parts_of_each_expert_add_up_over_the_features_it_sees():
    clf = committee()
    found = explain(clf, test, split_vote(clf, test)[0])
    for one, expert in zip(found.opinions, experts_of(clf), strict=True):
        assert one.features == expert.features
        assert one.width == expert.width
        assert len(one.features) == len(one.channels) == len(expert.columns)
        for towards in (one.own, one.other):
            assert towards.parts.by_lag_and_feature.shape == (one.width, len(one.features))
            assert towards.parts.total == pytest.approx(towards.distances[0] ** 2, rel=1e-6)
        assert one.margin.by_channel(one.channels, 3).sum() == pytest.approx(one.margin.total)
    assert found.opinions[0].features == ("sensor 1", "sensor 2", "sensor 3")
    assert found.opinions[2].features[0] == "log deviation of sensor 1"


def test_who_decided_and_who_disagreed():
    clf = committee()
    distances = clf.expert_distances(test)
    weights = np.array([member.weight for member in clf.committee_.deciding])
    some = {"alone": 0, "not alone": 0}
    for step in split_vote(clf, test):
        found = explain(clf, test, step)
        own = clf.classes_.tolist().index(found.own.state)
        said = [D[step].argmin() for D in distances]
        assert found.agreement == pytest.approx(sum(weights[np.array(said) == own]))
        for m, one in enumerate(found.opinions):
            # Without an expert: the others' distances, with the same typical ones.
            flat = [
                np.ones_like(D[step : step + 1]) if m == i else D[step : step + 1]
                for i, D in enumerate(distances)
            ]
            assert one.alone_decides == (clf.committee_.combine(flat)[0].argmin() != own)
            assert one.agrees == (said[m] == own)
            assert (f"{one.name} ({one.state})" in found.in_words) == (not one.agrees)
        some["alone" if any(o.alone_decides for o in found.opinions) else "not alone"] += 1
        assert ("decided: without" in found.in_words) == any(
            one.alone_decides for one in found.opinions
        )
    assert min(some.values()) > 0
    agreed = np.setdiff1d(np.arange(COMMITTEE_WIDTH, len(test)), split_vote(clf, test))[0]
    found = explain(clf, test, agreed)
    assert found.in_words == f"All experts say {found.predicted}."
    assert found.agreement == pytest.approx(1)


def test_a_single_expert_agrees_and_decides_alone():
    found = explain(plain(), test, 100)
    (one,) = found.opinions
    assert (one.name, one.weight, one.agrees, one.alone_decides) == ("", 1.0, True, True)
    assert found.agreement == 1.0
    assert found.in_words == ""


def test_usage_of_each_expert():
    clf = committee()
    for place, expert in enumerate(experts_of(clf)):
        used = measure_usage(clf, expert=place, max_judged=40)
        assert used.features == expert.features
        assert used.fractions.by_lag_and_feature.shape == (expert.width, len(expert.features))
        Z = expert.references.embedded()
        # The mean squared distance to the nearest of another state, by its points.
        y, judged = clf.windows_.y, []
        for state in clf.classes_:
            rows = np.flatnonzero(y == state)
            judged += rows[np.linspace(0, len(rows) - 1, 10).round().astype(int)].tolist()
        D = ((Z[judged, None] - Z[None]) ** 2).sum(axis=2)
        nearest = [D[i][y != y[row]].min() for i, row in enumerate(judged)]
        assert used.other.total == pytest.approx(np.mean(nearest), rel=1e-6)
        by_name = measure_usage(clf, expert=expert.name, max_judged=40)
        assert by_name.other.total == used.other.total


def test_an_expert_must_be_named_and_be_there():
    clf = committee()
    with pytest.raises(mlat.InputError, match=r"several experts; name one: 0 \(MLAT over channels"):
        measure_usage(clf)
    with pytest.raises(mlat.InputError, match="there is no expert 'nobody'"):
        measure_usage(clf, expert="nobody")
    with pytest.raises(mlat.InputError, match=r"there is no expert 1; there are 0 \(the only one"):
        expert_of(plain(), 1)
    assert expert_of(plain(), 0).name == ""
