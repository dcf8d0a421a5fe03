"""Live sessions that run on given events, and journals written without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np

import mlat
from live_oracles import columns
from mlat.live import LiveSession, Prediction, Steps
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.records import Batch, encode_batch
from mlat.live.journal.writer import JournalWriter
from mlat.live.run.output import Lines
from mlat.live.run.runner import Runner
from mlat.live.sources import Arrival, Event
from mlat.synthetic import rotating_states

WIDTH = 8
TRAIN = rotating_states(n_channels=3, noise=0.3, run_length=30)
VALUES = rotating_states(n_channels=3, noise=0.3, run_length=30, random_state=1).values
CLF = mlat.StreamClassifier(WIDTH, metric="euclidean").fit(TRAIN)


class Given:
    """A source of given events; it resumes, for the positions of arrivals are numbers."""

    name = "given"

    def __init__(self, events: Sequence[Event], *, endless: bool = False) -> None:
        self.events_, self.endless = list(events), endless
        self.acknowledged: list[str] = []
        self.asked = 0
        self.closed = asyncio.Event()
        self.waiting = asyncio.Event()

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        self.after = after

    async def events(self) -> AsyncIterator[Event]:
        behind = int(self.after) if self.after else -1
        for event in self.events_:
            if isinstance(event, Arrival) and event.position and int(event.position) <= behind:
                continue
            if self.closed.is_set():
                return
            self.asked += 1
            yield event
            await asyncio.sleep(0)
        self.waiting.set()
        if self.endless:
            await self.closed.wait()

    async def acknowledge(self, position: str) -> None:
        self.acknowledged.append(position)

    async def close(self) -> None:
        self.closed.set()


def arrivals(lengths: Sequence[int], values: np.ndarray = VALUES) -> list[Event]:
    stops = np.minimum(np.cumsum(lengths), len(values))
    starts = [0, *stops[:-1]]
    return [
        Arrival(Steps(values[start:stop]), str(i))
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]


class Collected(Lines):
    """Standard output as a list."""

    def __init__(self) -> None:
        super().__init__()
        self.predictions: list[Prediction] = []

    def write(self, predictions: Sequence[Prediction]) -> None:
        self.predictions += predictions


def run(
    events: Sequence[Event] | Given,
    folder: Path | None = None,
    *,
    lines: Collected | None = None,
    segment_size: int = 3000,
    clf: mlat.StreamClassifier = CLF,
    **options: object,
) -> tuple[Runner, list[Prediction]]:
    """Run a session until its source ends; return the runner and what was printed."""
    session = LiveSession(clf, **options)
    lines = lines or Collected()

    async def go(journal: Journal | None) -> Runner:
        source = events if isinstance(events, Given) else Given(events)
        writer = None if journal is None else JournalWriter(journal, snapshot_steps=20)
        runner = Runner(session, source, writer=writer, lines=lines)
        runner.recover()
        await runner.run()
        return runner

    if folder is None:
        return asyncio.run(go(None)), lines.predictions
    with Journal(folder, Identity.of(session), segment_size=segment_size) as journal:
        return asyncio.run(go(journal)), lines.predictions


def same(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> bool:
    return encode_batch(Batch([], columns(ours))) == encode_batch(Batch([], columns(theirs)))


def batches(n: int = 60, size: int = 10) -> list[Batch]:
    """The first steps and their predictions, as records of a journal."""
    session = LiveSession(CLF)
    parts = [Steps(VALUES[i : i + size]) for i in range(0, n, size)]
    return [
        Batch([Arrival(part, str((i + 1) * size - 1))], session.push(part))
        for i, part in enumerate(parts)
    ]


def write_journal(folder: Path, records: Sequence[Batch]) -> None:
    with Journal(folder, Identity.of(LiveSession(CLF)), segment_size=2000) as journal:
        for batch in records:
            journal.append(batch)
