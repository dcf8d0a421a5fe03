"""A restart goes on where the journal ends, whatever a crash left of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal_description import JournalContents, read_journal
from live_oracles import columns
from live_runs import CLF, VALUES, Given, arrivals, run, same
from mlat.base.errors import InputError
from mlat.live import LiveSession, Prediction
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.writer import JournalWriter
from mlat.live.run.runner import Runner
from mlat.live.sources import Event


def journaled(contents: JournalContents) -> list[int]:
    return [one["step"] for _, one in contents.predictions]


@settings(max_examples=25)
@given(st.data())
def test_any_crash_any_batches_the_same_predictions(tmp_path_factory, data):
    """A process that ends anywhere, with or without a snapshot, its last record torn or not."""
    folder = tmp_path_factory.mktemp("journal")
    n = 90
    values = VALUES[:n].copy()
    values[data.draw(st.lists(st.integers(0, n - 1), max_size=3))] = np.nan
    missing = data.draw(st.sampled_from(["abstain", "hold", "reject"]))
    expected = LiveSession(CLF, missing=missing).push(values)
    lengths = data.draw(st.lists(st.integers(1, 20), max_size=20))
    events = arrivals([*lengths, n], values)
    printed: list[Prediction] = []
    ends = data.draw(st.lists(st.integers(1, len(events)), max_size=4))
    for lives_for in [*ends, len(events)]:
        _, more = run(events[:lives_for], folder, missing=missing)
        printed += more
        if data.draw(st.booleans()):
            for snapshot in sorted(folder.glob("*.snapshot"))[data.draw(st.integers(0, 1)) :]:
                snapshot.write_bytes(snapshot.read_bytes()[:-1])
        segment = max(folder.glob("*.journal"))
        with segment.open("ab") as file:
            file.write(data.draw(st.sampled_from([b"", b"\xabMLR\0\0", bytes(30)])))
    assert same(printed, expected)
    held = read_journal(folder)
    assert journaled(held) == [p.step for p in expected]
    np.testing.assert_array_equal(held.values, values)


def test_a_lost_record_is_classified_again(tmp_path):
    """Not acknowledged, so the source gives it again: none is lost."""
    events = arrivals([10] * 6)
    run(events[:5], tmp_path)
    for snapshot in tmp_path.glob("*.snapshot"):
        snapshot.unlink()
    segment = max(tmp_path.glob("*.journal"))
    segment.write_bytes(segment.read_bytes()[:-1])
    torn = len(journaled(read_journal(tmp_path)))
    assert torn < 50
    _, printed = run(events, tmp_path)
    assert [p.step for p in printed] == list(range(torn, 60))


def test_a_broken_snapshot_falls_back_to_the_one_before(tmp_path):
    events = arrivals([25, 25, 25, 10])
    run(events[:1], tmp_path)
    run(events[:2], tmp_path)
    newest, older = sorted(tmp_path.glob("*.snapshot"), reverse=True)[:2]
    newest.write_bytes(newest.read_bytes()[:-5])
    with Journal(tmp_path, Identity.of(LiveSession(CLF))) as journal:
        writer = JournalWriter(journal)
        writer.recover(LiveSession(CLF))
    assert writer.restored == int(older.stem.removeprefix("state-"))
    assert writer.steps == 25
    _, printed = run(events, tmp_path)
    assert same(printed, LiveSession(CLF).push(VALUES[:85])[50:])


def test_records_that_a_snapshot_knows_of_may_not_be_gone(tmp_path):
    run(arrivals([25, 25]), tmp_path)
    segment = max(tmp_path.glob("*.journal"))
    segment.write_bytes(segment.read_bytes()[:-1])
    with pytest.raises(InputError, match="records are lost; put back a copy"):
        run(arrivals([25, 25, 25]), tmp_path)


def test_other_predictions_than_before_are_refused(tmp_path, monkeypatch):
    run(arrivals([15]), tmp_path)
    for snapshot in tmp_path.glob("*.snapshot"):
        snapshot.unlink()
    push = LiveSession.push

    def changed(self, *given):
        *most, last = push(self, *given)
        other = next(c for c in CLF.classes_ if c != last.state)
        return columns([*most, replace(last, state=other)])

    monkeypatch.setattr(LiveSession, "push", changed)
    with pytest.raises(InputError, match=r"record 0: step 14 was .* the model or mlat has changed"):
        run(arrivals([15, 5]), tmp_path)


def test_rounding_is_no_difference(tmp_path, monkeypatch):
    run(arrivals([15]), tmp_path)
    for snapshot in tmp_path.glob("*.snapshot"):
        snapshot.unlink()
    push = LiveSession.push

    def rounded(self, *given):
        told = push(self, *given)
        return replace(told, distance=told.distance * (1 + 1e-12))

    monkeypatch.setattr(LiveSession, "push", rounded)
    _, printed = run(arrivals([15, 5]), tmp_path)
    assert [p.step for p in printed] == [15, 16, 17, 18, 19]


@pytest.mark.slow
def test_death_at_every_operation_on_the_disk(tmp_path):
    program = Path(__file__).parents[2] / "live_crashes.py"
    found = subprocess.run(
        [sys.executable, program, tmp_path], capture_output=True, text=True, cwd=program.parent
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout) > 100


def test_old_segments_go_when_snapshots_cover_them(tmp_path):
    session = LiveSession(CLF)

    async def go(journal: Journal, events: Sequence[Event]) -> None:
        writer = JournalWriter(journal, snapshot_steps=10, keep=2)
        runner = Runner(session, Given(events), writer=writer)
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
