"""Small imitations of people and systems, in a module that worker processes can import quickly."""

import re
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier

from mlat import InputError, Stream, sliding_windows
from mlat.metric.estimators import LMNN, MLAT
from mlat.synthetic import rotating_states
from mlat_lab.experiments.experiment import ALL, Experiment, Sees, System, plan
from mlat_lab.experiments.journal import Journal
from mlat_lab.experiments.people import People
from mlat_lab.experiments.runner import run_jobs
from mlat_lab.rivals import EuclideanKNN, MetricKNN


def imitate(person):
    """A short stream of three states."""
    turns = {"forwards": 0.11, "backwards": -0.11, "still": 0.0}
    seed = int(person.removeprefix("p"))
    return rotating_states(turns, n_channels=3, run_length=70, random_state=seed)


def broken(person):
    if person == "p2":
        raise InputError("p2.csv, line 7: 3 values instead of 4; get a fresh copy")
    return imitate(person)


def _ed(data_set, size):
    return EuclideanKNN()


def lmnn(data_set, size):
    return MetricKNN(metric=LMNN(n_targets=1, max_iter=3))


def _mlat(data_set, size):
    return MetricKNN(metric=MLAT(n_targets=1, max_iter=3))


class SlowKNN(EuclideanKNN):
    def fit(self, X, y):
        time.sleep(0.1)
        return super().fit(X, y)


def _slow(data_set, size):
    return SlowKNN()


SMALL = {
    "ED": System("ED", _ed),
    "LMNN": System("LMNN", lmnn),
    "MLAT": System("MLAT", _mlat, (ALL,)),
}


def experiment(systems=SMALL, load=imitate, n_people=3, **settings):
    people = {
        "one": People(tuple(f"p{i}" for i in range(n_people)), load, given=40),
        "two": People(("p7",), imitate, given=40),
    }
    return Experiment(people, systems, **{"width": 4, "n_few": 10, "n_test": 15, **settings})


def slow_experiment():
    return experiment({"slow": System("slow", _slow)})


def compute(exp, folder, n_workers=1, protocols=("holdout", "within"), n_runs=2, on_done=None):
    """All results, and the jobs that were really done."""
    done = []
    with Journal(folder / "journal.jsonl") as journal:
        jobs = plan(exp, protocols, n_runs)
        results = run_jobs(exp, jobs, journal, n_workers=n_workers, on_done=on_done or done.append)
    return results, done


# The table beyond, at both of its widths.


class Alone:
    """Stands in for a committee: the classifier itself is its only member."""

    accuracy = 0.75
    deciding = (SimpleNamespace(name="itself"),)

    def __init__(self, width):
        self.width = width

    def __str__(self):
        return f"{self.width} steps, Euclidean distance"


class StreamKNN(BaseEstimator):
    """Stands in for the classifier of streams: the nearest window, and the last five together."""

    n_fits = 0

    def __init__(self, width=10):
        self.width = width

    def fit(self, stream):
        StreamKNN.n_fits += 1
        windows = sliding_windows(stream, self.width)
        self.knn_ = EuclideanKNN().fit(windows.X, windows.y)
        self.committee_ = Alone(self.width)
        self.classes_, self.unknown_ = self.knn_.classes_, ""
        return self

    def expert_distances(self, stream):
        """0 for the predicted state and 1 for the others."""
        predicted = self.predict(stream)[:, None]
        distances = np.where(predicted == self.classes_, 0.0, 1.0)
        distances[predicted[:, 0] == ""] = np.nan
        return [distances]

    def predict_proba(self, stream):
        """0.85 for the predicted state."""
        (distances,) = self.expert_distances(stream)
        return np.where(distances == 0, 0.85, 0.15 * distances / (len(self.classes_) - 1))

    def predict(self, stream, filtered=False):
        windows = sliding_windows(stream, self.width, labelled=False)
        states = np.full(len(stream), "", dtype=self.knn_.classes_.dtype)
        ends = windows.start + self.width - 1
        states[ends] = self.knn_.predict(windows.X)
        if not filtered:
            return states
        last = [Counter(states[max(0, i - 4) : i + 1].tolist()) for i in range(len(states))]
        return np.array([count.most_common(1)[0][0] for count in last])


