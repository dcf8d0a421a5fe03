"""Small imitations of people and systems, in a module that worker processes can import quickly."""

import time

from mlat import InputError
from mlat.lab.experiments.journal import Journal
from mlat.lab.experiments.people import People
from mlat.lab.experiments.runner import Experiment, plan, run_jobs
from mlat.lab.experiments.systems import ALL, System
from mlat.lab.rivals import EuclideanKNN, MetricKNN
from mlat.metric.estimators import LMNN, MLAT
from mlat.synthetic import rotating_states


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
