"""LMNN-DTW at the sizes of ``mlat-lab bench dtw``: one alignment, and a whole fit.

    python lab/benchmarks/lmnn_dtw.py [stream|noise] [channels]

CPU seconds on one thread. An alignment decides on every pair of windows of different labels and
gives the paths of those within a margin; beside it stands MDTW's search for one nearest window.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats
from mlat_lab.bench.dtw import RUN, SIZES, WIDTH, make_windows
from mlat_lab.rivals import LMNNDTW, MDTW
from mlat_lab.rivals.lmnn_dtw import Problem, nearest_targets

N_TEST = 2000


def least_cpu(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some calls after a first one, which may compile."""
    times = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times[1:])


def tell_alignment(where: str, problem: Problem, L: Floats) -> None:
    aligned = problem.align(L)
    seconds = least_cpu(lambda: problem.align(L))
    pairs = int((problem.codes[:, None] < problem.codes).sum())
    print(
        f"  LMNN-DTW, one alignment {where}: {seconds:.3f} s, "
        f"{pairs / seconds / 1e6:.1f} M pairs/s, "
        f"{0 if aligned is None else len(aligned.loss.push.left)} paths of {pairs} pairs",
        flush=True,
    )


def main(case: str, channels: int) -> None:
    n = SIZES[channels]
    train, test = make_windows(case, n, N_TEST, channels)
    codes = np.arange(n) // RUN
    searched = MDTW().fit(train, codes)
    seconds = least_cpu(lambda: searched.kneighbors(test))
    print(f"{case}, d={channels}, {n} windows of {WIDTH} steps")
    print(f"  MDTW, 1-NN of {N_TEST}: {seconds:.3f} s, {N_TEST * n / seconds / 1e6:.1f} M pairs/s")

    when = {"start": np.arange(n), "run": codes}
    targets = nearest_targets(train, codes, 3, band=WIDTH, **when)
    problem = Problem(train, codes, targets, 0.5, WIDTH)
    tell_alignment("at the start", problem, problem.start())
    for name, model in (("default", LMNNDTW()), ("as in paper", LMNNDTW.as_in_paper())):
        begin = time.process_time()
        model.fit(train, codes)
        print(
            f"  LMNN-DTW, fit {name}: {time.process_time() - begin:.1f} s, {model.n_iter_} rounds, "
            f"at most {max(r.n_listed for r in model.history_)} paths, "
            f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000} MB, "
            f"{model.message_}",
            flush=True,
        )
    tell_alignment("at the end", problem, model.components_)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1] if len(sys.argv) > 1 else "stream", int((sys.argv[2:] or ["3"])[0]))
