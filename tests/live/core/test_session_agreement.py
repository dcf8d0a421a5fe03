"""How far the experts of a live session agree, against the distances of ``expert_distances``."""

from __future__ import annotations

import numpy as np
import pytest

import mlat
from explain_models import committee, plain, split_vote, test
from live_oracles import push_all


def expected(clf, states):
    """The weight of the experts whose nearest state is the predicted one, by step."""
    weights = [member.weight for member in clf.committee_.deciding]
    told = np.zeros(len(states))
    for weight, D in zip(weights, clf.expert_distances(test), strict=True):
        told += weight * (clf.classes_[np.nan_to_num(D).argmin(axis=1)] == states)
    return told


@pytest.mark.parametrize(
    "options",
    [{"search": "exact"}, {"search": "incremental"}, {"search": "exact", "filtered": True}],
    ids=["exact", "incremental", "filtered"],
)
def test_agreement_is_the_weight_of_those_who_say_the_same(options):
    clf = committee()
    told = clf.live(far=None, dead="off", **options).push(test.values)
    agreement = np.array([p.agreement for p in told])
    states = np.array([p.state for p in told])
    known = states != ""
    assert np.isnan(agreement[~known]).all()
    assert (~known).any()
    # Unless an expert is in two minds up to rounding.
    assert np.allclose(agreement[known], expected(clf, states)[known])
    split = np.zeros(len(test), bool)
    split[split_vote(clf, test)] = True
    if not options.get("filtered"):
        assert ((agreement < 0.999) == split)[known].all()
        assert split.any()
    assert agreement[known].max() <= 1.0
    again = push_all(clf.live(far=None, dead="off", **options), test.values, [1, 7, 50])
    assert np.array_equal([p.agreement for p in again], agreement, equal_nan=True)


def test_one_expert_agrees_with_itself():
    for clf in (plain(), plain(n_neighbors=3)):
        told = clf.live(search="exact").push(test.values[:40])
        assert [p.agreement for p in told if not p.why] == [1.0] * (40 - clf.width_ + 1)


@pytest.mark.parametrize("search", ["exact", "incremental"])
def test_experts_speak_for_taught_states_too(search):
    clf = committee()
    live = clf.live(search=search, far=None, dead="off")
    strange = test.values[:40] + np.linspace(0, 9, 40)[:, None]
    live.push(strange)
    live.teach("elsewhere", n=3)
    told = live.push(strange[-1:] + 0.01)[0]
    assert told.state == "elsewhere"
    # A forest may not tell it from a known state: their windows lie in the same leaves.
    assert told.agreement > 0.4


def test_where_a_window_is_far_from_all_nobody_agrees():
    clf = mlat.StreamClassifier(12, unknown_rate=0.05).fit(test)
    told = clf.live(dead="off").push(test.values[:30] + 100)
    assert told[-1].why == "far"
    assert np.isnan(told[-1].agreement)
