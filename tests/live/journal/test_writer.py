"""What is deleted when a snapshot is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from live_runs import CLF, VALUES, Given, arrivals, run, same
from mlat.live import LiveSession
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.writer import JournalWriter
from mlat.live.run.runner import Runner
from mlat.live.sources import Event


def test_old_segments_go_when_snapshots_cover_them(tmp_path):
    session = LiveSession(CLF)

    async def go(journal: Journal, events: Sequence[Event]) -> None:
        writer = JournalWriter(journal, snapshot_steps=10, keep=2)
        runner = Runner(session, Given(events), CLF.channels_, writer=writer)
        runner.recover()
        await runner.run()

    events = arrivals([10] * 12)
    for i in range(1, 12):  # a life for each arrival: a record and a snapshot
        session = LiveSession(CLF)
        with Journal(tmp_path, Identity.of(session), segment_size=1) as journal:
            asyncio.run(go(journal, events[:i]))
            assert len(journal.segments()) <= 4
    assert journal.begin > 0
    for snapshot in sorted(tmp_path.glob("*.snapshot"))[1:]:  # even the oldest will do
        snapshot.write_bytes(b"broken")
    _, printed = run(events, tmp_path)
    assert same(printed, LiveSession(CLF).push(VALUES[:120])[110:])
