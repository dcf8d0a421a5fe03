"""Predicting many streams at once on a Dask cluster, the user's own, whose workers may die."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..base.errors import InputError, ServiceError, WorkerError, require_package
from ..stream.stream import Stream

ADVICE = "give the workers more memory, or cut the streams into shorter ones"
SAME = ("mlat", "numpy", "numba", "distributed")  # versions that must not differ
FETCH_SECONDS = 120.0  # to fetch a result that a worker has
WORKER_SECONDS = 60.0  # to wait for a worker when there is none left
AHEAD = 3  # tasks per thread that are sent before results are awaited: memory stays bounded
MOST_TRIES = 4
WATCH_SECONDS = 5.0  # between checks whether any worker is left


def predict(
    client: Any,
    clf: Any,
    streams: Sequence[Any],
    *,
    filtered: bool = False,
    **columns: Any,
) -> list[NDArray[Any]]:
    """The states of streams, each as ``clf.predict`` gives them.

    The classifier is sent to the workers once, each stream to one of them. What is lost with a
    worker is sent again.

    Parameters
    ----------
    client : distributed.Client
    clf : fitted StreamClassifier
    streams : sequence of Stream, arrays, or paths of files
        Files are read by the workers; ``columns`` are then as for :func:`mlat.read_stream`, the
        channels by default those of the classifier.
    filtered : bool, default=False
        As for :meth:`mlat.StreamClassifier.predict`.

    Returns
    -------
    states : list of arrays
        One for each stream, in their order.
    """
    check_client(client)
    check_is_fitted(clf)
    if isinstance(streams, Stream | str | os.PathLike):
        raise InputError("streams must be a list of streams or of files; put the one into a list")
    given = list(streams)
    model = _Model(client, clf)

    def submit(number: int) -> Any:
        one = given[number]
        if isinstance(one, str | os.PathLike):
            sent: Any = os.path.abspath(one)
        else:
            # Not through the graph, which the scheduler would keep.
            sent = client.scatter([one], hash=False)[0]
        task = (model.future(), sent, filtered, columns)
        return client.submit(predict_one, *task, pure=False)

    found = dict(flow(client, len(given), submit, advice=ADVICE))
    return [found[number] for number in range(len(given))]


class _Model:
    """A classifier on every worker, sent again if all that had it are gone."""

    def __init__(self, client: Any, clf: Any) -> None:
        self._client, self._clf, self._future = client, clf, None

    def future(self) -> Any:
        if self._future is None or self._future.status != "finished":
            self._future = self._client.scatter([self._clf], broadcast=True, hash=False)[0]
        return self._future


def predict_one(clf: Any, stream: Any, filtered: bool, columns: Mapping[str, Any]) -> NDArray[Any]:
    """The states of one stream. Runs on a worker."""
    if isinstance(stream, str):
        from ..stream.read import read_channels, read_stream

        if columns.get("channels") is None:
            known = {name: value for name, value in columns.items() if name != "channels"}
            stream = read_channels(stream, clf.channels_, **known)
        else:
            stream = read_stream(stream, **columns)
    states: NDArray[Any] = clf.predict(stream, filtered=filtered)
    return states


# Tasks that survive the death of workers.


def flow(
    client: Any, n: int, submit: Callable[[int], Any], *, advice: str
) -> Iterator[tuple[int, Any]]:
    """Yield the numbers 0 … n-1 with the results of their tasks, in the order they finish.

    Parameters
    ----------
    submit : callable
        From a number to the future of its task. Called again if its worker dies with the data
        that it needs.
    advice : str
        What to do where workers run out of memory.
    """
    distributed = import_distributed()
    waiting, tries = deque(range(n)), [0] * n
    running: dict[Any, int] = {}
    ahead = AHEAD * max(1, sum(client.nthreads().values()))
    try:
        while waiting or running:
            while waiting and len(running) < ahead:
                number = waiting.popleft()
                tries[number] += 1
                try:
                    running[submit(number)] = number
                except (OSError, TimeoutError, KeyError, distributed.CancelledError):
                    # The worker that it was sent to died in this moment.
                    if tries[number] >= MOST_TRIES:
                        raise
                    waiting.append(number)
                    await_workers(client)
            with client.as_current():
                done = _first_done(distributed, list(running))
            if not done:
                await_workers(client)
            for future in done:
                number = running.pop(future)
                if future.status == "finished":
                    try:
                        result = future.result(timeout=FETCH_SECONDS)
                    except (OSError, TimeoutError, distributed.CancelledError):
                        pass  # it was computed, and lost before it could be fetched
                    else:
                        yield number, result
                        continue
                elif future.status == "error":
                    error = future.exception()
                    if isinstance(error, MemoryError | distributed.KilledWorker):
                        raise WorkerError(f"a worker is out of memory; {advice}") from None
                    raise error
                if tries[number] >= MOST_TRIES:
                    raise WorkerError(
                        f"workers died {MOST_TRIES} times over the same work, most likely for want "
                        f"of memory; {advice}"
                    )
                waiting.append(number)
    finally:
        client.cancel(list(running))


def _first_done(distributed: Any, futures: list[Any]) -> list[Any]:
    # Which of them was cancelled, their status says.
    with suppress(TimeoutError, distributed.CancelledError):
        distributed.wait(futures, timeout=WATCH_SECONDS, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.done() or future.status == "lost"]


# Checks of the client: its type, its workers, and their versions.


def import_distributed() -> Any:
    """The package ``distributed``, imported on use."""
    return require_package("distributed", "dask", "mlat.cluster", title="dask and distributed")


def check_client(client: Any) -> None:
    """Refuse what is no client, one without workers, and workers with other versions."""
    distributed = import_distributed()
    if not isinstance(client, distributed.Client):
        raise InputError(
            f"client must be a dask.distributed.Client, not {type(client).__name__}; make one: "
            "Client('tcp://scheduler:8786')"
        )
    if client.asynchronous:
        raise InputError("the client is asynchronous; give one made without asynchronous=True")
    if client.status != "running":
        raise InputError(f"the client is {client.status}; connect a new one")
    if not client.nthreads():
        raise ServiceError(
            f"the scheduler at {client.scheduler.address} has no workers; start some: "
            f"dask worker {client.scheduler.address}"
        )
    check_versions(client)


def check_versions(client: Any) -> None:
    """Refuse workers whose versions differ from the client's."""
    here = _versions()
    for address, there in client.run(_versions).items():
        for name, version in here.items():
            if there.get(name) != version:
                raise WorkerError(
                    f"worker {address} has {name} {there.get(name) or 'not installed'}, this "
                    f"client {version}; install the same version on both"
                )


def _versions() -> dict[str, str]:
    """Of Python, and of what decides how objects of mlat travel and how they round."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"python": python, **{name: str(import_module(name).__version__) for name in SAME}}


def await_workers(client: Any) -> dict[str, int]:
    """The workers and their threads. Where none is left, wait for one."""
    alive: dict[str, int] = client.nthreads()
    if not alive:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise WorkerError(
                f"no worker is left; start one: dask worker {client.scheduler.address}"
            ) from None
        alive = client.nthreads()
    return alive
