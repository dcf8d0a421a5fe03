"""The searches of experts that see one step: exactly what comparing one by one finds."""

from functools import cache

import numpy as np
import pytest

import mlat
from mlat.features.features import View
from mlat.metric.forest import Forest
from mlat.neighbours import points
from mlat.neighbours.incremental import found_nothing
from mlat.neighbours.points import StepSearch
from mlat.neighbours.references import References
from mlat.synthetic import rotating_states

BREAKS, GOES_ON, BEGINS = 0, 1, 2


@cache
def expert(kind):
    """Single steps of the third and the first channel, under a forest or whitened."""
    stream = rotating_states(n_channels=3, run_length=60, random_state=0)
    clf = mlat.StreamClassifier(1, metric="euclidean", lift="identity").fit(stream)
    shared = clf.references_
    columns = np.array([2, 0])
    if kind == "whitened":
        mixing = np.array([[1.5, 0.25], [-0.5, 0.75]])
        return References(shared.windows, shared.features, None, view=View(columns, mixing))
    seen = shared.view(shared.steps)[shared.windows.start][:, columns]
    forest = Forest(n_estimators=7).fit(seen[:, None], shared.windows.y)
    return References(shared.windows, shared.features, forest, view=View(columns))


def one_by_one(expert, features):
    """The distance to each state's nearest, and the first reference that has it."""
    queries = expert.embed(expert.view(features)[:, None])
    references = expert.embedded()
    apart = np.sqrt(((queries[:, None] - references) ** 2).sum(axis=2))
    every = [np.flatnonzero(expert.codes == state) for state in range(len(expert.classes))]
    nearest = np.stack([apart[:, rows].min(axis=1) for rows in every], axis=1)
    return nearest, apart


def pushed(search, state, features, owner, marks):
    found = found_nothing(1, len(features), len(np.unique(search_states(search)))).at(0)
    search.push(state, features, owner, marks, found)
    return found


def search_states(search):
    return np.arange(2)


@pytest.mark.parametrize("kind", ["forest", "whitened"])
def test_it_finds_what_comparing_one_by_one_finds(kind):
    pass
