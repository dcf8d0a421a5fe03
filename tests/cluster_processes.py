"""A real Dask scheduler and real workers, each a process of its own, on loopback."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from distributed import Client

SECONDS = 60


class Cluster:
    """A scheduler and workers of one thread each; all of them end with the ``with`` block."""

    def __init__(self, n_workers: int = 2) -> None:
        self.n_workers = n_workers
        self.processes: list[subprocess.Popen] = []

    def __enter__(self) -> Cluster:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        try:
            ready = self.folder / "scheduler.json"
            self._start(
                "scheduler",
                *["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"],
                *["--scheduler-file", str(ready)],
            )
            self.address = self._read(ready)["address"]
            self.workers = [self.add_worker() for _ in range(self.n_workers)]
            self.client = Client(self.address, timeout=SECONDS, set_as_default=False)
            if self.n_workers:
                self.client.wait_for_workers(self.n_workers, timeout=SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add_worker(self, *options: str) -> subprocess.Popen:
        return self._start(
            "worker",
            self.address,
            *["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"],
            *["--memory-limit", "0", "--local-directory", str(self.folder), *options],
        )

    def address_of(self, worker: subprocess.Popen) -> str:
        pids = self.client.run(os.getpid)
        return next(address for address, pid in pids.items() if pid == worker.pid)

    def kill(self, worker: subprocess.Popen) -> None:
        """As a machine that loses power: no word of farewell."""
        worker.kill()
        worker.wait(SECONDS)

    def close(self) -> None:
        if hasattr(self, "client"):
            with contextlib.suppress(Exception):
                self.client.close(timeout=2)
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self.processes:
            process.wait(SECONDS)
        self._folder.cleanup()

    def _start(self, program: str, *options: str) -> subprocess.Popen:
        one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        path = [str(Path(__file__).parents[1]), *sys.path]  # workers run functions of test modules
        with (self.folder / f"{program}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{program}", *options],
                stdout=log,
                stderr=log,
                env={**os.environ, **one, "PYTHONPATH": os.pathsep.join(path)},
                cwd=self.folder,
                preexec_fn=_end_with_parent,
            )
        self.processes.append(process)
        return process

    def _read(self, file: Path) -> dict[str, str]:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.processes[-1].poll() is None:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                return json.loads(file.read_text())
            time.sleep(0.05)
        logs = "\n".join(path.read_text() for path in self.folder.glob("*.log"))
        raise RuntimeError(f"the scheduler did not start\n{logs}")


def _end_with_parent() -> None:
    """Where the tests themselves are killed, nothing is left running (Linux).

    The parent is the thread that started the process: start workers from the tests' own.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@lru_cache(maxsize=1)
def shared_cluster() -> Cluster:
    """Two workers for all tests of this process that leave them alive."""
    cluster = Cluster(2).__enter__()
    atexit.register(cluster.close)
    return cluster
