"""How long live steps take: one stream, many streams in real time, and what memory allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from ..classifier import StreamClassifier
from ..live.search.flat_search import FlatSearch
from ..live.search.many import Many
from ..stream import Stream

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ticks:
    """Many streams in real time; latencies in milliseconds, from when a tick was due.

    ``own_p50`` and ``own_p99`` are what they would be on a core that does nothing else: from the
    processor time of each tick, and how it would have kept the next ones waiting.
    """

    n_streams: int
    rate: float
    p50: float
    p99: float
    worst: float
    own_p50: float
    own_p99: float
    share: float
    bytes_per_stream: int
    exact: float


def in_turn(
    steps: dict[str, Callable[[int], object]], rounds: int, per_round: int
) -> dict[str, float]:
    """Seconds of each, a few at a time in turn: whatever else runs, slows all alike.

    What a tenth of them took at most: steps that nothing interrupted.
    """
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(0)
    for r in range(rounds):
        for name, step in steps.items():
            for i in range(per_round):
                begin = time.perf_counter()
                step(r * per_round + i)
                taken[name].append(time.perf_counter() - begin)
    return {name: float(np.quantile(times, 0.1)) for name, times in taken.items()}


def flat_step(clf: StreamClassifier, values: Floats) -> tuple[FlatSearch, Callable[[int], object]]:
    """One step of one stream."""
    search = FlatSearch.of(clf)
    assert search is not None
    seen = clf.features_(Stream(values))
    state = search.start()
    search.push(state, seen[: clf.width_])
    n = len(seen)
    return search, lambda i: search.push(state, seen[i % n : i % n + 1])


def session_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """The same as a person takes it: from raw channels to a prediction, with all policies."""
    session = clf.live(search="flat")
    session.push(values[: clf.width_])
    n = len(values)
    return lambda i: session.push(values[i % n])


def brute_step(clf: StreamClassifier, values: Floats) -> Callable[[int], object]:
    """scikit-learn's search for one window, already in the learned space."""
    peer = KNeighborsClassifier(n_neighbors=1, algorithm="brute")
    peer.fit(clf._search.embedded, clf._codes)
    seen = clf.features_(Stream(values))
    starts = np.arange(len(seen) - clf.width_ + 1)
    Z = np.concatenate([*clf._search._embed(seen, starts)])
    return lambda i: peer.predict(Z[i % len(Z) : i % len(Z) + 1])


def bytes_of_a_step(search: FlatSearch) -> int:
    """What one step of one stream reads of the references and of its own sums, and writes."""
    r = search.references
    shared = (r.right, r.squared, r.direct, r.causal, r.anticausal)
    own = search.start()
    return sum(array.nbytes for array in shared) + own.ring.nbytes + 2 * own.products.nbytes


def reading(n_bytes: int) -> Callable[[int], object]:
    """Read so many bytes once, from wherever the caches have left them."""
    array = np.ones(n_bytes // 4, np.float32)
    return lambda i: _read(array)


@njit(cache=True, nogil=True, fastmath=True)
def _read(array):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(len(array)):
        total += array[i]
    return total


def real_time(
    clf: StreamClassifier, values: Floats, *, n_streams: int, rate: float, seconds: float
) -> Ticks:
    """A step of every stream, ``rate`` times a second, on one thread.

    A tick that is late because the one before it took long is late all the same.
    """
    many = Many(clf, n_streams)
    offset = np.random.default_rng(0).integers(0, len(values), n_streams)
    for i in range(-2 * clf.width_, 0):
        many.push(values[(offset + i) % len(values)])
    n_ticks = int(seconds * rate)
    latency, work = np.empty(n_ticks), np.empty(n_ticks)
    exact = 0
    begin = time.perf_counter() + 0.01
    for i in range(n_ticks):
        due = begin + i / rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        cpu = time.process_time()
        many.push(values[(offset + i) % len(values)])
        work[i] = time.process_time() - cpu
        latency[i] = time.perf_counter() - due
    for i in range(n_ticks, n_ticks + 100):
        exact += int(many.results(values[(offset + i) % len(values)]).exact.sum())
    p50, p99 = np.quantile(1e3 * latency, [0.5, 0.99])
    own_p50, own_p99 = np.quantile(1e3 * waiting(work, 1 / rate), [0.5, 0.99])
    return Ticks(
        n_streams,
        rate,
        float(p50),
        float(p99),
        float(1e3 * latency.max()),
        float(own_p50),
        float(own_p99),
        float(work.mean() * rate),
        many.bytes_per_stream,
        exact / (100 * n_streams),
    )


def waiting(work: Floats, period: float) -> Floats:
    """From when each piece of work is due to its end, one core doing them in order.

    >>> waiting(np.array([1.0, 7.0, 1.0, 1.0]), 5.0).tolist()
    [1.0, 7.0, 3.0, 1.0]
    """
    latency = np.empty(len(work))
    free = 0.0
    for i, taken in enumerate(work):
        free = max(free, i * period) + taken
        latency[i] = free - i * period
    return latency
