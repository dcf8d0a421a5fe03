"""From a source to the disk and on: nothing is shown before it is kept, and a restart goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from journal_description import JournalContents, read_journal
from live_runs import CLF, VALUES, Collected, Given, arrivals, run, same
from mlat.base.errors import DiskError, InputError
from mlat.live import LiveSession, Prediction, Steps
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.writer import JournalWriter
from mlat.live.page.hub import Hub
from mlat.live.run.runner import WAITING_STEPS, Inbox, Runner
from mlat.live.sources import Arrival, Event, Notice, Refusal


def journaled(contents: JournalContents) -> list[int]:
    return [one["step"] for _, one in contents.predictions]


# What comes out


@pytest.mark.parametrize("kept", [False, True])
def test_predictions_are_those_of_the_session(tmp_path, kept):
    _, printed = run(arrivals([1, 5, 2, 40, 3, 9, 60]), tmp_path if kept else None)
    assert same(printed, LiveSession(CLF).push(VALUES[:120]))


def test_what_is_waited_for_is_let_through_at_the_end(tmp_path):
    late = Steps(VALUES[:3], seq=np.array([0, 2, 3]))
    options = {"order_by": "seq", "reorder": 5}
    _, printed = run([Arrival(late, "0")], tmp_path, **options)
    assert [p.seq for p in printed] == [0, 2, 3]
    again, more = run([Arrival(late, "0")], tmp_path, **options)
    assert more == []
    assert again.session.waiting == 0


def test_a_stopped_session_goes_on_waiting(tmp_path):
    late = Steps(VALUES[:3], seq=np.array([0, 2, 3]))
    options = {"order_by": "seq", "reorder": 5}
    session = LiveSession(CLF, **options)

    async def go(journal: Journal) -> None:
        source = Given([Arrival(late, "0")], endless=True)
        runner = Runner(session, source, writer=JournalWriter(journal))
        task = asyncio.create_task(runner.run())
        await source.waiting.wait()
        runner.stop()
        await task
        assert source.acknowledged == ["0"]

    with Journal(tmp_path, Identity.of(session)) as journal:
        asyncio.run(go(journal))
    assert session.waiting == 2
    last = Arrival(Steps(VALUES[3:4], seq=np.array([1])), "1")
    _, printed = run([last], tmp_path, **options)
    assert [p.seq for p in printed] == [1, 2, 3]


def test_refusals_are_counted_and_the_session_goes_on(tmp_path, capsys):
    wrong = Arrival(Steps(np.zeros((2, 5))), "1")
    first, last = arrivals([4, 4])
    events = [first, wrong, Refusal("no step", 7), Arrival(last.steps, "2"), Notice("note", "hm")]
    runner, printed = run(events, tmp_path)
    assert [p.step for p in printed] == list(range(8))
    assert runner.notices.n_refused == 9
    said = capsys.readouterr().err
    assert "the steps have 5 channels, the model was learned on 3" in said
    assert "mlat: hm\n" in said
    assert read_journal(tmp_path).inputs[-1][2]["position"] == "2"


def test_one_bad_arrival_does_not_take_its_neighbours_with_it():
    good = Steps(VALUES[:4], time=np.arange(4.0))
    bad = Steps(VALUES[4:6], time=np.array([4.0, np.nan]))
    more = Steps(VALUES[6:8], time=np.array([6.0, 7.0]))
    runner, printed = run([Arrival(good), Arrival(bad), Arrival(more)])
    assert [p.time for p in printed] == [0.0, 1.0, 2.0, 3.0, 6.0, 7.0]
    assert runner.notices.n_refused == 2


def test_an_error_of_the_source_ends_the_session(tmp_path):
    class Failing(Given):
        async def events(self) -> AsyncIterator[Event]:
            yield arrivals([5])[0]
            raise InputError("the sensor burnt down")

    with pytest.raises(InputError, match="burnt down"):
        run(Failing([]), tmp_path)
    assert journaled(read_journal(tmp_path)) == list(range(5))


def test_a_refused_arrival_alone_is_acknowledged(tmp_path):
    """Or a broker would wait for it for ever."""
    source = Given([Arrival(Steps(np.zeros((2, 5))), "7")])
    run(source, tmp_path)
    assert source.acknowledged == ["7"]


# Disk first


def test_nothing_is_seen_before_it_is_on_disk(tmp_path):
    session = LiveSession(CLF)
    seen = []

    def on_disk() -> int:
        return len(read_journal(tmp_path).predictions)

    class Watching(Given):
        async def acknowledge(self, position: str) -> None:
            assert int(position) < on_disk()
            seen.append("acknowledged")

    class Printed(Collected):
        def write(self, predictions: Sequence[Prediction]) -> None:
            assert predictions[-1].step < on_disk()
            seen.append("printed")

    class Page:
        def publish(self, steps, predictions, session, lag) -> None:
            assert predictions[-1].step < on_disk()
            assert session.counters["accepted"] <= on_disk()
            assert lag > 0
            seen.append("page")

        def notice(self, kind, text) -> None:
            pass

    async def go(journal: Journal) -> None:
        events = arrivals([1] * 30)
        writer = JournalWriter(journal)
        runner = Runner(session, Watching(events), writer=writer, lines=Printed(), hub=Page())
        await runner.run()

    with Journal(tmp_path, Identity.of(session)) as journal:
        asyncio.run(go(journal))
    assert {"acknowledged", "printed", "page"} == set(seen)


class SlowDisk(Journal):
    """A journal whose disk takes its time."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def append(self, batch):
        self.begun.set()
        assert self.goes_on.wait(10)
        return super().append(batch)


