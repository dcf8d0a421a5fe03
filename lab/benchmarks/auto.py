"""What the committee of ``metric="auto"`` is worth beside its experts, on the development people.

    python lab/benchmarks/auto.py DATA [--runs 4]

DATA is the folder of the UCI sets (see docs/evidence/datasets.md). The people measured here are
those that the experts and their constants were chosen on. Accuracy in per cent on held-out
observations of the same person (protocol ``holdout``), with windows of ten steps and of one second:
the mean over people of the mean over runs. Everyone sees the same splits as in ``mlat-lab reproduce
--table beyond``. CPU seconds are of one fit, on one thread; an expert alone is one of the
committee's and has none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import mlat
from mlat_lab.experiments.experiment import Experiment
from mlat_lab.experiments.people import uci_people
from mlat_lab.experiments.protocol import Split, as_streams, split, split_seed
from mlat_lab.experiments.systems import DEVELOPMENT, beyond_experiments

COMMITTEE = "**committee**"


def measure(parts: Split, width: int) -> Iterator[tuple[str, float, float, float]]:
    """Each row's name, its accuracy, CPU seconds of the fit and its mean weight, NaN for none."""
    streams = as_streams(parts)

    def right(predicted: NDArray[Any]) -> float:
        return 100 * float((predicted[streams.ends] == parts.test.y).mean())

    def fitted(**options: Any) -> tuple[mlat.StreamClassifier, float]:
        begin = time.process_time()
        classifier = mlat.StreamClassifier(width, **options).fit(streams.train)
        return classifier, time.process_time() - begin

    euclidean, seconds = fitted(metric="euclidean")
    yield "Euclidean", right(euclidean.predict(streams.test)), seconds, np.nan
    equal, seconds = fitted(budget=0)
    yield "equal weights", right(equal.predict(streams.test)), seconds, np.nan
    committee, seconds = fitted()
    yield COMMITTEE, right(committee.predict(streams.test)), seconds, np.nan
    steady = committee.predict(streams.test, filtered=True)
    yield f"{COMMITTEE}, filtered", right(steady), seconds, np.nan
    weights = {member.name: member.weight for member in committee.committee_.members}
    alone = zip(equal.committee_.deciding, equal.expert_distances(streams.test), strict=True)
    for member, distances in alone:
        nearest = equal.classes_[np.nan_to_num(distances, nan=np.inf).argmin(axis=1)]
        yield f"{member.name} alone", right(nearest), np.nan, weights[member.name]


def splits(experiment: Experiment, n_runs: int) -> Iterator[tuple[str, str, Split]]:
    for data_set, people in experiment.people.items():
        for person in people.names:
            stream = people.load(person)
            for run in range(n_runs):
                seed = split_seed(data_set, person, run, "holdout")
                width = experiment.width_of(data_set)
                yield (
                    data_set,
                    person,
                    split(stream, "holdout", seed, width=width, given=people.given),
                )


def report(title: str, experiment: Experiment, found: dict[Any, list[Any]]) -> None:
    """The table of one width."""
    sets = {name: people.names for name, people in experiment.people.items()}
    widths = ", ".join(f"{name} {experiment.width_of(name)}" for name in sets)
    print(f"\nWindows of {title} ({widths} steps)\n")
    print(f"| | {' | '.join(sets)} | mean | CPU s | weight |")
    print("|---|" + "---|" * (len(sets) + 3))
    for row in dict.fromkeys(key[0] for key in found):
        by_set = [
            np.mean([np.mean([one[0] for one in found[row, name, person]]) for person in people])
            for name, people in sets.items()
        ]
        all_of_row = [one for key in found if key[0] == row for one in found[key]]
        _, seconds, weight = np.mean(all_of_row, axis=0)
        cells = [f"{a:.1f}" for a in [*by_set, np.mean(by_set)]]
        cells.append("" if np.isnan(seconds) else f"{seconds:.1f}")
        cells.append("" if np.isnan(weight) else f"{weight:.0%}")
        print(f"| {row} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=4)
    arguments = parser.parse_args()
    people = [f"{name}:{person}" for name, names in DEVELOPMENT.items() for person in names]
    screen = Console(stderr=True)
    with threadpool_limits(1):
        experiments = beyond_experiments(uci_people(DEVELOPMENT, people, arguments.data))
        for title, experiment in experiments.items():
            found: dict[Any, list[Any]] = {}
            jobs = list(splits(experiment, arguments.runs))
            for data_set, person, parts in track(jobs, title, console=screen):
                for row, *figures in measure(parts, experiment.width_of(data_set)):
                    found.setdefault((row, data_set, person), []).append(figures)
            report(title, experiment, found)


if __name__ == "__main__":
    main()
