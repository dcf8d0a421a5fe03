"""Classifiers of the library aeon, which pins numpy and numba, in another Python."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mlat.base.checks import Floats, Ints
from mlat.base.errors import InputError, MissingPackageError, WorkerError
from mlat.stream.windows import check_finite

from . import aeon_worker
from .aeon_worker import METHODS

REMEDY = (
    "install lab/benchmarks/peers-beyond.txt into an environment of its own and give its Python"
)

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class AeonPeer(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of aeon, with aeon's own settings, on one thread and with ``random_state=0``.

    It runs in a worker process, one for each Python, which is kept until this process ends: to
    start it takes seconds. Windows and labels are exchanged as ``.npy`` files, so nothing is
    pickled. The worker keeps the last model only. An earlier one can still predict, but is fitted
    again first.

    Windows that are too short for the method are extended by repeating their last step: MiniRocket
    needs 9 steps, QUANT 3 and MultiRocket-Hydra 10.

    Parameters
    ----------
    name : {"MiniRocket", "QUANT", "MultiRocket-Hydra"}
    python : str, optional
        A Python that has aeon and, for all but MiniRocket, torch. Default: this one.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    windows_ : array of shape (n, w, d)
    codes_ : array of shape (n,)
        The index in ``classes_`` of each window's label.
    versions_ : dict of str to str
        Of aeon and torch.
    """

    def __init__(self, name: str, python: str | None = None) -> None:
        self.name = name
        self.python = python

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled windows.

        Parameters
        ----------
        X : array of shape (n, w, d)
        y : array of shape (n,)
        """
        if self.name not in METHODS:
            raise InputError(f"aeon peer {self.name!r} is unknown; there are {', '.join(METHODS)}")
        windows, labels = _as_windows(X), np.asarray(y)
        if labels.shape != windows.shape[:1]:
            raise InputError(f"{len(windows)} windows need as many labels, not {labels.shape}")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.windows_, self.codes_ = windows, codes.astype(np.int64)
        self._learn()
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each window, shape (n,)."""
        check_is_fitted(self)
        windows = _as_windows(X)
        if windows.shape[1:] != self.windows_.shape[1:]:
            raise InputError(
                f"windows have shape {windows.shape[1:]} but {self.name} was fitted on windows of "
                f"shape {self.windows_.shape[1:]}; (steps, channels) must agree"
            )
        codes = _worker_of(self.python).predict(self.name, self._model, windows)
        while codes is None:
            self._learn()
            codes = _worker_of(self.python).predict(self.name, self._model, windows)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def _learn(self) -> None:
        worker = _worker_of(self.python)
        self.versions_ = worker.versions
        self._model = worker.fit(self.name, self.windows_, self.codes_)


def aeon_versions(python: str | None = None) -> dict[str, str | None]:
    """The versions of aeon and torch that a Python has; torch is None where it is missing.

    Raises
    ------
    InputError
        If there is no such Python.
    MissingPackageError
        If it has no aeon.
    """
    return dict(_worker_of(python).versions)


def _as_windows(X: ArrayLike) -> Floats:
    # Not the caller's memory: changing that array later must not change predictions.
    windows: Floats = np.array(X, dtype=np.float64, order="C")
    if windows.ndim != 3 or not windows.size:
        raise InputError(f"X must have shape (n, w, d) and not be empty, not {windows.shape}")
    return check_finite(windows)


class _Worker:
    """The parent's side of one process that runs ``aeon_worker``."""

    def __init__(self, python: str) -> None:
        self.python = python
        self._lock = threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
        # The script's folder holds modules of ours, which must not hide other packages there.
        environment["PYTHONSAFEPATH"] = "1"
        try:
            self.process = subprocess.Popen(
                [python, aeon_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=environment,
                text=True,
            )
        except OSError as error:
            raise InputError(f"{python} does not run: {error.strerror}; {REMEDY}") from None
        answer = self._listen()
        if answer is None:
            raise MissingPackageError(f"{python} has no aeon ({self._last_words()}); {REMEDY}")
        self.versions: dict[str, str | None] = answer

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def fit(self, name: str, windows: Floats, codes: Ints) -> str:
        """The new model's id, which no other model of any process has."""
        if METHODS[name].needs_torch and self.versions["torch"] is None:
            raise MissingPackageError(f"{self.python} has no torch, which {name} needs; {REMEDY}")
        model = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="mlat-") as folder:
            np.save(Path(folder, "X.npy"), windows, allow_pickle=False)
            np.save(Path(folder, "y.npy"), codes, allow_pickle=False)
            self._ask(name, {"do": "fit", "method": name, "model": model, "folder": folder})
        return model

    def predict(self, name: str, model: str, windows: Floats) -> Ints | None:
        """The code of each window's label; None if the process no longer has the model."""
        with tempfile.TemporaryDirectory(prefix="mlat-") as folder:
            np.save(Path(folder, "X.npy"), windows, allow_pickle=False)
            answer = self._ask(name, {"do": "predict", "model": model, "folder": folder})
            if not answer["done"]:
                return None
            labels: Ints = np.load(Path(folder, "labels.npy"), allow_pickle=False)
        return labels

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            # What was not sent is tried once more here.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _ask(self, name: str, job: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                assert self.process.stdin is not None
                self.process.stdin.write(json.dumps(job) + "\n")
                self.process.stdin.flush()
                answer = self._listen()
            except BrokenPipeError:
                answer = None
            except BaseException:
                self.end()  # else a late answer would be taken for that of the next job
                raise
        if answer is None:
            raise WorkerError(f"{name} died in {self.python}: {self._last_words()}")
        if "error" in answer:
            raise InputError(f"{name} failed in {self.python}: {answer['error']}")
        return answer

    def _listen(self) -> dict[str, Any] | None:
        """The next answer; None if the process is dead, or is not what it should be."""
        assert self.process.stdout is not None
        try:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        except ValueError:
            return None
        return answer

    def _last_words(self) -> str:
        """Why the process ended, in one line."""
        try:
            # Its stdout can end a moment before itself does.
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it does not answer as it should"
        finally:
            self.end()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if status == -9:
            return "it was killed, perhaps for want of memory"
        return said[-1] if said else f"it ended with status {status} and no word"


# By the process that started them, too: after a fork, two would talk to one.
_workers: dict[tuple[int, str], _Worker] = {}


def _worker_of(python: str | None) -> _Worker:
    """The living worker of a Python, started on first use."""
    path = sys.executable if python is None else shutil.which(os.path.expanduser(python))
    if path is None:
        raise InputError(f"there is no Python at {python}; {REMEDY}")
    key = (os.getpid(), path)
    if key not in _workers or not _workers[key].is_alive:
        _workers[key] = _Worker(path)
    return _workers[key]


@atexit.register
def _end_workers() -> None:
    for (parent, _), worker in _workers.items():
        if parent == os.getpid():
            worker.end()
