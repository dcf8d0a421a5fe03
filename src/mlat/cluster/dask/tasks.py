"""Tasks on a Dask cluster that survive the death of workers.

`flow` runs independent tasks, a few at a time. `Team` keeps the parts of one problem on workers:
what a part holds is fixed, the worker that has it is not. Results are combined in one order, and a
part that is lost with its worker is built again on another, with the same result.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ...base.errors import WorkerError
from .client import FETCH_SECONDS, await_workers, import_distributed

AHEAD = 3  # tasks per thread that are sent before results are awaited: memory stays bounded
MOST_TRIES = 4
WATCH_SECONDS = 5.0  # between checks whether any worker is left
ALIVE_SECONDS = 2.0  # between checks which workers are alive, while results are awaited
MOST_DEATHS = 3  # of workers during one evaluation
LARGE = 1_000_000  # bytes; arguments above are sent once instead of with every task

Make = Callable[[int, str], Any]


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
                        raise _out_of_memory(advice) from None
                    raise error
                if tries[number] >= MOST_TRIES:
                    raise _too_many_deaths(MOST_TRIES, advice)
                waiting.append(number)
    finally:
        client.cancel(list(running))


def _first_done(distributed: Any, futures: list[Any]) -> list[Any]:
    # Which of them was cancelled, their status says.
    with suppress(TimeoutError, distributed.CancelledError):
        distributed.wait(futures, timeout=WATCH_SECONDS, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.done() or future.status == "lost"]


class Team:
    """Objects, one per part, each on a worker.

    Parameters
    ----------
    client : distributed.Client
    n_parts : int
    make : callable
        ``make(part, worker)`` is a future of the part's object on that worker. Called again
        whenever a part has been lost.
    advice : str
        What to do where workers keep dying.
    """

    def __init__(self, client: Any, n_parts: int, make: Make, advice: str) -> None:
        self.client, self.make, self.advice = client, make, advice
        self._parts: dict[int, Any] = {}
        self._worker: dict[int, str] = {}
        self.n_parts = n_parts
        self.deaths = 0

    def ask(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(object, *arguments)`` for the object of every part, in the parts' order."""
        results: dict[int, Any] = {}
        deaths = 0
        while len(results) < self.n_parts:
            missing = [part for part in range(self.n_parts) if part not in results]
            self._place(missing, deaths)
            lost = self._collect(function, arguments, missing, results)
            for part in lost:
                self._parts.pop(part, None)
            if lost:
                deaths += 1
                self.deaths += 1
        return [results[part] for part in range(self.n_parts)]

    def release(self) -> None:
        """Free all objects."""
        self._parts.clear()

    def _place(self, parts: Iterable[int], deaths: int) -> None:
        """See that the parts are on living workers, as evenly as their threads are."""
        if deaths >= MOST_DEATHS:
            raise _too_many_deaths(deaths, self.advice)
        alive = await_workers(self.client)
        for part, worker in list(self._worker.items()):
            if worker not in alive:
                del self._worker[part]
                self._parts.pop(part, None)
        load = Counter(self._worker.values())
        for part in parts:
            fewest = min(alive, key=lambda w: ((load[w] + 1) / alive[w], w))
            here = self._worker.get(part)
            # A part moves only where that is a gain: a worker that has come anew.
            if here is not None and (load[fewest] + 1) / alive[fewest] < load[here] / alive[here]:
                load[here] -= 1
                self._parts.pop(part, None)
                here = None
            if here is None:
                self._worker[part] = fewest
                load[fewest] += 1
            if part not in self._parts:
                try:
                    self._parts[part] = self.make(part, self._worker[part])
                except (OSError, TimeoutError, KeyError, import_distributed().CancelledError):
                    # The worker died in this moment; the next round sees it.
                    del self._worker[part]

    def _collect(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        missing: Iterable[int],
        results: dict[int, Any],
    ) -> list[int]:
        """Put results in; return the parts that were lost with their workers."""
        distributed = import_distributed()
        placed = [part for part in missing if part in self._parts]
        lost = [part for part in missing if part not in self._parts]
        try:
            arguments = [self._sent(a, {self._worker[p] for p in placed}) for a in arguments]
        except (OSError, TimeoutError, KeyError):
            return [*placed, *lost]
        pending = {
            part: self.client.submit(
                function,
                self._parts[part],
                *arguments,
                workers=[self._worker[part]],
                pure=False,
            )
            for part in placed
        }
        while pending:
            self._wait(distributed, list(pending.values()))
            done = [part for part, future in pending.items() if future.done()]
            alive = self.client.nthreads()
            for part, future in list(pending.items()):
                if part in done:
                    del pending[part]
                    if future.status == "finished":
                        try:
                            results[part] = future.result(timeout=FETCH_SECONDS)
                            continue
                        except (OSError, TimeoutError, distributed.CancelledError):
                            pass  # it was computed, and lost before it could be fetched
                    elif future.status == "error":
                        self._raise(distributed, future, alive, part)
                    lost.append(part)
                elif self._worker[part] not in alive:
                    future.cancel()
                    del pending[part]
                    lost.append(part)
        return lost

    def _wait(self, distributed: Any, futures: list[Any]) -> None:
        # What was cancelled says so itself.
        with suppress(TimeoutError, distributed.CancelledError), self.client.as_current():
            distributed.wait(futures, timeout=ALIVE_SECONDS)

    def _raise(self, distributed: Any, future: Any, alive: dict[str, int], part: int) -> None:
        """Raise what the task raised, unless it failed because its worker did."""
        error = future.exception()
        if isinstance(error, MemoryError | distributed.KilledWorker):
            raise _out_of_memory(self.advice) from None
        if self._worker[part] in alive:
            raise error

    def _sent(self, argument: Any, workers: set[str]) -> Any:
        if getattr(argument, "nbytes", 0) <= LARGE:
            return argument
        return self.client.scatter(argument, workers=list(workers), broadcast=True, hash=False)


def _out_of_memory(advice: str) -> WorkerError:
    return WorkerError(f"a worker is out of memory; {advice}")


def _too_many_deaths(deaths: int, advice: str) -> WorkerError:
    return WorkerError(
        f"workers died {deaths} times over the same work, most likely for want of memory; {advice}"
    )
