"""Running the jobs of an experiment, in parallel, and going on where a run stopped."""

from __future__ import annotations

import inspect
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mlat.base.checks import Bools, Floats
from mlat.base.errors import InputError, WorkerError
from mlat.classifier.classifier import StreamClassifier
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows

from .experiment import FEW, Experiment, Sees, describe
from .journal import Job, Journal, Result, job_of
from .past import Seen, learned_default, see_features, see_past
from .protocol import Split, SplitStreams, as_streams, split, split_seed
from .stream_protocol import STREAM_PROTOCOLS, StreamSplit, split_stream

Engine = Callable[[Experiment, Sequence[Job]], Iterator[Result]]


def run_jobs(
    experiment: Experiment,
    jobs: Sequence[Job],
    journal: Journal,
    *,
    n_workers: int = 1,
    engine: Engine | None = None,
    on_done: Callable[[Result], Any] = lambda result: None,
) -> list[Result]:
    """The results of all jobs, in their order; only those not in the journal are computed.

    Parameters
    ----------
    engine : callable, optional
        From an experiment and jobs to their results, in any order; default processes of this
        machine, ``n_workers`` of them.
    on_done : callable
        Called with each result as soon as it is in the journal.

    Raises
    ------
    WorkerError
        If a process was killed.
    """
    keys = [(job, experiment.fingerprint(job)) for job in jobs]
    todo = [job for job, fingerprint in keys if (job, fingerprint) not in journal.results]
    computed = engine(experiment, todo) if engine else _compute(experiment, todo, n_workers)
    for result in computed:
        journal.add(result)
        on_done(result)
    return [journal.results[key] for key in keys]


