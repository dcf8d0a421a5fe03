"""Classifiers of the library aeon in a worker process: a script that any Python can run.

It needs numpy and aeon only, so aeon can live in an environment of its own. The first line it
writes to stdout is a JSON object with the versions. Then it reads jobs, each a line of JSON on
stdin, and answers each with a line of JSON:

``{"do": "fit", "method": NAME, "model": ID, "folder": DIR}``
    Learns from ``X.npy`` (n, w, d) and the integers ``y.npy`` (n,) in the folder. The answer is
    ``{"done": true}``. Only the last model is kept.
``{"do": "predict", "model": ID, "folder": DIR}``
    Writes the integers ``labels.npy`` for ``X.npy``. The answer is ``{"done": true}``, or
    ``{"done": false}`` if that model is not the one that is kept.

A job that fails is answered with ``{"error": LINE}``. At the end of stdin, which comes when the
parent dies too, the process ends, in the middle of a job if need be.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np


class Method(NamedTuple):
    """A classifier of aeon, and the fewest steps that it takes."""

    module: str
    name: str
    min_steps: int
    needs_torch: bool
    parameters: dict[str, Any]

    def make(self) -> Any:
        return getattr(import_module(self.module), self.name)(**self.parameters)


_CONVOLUTION = "aeon.classification.convolution_based"
_INTERVAL = "aeon.classification.interval_based"

# The kernels have nine steps; MultiRocket also lays them over the differences, which are one step
# fewer. QUANT takes second differences. Below these lengths they fail, each with another error.
METHODS = {
    "MiniRocket": Method(
        _CONVOLUTION, "MiniRocketClassifier", 9, False, {"random_state": 0, "n_jobs": 1}
    ),
    "QUANT": Method(_INTERVAL, "QUANTClassifier", 3, True, {"random_state": 0}),
    "MultiRocket-Hydra": Method(
        _CONVOLUTION, "MultiRocketHydraClassifier", 10, True, {"random_state": 0, "n_jobs": 1}
    ),
}


def versions() -> dict[str, str | None]:
    """What the answers depend on; torch is None where it is not installed."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return {"aeon": import_module("aeon").__version__, "torch": torch}


def series(windows: Any, min_steps: int) -> Any:
    """Windows (n, w, d) as aeon has them, (n, d, w), the last step repeated if they are short."""
    missing = max(min_steps - windows.shape[1], 0)
    padded = np.pad(windows, ((0, 0), (0, missing), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded.transpose(0, 2, 1))


class Worker:
    """Runs jobs, and keeps the last model."""

    def __init__(self) -> None:
        self.model: Any = None
        self.model_id: str | None = None
        self.min_steps = 0

    def do(self, job: dict[str, Any]) -> dict[str, Any]:
        X = np.load(os.path.join(job["folder"], "X.npy"), allow_pickle=False)
        if job["do"] == "fit":
            y = np.load(os.path.join(job["folder"], "y.npy"), allow_pickle=False)
            # Two models at a time could be too many for the memory.
            self.model, self.model_id = None, None
            method = METHODS[job["method"]]
            self.min_steps = method.min_steps
            self.model = method.make().fit(series(X, self.min_steps), y)
            self.model_id = job["model"]
            return {"done": True}
        if job["model"] != self.model_id:
            return {"done": False}
        labels = np.asarray(self.model.predict(series(X, self.min_steps)), dtype=np.int64)
        np.save(os.path.join(job["folder"], "labels.npy"), labels, allow_pickle=False)
        return {"done": True}


def _read(jobs: queue.SimpleQueue[str]) -> None:
    folder = None
    for line in sys.stdin:
        jobs.put(line)
        folder = json.loads(line)["folder"]
    if folder is not None:
        # The parent removes it, unless it was killed.
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def main() -> None:
    # Ctrl-C reaches all processes of a terminal; the parent says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    # A thread of its own sees the end of stdin while a job is being done.
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    worker = Worker()
    answer: dict[str, Any] = versions()
    while True:
        print(json.dumps(answer), file=answers, flush=True)
        try:
            answer = worker.do(json.loads(jobs.get()))
        except Exception as error:
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())}


if __name__ == "__main__":
    main()
