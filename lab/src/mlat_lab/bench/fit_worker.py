"""One fit in a process of its own, so that its time and memory are its own.

Called as ``python fit_worker.py SYSTEM PROBLEM.npz RESULT.json COMPONENTS.npy``. It imports mlat
only for mlat's own systems: another interpreter, with other libraries, can run it for the rest.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np

Fitted = tuple[float, Any, dict[str, Any]]


def mlat_fit(system: str, problem: dict[str, Any]) -> Fitted:
    import mlat
    from mlat.base import progress

    # The loss that the other libraries minimise.
    same: dict[str, Any] = {"n_targets": 3, "target_gap": 0, "push_weight": 0.5}

    def make(**more: Any) -> Any:
        if system.startswith("LMNN"):
            return mlat.LMNN(**same, **more)
        if "admm" in system:
            return mlat.MLAT(solver="admm", **same, **more)
        # As many taps as steps: the same number of lags as the others have.
        return mlat.MLAT(n_taps=int(problem["width"]), **same, **more)

    X = problem["X"].reshape(len(problem["X"]), int(problem["width"]), -1)
    when = {"start": problem["start"], "run": problem["run"]}
    # Compile, or load what was compiled, before the clock starts: an installation does it once.
    # The rows are few, but cover both ways of the filter solver.
    rng = np.random.default_rng(0)
    for w in (2, 40):
        steps = rng.normal(size=(200, 2))
        tiny = np.lib.stride_tricks.sliding_window_view(steps, w, axis=0).transpose(0, 2, 1)[:120]
        make(max_iter=3).fit(tiny, [0] * 60 + [1] * 60)
    trace: list[tuple[float, float]] = []
    begin = time.process_time()
    precise: dict[str, Any] = {"tol": 1e-5, "max_iter": 300} if "to the end" in system else {}
    with progress.listen(
        lambda r: trace.append((time.process_time() - begin, r.figures["objective"]))
    ):
        metric = make(**precise).fit(X, problem["y"], **when)
    seconds = time.process_time() - begin
    D = X.shape[1] * X.shape[2]
    components = metric.components_ if D <= 2000 else None
    return seconds, components, {"trace": trace, "n_iter": metric.n_iter_, "loss": metric.loss_}


def metric_learn_fit(problem: dict[str, Any]) -> Fitted:
    from metric_learn import LMNN

    begin = time.process_time()
    metric = LMNN(n_neighbors=3, init="identity").fit(problem["X"], problem["y"])
    return time.process_time() - begin, metric.components_, {"n_iter": int(metric.n_iter_)}


def pylmnn_fit(problem: dict[str, Any]) -> Fitted:
    from pylmnn import LargeMarginNearestNeighbor

    begin = time.process_time()
    metric = LargeMarginNearestNeighbor(n_neighbors=3, init="identity")
    metric.fit(problem["X"], problem["y"])
    return time.process_time() - begin, metric.components_, {"n_iter": int(metric.n_iter_)}


def main() -> None:
    system, problem_file, result_file, components_file = sys.argv[1:]
    with np.load(problem_file) as archive:
        problem = dict(archive)
    wall = time.perf_counter()
    if system == "metric-learn":
        seconds, components, more = metric_learn_fit(problem)
    elif system == "pylmnn":
        seconds, components, more = pylmnn_fit(problem)
    else:
        seconds, components, more = mlat_fit(system, problem)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if components is not None:
        np.save(components_file, components)
    result = {"seconds": seconds, "wall": time.perf_counter() - wall, "peak_bytes": peak, **more}
    with open(result_file, "w") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    main()
