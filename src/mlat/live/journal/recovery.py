"""A session goes on where its journal ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ..core.session import LiveSession
from ..core.steps import Prediction
from .journal import Identity, Journal
from .records import Arrived, Batch, Input, Taught, encode_predictions
from .snapshots import Snapshot, Snapshots

# -------------------------------------------------------------------- keeper
# A session's journal and its snapshots: what is written when.

SNAPSHOT_STEPS, SNAPSHOT_SECONDS = 10_000, 60.0
LAST_RECORDS = 2000  # that a page sees again: with one step in each, twenty seconds at 100 Hz


class Keeper:
    """Keeps what a session does; the disk is waited for in a thread, beside the event loop.

    Parameters
    ----------
    journal : Journal
    snapshot_steps, snapshot_seconds : int, float
        A snapshot is taken after so many steps, or so much time with any step.
    keep : int, optional
        Delete segments that every snapshot covers, except the newest ``keep``. Default keeps all.

    Attributes
    ----------
    position : str
        Where the source resumes behind all that is on disk.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        snapshot_steps: int = SNAPSHOT_STEPS,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
        keep: int | None = None,
    ) -> None:
        self.journal, self._snapshots, self._keep = journal, Snapshots(journal.folder), keep
        self._most_steps, self._most_seconds = snapshot_steps, snapshot_seconds
        self._steps, self._since = 0, time.monotonic()
        self.position = ""

    def recover(self, session: LiveSession) -> Recovered:
        """Bring a new session to where the journal ends."""
        recovered = recover(self.journal, self._snapshots, session)
        self.position, self._steps = recovered.position, recovered.steps
        return recovered

    def last_batches(self) -> Iterator[Batch]:
        """Some of the last records, oldest first."""
        return self.journal.batches(max(self.journal.begin, self.journal.end - LAST_RECORDS))

    async def append(self, inputs: Sequence[Input], predictions: Sequence[Prediction]) -> None:
        """Have a record on disk."""
        await asyncio.to_thread(self.journal.append, Batch(inputs, predictions))
        for one in inputs:
            if isinstance(one, Arrived):
                self.position = one.position or self.position
                self._steps += len(one.steps)

    async def snapshot_if_due(self, session: LiveSession) -> None:
        """Take a snapshot if the last one is long ago."""
        waited = time.monotonic() - self._since
        if self._steps >= self._most_steps or waited >= self._most_seconds:
            await self.snapshot(session)

    async def snapshot(self, session: LiveSession) -> None:
        """Take a snapshot, if there were steps since the last one."""
        if self._steps:
            taken = Snapshot(self.journal.end, self.position, session.snapshot())
            await asyncio.to_thread(self._write, taken)
            self._steps, self._since = 0, time.monotonic()

    def _write(self, snapshot: Snapshot) -> None:
        self.journal.flush()
        self._snapshots.write(snapshot)
        if self._keep is not None:
            self.journal.delete_before(self._snapshots.oldest_record(), keep=self._keep)


# Distances may differ in their last digits between machines; states may not.
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the source resumes, and what was done to get there."""

    position: str
    snapshot: int | None
    records: int
    steps: int


def identity_of(session: LiveSession) -> Identity:
    """Whose journal the one of a session is."""
    of = session.state.made_by
    return Identity(of.model, tuple(session.model.clf.channels_), of.options.as_dict())


def advance(session: LiveSession, one: Input) -> list[Prediction]:
    """What a session makes of one input."""
    if isinstance(one, Arrived):
        return session.push(one.steps) if len(one.steps) else []
    if isinstance(one, Taught):
        session.teach(one.state, n=one.n)
        return []
    return session.flush()


def recover(journal: Journal, snapshots: Snapshots, session: LiveSession) -> Recovered:
    """Bring a new session to where the journal ends.

    The newest snapshot that opens is restored, and the records after it are classified again:
    this must give the predictions that they hold.
    """
    snapshots.tidy()
    record, position, found, n_steps = 0, "", None, 0
    for snapshot in snapshots.read():
        if snapshot.record > journal.end:
            raise InputError(
                f"{journal.folder} ends at record {journal.end}, but a snapshot was taken after "
                f"record {snapshot.record}: records are lost; put back a copy of the segments"
            )
        session.restore(snapshot.session)
        record, position, found = snapshot.record, snapshot.position, snapshot.record
        break
    for number, batch in enumerate(journal.batches(record), record):
        predictions = [p for one in batch.inputs for p in advance(session, one)]
        if not agree(predictions, batch.predictions):
            raise InputError(
                f"{journal.folder}, record {number}: {_difference(predictions, batch.predictions)}"
                "; the model or mlat has changed since it was written: use those it was written "
                "with, or choose another --journal"
            )
        for one in batch.inputs:
            if isinstance(one, Arrived):
                position = one.position or position
                n_steps += len(one.steps)
    return Recovered(position, found, journal.end - record, n_steps)


def agree(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> bool:
    """Whether predictions are the same, distances and probabilities up to rounding."""
    if encode_predictions(ours) == encode_predictions(theirs):  # as it almost always is
        return True
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(one: Prediction, other: Prediction) -> bool:
    return _told(one) == _told(other) and np.allclose(
        (one.proba, one.distance, *one.probabilities),
        (other.proba, other.distance, *other.probabilities),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        equal_nan=True,
    )


def _told(one: Prediction) -> tuple[object, ...]:
    # Not the neighbours: of two equally near ones a last digit decides.
    return one.step, one.state, one.why, one.seq, one.time, len(one.probabilities)


def _difference(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> str:
    for one, other in zip(ours, theirs, strict=False):
        if not _same(one, other):
            return (
                f"step {other.step} was {other.state!s} at distance {other.distance:.6g} and is "
                f"now {one.state!s} at {one.distance:.6g}"
            )
    return f"it holds {len(theirs)} predictions and now there are {len(ours)}"