def _compute(experiment: Experiment, jobs: Sequence[Job], n_workers: int) -> Iterator[Result]:
    """Results as they are finished, in any order."""
    if n_workers == 1 or len(jobs) < 2:
        worker = Worker(experiment)
        for job in jobs:
            yield worker.do(job)
        return
    # A forked process would inherit threads and locks in whatever state they are.
    context = multiprocessing.get_context("spawn")
    until_closed, open_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(n_workers, len(jobs)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(experiment, until_closed),
    )
    try:
        with _without_interrupts():
            futures = [pool.submit(_do, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError(
            "a worker process was killed, perhaps for want of memory; what is done is kept: run "
            "the same again, with fewer workers"
        ) from None
    except (KeyboardInterrupt, GeneratorExit):
        open_end.close()  # which ends the workers: a job may take minutes
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        open_end.close()
        until_closed.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here never see Ctrl-C, not even while they import.

    Here it is only put off: a process whose start was broken off would complain of it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on every system
        yield
        return
    resource_tracker.ensure_running()  # whose start lets the signal through again
    seen: list[tuple[int, FrameType | None]] = []
    # A process inherits what is blocked. But only this thread blocks it: another one that the
    # signal reaches, as of a BLAS, has this thread run the handler.
    handler = None
    if threading.current_thread() is threading.main_thread():
        handler = signal.signal(signal.SIGINT, lambda *what: seen.append(what))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
            if seen and callable(handler):
                handler(*seen[-1])


class Outcome(NamedTuple):
    """The predicted labels, how long it took, and what else there is to tell of the system."""

    predicted: NDArray[Any]
    fit_seconds: float
    predict_seconds: float
    more: dict[str, Any] | None = None


class Worker:
    """Runs jobs one after the other, and remembers the last stream and split."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        # The jobs of a split follow each other, so two of each are enough.
        self.stream = lru_cache(maxsize=2)(self._load)
        self.split = lru_cache(maxsize=2)(self._split)
        self.default = lru_cache(maxsize=2)(self._default)
        self._fitted: dict[tuple[Any, ...], tuple[Any, float]] = {}

    def do(self, job: Job) -> Result:
        with threadpool_limits(1):  # the processes are the parallelism
            if self.experiment.work is not None:
                return self.experiment.work(self.experiment, job)
            return self._run(job)

    def _run(self, job: Job) -> Result:
        parts = self.split(job.data_set, job.person, job.run, job.protocol)
        train = parts.train
        if job.size == FEW:
            if not isinstance(parts, Split):
                raise InputError(f"under {job.protocol} everyone has all windows, not few")
            train = train.take(parts.few)
        system = self.experiment.systems[job.system]
        run = self._on_streams if system.sees is Sees.STREAM else self._on_windows
        outcome = run(job, train)
        return {
            **job._asdict(),
            "fingerprint": self.experiment.fingerprint(job),
            **judge(parts, outcome.predicted),
            "n_train": len(train),
            "left_out": {str(label): why for label, why in parts.left_out.items()},
            "fit_seconds": round(outcome.fit_seconds, 4),
            "predict_seconds": round(outcome.predict_seconds, 4),
            **(outcome.more or {}),
        }

    def _on_windows(self, job: Job, train: Windows) -> Outcome:
        seen, classifier = self._seen(job, train), self._make(job)
        accepted = inspect.signature(classifier.fit).parameters
        when = {"start": seen.start, "run": seen.run}
        began = time.perf_counter()
        classifier.fit(seen.X, seen.y, **{k: v for k, v in when.items() if k in accepted})
        fitted = time.perf_counter()
        predicted = classifier.predict(seen.test)
        took = time.perf_counter() - fitted
        told = {"past": seen.past, "padded": seen.padded}
        more = {name: value for name, value in told.items() if value is not None}
        return Outcome(predicted, fitted - began, took, more)

    def _seen(self, job: Job, train: Windows) -> Seen:
        which = job.data_set, job.person, job.run, job.protocol
        sees, parts = self.experiment.systems[job.system].sees, self.split(*which)
        if sees is Sees.WINDOW:
            return Seen(train.X, train.y, train.start, train.run, parts.test.X)
        see = see_past if sees is Sees.PAST else see_features
        width = self.experiment.width_of(job.data_set)
        seen = see(streams_of(parts), width, self.default(*which))
        assert len(seen.X) == len(train), "everyone learns at the same steps"
        return seen

    def _default(self, data_set: str, person: str, run: int, protocol: str) -> StreamClassifier:
        parts = self.split(data_set, person, run, protocol)
        return learned_default(streams_of(parts).train, self.experiment.width_of(data_set))

    def _on_streams(self, job: Job, train: Windows) -> Outcome:
        parts = self.split(job.data_set, job.person, job.run, job.protocol)
        streams = streams_of(parts)
        classifier, seconds = self._fit_on_stream(job, streams.train)
        began = time.perf_counter()
        filtered = self.experiment.systems[job.system].filtered
        predicted = classifier.predict(streams.test, filtered=filtered)[streams.ends]
        took = time.perf_counter() - began
        more = _of_committee(classifier)
        if more and not filtered:
            proba = classifier.predict_proba(streams.test)[streams.ends]
            counts = slice(None) if isinstance(parts, Split) else parts.counts
            right = (predicted == parts.test.y)[counts]
            more["reliability"] = _reliability(proba.max(axis=1)[counts], right)
        if more and self.experiment.systems[job.system].alone:
            more["experts"] = {
                name: judge(parts, states[streams.ends])["accuracy"]
                for name, states in _alone(classifier, streams.test).items()
            }
        return Outcome(predicted, seconds, took, more)

    def _fit_on_stream(self, job: Job, train: Stream) -> tuple[Any, float]:
        """The fitted classifier and how long that took; with and without the filter it is one."""
        classifier = self._make(job).set_params(width=self.experiment.width_of(job.data_set))
        key = (*job._replace(system=""), json.dumps(describe(classifier), sort_keys=True))
        if key not in self._fitted:
            began = time.perf_counter()
            classifier.fit(train)
            self._fitted = {key: (classifier, time.perf_counter() - began)}
        return self._fitted[key]

    def _make(self, job: Job) -> Any:
        return self.experiment.systems[job.system].make(job.data_set, job.size)

    def _load(self, data_set: str, person: str) -> Stream:
        return self.experiment.people[data_set].load(person)

    def _split(self, data_set: str, person: str, run: int, protocol: str) -> Split | StreamSplit:
        experiment, stream = self.experiment, self.stream(data_set, person)
        width, given = experiment.width_of(data_set), experiment.people[data_set].given
        try:
            if protocol in STREAM_PROTOCOLS:
                assert given is not None
                return split_stream(
                    stream, protocol, width=width, given=given, n_test=experiment.n_test
                )
            return split(
                stream,
                protocol,
                split_seed(data_set, person, run, protocol),
                width=width,
                given=given,
                n_few=experiment.n_few,
                n_test=experiment.n_test,
            )
        except InputError as error:
            raise InputError(f"{data_set} {person}, run {run}, {protocol}: {error}") from None


def streams_of(parts: Split | StreamSplit) -> SplitStreams:
    return as_streams(parts) if isinstance(parts, Split) else parts.streams


def _of_committee(classifier: Any) -> dict[str, Any]:
    """Who is in a committee, and the accuracy in per cent that it expects of itself."""
    committee = getattr(classifier, "committee_", None)
    if committee is None:
        return {}
    expected = getattr(committee, "accuracy", np.nan)
    return {
        "chosen": str(committee),
        **({"expected": 100.0 * float(expected)} if np.isfinite(expected) else {}),
    }


def _reliability(confidence: Floats, right: Bools) -> list[list[float]]:
    """Steps, the sum of confidence, and how many are right, for each tenth of confidence."""
    known = ~np.isnan(confidence)
    confidence, right = confidence[known], right[known]
    tenth = np.minimum((10 * confidence).astype(np.int64), 9)
    columns = (np.bincount(tenth, weights, 10) for weights in (None, confidence, right))
    return [[round(float(value), 6) for value in row] for row in zip(*columns, strict=True)]


def _alone(classifier: StreamClassifier, stream: Stream) -> dict[str, NDArray[Any]]:
    """The states by each expert that decides in a committee, by itself."""
    found = {}
    for member, distances in zip(
        classifier.committee_.deciding, classifier.expert_distances(stream), strict=True
    ):
        known = ~np.isnan(distances[:, 0])
        states = np.full(len(stream), classifier.unknown_, dtype=classifier.classes_.dtype)
        states[known] = classifier.classes_[distances[known].argmin(axis=1)]
        found[member.name] = states
    return found


def judge(parts: Split | StreamSplit, predicted: NDArray[Any]) -> dict[str, Any]:
    """The figures of a result, from the predicted labels of the test windows.

    Accuracy is over all windows of a split. In a whole stream every state counts the same, and the
    delay is the median over switches of the steps until the new state is right for the first time:
    None where it never is for most of them, or without a switch.
    """
    right, y = predicted == parts.test.y, parts.test.y
    if isinstance(parts, Split):
        labels = list(parts.given)
        accuracy = 100.0 * float(right.mean())
        more: dict[str, Any] = {}
    else:
        delay = parts.delay(predicted)
        right, y = right[parts.counts], y[parts.counts]
        labels = parts.states.tolist()
        accuracy = 100.0 * float(np.mean([right[y == label].mean() for label in labels]))
        more = {
            "delay": delay.first_median if np.isfinite(delay.first_median) else None,
            "missed": delay.missed if delay.n_switches else None,
            "n_switches": delay.n_switches,
        }
    return {
        "accuracy": accuracy,
        "right": {str(label): int(right[y == label].sum()) for label in labels},
        "total": {str(label): int((y == label).sum()) for label in labels},
        "n_test": len(y),
        **more,
    }


_worker: Worker | None = None


def _start_worker(experiment: Experiment, until_closed: Connection) -> None:
    global _worker
    _worker = Worker(experiment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    threading.Thread(target=_die_with_parent, args=(until_closed,), daemon=True).start()


def _die_with_parent(until_closed: Connection) -> None:
    """End at once when the parent says so, or is killed outright and cannot say so."""
    wait([until_closed])
    os._exit(1)


def _do(job: Job) -> Result:
    assert _worker is not None
    return _worker.do(job)


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
