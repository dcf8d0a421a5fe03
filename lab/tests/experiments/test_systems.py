"""The systems of each table: which they are, how they are set, and the wrappers."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from imitations import easy_windows, imitate
from mlat import sliding_windows
from mlat.metric.estimators import MLAT
from mlat.synthetic import rotating_states
from mlat_lab.experiments.aeon_worker import METHODS
from mlat_lab.experiments.experiment import ALL, FEW, Experiment, Sees, describe
from mlat_lab.experiments.journal import Job
from mlat_lab.experiments.people import People
from mlat_lab.experiments.systems import (
    AUTO,
    AUTO_FILTERED,
    FOREST,
    LINEAR,
    NEED_TORCH,
    RELATED,
    SYSTEMS,
    Decimated,
    ThinnedLDMLT,
    beyond_experiments,
    beyond_systems,
    has_same_past,
    related_systems,
)
from mlat_lab.rivals import EuclideanKNN

OURS = ["MLAT-paper", "MLAT"]
FLAT = ("SVM", "ExtraTrees", "Boosting")


def test_the_six_systems():
    assert list(SYSTEMS) == ["ED", "MDTW", "LDMLT", "LMNN", "MLAT-paper", "MLAT"]
    for system in SYSTEMS.values():
        for data_set in ("scma", "emg"):
            json.dumps(describe(system.make(data_set, ALL)))
    assert describe(SYSTEMS["LMNN"].make("emg", ALL))["metric"]["target_gap"] == 0
    assert describe(SYSTEMS["MLAT"].make("emg", ALL))["metric"] == describe(MLAT())
    assert isinstance(SYSTEMS["LDMLT"].make("scma", ALL), ThinnedLDMLT)


def test_thinned_ldmlt_with_nothing_to_thin_is_ldmlt():
    windows = sliding_windows(imitate("p0"), 4)
    windows = windows.take(np.sort(np.concatenate(
        [np.random.default_rng(0).choice(np.flatnonzero(windows.y == state), 30, replace=False)
         for state in np.unique(windows.y)])))  # fmt: skip
    plain = SYSTEMS["LDMLT"].make("emg", ALL).fit(windows.X, windows.y)
    same = ThinnedLDMLT(max_per_label=30).fit(windows.X, windows.y)
    fewer = ThinnedLDMLT(max_per_label=10).fit(windows.X, windows.y)
    for found, expected in zip(same.kneighbors(windows.X, 3), plain.kneighbors(windows.X, 3),
                               strict=True):  # fmt: skip
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert not np.allclose(fewer.components_, plain.components_)
    assert fewer.kneighbors(windows.X)[1].max() > 30, "all windows are searched"


def test_they_stand_among_the_rivals_of_table_2():
    systems = related_systems()
    assert list(systems) == ["ED", "MDTW", "LDMLT", "LMNN", *RELATED, *OURS]
    assert all(systems[name] is SYSTEMS[name] for name in SYSTEMS)
    assert [name for name, s in systems.items() if s.table_2_size == ALL] == OURS
    assert list(related_systems(without=NEED_TORCH)) == [n for n in systems if n not in NEED_TORCH]


@pytest.mark.parametrize("name", RELATED)
def test_each_is_made_for_a_worker_and_repeats(name):
    if name in NEED_TORCH:
        pytest.importorskip("torch")
    make = pickle.loads(pickle.dumps(related_systems()[name])).make
    stream = rotating_states({"on": 0.5, "back": -0.5}, n_channels=2, run_length=70, random_state=0)
    windows = sliding_windows(stream, 5)
    first, second = make("emg", FEW), make("emg", FEW)
    assert describe(first) == describe(second)
    assert first.n_jobs == 1, "processes are the parallelism"
    for model in (first, second):
        if "max_iter" in model.get_params():
            model.set_params(max_iter=5)
        model.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    found = [model.kneighbors(windows.X)[0] for model in (first, second)]
    np.testing.assert_array_equal(*found)


def test_targets_are_those_of_the_literature():
    systems = related_systems()
    assert systems["LMNN-DTW"].make("emg", ALL).get_params()["target_gap"] == 0
    assert systems["LMNN-DTW"].make("emg", ALL).get_params()["push_weight"] == 0.5
    assert systems["DECADE"].make("emg", ALL).get_params()["target_gap"] == 0


def test_those_that_need_pytorch_say_so():
    needs = {name: system.needs for name, system in related_systems().items()}
    assert {name for name, package in needs.items() if package == "torch"} == set(NEED_TORCH)
    assert set(needs.values()) == {None, "torch"}


def test_the_real_systems_and_widths():
    of_sets = {name: People(("1",), imitate, given=None if name == "arem" else 510)
               for name in ("scma", "arem", "emg", "vicon")}  # fmt: skip
    ten, second = beyond_experiments(of_sets, "peer/python").values()
    windows = ["ED", "MDTW", "LMNN", "MLAT-paper", *FLAT, *METHODS]
    same_past = [*(f"{name}-past" for name in windows), FOREST, LINEAR]
    assert list(ten.systems) == [*same_past, AUTO, AUTO_FILTERED, *windows]
    assert [name for name in ten.systems if has_same_past(name)] == same_past
    for name in windows:
        past = ten.systems[f"{name}-past"]
        assert past.sees is Sees.PAST
        assert past.make is ten.systems[name].make, "the same rival"
    assert [ten.width_of(name) for name in of_sets] == [10] * 4
    assert [second.width_of(name) for name in of_sets] == [52, 4, 1000, 200]
    assert [p.given for p in second.people.values()] == [552, None, 1500, 700]
    on_streams = [s for s in ten.systems.values() if s.sees is Sees.STREAM]
    assert [s.filtered for s in on_streams] == [False, True]


def test_another_past_is_another_result_and_windows_are_what_they_were():
    people = {"emg": People(("1",), imitate)}
    experiment = Experiment(people, beyond_systems())
    prints = {s: experiment.fingerprint(Job("emg", "1", 0, "holdout", s, ALL))
              for s in experiment.systems}  # fmt: skip
    assert prints[AUTO] == prints[AUTO_FILTERED], "they are one model"
    assert len(set(prints.values())) == len(prints) - 1
    # Were they no more than a name, a journal of before would have them.
    without = {name: replace(s, sees=Sees.WINDOW) for name, s in experiment.systems.items()}
    before = Experiment(people, without)
    for name, found in prints.items():
        same = before.fingerprint(Job("emg", "1", 0, "holdout", name, ALL)) == found
        assert same != has_same_past(name)


def test_every_mth_step_with_the_last():
    thin = Decimated(EuclideanKNN(), most_steps=52, most_values=600)
    assert [thin.every(w, d) for w, d in ((10, 27), (52, 3), (1000, 8), (200, 27), (4, 6))] == [
        1, 1, 20, 10, 1,
    ]  # fmt: skip
    X = np.random.default_rng(0).normal(size=(8, 7, 2))
    y = np.arange(8)
    model = Decimated(EuclideanKNN(), most_steps=3).fit(X, y)
    assert model.every_ == 3
    plain = EuclideanKNN().fit(X[:, [0, 3, 6]], y)
    other = np.random.default_rng(1).normal(size=(50, 7, 2))
    assert (model.predict(other) == plain.predict(other[:, [0, 3, 6]])).all()


def makers(python=None):
    """Those of the table beyond that are no distances."""
    systems = beyond_systems(python)
    return {name: systems[name].make for name in (*FLAT, *METHODS)}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "Boosting" else n for n in FLAT]
)
def test_the_flat_ones_learn(name):
    X, y = easy_windows()
    test, right = easy_windows(seed=1)
    model = makers()[name]("emg", "all")
    assert (model.fit(X, y).predict(test) == right).mean() > 0.95
    assert set(model.classes_) == set(y)
    again = clone(model).fit(X, y)
    assert (again.predict(test) == model.predict(test)).all(), "nothing is left to chance"


def test_descriptions_are_complete_distinct_and_the_same_in_every_process():
    described = {name: describe(make("emg", "all")) for name, make in makers("peer/python").items()}
    assert set(described) == {*FLAT, *METHODS}
    texts = [json.dumps(d, sort_keys=True) for d in described.values()]
    assert len(set(texts)) == len(texts)
    assert not any(" at 0x" in text for text in texts)
    assert described["SVM"]["classifier"]["C"] == 1.0, "defaults are part of it"
    assert described["QUANT"] == {"class": "AeonPeer", "name": "QUANT", "python": "peer/python"}


def test_makers_can_be_sent_to_other_processes():
    there = pickle.loads(pickle.dumps(makers("x")))
    assert there["QUANT"]("emg", "all").python == "x"
    assert describe(there["SVM"]("emg", "all")) == describe(makers()["SVM"]("emg", "all"))
