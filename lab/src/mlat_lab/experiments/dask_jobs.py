"""The jobs of an experiment on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from mlat import __version__
from mlat.base.errors import ServiceError, WorkerError, require_package

from .experiment import Experiment
from .journal import Job, Result
from .runner import Engine, Worker

CONNECT_SECONDS = 5.0


def import_distributed() -> Any:
    """The package ``distributed``, imported on use."""
    return require_package(
        "distributed", "dask", "--scheduler", title="dask and distributed", of="mlat-lab"
    )


def connect(address: str) -> Any:
    """A client of the scheduler at the address, which has workers of the same versions."""
    distributed = import_distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ServiceError(
            f"no Dask scheduler at {address} ({why}); start one with `dask scheduler`, and give "
            "the address that it prints"
        ) from None
    try:
        if not client.nthreads():
            raise ServiceError(
                f"the scheduler at {address} has no workers; start some: dask worker {address}"
            )
        for worker, version in client.run(_version).items():
            if version != __version__:
                raise WorkerError(
                    f"worker {worker} has mlat {version}, this client {__version__}; install the "
                    "same version on both"
                )
    except BaseException:
        client.close()
        raise
    return client


def _version() -> str:
    return __version__


def dask_engine(client: Any) -> Engine:
    """An engine for `run_jobs` whose results are those of processes of this machine.

    The workers load the data themselves, from the same place as the client would. Dask does again
    what is lost with a worker.
    """
    distributed = import_distributed()

    def compute(experiment: Experiment, jobs: Sequence[Job]) -> Iterator[Result]:
        there = client.scatter(experiment, broadcast=True, hash=False)
        name = uuid.uuid4().hex
        futures = client.map(do_job, list(jobs), experiment=there, name=name, pure=False)
        try:
            for _, result in distributed.as_completed(futures, loop=client.loop, with_results=True):
                yield result
        except (MemoryError, distributed.KilledWorker, distributed.CancelledError):
            raise WorkerError(
                "workers died, perhaps for want of memory; what is done is kept: run the same "
                "again, with more memory for each worker"
            ) from None
        finally:
            client.cancel(futures)

    return compute


_here = threading.local()


def do_job(job: Job, experiment: Experiment, name: str) -> Result:
    """Run a job, by a `Worker` that remembers the last stream and split of this experiment."""
    # One for each thread: a `Worker` runs jobs one after the other.
    if getattr(_here, "name", None) != name:
        _here.name, _here.worker = name, Worker(experiment)
    result: Result = _here.worker.do(job)
    return result
