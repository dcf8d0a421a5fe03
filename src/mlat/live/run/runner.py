"""From a source through a session to the disk, and only then to whoever watches.

One record at a time: while the disk takes it, the source is read on; whatever has come by then is
the next record.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ...errors import InputError
from ..core.session import LiveSession
from ..core.steps import Prediction, Steps, join
from ..journal.records import Arrived, Flushed, Input, Taught
from ..journal.recovery import Keeper, Recovered, advance
from ..sources.source import Arrival, Notice, Refusal, Source
from .output import Lines, Notices

if TYPE_CHECKING:
    from ..core.session import LiveSession
    from ..page.hub import Hub


# -------------------------------------------------------------------- past
# What a page sees of a session, and of the time before this process, where it goes on.


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page sees of a session: as it was when it was on disk, while it may be further."""

    counters: dict[str, int]
    classes: list[str | int]
    taught: Any

    @classmethod
    def of(cls, session: LiveSession) -> Seen:
        return cls(session.counters, session.classes, session.state.taught)

    @property
    def state(self) -> Seen:
        return self


def show_past(hub: Hub, keeper: Keeper, session: Seen, nothing: Steps) -> None:
    """Publish the last records of a journal, which somebody may have seen or not."""
    for batch in keeper.last_batches():
        arrivals = [
            Arrival(one.steps, one.position) for one in batch.inputs if isinstance(one, Arrived)
        ]
        *before, last = [merge(group).steps for group in groups_of(arrivals)] or [nothing]
        for steps in before:
            hub.publish(steps, [], session, 0.0, past=True)
        hub.publish(last, batch.predictions, session, 0.0, past=True)


# -------------------------------------------------------------------- merging
# Arrivals that can be classified together, and kept as one.


def groups_of(arrivals: Sequence[Arrival]) -> list[list[Arrival]]:
    """Consecutive arrivals that tell the same of their steps."""
    groups: list[list[Arrival]] = []
    for arrival in arrivals:
        if groups and _kind(groups[-1][0].steps) == _kind(arrival.steps):
            groups[-1].append(arrival)
        else:
            groups.append([arrival])
    return groups


def merge(group: Sequence[Arrival]) -> Arrived:
    """The steps of a group; the source resumes behind the last of them."""
    position = next((a.position for a in reversed(group) if a.position), "")
    return Arrived(join([arrival.steps for arrival in group]), position)


def _kind(steps: Steps) -> tuple[object, ...]:
    return steps.values.shape[1:], steps.seq is None, steps.time is None


