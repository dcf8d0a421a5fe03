"""What ``metric="auto"`` is worth beside each fixed choice, on the development people.

    python benchmarks/auto.py DATA [--runs 4]

DATA is the folder of the UCI sets (see docs/datasets.md). The people measured here are those that
the lifts, the rules of the search and their constants were chosen on. Accuracy in per cent on
held-out observations of the same person (protocol ``holdout``), with windows of ten steps and of
one second: the mean over people of the mean over runs. Everyone sees the same splits as in
``mlat reproduce --table beyond``. CPU seconds are of one fit, on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

import mlat
from mlat.classifier.selection import LIFTS, MOST_VALUES, NARROW, default_reach
from mlat.lab.experiments.experiment import Experiment
from mlat.lab.experiments.people import uci_people
from mlat.lab.experiments.protocol import Split, as_streams, split, split_seed
from mlat.lab.experiments.systems import DEVELOPMENT, beyond_experiments

AUTO = "**auto**"


def systems(train: mlat.Stream, width: int) -> Iterator[tuple[str, mlat.StreamClassifier]]:
    """The name of each row, and its classifier."""
    yield "Euclidean", mlat.StreamClassifier(width, metric="euclidean")
    for name, maps in LIFTS.items():
        # As in the search: a window of too many values is not laid out.
        fits = width * train.n_channels * len(maps) <= MOST_VALUES
        yield (
            f"{name}, whitened",
            mlat.StreamClassifier(
                width if fits else NARROW,
                metric="euclidean",
                lift=mlat.Lift(maps, default_reach(train, width)),
                whiten=True,
            ),
        )
    yield AUTO, mlat.StreamClassifier(width)


def measure(parts: Split, width: int) -> Iterator[tuple[str, float, float, str]]:
    """Each row's name, its accuracy, CPU seconds of the fit and what was chosen, if anything."""
    streams = as_streams(parts)

    def right(predicted: NDArray[Any]) -> float:
        return 100 * float((predicted[streams.ends] == parts.test.y).mean())

    for name, classifier in systems(streams.train, width):
        begin = time.process_time()
        classifier.fit(streams.train)
        seconds = time.process_time() - begin
        chosen = "" if classifier.selection_ is None else classifier.selection_.chosen
        yield name, right(classifier.predict(streams.test)), seconds, chosen
        if name == AUTO:
            steady = classifier.predict(streams.test, filtered=True)
            yield f"{AUTO}, filtered", right(steady), seconds, ""


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


def report(title: str, experiment: Experiment, found: dict[Any, list[tuple[float, float]]]) -> None:
    """The table of one width."""
    sets = {name: people.names for name, people in experiment.people.items()}
    widths = ", ".join(f"{name} {experiment.width_of(name)}" for name in sets)
    print(f"\nWindows of {title} ({widths} steps)\n")
    print(f"| | {' | '.join(sets)} | mean | CPU s |")
    print("|---|" + "---|" * (len(sets) + 2))
    for row in dict.fromkeys(key[0] for key in found):
        by_set = [
            np.mean([np.mean([a for a, _ in found[row, name, person]]) for person in people])
            for name, people in sets.items()
        ]
        seconds = np.mean([s for key, all_ in found.items() if key[0] == row for _, s in all_])
        cells = " | ".join(f"{a:.1f}" for a in [*by_set, np.mean(by_set)])
        print(f"| {row} | {cells} | {seconds:.1f} |", flush=True)


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
            found: dict[Any, list[tuple[float, float]]] = {}
            choices: Counter[tuple[str, str]] = Counter()
            jobs = list(splits(experiment, arguments.runs))
            for data_set, person, parts in track(jobs, title, console=screen):
                width = experiment.width_of(data_set)
                for row, accuracy, seconds, chosen in measure(parts, width):
                    found.setdefault((row, data_set, person), []).append((accuracy, seconds))
                    if chosen:
                        choices[data_set, chosen] += 1
            report(title, experiment, found)
            print("\nauto chose")
            for (data_set, chosen), n in choices.items():
                print(f"- {data_set}, {n} ×: {chosen}")


if __name__ == "__main__":
    main()
