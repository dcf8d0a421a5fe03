"""Exact nearest neighbours among references that no single machine could hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.checks import Floats, Ints
from ...base.errors import InputError
from ...base.fixed_order import power_above
from ...neighbours.search import NearestNeighbors
from .client import check_client
from .tasks import Team

QUERIES = 4096  # points sent at a time
ADVICE = "give the workers more memory, or divide the references into more shards"


class ShardedNeighbors:
    """As :class:`mlat.neighbours.search.NearestNeighbors`, with the references on the workers.

    Every worker finds the nearest of its own references; the nearest of these are the nearest of
    all. Only the query points and k candidates from every shard are sent.

    Parameters
    ----------
    client : distributed.Client
    references : array of shape (n, r), or a list of futures
        An array is divided and sent once. Futures of arrays (m, r) are shards that are on the
        workers already, and are never fetched; their rows are numbered one after the other.
    shards : int, optional
        Into how many an array is divided; default one for each thread of the workers.
    """

    def __init__(
        self, client: Any, references: Floats | Sequence[Any], shards: int | None = None
    ) -> None:
        check_client(client)
        self._client = client
        if isinstance(references, np.ndarray):
            self._take_array(references, shards)
        else:
            self._take_futures(list(references), shards)
        self._team = Team(client, len(self._first) - 1, self._make, ADVICE)

    def __len__(self) -> int:
        return int(self._first[-1])

    def query(self, points: Floats, n_neighbors: int = 1) -> tuple[Floats, Ints]:
        """Distances and rows of the nearest references, both (m, k), nearest first.

        Equally near references come in the order of their rows.
        """
        if not 1 <= n_neighbors <= len(self):
            raise InputError(
                f"n_neighbors is {n_neighbors}, but there are {len(self)} reference windows"
            )
        points = np.asarray(points, dtype=np.float64)
        squared = np.empty((len(points), n_neighbors))
        rows = np.empty((len(points), n_neighbors), np.int64)
        for begin in range(0, len(points), QUERIES):
            some = slice(begin, begin + QUERIES)
            found = self._team.ask(nearest_of_shard, points[some], n_neighbors)
            near = np.concatenate([part[0] for part in found], axis=1)
            where = np.concatenate(
                [part[1] + at for part, at in zip(found, self._first[:-1], strict=True)], axis=1
            )
            order = np.lexsort((where, near), axis=1)[:, :n_neighbors]
            squared[some] = np.take_along_axis(near, order, axis=1)
            rows[some] = np.take_along_axis(where, order, axis=1)
        return self._scale * np.sqrt(squared), rows

    def release(self) -> None:
        """Free the references on the workers."""
        self._team.release()

    def _take_array(self, references: Floats, shards: int | None) -> None:
        n = len(references)
        if references.ndim != 2 or not n:
            raise InputError(f"references must have shape (n, r), not {references.shape}")
        threads = sum(self._client.nthreads().values())
        count = min(threads if shards is None else shards, n)
        if count < 1:
            raise InputError(f"shards must be at least 1, not {shards}")
        mean = references.mean(axis=0)
        self._scale = power_above(_reach(references, mean))
        self._first = np.arange(count + 1) * n // count

        def make(part: int, worker: str) -> Any:
            mine = references[self._first[part] : self._first[part + 1]]
            there, centre = self._client.scatter([mine, mean], workers=[worker], hash=False)
            return self._submit_search(there, centre, worker)

        self._make = make

    def _take_futures(self, references: list[Any], shards: int | None) -> None:
        if shards is not None:
            raise InputError("shards is for an array; futures are shards as they are")
        if not references:
            raise InputError("there are no references")
        submit = self._client.submit
        sums = self._client.gather([submit(_sum, one, pure=False) for one in references])
        self._first = np.cumsum([0, *(count for count, _ in sums)])
        mean = sum(total for _, total in sums) / self._first[-1]
        reaches = [submit(_reach, one, mean, pure=False) for one in references]
        self._scale = power_above(max(self._client.gather(reaches)))

        def make(part: int, worker: str) -> Any:
            return self._submit_search(references[part], mean, worker)

        self._make = make

    def _submit_search(self, references: Any, mean: Any, worker: str) -> Any:
        return self._client.submit(
            NearestNeighbors, references, mean, scale=self._scale, workers=[worker], pure=False
        )


def nearest_of_shard(search: NearestNeighbors, points: Floats, k: int) -> tuple[Floats, Ints]:
    """Squared distances in the common unit and rows within the shard, no more than it has."""
    return search.query_squared(points, min(k, len(search)))


def _reach(references: Floats, mean: Floats) -> float:
    return float(np.abs(references - mean).max(initial=0.0))


def _sum(references: Floats) -> tuple[int, Floats]:
    return len(references), references.sum(axis=0)
