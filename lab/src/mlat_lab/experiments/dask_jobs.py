"""The jobs of an experiment on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from mlat.base.errors import ServiceError
from mlat.cluster.dask import check_client, flow, import_distributed

from .experiment import Experiment
from .journal import Job, Result
from .runner import Engine, Worker

CONNECT_SECONDS = 5.0
ADVICE = "what is done is kept: run the same again, with more memory for each worker"


def connect(address: str) -> Any:
    """A client of the scheduler at the address, checked."""
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
        check_client(client)
    except BaseException:
        client.close()
        raise
    return client


def dask_engine(client: Any) -> Engine:
    """An engine for `run_jobs` whose results are those of processes of this machine.

    The workers load the data themselves, from the same place as the client would.
    """

    def compute(experiment: Experiment, jobs: Sequence[Job]) -> Iterator[Result]:
        name = uuid.uuid4().hex
        sent: list[Any] = []

        def submit(number: int) -> Any:
            if not sent or sent[0].status != "finished":
                sent[:] = client.scatter([experiment], broadcast=True, hash=False)
            return client.submit(do_job, sent[0], name, jobs[number], pure=False)

        for _, result in flow(client, len(jobs), submit, advice=ADVICE):
            yield result

    return compute


_here = threading.local()


def do_job(experiment: Experiment, name: str, job: Job) -> Result:
    """Run a job, by a `Worker` that remembers the last stream and split of this experiment."""
    # One for each thread: a `Worker` runs jobs one after the other.
    if getattr(_here, "name", None) != name:
        _here.name, _here.worker = name, Worker(experiment)
    result: Result = _here.worker.do(job)
    return result
