"""Many independent tasks through a cluster: a few at a time, and again where a worker died."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ..errors import InputError
from .clients import FETCH_SECONDS, await_workers, import_distributed

AHEAD = 3  # tasks per thread that are sent before results are awaited: memory stays bounded
MOST_TRIES = 4
WATCH_SECONDS = 5.0  # between looks at whether any worker is left


def flow(
    client: Any, n: int, submit: Callable[[int], Any], *, advice: str
) -> Iterator[tuple[int, Any]]:
    """The numbers 0 … n-1 with the results of their tasks, as they are finished.

    Parameters
    ----------
    submit : callable
        From a number to the future of its task. Called again where its worker took the data it
        needs along.
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
                    # The worker that it was sent to has gone in this very moment.
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
                        raise InputError(f"a worker is out of memory; {advice}") from None
                    raise error
                if tries[number] >= MOST_TRIES:
                    raise InputError(
                        f"workers died {MOST_TRIES} times over the same work, most likely for "
                        f"want of memory; {advice}"
                    )
                waiting.append(number)
    finally:
        client.cancel(list(running))


def _first_done(distributed: Any, futures: list[Any]) -> list[Any]:
    # Which of them was cancelled, their status says.
    with suppress(TimeoutError, distributed.CancelledError):
        distributed.wait(futures, timeout=WATCH_SECONDS, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.done() or future.status == "lost"]
