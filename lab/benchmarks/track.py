"""The accuracy of the default and the speed of its parts, against what is recorded of the past.

    python lab/benchmarks/track.py              fails where the default lost more than a point
    python lab/benchmarks/track.py --speed 20   and where a part takes so many per cent longer
    python lab/benchmarks/track.py --record     also writes a row into docs/evidence/tracked.md

Accuracy is on synthetic streams, for the default with nothing set. Speed is that of the probes of
``compare.py`` in units of a reference, a product of matrices by the same BLAS and a loop in Python,
so that machines compare, roughly; two commits on one machine are compared by ``compare.py``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime

from compare import PROBES, ROOT, measure

PAGE = ROOT / "docs" / "evidence" / "tracked.md"
# Of the suite's kinds: those of which little is learned, and those that take experts of each sort.
KINDS = ("order", "level", "energy", "offset", "drift", "short runs")
SEEDS = range(200, 205)  # on none of which a default was chosen
POINT = 1.0  # per cent of accuracy that the mean may lose
PROBES["reference"] = """
import numpy as np
A = np.random.default_rng(0).normal(size=(400, 400))
def probe():
    for _ in range(20):
        A @ A
    counts = {}
    for i in range(400_000):
        counts[i % 97] = counts.get(i % 97, 0) + 1
"""
SPEED = ("fit", "live", "predict", "dtw")
COLUMNS = ("when", "commit", *KINDS, "mean", *SPEED)


def accuracy(job: tuple[str, int]) -> float:
    """Per cent of the steps of the second recording that the default has right."""
    import mlat
    from mlat_lab.experiments.suite import synthetic_stream

    stream = synthetic_stream(*job)
    first = stream.recordings == stream.recordings[0]
    split = int(first.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = mlat.StreamClassifier().fit(stream[:split])
        test = stream[split:]
        predicted = clf.predict(test)
    judged = test.labelled & clf.ends_window(test)
    return 100 * float((predicted == test.states)[judged].mean())


def accuracies(n_processes: int) -> dict[str, float]:
    """The mean over the seeds by kind, and over the kinds."""
    jobs = [(kind, seed) for kind in KINDS for seed in SEEDS]
    with ProcessPoolExecutor(n_processes) as pool:
        found = dict(zip(jobs, pool.map(accuracy, jobs), strict=True))
    by_kind = {kind: sum(found[kind, seed] for seed in SEEDS) / len(SEEDS) for kind in KINDS}
    return by_kind | {"mean": sum(by_kind.values()) / len(KINDS)}


def speeds() -> dict[str, float]:
    """The least CPU time of each probe in units of the reference, by turns."""
    turns = [{name: measure(ROOT, name) for name in ("reference", *SPEED)} for _ in range(3)]
    least = {name: min(turn[name] for turn in turns) for name in turns[0]}
    return {name: least[name] / least["reference"] for name in SPEED}


def recorded() -> dict[str, float]:
    """The figures of the last row of the page."""
    cells = [cell.strip() for cell in PAGE.read_text("utf-8").rstrip().splitlines()[-1].split("|")]
    row = dict(zip(COLUMNS, cells[1:-1], strict=True))
    return {name: float(row[name]) for name in COLUMNS[2:]}


def main() -> None:
    """Measure, compare, and record if asked to."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--speed", type=float, metavar="PER_CENT")
    options.add_argument("--record", action="store_true")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    given = options.parse_args()
    before = recorded()
    now = accuracies(given.jobs)
    if given.speed or given.record:
        now |= speeds()
    for name, value in now.items():
        print(f"{name:12}{value:8.2f}  recorded {before[name]:.2f}")
    if given.record:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT,
                                capture_output=True, text=True, check=True)  # fmt: skip
        row = (f"{datetime.now(UTC):%Y-%m-%d}", commit.stdout.strip(),
               *(f"{now[name]:.2f}" for name in COLUMNS[2:]))  # fmt: skip
        with PAGE.open("a", encoding="utf-8") as page:
            page.write(f"| {' | '.join(row)} |\n")
    lost = before["mean"] - now["mean"]
    slower = [
        name for name in SPEED if given.speed and now[name] > before[name] * (1 + given.speed / 100)
    ]
    if lost > POINT:
        sys.exit(f"the default lost {lost:.2f} points over its seeds")
    if slower:
        sys.exit(f"more than {given.speed:g} % slower: {', '.join(slower)}")


if __name__ == "__main__":
    main()
