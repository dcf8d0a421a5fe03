"""Writes the journal and the snapshots of a running session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from ..core.session import LiveSession
from .journal import Journal
from .records import Batch
from .recovery import Recovered, recover
from .snapshots import Snapshot, Snapshots

SNAPSHOT_STEPS, SNAPSHOT_SECONDS = 10_000, 60.0
LAST_RECORDS = 2000  # for a page to show again: with one step each, 20 seconds at 100 Hz


class JournalWriter:
    """Keeps on disk what a session does. A thread waits for the disk, not the event loop.

    Parameters
    ----------
    journal : Journal
    snapshot_steps : int
        Take a snapshot after this many steps, or after a minute with at least one step.
    keep : int, optional
        Delete segments that every snapshot covers, except the newest ``keep``. Default keeps all.

    Attributes
    ----------
    position : str
        Where the source resumes after all that is on disk.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        snapshot_steps: int = SNAPSHOT_STEPS,
        keep: int | None = None,
    ) -> None:
        self.journal, self._snapshots, self._keep = journal, Snapshots(journal.folder), keep
        self._max_steps = snapshot_steps
        self._steps, self._since = 0, time.monotonic()
        self.position = ""

    def recover(self, session: LiveSession) -> Recovered:
        """Bring a new session to the end of the journal; see :func:`~.recovery.recover`."""
        recovered = recover(self.journal, self._snapshots, session)
        self.position, self._steps = recovered.position, recovered.steps
        return recovered

    def last_batches(self) -> Iterator[Batch]:
        """Yield the last records, oldest first."""
        return self.journal.batches(max(self.journal.begin, self.journal.end - LAST_RECORDS))

    async def append(self, batch: Batch) -> None:
        """Write a record. When this returns, it is on disk."""
        await asyncio.to_thread(self.journal.append, batch)
        self.position = batch.position or self.position
        self._steps += batch.n_steps

    async def snapshot_if_due(self, session: LiveSession) -> None:
        """Take a snapshot if there were enough steps, or there was enough time, since the last."""
        waited = time.monotonic() - self._since
        if self._steps >= self._max_steps or waited >= SNAPSHOT_SECONDS:
            await self.snapshot(session)

    async def snapshot(self, session: LiveSession) -> None:
        """Take a snapshot if there were steps since the last one."""
        if self._steps:
            taken = Snapshot(self.journal.end, self.position, session.snapshot())
            await asyncio.to_thread(self._write, taken)
            self._steps, self._since = 0, time.monotonic()

    def _write(self, snapshot: Snapshot) -> None:
        self.journal.flush()  # a snapshot must not be on disk before the records it counts
        self._snapshots.write(snapshot)
        if self._keep is not None:
            self.journal.delete_before(self._snapshots.oldest_record(), keep=self._keep)
