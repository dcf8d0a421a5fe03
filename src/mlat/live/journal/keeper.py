"""A session's journal and its snapshots: what is written when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

from ..prediction import Prediction
from ..session import LiveSession
from .journal import Journal
from .records import Arrived, Batch, Input
from .recovery import Recovered, recover
from .snapshots import Snapshot, Snapshots

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
