"""What each default of MLAT is worth: one parameter at a time, on the development people.

    python lab/benchmarks/defaults.py DATA [--out docs/evidence/defaults.md]

DATA is the folder of the UCI sets (see docs/evidence/datasets.md). The people measured here are
kept for choosing defaults; the report of the experiments gives its figures with and without them.
Accuracy is that of 1-NN on held-out observations of the same person (protocol ``holdout``, w = 10),
in per cent, the mean over people of the mean over runs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.progress import track
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import mlat
from mlat.neighbours.search import NearestNeighbors
from mlat_lab import datasets
from mlat_lab.experiments.protocol import split, split_seed

PERSONS = {"emg": ["sub1"], "vicon": ["sub2", "sub3"], "scma": ["1", "2"]}
VARIATIONS = {
    "target_gap": [0, 10, 50, "run"],
    "n_targets": [1, 3, 5, 10],
    "push_weight": [0.1, 0.3, 0.5, 0.7, 0.9],
    "shrinkage": [0.0, 0.01, 0.1, 1.0, 10.0],
    "n_taps": [1, 5, 10, 20],
    "n_filters": ["half the channels"],
    "max_iter": [25, 50, 100],
    "tol": [1e-2, 1e-3, 1e-4],
}
ADMM_VARIATIONS = {"rho": [0.1, 0.3, 1.0]}
# Around which one parameter at a time is varied.
BASE = {"n_targets": 3, "n_taps": 10}


def configurations():
    """(what varies, its value, the metric), Euclidean and LMNN first."""
    yield "", "Euclidean", None
    yield "", "LMNN, targets of another run", mlat.LMNN(n_targets=3)
    yield "", "LMNN, nearest targets", mlat.LMNN(n_targets=3, target_gap=0)
    yield "", "**MLAT, defaults**", mlat.MLAT()
    yield "", "MLAT, 3 targets and 10 taps", mlat.MLAT(**BASE)
    base = mlat.MLAT(**BASE).get_params()
    for name, values in VARIATIONS.items():
        for value in values:
            if value != base[name]:
                yield name, value, mlat.MLAT(**{**BASE, name: value})
    for name, values in ADMM_VARIATIONS.items():
        for value in values:
            yield f"admm, {name}", value, mlat.MLAT(solver="admm", n_targets=3, **{name: value})
    yield "", "MLAT as in the paper", mlat.MLAT.as_in_paper(n_targets=3)


def measure(metric, part):
    """Accuracy and CPU seconds of one fit."""
    train, test = part.train, part.test
    if metric is not None and metric.get_params().get("n_filters") == "half the channels":
        metric = clone(metric).set_params(n_filters=-(-train.values.shape[1] // 2))
    begin = time.process_time()
    if metric is not None:
        metric.fit(train.X, train.y, start=train.start, run=train.run)

    def embed(windows):
        flat = windows.X.reshape(len(windows), -1)
        return flat if metric is None else metric.transform(windows.X)

    seconds = time.process_time() - begin
    _, rows = NearestNeighbors(embed(train)).query(embed(test))
    return np.mean(train.y[rows[:, 0]] == test.y), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--only", help="vary this parameter alone")
    arguments = parser.parse_args()
    splits = []
    for name, people in PERSONS.items():
        activities = datasets.PAPER_ACTIVITIES.get(name)
        options = {"activities": activities} if activities else {}
        for person, stream in datasets.load(name, arguments.data, people, **options).items():
            for run in range(arguments.runs):
                seed = split_seed("defaults", name, person, run)
                splits.append((name, person, split(stream, "holdout", seed)))
    lines = [
        "| | value | " + " | ".join(PERSONS) + " | mean | CPU s |",
        "|---|---|" + "---|" * (len(PERSONS) + 2),
    ]
    with threadpool_limits(1):
        chosen = [c for c in configurations() if arguments.only in (None, c[0])]
        for what, value, metric in track(chosen, "configurations"):
            found = [(name, person, *measure(metric, part)) for name, person, part in splits]
            by_set = [
                100
                * np.mean(
                    [np.mean([f[2] for f in found if f[:2] == (name, person)]) for person in people]
                )
                for name, people in PERSONS.items()
            ]
            lines.append(
                f"| {what} | {value} | "
                + " | ".join(f"{a:.1f}" for a in by_set)
                + f" | {np.mean(by_set):.1f} | {np.mean([f[3] for f in found]):.1f} |"
            )
            print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
