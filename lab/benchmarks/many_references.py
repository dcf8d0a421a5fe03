"""A live step among very many references of a real stream: by clusters and by running sums.

    python lab/benchmarks/many_references.py DATA

DATA is a folder or zip with the Vicon set (see docs/evidence/datasets.md). References are the
windows of ten steps of all recordings but their last two seconds, of which every recording gives
some steps to a session, one at a time, after what a window needs. The distance is the Euclidean
one, which both searches know. A time is the CPU time of one thread in the mean over steps, from raw
channels to a prediction.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

import mlat
from mlat_lab.datasets.loaders import load_vicon

WIDTH, HELD_OUT, STEPS = 10, 400, 20


def recordings(data: str) -> list[mlat.Stream]:
    """Whole recordings of all people, those without a lost marker at their end."""
    found = []
    for person, stream in load_vicon(data).items():
        for name in dict.fromkeys(stream.recordings.tolist()):
            one = stream[np.flatnonzero(stream.recordings == name)]
            if len(one) > 2 * HELD_OUT and not np.isnan(one.values[-HELD_OUT:]).any():
                names = [f"{person} {name}"] * len(one)
                found.append(
                    mlat.Stream(one.values, one.states, recordings=names, channels=one.channels)
                )
    return found


def measure(clf: mlat.StreamClassifier, tests: list[np.ndarray], search: str) -> float:
    """Milliseconds of a step, the mean over some of every recording."""
    live = clf.live(search=search)
    taken = []
    for values in tests:
        live.push(np.full((1, values.shape[1]), np.nan))  # a gap: another recording begins
        live.push(values[: 2 * WIDTH])
        for step in values[2 * WIDTH : 2 * WIDTH + STEPS]:
            began = time.process_time()
            live.push(step[None])
            taken.append(time.process_time() - began)
    return 1e3 * float(np.mean(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--references", type=int, nargs="*", default=[20_000, 50_000, 10**9])
    arguments = parser.parse_args()
    whole = recordings(arguments.data)
    tests = [one.values[-HELD_OUT:] for one in whole[:: max(1, len(whole) // 20)]]
    print("| references | read | clusters, ms | running sums, ms | taken by itself |")
    print("|---:|---:|---:|---:|---|")
    for most in arguments.references:
        given, total = [], 0
        for one in whole:
            if total < most:
                given.append(one[: len(one) - HELD_OUT])
                total += len(given[-1])
        clf = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(mlat.Stream.join(given))
        (expert,) = clf.experts_
        chosen = clf.live().model.search
        row = [measure(clf, tests, search) for search in ("exact", "incremental")]
        name = {"exact": "clusters", "incremental": "running sums"}[chosen]
        print(
            f"| {len(clf.references_):,} | {expert.by_class.share_left:.1%} | {row[0]:.2f} | "
            f"{row[1]:.2f} | {name} |",
            flush=True,
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
