"""Learning from very many windows of a real stream: time, memory, windows used and the bound.

    python lab/benchmarks/many_windows.py DATA

DATA is a folder or zip with the Vicon set (see docs/evidence/datasets.md). The windows are those of
ten steps of all recordings, of which the first are taken until there are as many as wanted. States
are named by the activity alone, so that different people share them.
"""

from __future__ import annotations

import argparse
import time

import mlat
from many_references import WIDTH, recordings
from mlat_lab.bench.output import peak_mb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--windows", type=int, nargs="*", default=[16_000, 50_000, 10**9])
    arguments = parser.parse_args()
    whole = recordings(arguments.data)
    small = mlat.sliding_windows(mlat.Stream.join(whole[:2]), WIDTH)
    mlat.MLAT(max_iter=2, working_set=True).fit(small.X, small.y)  # compile
    print("| windows | states | clock, s | CPU, s | MB | loss | used | bound |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for most in arguments.windows:
        given, total = [], 0
        for one in whole:
            if total < most:
                given.append(one)
                total += len(one) - WIDTH + 1
        windows = mlat.sliding_windows(mlat.Stream.join(given), WIDTH)
        began = time.perf_counter(), time.process_time()
        metric = mlat.MLAT().fit(windows.X, windows.y, start=windows.start, run=windows.run)
        taken = time.perf_counter() - began[0], time.process_time() - began[1]
        used = metric.n_windows_used_ or len(windows)
        print(
            f"| {len(windows):,} | {len(set(windows.y.tolist()))} | {taken[0]:.0f} | "
            f"{taken[1]:.0f} | {peak_mb():,.0f} | {metric.loss_:.2f} | {used:,} | "
            f"{metric.loss_bound_:.2%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