def thin(data_set, size):
    # Not before: what the real systems need takes a moment to import.
    from mlat_lab.experiments.systems import Decimated

    return Decimated(EuclideanKNN(), most_steps=4)


def _auto(data_set, size):
    return StreamKNN()


def _forest(data_set, size):
    return ExtraTreesClassifier(n_estimators=5, random_state=0)


BEYOND = {
    "QUANT-past": System("QUANT-past", _ed, (ALL,), sees=Sees.PAST),
    "Forest-features": System("Forest-features", _forest, (ALL,), sees=Sees.FEATURES),
    "ED": System("ED", _ed, (ALL,)),
    "MDTW": System("MDTW", thin, (ALL,)),
    "LMNN": System("LMNN", lmnn, (ALL,)),
    "QUANT": System("QUANT", _ed, (ALL,)),
    "MLAT-auto": System("MLAT-auto", _auto, (ALL,), sees=Sees.STREAM),
    "MLAT-auto-filtered": System(
        "MLAT-auto-filtered", _auto, (ALL,), sees=Sees.STREAM, filtered=True
    ),
}


GROUPS = [("one", "p0"), ("one", "p1"), ("one", "p2"), ("two", "p7")]


def beyond_experiments(people=None, python=None):
    ten = experiment(BEYOND)
    wide = {name: replace(p, width=6, given=42) for name, p in ten.people.items()}
    return {"ten steps": ten, "one second": replace(ten, people=wide)}


# The table of whole streams, under both of its protocols.

WHOLE = {
    "phone_watch": ("s01", "s03", "s05"),  # the second is not of those that defaults are chosen on
    "scma": ("1", "3"),
}


def recorded(person):
    return imitate(person.lstrip("s0"))


def recorded_twice(person):
    seed = int(person.lstrip("s0"))
    return Stream.join([imitate(f"p{seed}"), imitate(f"p{seed + 50}")])


def streams_people(*arguments):
    once = {name: People(names, recorded, given=40) for name, names in WHOLE.items()}
    twice = {"phone_watch": People(WHOLE["phone_watch"], recorded_twice, given=40)}
    return {"stream": once, "second": twice}


def streams_experiments(people=None, python=None):
    with_filter = System("ED-filtered", _auto, (ALL,), sees=Sees.STREAM, filtered=True)
    systems = {**BEYOND, "ED-filtered": with_filter}
    return {
        protocol: Experiment(of_sets, systems, width=4, n_test=30)
        for protocol, of_sets in streams_people().items()
    }


def run_all(exp, path, n_runs=1, protocol="holdout"):
    """Every system on all windows, as in the table beyond."""
    with Journal(path) as journal:
        return run_jobs(exp, plan(exp, [protocol], n_runs, [2]), journal)


def timeless(results):
    """Results without what differs from run to run."""
    return [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in results]


def table_below(text, heading):
    """The cells of the first table below a heading, without its head."""
    after = text[text.index(heading) :]
    lines = re.search(r"(?:^\|.*\|\n)+", after, re.MULTILINE).group().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def easy_windows(n=90, w=12, d=3, seed=0):
    """Three labels that differ in level, and a channel that never moves."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    X = rng.normal(size=(n, w, d)) + 4 * codes[:, None, None]
    X[:, :, -1] = 0.0
    return X, np.array(["walk", "run", "sit"])[codes]


def scored(accuracy, protocol="holdout"):
    """Results from {(set, person): {(system, size): accuracies of the runs}}."""
    return [
        {
            "data_set": data_set, "person": person, "run": run, "protocol": protocol,
            "system": system, "size": size, "accuracy": value,
            "right": {"a": value, "b": 0.0}, "total": {"a": 100, "b": 100},
            "left_out": {}, "fit_seconds": 1.0, "predict_seconds": 0.0,
        }
        for (data_set, person), by in accuracy.items()
        for (system, size), values in by.items()
        for run, value in enumerate(values)
    ]  # fmt: skip