# -------------------------------------------------------------------- inbox
# What waits to be classified: bounded, and taken all at once.

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """A queue whose reader takes everything that has come since it last looked.

    So the slower the disk, the more goes into one record: the queue cannot fall behind for good.

    Parameters
    ----------
    limit : int
        The weight of items, such as their number of steps, at which ``put`` waits.
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
        """Add an item, room or not."""
        self._items.append(item)
        self._weight += weight
        self._filled.set()
        if self._weight >= self._limit:
            self._room.clear()

    async def take(self) -> list[Item]:
        """All items, as soon as there is one."""
        await self._filled.wait()
        items, self._items, self._weight = self._items, [], 0
        self._filled.clear()
        self._room.set()
        return items


WAITING_STEPS = 4096  # how many may wait for the disk before the source has to
KEPT_LAGS = 10_000
LAST_EVENTS = 2.0  # seconds that a source which is closed has for ending its events,
LAST_LINES = 2.0  # and that whoever reads standard output has for what is left


@dataclass(frozen=True, slots=True)
class _Teaching:
    taught: Taught
    done: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class _End:
    error: Exception | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class _Waiting:
    what: Arrival | Refusal | Notice | _Teaching | _End
    since: float


Result = tuple[Input, list[Prediction]]


class Runner:
    """Runs a session on a source.

    Parameters
    ----------
    session : LiveSession
    source : Source
    channels : tuple of str
        Those the model was learned on.
    keeper : Keeper, optional
        Has every step and prediction before it is acknowledged or shown.
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
        channels: tuple[str, ...],
        *,
        keeper: Keeper | None = None,
        lines: Lines | None = None,
        notices: Notices | None = None,
        hub: Hub | None = None,
    ) -> None:
        self.session, self.source, self.channels = session, source, channels
        self.keeper, self.lines, self.hub = keeper, lines, hub
        self.notices = notices or Notices()
        self.lags: deque[float] = deque(maxlen=KEPT_LAGS)
        self._inbox: Inbox[_Waiting] = Inbox(WAITING_STEPS)
        self._reader: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._stopped = self._ended = False
        self._n_warnings = 0

    def recover(self) -> Recovered | None:
        """Bring the session to where its journal ends; before ``run``."""
        recovered = None if self.keeper is None else self.keeper.recover(self.session)
        self._n_warnings = len(self.session.warnings)  # said before
        if self.hub is not None and self.keeper is not None:
            show_past(self.hub, self.keeper, Seen.of(self.session), self._no_steps())
        return recovered

    async def run(self) -> None:
        """Until the source ends or :meth:`stop` is called."""
        position = "" if self.keeper is None else self.keeper.position
        await self.source.open(self.channels, after=position)
        try:
            if position:  # on disk, though nobody may have lived to say so
                await self.source.acknowledge(position)
            self._reader = asyncio.create_task(self._read())
            if self._stopped:
                await self.source.close()
            end: _End | None = None
            while end is None:
                end = await self._handle(await self._inbox.take())
            if end.error is not None:
                raise end.error
            # What waits for an earlier step waits on if there is a journal to go on from.
            if self.session.waiting and (self.keeper is None or not end.stopped):
                await self._commit([(Flushed(), self.session.flush())], time.monotonic())
            if self.keeper is not None:
                await self.keeper.snapshot(self.session)
        finally:
            self._ended = True
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            self._inbox.put_now(_Waiting(_End(), 0.0))
            for left in await self._inbox.take():
                if isinstance(left.what, _Teaching):
                    _settle(left.what.done, _ended())
            await self.source.close()

    def stop(self) -> None:
        """End, once what has arrived is on disk."""
        if self._stopped:
            return
        self._stopped = True
        loop = asyncio.get_running_loop()
        if self._reader is not None:
            self._closing = loop.create_task(self.source.close())
            loop.call_later(LAST_EVENTS, self._reader.cancel)
        if self.lines is not None:
            loop.call_later(LAST_LINES, self.lines.give_up)

    async def teach(self, state: str | int, n: int = 1) -> None:
        """Make the last ``n`` windows references of a state; returns once that is on disk."""
        if self._ended:
            raise _ended()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put_now(_Waiting(_Teaching(Taught(state, n), done), time.monotonic()))
        await done

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
        """Classify and keep all that has come; says whether it was the end."""
        results: list[Result] = []
        arrivals: list[Arrival] = []
        teachings: list[_Teaching] = []
        end = None
        for one in waiting:
            if isinstance(one.what, Arrival):
                arrivals.append(one.what)
            elif isinstance(one.what, _Teaching):  # of the windows that came before it
                results += self._classify(arrivals)
                arrivals = []
                teachings += self._teach(one.what, results)
            elif isinstance(one.what, _End):
                end = one.what
            else:
                self._notice(one.what)
        results += self._classify(arrivals)
        try:
            await self._commit(results, waiting[0].since)
        except InputError as error:
            for teaching in teachings:
                _settle(teaching.done, error)
            raise
        for teaching in teachings:
            _settle(teaching.done)
        return end

    def _classify(self, arrivals: Sequence[Arrival]) -> list[Result]:
        results: list[Result] = []
        for group in groups_of(arrivals):
            arrived = merge(group)
            try:
                results.append((arrived, advance(self.session, arrived)))
            except InputError as error:  # the session is as it was before
                if len(group) > 1:
                    for arrival in group:
                        results += self._classify([arrival])
                else:
                    self._notice(Refusal(str(error), len(arrived.steps)))
                    # Its source need not send it again.
                    results.append((Arrived(self._no_steps(), arrived.position), []))
        return results

    def _teach(self, teaching: _Teaching, results: list[Result]) -> list[_Teaching]:
        try:
            results.append((teaching.taught, advance(self.session, teaching.taught)))
        except InputError as error:
            _settle(teaching.done, error)
            return []
        return [teaching]

    def _notice(self, event: Refusal | Notice) -> None:
        if isinstance(event, Refusal):
            self.notices.refused(event.reason, event.count)
            if self.hub is not None:
                self.hub.refuse(event.reason, event.count)
        else:
            self.notices.notice(event.kind, event.text)
            if self.hub is not None:
                self.hub.notice(event.kind, event.text)

    async def _commit(self, results: Sequence[Result], since: float) -> None:
        """On disk first; then the source, standard output and the page may know."""
        if not results:
            return
        inputs = [one for one, _ in results]
        predictions = [p for _, some in results for p in some]
        if self.keeper is not None:
            await self.keeper.append(inputs, predictions)
        lag = time.monotonic() - since
        self.lags.append(lag)
        await self._acknowledge(inputs)
        self._warn()
        if self.hub is not None:
            seen = Seen.of(self.session)
            for one, some in results:
                steps = one.steps if isinstance(one, Arrived) else self._no_steps()
                self.hub.publish(steps, some, seen, lag)
        if self.lines is not None and predictions:
            await asyncio.to_thread(self.lines.write, predictions)
        if self.keeper is not None:
            await self.keeper.snapshot_if_due(self.session)

    def _no_steps(self) -> Steps:
        return Steps(np.empty((0, len(self.channels))))

    def _warn(self) -> None:
        """Say what the session has newly found worth a word."""
        warnings = self.session.warnings
        for text in warnings[self._n_warnings :]:
            self.notices.say(f"warning: {text}")
            if self.hub is not None:
                self.hub.notice("note", text)
        self._n_warnings = len(warnings)

    async def _acknowledge(self, inputs: Sequence[Input]) -> None:
        positions = [one.position for one in inputs if isinstance(one, Arrived) and one.position]
        if positions:
            await self.source.acknowledge(positions[-1])


def _settle(done: asyncio.Future[None], error: InputError | None = None) -> None:
    if done.done():  # whoever asked has gone
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _ended() -> InputError:
    return InputError("the session has ended, and nothing more can be taught to it")
