"""One system on one problem in a process of its own, so that its time and memory are its own.

``python apart.py SYSTEM PROBLEM.npz RESULT.npz`` writes what the system returns, CPU ``seconds``,
``wall`` and ``peak_mb``. It imports mlat only for mlat's own systems: another interpreter, with
other libraries, can run it for the rest.
"""

from __future__ import annotations

import resource
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


class Stopwatch:
    """The seconds that a ``with`` block takes: of this process's CPU, and by the clock."""

    cpu = clock = 0.0

    def __enter__(self) -> Stopwatch:
        self.began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.cpu = time.process_time() - self.began[0]
        self.clock = time.perf_counter() - self.began[1]


def peak_mb() -> float:
    """The most memory that this process has had, in MB.

    Linux also counts, in ``getrusage``, what the process that started it had; its status does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(s.split()[1]) for s in lines if s.startswith("VmHWM")) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


Found = dict[str, Any]

# Learning: from windows X (n, w·d) with labels y to a matrix.


def fit_ours(system: str, problem: Found, spent: Stopwatch) -> Found:
    import mlat
    from mlat.base import work

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
    # Compile, or load what was compiled, before the clock starts: an installation does it once.
    steps = np.random.default_rng(0).normal(size=(200, 2))
    tiny = np.lib.stride_tricks.sliding_window_view(steps, 5, axis=0).transpose(0, 2, 1)[:120]
    make(max_iter=3).fit(tiny, [0] * 60 + [1] * 60)
    trace: list[tuple[float, float]] = []
    precise: dict[str, Any] = {"tol": 1e-5, "max_iter": 300} if "to the end" in system else {}
    with (
        spent,
        work.listen(
            lambda r: trace.append((time.process_time() - spent.began[0], r.figures["objective"]))
        ),
    ):
        metric = make(**precise).fit(X, problem["y"], start=problem["start"], run=problem["run"])
    found = {"trace": trace, "n_iter": metric.n_iter_, "loss": metric.loss_}
    return found | ({"components": metric.components_} if X[0].size <= 2000 else {})


def fit_metric_learn(problem: Found, spent: Stopwatch) -> Found:
    metric = import_module("metric_learn").LMNN(n_neighbors=3, init="identity")
    with spent:
        metric.fit(problem["X"], problem["y"])
    return {"components": metric.components_, "n_iter": int(metric.n_iter_)}


def fit_pylmnn(problem: Found, spent: Stopwatch) -> Found:
    metric = import_module("pylmnn").LargeMarginNearestNeighbor(n_neighbors=3, init="identity")
    with spent:
        metric.fit(problem["X"], problem["y"])
    return {"components": metric.components_, "n_iter": int(metric.n_iter_)}


# Searching: the nearest of the windows ``train`` (m, w, d) to each of ``test`` (n, w, d) by DTW.


def dtaidistance(train: Any, test: Any) -> Any:
    """The C library's matrix of all pairs, which is its fastest way: it has no search."""
    dtw_ndim = import_module("dtaidistance.dtw_ndim")
    n = len(test)
    series = np.concatenate([test, train])
    block = ((0, n), (n, len(series)))
    compact = dtw_ndim.distance_matrix_fast(
        series, test.shape[2], block=block, compact=True, parallel=False
    )
    return np.asarray(compact).reshape(n, len(train)).min(axis=1)


def aeon_pairwise(train: Any, test: Any) -> Any:
    distances = import_module("aeon.distances")
    matrix = distances.dtw_pairwise_distance(test.transpose(0, 2, 1), train.transpose(0, 2, 1))
    return np.sqrt(matrix.min(axis=1))


def aeon(train: Any, test: Any) -> Any:
    neighbors = import_module("aeon.classification.distance_based")
    model = neighbors.KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw")
    model.fit(train.transpose(0, 2, 1), np.arange(len(train)) % 2)
    return np.sqrt(np.ravel(model.kneighbors(test.transpose(0, 2, 1))[0]))


def tslearn(train: Any, test: Any) -> Any:
    neighbors = import_module("tslearn.neighbors")
    model = neighbors.KNeighborsTimeSeriesClassifier(n_neighbors=1, metric="dtw")
    model.fit(train, np.arange(len(train)) % 2)
    return np.ravel(model.kneighbors(test)[0])


FITS = {"metric-learn": fit_metric_learn, "pylmnn": fit_pylmnn}
SEARCHES = {
    "dtaidistance": dtaidistance,
    "aeon": aeon,
    "aeon-pairwise": aeon_pairwise,
    "tslearn": tslearn,
}


def search(system: str, problem: Found, spent: Stopwatch) -> Found:
    peer, train, test = SEARCHES[system], problem["train"], problem["test"]
    peer(train[:20], test[:5])  # compiles what is compiled on first use
    with spent:
        distances = peer(train, test)
    return {"distances": distances, "version": version(system.partition("-")[0])}


def main(system: str, problem_file: str, result_file: str) -> None:
    with np.load(problem_file) as archive:
        problem = dict(archive)
    spent = Stopwatch()
    if system in FITS:
        found = FITS[system](problem, spent)
    else:
        found = (search if system in SEARCHES else fit_ours)(system, problem, spent)
    np.savez(result_file, seconds=spent.cpu, wall=spent.clock, peak_mb=peak_mb(), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
