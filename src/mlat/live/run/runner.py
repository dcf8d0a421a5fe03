"""Runs a session on a source: classify, write to disk, and only then show.

One record is written at a time. While the disk is busy the source is read on, and all that has
arrived by then becomes the next record.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ...base.errors import InputError, MlatError
from ...classifier.classifier import StreamClassifier
from ...classifier.drift import DriftWatch
from ..core.session import LiveSession
from ..core.steps import NO_PREDICTIONS, Predictions, Steps
from ..journal.records import (
    Batch,
    Example,
    Flushed,
    Input,
    SpanExample,
    Taught,
    Undone,
    joinable,
    joined,
)
from ..journal.writer import JournalWriter, give_example
from ..page.hub import Hub
from ..sources.source import Arrival, Notice, Refusal, Source
from .output import Lines, Notices

WAITING_STEPS = 4096  # that may wait for the disk before the source has to wait
KEPT_LAGS = 10_000
LAST_EVENTS = 2.0  # seconds that a source has to end its events after it is closed
LAST_LINES = 2.0  # seconds that the reader of standard output has for the last lines

Result = tuple[Input, Predictions]


class Runner:
    """Runs a session on a source.

    Parameters
    ----------
    session : LiveSession
    source : Source
    writer : JournalWriter, optional
        Has every step and prediction on disk before it is acknowledged or shown.
    lines, notices : Lines, Notices, optional
    hub : Hub, optional

    Attributes
    ----------
    lags : deque of float
        Seconds from the arrival of a record's first step until the record was on disk.
    """

    def __init__(
        self,
        session: LiveSession,
        source: Source,
        *,
        writer: JournalWriter | None = None,
        lines: Lines | None = None,
        notices: Notices | None = None,
        hub: Hub | None = None,
    ) -> None:
        self.session, self.source = session, source
        self._channels = tuple(session.model.clf.channels_)
        self._drift: DriftWatch | None = None
        self._drifting: set[str] = set()
        self.writer, self.lines, self.hub = writer, lines, hub
        self.notices = notices or Notices()
        self.lags: deque[float] = deque(maxlen=KEPT_LAGS)
        self._no_steps = Steps(np.empty((0, len(self._channels))))
        self._inbox: Inbox[_Waiting] = Inbox(WAITING_STEPS)
        self._reader: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._stopped = self._ended = False
        self._n_warnings = 0

    def recover(self) -> None:
        """Bring the session to the end of its journal. Call it before :meth:`run`."""
        if self.writer is None:
            return
        self.writer.recover(self.session)
        self._n_warnings = len(self.session.warnings)  # the last process has said these
        if self.hub is not None:
            self._show_past(self.writer, self.hub)

    async def run(self) -> None:
        """Run until the source ends or :meth:`stop` is called."""
        position = "" if self.writer is None else self.writer.position
        await self.source.open(self._channels, after=position)
        try:
            if position:  # on disk, but the last process may not have acknowledged it
                await self.source.acknowledge(position)
            self._reader = asyncio.create_task(self._read())
            if self._stopped:
                await self.source.close()
            end: _End | None = None
            while end is None:
                end = await self._handle(await self._inbox.take())
            if end.error is not None:
                raise end.error
            # Steps that wait for an earlier one go on waiting if a journal keeps them.
            if self.session.waiting and (self.writer is None or not end.stopped):
                await self._commit([(Flushed(), self.session.flush())], time.monotonic())
            if self.writer is not None:
                await self.writer.snapshot(self.session)
        finally:
            self._ended = True
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            for left in self._inbox.take_now():
                if isinstance(left.what, _Teaching):
                    left.what.fail(_ended())
            await self.source.close()

    def stop(self) -> None:
        """End once all that has arrived is on disk."""
        if self._stopped:
            return
        self._stopped = True
        loop = asyncio.get_running_loop()
        if self._reader is not None:
            self._closing = loop.create_task(self.source.close())
            loop.call_later(LAST_EVENTS, self._reader.cancel)
        if self.lines is not None:
            loop.call_later(LAST_LINES, self.lines.give_up)

    async def teach(self, state: str | int, n: int = 1) -> tuple[str | int, int]:
        """Make the last ``n`` windows references of a state; returns when that is on disk.

        Here and below what is returned is the state, and how many windows were taught or undone.
        """
        return await self._give(Example(state, n))

    async def teach_span(self, state: str | int, begin: int, end: int) -> tuple[str | int, int]:
        """Make references of the windows inside the steps ``begin`` to ``end - 1``."""
        return await self._give(SpanExample(state, begin, end))

    async def undo(self) -> tuple[str | int, int]:
        """Take the last example back."""
        return await self._give(Undone())

    async def _give(self, example: Taught) -> tuple[str | int, int]:
        if self._ended:
            raise _ended()
        done: asyncio.Future[tuple[str | int, int]] = asyncio.get_running_loop().create_future()
        self._inbox.put_now(_Waiting(_Teaching(example, done), time.monotonic()))
        return await done

    async def taught_model(self) -> StreamClassifier:
        """A classifier that has what was taught so far among its references."""
        # A copy: steps go on to change the state, while a thread makes the classifier.
        state = self.session.state.copy()
        return await asyncio.to_thread(self.session.model.teaching.taught_model, state)

    async def _read(self) -> None:
        try:
            async for event in self.source.events():
                weight = len(event.steps) if isinstance(event, Arrival) else 1
                await self._inbox.put(_Waiting(event, time.monotonic()), weight)
            end = _End(stopped=self._stopped)
        except asyncio.CancelledError:
            end = _End(stopped=True)
        except Exception as error:
            end = _End(error)
        self._inbox.put_now(_Waiting(end, time.monotonic()))

    async def _handle(self, waiting: Sequence[_Waiting]) -> _End | None:
        """Classify and write all that has arrived; returns the end if that was among it."""
        results: list[Result] = []
        arrivals: list[Arrival] = []
        teachings: list[tuple[_Teaching, tuple[str | int, int]]] = []
        end = None
        for one in waiting:
            match one.what:
                case Arrival() as arrival:
                    arrivals.append(arrival)
                case _Teaching() as teaching:  # about the windows that came before it
                    results += self._classify(arrivals)
                    arrivals = []
                    try:
                        given = give_example(self.session, teaching.example)
                    except InputError as error:
                        teaching.fail(error)
                    else:
                        results.append((teaching.example, NO_PREDICTIONS))
                        teachings.append((teaching, given))
                case _End() as last:
                    end = last
                case event:
                    self._notice(event)
        results += self._classify(arrivals)
        try:
            await self._commit(results, waiting[0].since)
        except MlatError as error:
            for teaching, _ in teachings:
                teaching.fail(error)
            raise
        for teaching, given in teachings:
            teaching.settle(given)
        return end

    def _classify(self, arrivals: Sequence[Arrival]) -> list[Result]:
        results: list[Result] = []
        for group in joinable(arrivals):
            arrived = joined(group)
            try:
                results.append((arrived, self.session.push(arrived.steps)))
            except InputError as error:  # the session is as it was before
                if len(group) > 1:
                    for arrival in group:
                        results += self._classify([arrival])
                else:
                    self._notice(Refusal(str(error), len(arrived.steps)))
                    # Keep the position: the source need not send these steps again.
                    kept = Arrival(self._no_steps, arrived.position)
                    results.append((kept, NO_PREDICTIONS))
        return results

    async def _commit(self, results: Sequence[Result], since: float) -> None:
        """Write a record; then acknowledge it to the source, and show it."""
        if not results:
            return
        batch = Batch([one for one, _ in results], Predictions.joined(some for _, some in results))
        if self.writer is not None:
            await self.writer.append(batch)
        lag = time.monotonic() - since
        self.lags.append(lag)
        if batch.position:
            await self.source.acknowledge(batch.position)
        self._warn()
        self._watch_drift(results)
        if self.hub is not None:
            view = SessionView.of(self.session)
            for one, predictions in results:
                steps = one.steps if isinstance(one, Arrival) else self._no_steps
                self.hub.publish(steps, predictions, view, lag)
        if self.lines is not None and len(batch.predictions):
            await asyncio.to_thread(self.lines.write, batch.predictions)
        if self.writer is not None:
            await self.writer.snapshot_if_due(self.session)

    def _watch_drift(self, results: Sequence[Result]) -> None:
        """Say of a channel, once, that it is not as in training, and show it as long as it is."""
        news = False
        for one, predictions in results:
            if not isinstance(one, Arrival) or not len(predictions):
                continue
            if self._drift is None:
                self._drift = DriftWatch(self.session.model.clf, predictions.first)
            news |= self._drift.push(one.steps.values)
        if self._drift is None or not news:
            return
        found = self._drift.found()
        for drift in found:
            if drift.channel not in self._drifting:
                self._drifting.add(drift.channel)
                self.notices.notice("drift", f"not as in training: {drift}")
        if self.hub is not None:
            self.hub.drift = found

    def _notice(self, event: Refusal | Notice) -> None:
        if isinstance(event, Refusal):
            self.notices.refused(event.reason, event.count)
            if self.hub is not None:
                self.hub.refuse(event.reason, event.count)
        else:
            self.notices.notice(event.kind, event.text)
            self.notices.n_doubtful += event.doubtful
            if self.hub is not None:
                self.hub.counts.doubtful += event.doubtful
                self.hub.notice(event.kind, event.text)

    def _warn(self) -> None:
        """Print the new warnings of the session."""
        warnings = self.session.warnings
        for text in warnings[self._n_warnings :]:
            self.notices.say(f"warning: {text}")
            if self.hub is not None:
                self.hub.notice("note", text)
        self._n_warnings = len(warnings)

    def _show_past(self, writer: JournalWriter, hub: Hub) -> None:
        """Publish the last records of the journal, which an earlier process wrote."""
        view = SessionView.of(self.session)
        for records in writer.last_records():
            for steps, predictions in records.arrived(len(self._channels)):
                hub.publish(steps, predictions, view, 0.0, past=True)


@dataclass(frozen=True, slots=True)
class SessionView:
    """What a page shows of a session at the last record; the session may be further by now."""

    counters: dict[str, int]
    classes: list[str | int]
    taught: Any
    examples: list[tuple[str | int, int]]

    @classmethod
    def of(cls, session: LiveSession) -> SessionView:
        return cls(session.counters, session.classes, session.state.taught, session.examples)

    @property
    def state(self) -> SessionView:
        return self


Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A bounded queue whose reader takes all items at once.

    So the slower the disk is, the more goes into one record, and the reader can always catch up.

    Parameters
    ----------
    limit : int
        ``put`` waits while the items weigh as much. The weight of an arrival is its number of
        steps.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._weight = limit, 0
        self._items: list[Item] = []
        self._filled, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def put(self, item: Item, weight: int = 1) -> None:
        """Add an item as soon as there is room."""
        while not self._room.is_set():
            await self._room.wait()
        self.put_now(item, weight)

    def put_now(self, item: Item, weight: int = 0) -> None:
        """Add an item, even if there is no room."""
        self._items.append(item)
        self._weight += weight
        self._filled.set()
        if self._weight >= self._limit:
            self._room.clear()

    async def take(self) -> list[Item]:
        """Return all items as soon as there is one."""
        await self._filled.wait()
        return self.take_now()

    def take_now(self) -> list[Item]:
        """Return all items, if there are any."""
        items, self._items, self._weight = self._items, [], 0
        self._filled.clear()
        self._room.set()
        return items


@dataclass(frozen=True, slots=True)
class _Waiting:
    what: Arrival | Refusal | Notice | _Teaching | _End
    since: float


@dataclass(frozen=True, slots=True)
class _Teaching:
    example: Taught
    done: asyncio.Future[tuple[str | int, int]]

    def settle(self, given: tuple[str | int, int]) -> None:
        if not self.done.done():  # its caller may have been cancelled
            self.done.set_result(given)

    def fail(self, error: MlatError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None = None
    stopped: bool = False


def _ended() -> InputError:
    return InputError("the session has ended, and nothing more can be taught to it")