def test_what_arrives_while_the_disk_is_busy_is_one_record(tmp_path):
    session = LiveSession(CLF)

    async def go(journal: SlowDisk) -> None:
        source = Given(arrivals([1] * 50))
        runner = Runner(session, source, writer=JournalWriter(journal))
        task = asyncio.create_task(runner.run())
        await asyncio.to_thread(journal.begun.wait, 10)
        await source.waiting.wait()  # it was read to its end meanwhile
        journal.goes_on.set()
        await task
        assert source.acknowledged[-1] == "49"

    with SlowDisk(tmp_path, Identity.of(session)) as journal:
        asyncio.run(go(journal))
    held = read_journal(tmp_path)
    assert journaled(held) == list(range(50))
    assert held.n_records == 2
    assert [len(what["values"]) for _, _, what in held.inputs] == [1, 49]


def test_a_source_has_to_wait_for_a_slow_disk(tmp_path):
    session = LiveSession(CLF)
    pieces = 400
    events = [Arrival(Steps(VALUES[:100]), str(i)) for i in range(pieces)]

    async def go(journal: SlowDisk) -> None:
        source = Given(events)
        runner = Runner(session, source, writer=JournalWriter(journal))
        task = asyncio.create_task(runner.run())
        await asyncio.to_thread(journal.begun.wait, 10)
        for _ in range(3 * pieces):  # it would have given everything by now
            await asyncio.sleep(0)
            # One on its way to the disk, one in hand, and those that wait.
            assert source.asked <= 2 + np.ceil(WAITING_STEPS / 100)
        journal.goes_on.set()
        await task
        assert source.asked == pieces

    with SlowDisk(tmp_path, Identity.of(session)) as journal:
        asyncio.run(go(journal))
    assert journaled(read_journal(tmp_path)) == list(range(100 * pieces))


def test_the_inbox_gives_all_at_once_and_waits_when_full():
    async def go() -> None:
        inbox: Inbox[int] = Inbox(3)
        for i in range(3):
            await inbox.put(i)
        late = asyncio.create_task(inbox.put(3))
        await asyncio.sleep(0)
        assert not late.done()
        assert await inbox.take() == [0, 1, 2]
        await late
        assert await inbox.take() == [3]

    asyncio.run(go())


# Teaching


