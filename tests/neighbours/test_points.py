"""The searches of experts that see one step: exactly what comparing one by one finds."""

from functools import cache

import numpy as np
import pytest

import mlat
from mlat.features.features import View
from mlat.metric.forest import Forest
from mlat.neighbours.incremental import found_nothing
from mlat.neighbours.points import StepSearch
from mlat.neighbours.references import References
from mlat.synthetic import rotating_states

STATES = np.unique(rotating_states().states)
BREAKS, GOES_ON, BEGINS = 0, 1, 2
KINDS = ["forest", "whitened"]
rng = np.random.default_rng(0)


@cache
def expert(kind):
    """Single steps of the third and the first channel, under a forest or whitened."""
    stream = rotating_states(n_channels=3, run_length=60, random_state=0)
    clf = mlat.StreamClassifier(1, metric="euclidean", lift=["identity"]).fit(stream)
    shared, columns = clf.references_, np.array([2, 0])
    if kind == "whitened":
        view = View(columns, np.array([[1.5, 0.25], [-0.5, 0.75]]))
        return References(shared.windows, shared.features, None, view=view)
    seen = shared.steps[shared.windows.start][:, None, columns]
    forest = Forest(n_estimators=7).fit(seen, shared.windows.y)
    return References(shared.windows, shared.features, forest, view=View(columns))


def one_by_one(references, features):
    """The distance of each step to every reference."""
    of_steps = references.embed(references.view(features)[:, None])
    return np.sqrt(((of_steps[:, None] - references.embedded()) ** 2).sum(axis=2))


def nearest_of_each(references, features):
    every, states = one_by_one(references, features), range(len(references.classes))
    return np.stack([every[:, references.codes == s].min(axis=1) for s in states], axis=1)


def push(search, features, owner=None, marks=None, state=None):
    n = len(features)
    found = found_nothing(1, n, len(STATES)).at(0)
    owner = np.zeros(n, np.int64) if owner is None else owner
    marks = np.full(n, GOES_ON) if marks is None else marks
    search.push(search.start(3) if state is None else state, features, owner, marks, found)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e6])
def test_the_nearest_of_each_state(kind, size):
    features = size * rng.normal(size=(50, 3))
    found = push(StepSearch.of(expert(kind)), features)
    distances = nearest_of_each(expert(kind), features)
    np.testing.assert_allclose(found.nearest, distances, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.bound, 0.0)
    of_rows = np.take_along_axis(one_by_one(expert(kind), features), found.rows, axis=1)
    np.testing.assert_allclose(of_rows, distances, rtol=1e-9, atol=1e-12)
    assert (expert(kind).codes[found.rows] == np.arange(len(expert(kind).classes))).all()


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_the_same_as_predict_to_the_last_bit_in_any_company(kind):
    search, features = StepSearch.of(expert(kind)), rng.normal(size=(40, 3))
    of_steps = expert(kind).embed(expert(kind).view(features)[:, None])
    distances, rows = expert(kind).by_class.query_rows(of_steps)
    together = push(search, features, owner=np.arange(40) % 3)
    alone = [push(search, features[i : i + 1]) for i in range(40)]
    state = search.start(3)
    pieces = [push(search, features[i : i + 7], state=state) for i in range(0, 40, 7)]
    for nearest, where in (
        (together.nearest, together.rows),
        (np.concatenate([p.nearest for p in pieces]), np.concatenate([p.rows for p in pieces])),
        (np.concatenate([a.nearest for a in alone]), np.concatenate([a.rows for a in alone])),
    ):
        np.testing.assert_array_equal(nearest, distances)
        np.testing.assert_array_equal(where, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_counted_and_a_broken_one_finds_nothing(kind):
    search, features = StepSearch.of(expert(kind)), rng.normal(size=(5, 3))
    features[2] = np.nan
    state, owner = search.start(3), np.array([1, 1, 1, 1, 0])
    marks = np.array([BEGINS, GOES_ON, BREAKS, BEGINS, BEGINS])
    found = push(search, features, owner, marks, state)
    assert state["count"].tolist() == [1, 1, 0]
    assert np.isnan(found.nearest[2]).all()
    assert (found.rows[2] == -1).all()
    assert np.isfinite(found.nearest[[0, 1, 3, 4]]).all()


def test_a_whitened_step_that_is_too_far_for_single_precision():
    features = np.array([[1e30, 0.0, -1e28], [0.3, 0.1, -0.2]])
    found = push(StepSearch.of(expert("whitened")), features)
    distances = nearest_of_each(expert("whitened"), features)
    np.testing.assert_allclose(found.nearest, distances, rtol=1e-12)
