"""What a model goes by, against its definition."""

from __future__ import annotations

import numpy as np
import pytest

import mlat
from explain_models import KINDS, WIDTH, plain, test, train
from mlat.explain.attribution import split
from mlat.explain.explanation import explain
from mlat.explain.usage import measure_usage
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module", params=KINDS)
def clf(request):
    return mlat.StreamClassifier(WIDTH, **KINDS[request.param]).fit(train)


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
    found = measure_usage(clf, max_judged=10**6)
    assert found.n_judged == len(clf.windows_)
    assert np.allclose(found.fractions.by_lag_and_feature, naive_usage(clf), atol=1e-8)
    assert found.fractions.total == pytest.approx(1 - found.own.total / found.other.total)


def test_references_are_searched_block_by_block(monkeypatch):
    clf = plain()
    expected, used = explain(clf, test, 100), measure_usage(clf)
    monkeypatch.setattr("mlat.neighbours.references.BLOCK", 7)
    assert explain(clf, test, 100).other.rows.tolist() == expected.other.rows.tolist()
    assert np.array_equal(explain(clf, test, 100).own.distances, expected.own.distances)
    fractions = measure_usage(clf).fractions.by_lag_and_feature
    assert np.allclose(fractions, used.fractions.by_lag_and_feature)


def test_what_does_not_tell_is_not_used():
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1] * 3, 40)
    values = np.stack([3.0 * states, np.zeros(240), np.zeros(240)], axis=1)
    values[:, :2] += rng.normal(size=(240, 2))  # a channel that tells, noise, and a still one
    clf = mlat.StreamClassifier(5, metric="euclidean").fit(values, states)
    tells, noise, still = measure_usage(clf).fractions.by_feature
    assert tells > 0.5
    assert abs(noise) < 0.1
    assert still == 0


def test_usage_of_few_references_and_of_single_runs():
    assert measure_usage(plain(), max_judged=8).n_judged == 8
    once = rotating_states(n_channels=2, run_length=30, runs_per_state=1)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(once)
    assert measure_usage(clf).n_judged == len(clf.windows_)
    short = rotating_states(n_channels=2, run_length=2 * WIDTH - 1, runs_per_state=1)
    clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(short)
    with pytest.raises(mlat.InputError, match="learn from more runs"):
        measure_usage(clf)