class InTwoParts(Given):
    """Some events, and some more once it is told to go on."""

    def __init__(self, before: Sequence[Event], after: Sequence[Event]) -> None:
        super().__init__(before)
        self.after_, self.goes_on = after, asyncio.Event()

    async def events(self) -> AsyncIterator[Event]:
        async for event in super().events():
            yield event
        await self.goes_on.wait()
        for event in self.after_:
            yield event


def teach_between(folder: Path, before: Sequence[Event], after: Sequence[Event]) -> None:
    """Some steps, a teaching, and some more."""
    session = LiveSession(CLF)

    async def go(journal: Journal) -> None:
        source = InTwoParts(before, after)
        runner = Runner(session, source, writer=JournalWriter(journal))
        task = asyncio.create_task(runner.run())
        await source.waiting.wait()
        await runner.teach("dance", 3)
        assert len(read_journal(folder).inputs) >= 2  # on disk already
        assert await runner.teach_span("spin", 14, 29) == ("spin", 15 - CLF.width_ + 1)
        assert await runner.teach("dance") == ("dance", 1)
        assert await runner.undo() == ("dance", 1)
        assert "spin" in (await runner.taught_model()).classes_
        with pytest.raises(InputError):
            await runner.teach("dance", 10_000)
        source.goes_on.set()
        await task
        with pytest.raises(InputError, match="has ended"):
            await runner.teach("dance")

    with Journal(folder, Identity.of(session)) as journal:
        asyncio.run(go(journal))


def test_what_was_taught_is_there_after_a_restart(tmp_path):
    first, second, third = arrivals([30, 10, 10])
    teach_between(tmp_path, [first], [second])
    kinds = [kind for _, kind, _ in read_journal(tmp_path).inputs]
    assert [kind for kind in kinds if kind != "steps"] == ["teach", "teach span", "teach", "undo"]
    for snapshot in tmp_path.glob("*.snapshot"):  # by replaying alone
        snapshot.unlink()
    runner, printed = run([first, second, third], tmp_path)
    assert runner.session.examples == [("dance", 3), ("spin", 15 - CLF.width_ + 1)]
    assert runner.session.counters["undone"] == 1
    straight = LiveSession(CLF)
    straight.push(first.steps)
    straight.teach("dance", 3)
    straight.teach_span("spin", 14, 29)
    straight.push(second.steps)
    assert same(printed, straight.push(third.steps))


def test_who_teaches_hears_of_a_full_disk(tmp_path):
    class Full(Journal):
        def append(self, batch):
            if any(not isinstance(one, Arrival) for one in batch.inputs):
                raise DiskError("no space left")
            return super().append(batch)

    session = LiveSession(CLF)

    async def go(journal: Journal) -> None:
        source = Given(arrivals([30]), endless=True)
        runner = Runner(session, source, writer=JournalWriter(journal))
        task = asyncio.create_task(runner.run())
        await source.waiting.wait()
        with pytest.raises(DiskError, match="no space left"):
            await asyncio.wait_for(runner.teach("dance", 3), 10)
        with pytest.raises(DiskError, match="no space left"):
            await task

    with Full(tmp_path, Identity.of(session)) as journal:
        asyncio.run(go(journal))


# The page after a restart


@pytest.mark.parametrize("numbered", [False, True])
def test_the_page_of_a_new_process_shows_what_the_last_one_told(tmp_path, numbered):
    given = arrivals([3, 1, 7, 20, 4])
    if numbered:
        given = [
            Arrival(Steps(a.steps.values, np.arange(len(a.steps.values)) + 100 * i), a.position)
            for i, a in enumerate(given)
        ]
    _, printed = run(given, tmp_path)
    session, hub = LiveSession(CLF), Hub()
    with Journal(tmp_path, Identity.of(session)) as journal:
        Runner(session, Given([]), writer=JournalWriter(journal), hub=hub).recover()
    header, (values, proba) = hub.history.between(0, len(printed))
    np.testing.assert_allclose(values, np.concatenate([a.steps.values for a in given]), rtol=1e-6)
    np.testing.assert_allclose(proba, [p.proba for p in printed], rtol=1e-6)
    assert header["runs"][0] == [0, None, "filling"]
    assert not hub.counts.steps  # they were counted by the process that told them
