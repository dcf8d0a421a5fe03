"""How long the rest will take, from what the jobs so far took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .journal import Job, Result, job_of


class TimeLeft:
    """An estimate that knows that systems and data sets differ.

    Parameters
    ----------
    todo : iterable of Job
    known : iterable of Result
        Results of an earlier run, whose times are known.
    n_workers : int
    """

    def __init__(self, todo: Iterable[Job], known: Iterable[Result], n_workers: int) -> None:
        self._todo = Counter(_kinds(job)[0] for job in todo)
        self._n_workers = n_workers
        self._seconds: Counter[tuple[str, ...]] = Counter()
        self._count: Counter[tuple[str, ...]] = Counter()
        for result in known:
            self._learn(result)

    def done(self, result: Result) -> None:
        self._learn(result)
        self._todo[_kinds(job_of(result))[0]] -= 1

    @property
    def seconds(self) -> float | None:
        """The estimate; None before anything is known."""
        if not self._count:
            return None
        return sum(n * self._mean(kind) for kind, n in self._todo.items()) / self._n_workers

    def _learn(self, result: Result) -> None:
        for kind in _kinds(job_of(result)):
            self._seconds[kind] += result["fit_seconds"] + result["predict_seconds"]
            self._count[kind] += 1

    def _mean(self, kind: tuple[str, ...]) -> float:
        # Of the same set, system and size; else of the system and size in other sets; else of all.
        for known in (kind, kind[:2], ()):
            if self._count[known]:
                return self._seconds[known] / self._count[known]
        return 0.0


def _kinds(job: Job) -> list[tuple[str, ...]]:
    kind = (job.system, job.size, job.data_set, job.protocol)
    return [kind, kind[:2], ()]
