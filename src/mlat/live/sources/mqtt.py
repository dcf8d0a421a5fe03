"""Steps from a topic of an MQTT broker."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...errors import InputError
from ..steps import Steps, join
from .backoff import Tries
from .mqtt_address import MqttAddress
from .mqtt_connection import MqttConnection, NoConnectionError
from .mqtt_deliveries import Deliveries
from .optional import need
from .payloads import MOST_BYTES, decode
from .rows import MalformedError, merge_refusals
from .source import Arrival, Closing, Event, Notice


@dataclass(frozen=True, slots=True)
class _Message:
    count: int
    payload: bytes
    refused: str  # why it cannot be a step whatever it holds, "" if it can


@dataclass(frozen=True, slots=True)
class _Taken:
    steps: Steps
    count: int


class MqttSource:
    """Messages of one topic, each with one step or many, acknowledged when they are kept.

    At most 64 messages are taken from the network and not yet acknowledged; then reading stops
    until `acknowledge` is called. A broker holds back further messages of QoS 1 by itself.

    Parameters
    ----------
    address : MqttAddress
    max_tries : int, optional
        End after so many failed tries to connect in a row; default never.
    """

    def __init__(
        self,
        address: MqttAddress,
        *,
        max_tries: int | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.name = str(address)
        self._address = address
        self._tries = Tries(max_tries, uniform)
        self._closing = Closing()
        self._inbox: deque[Notice | _Message] = deque()
        self._arrived = asyncio.Event()
        self._connection: MqttConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._seen_qos0 = False

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        need("aiomqtt", "an MQTT source")
        self._channels = channels
        self._resumed = bool(after)
        self._tls = _tls_context(self._address)
        try:
            self._deliveries = Deliveries[tuple[bytes, str]](after)
        except ValueError:
            raise InputError(
                f"{self.name} cannot go on after {after[:40]!r}; was it another source?"
            ) from None

    async def events(self) -> AsyncIterator[Event]:
        self._task = asyncio.create_task(self._stay_connected())
        self._task.add_done_callback(lambda _: self._arrived.set())
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                batch, self._inbox = self._inbox, deque()
                for event in self._events_of(batch):
                    yield event
                if self._closing:
                    return
                if self._task.done() and not self._inbox:
                    self._task.result()
                    return
        finally:
            await self._disconnect()

    async def acknowledge(self, position: str) -> None:
        try:
            self._deliveries.keep(position)
        except ValueError:
            raise InputError(f"{position[:40]!r} is no position of {self.name}") from None
        self._settle()

    async def close(self) -> None:
        self._closing.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _stay_connected(self) -> None:
        """Connect, wait until the connection is lost, and again."""
        clock = asyncio.get_running_loop().time
        if not self._address.client:
            self._put(Notice("note", f"{self.name}: {_NO_CLIENT}"))
        while True:
            connection = MqttConnection(self._address, self._tls, self._receive)
            try:
                self._connection = connection  # messages may come before open() returns
                await connection.open(self._deliveries.connected)
            except NoConnectionError as error:
                self._connection = None
                wait = self._tries.could_not_connect()
                if self._tries.given_up:
                    self._put(
                        Notice(
                            "ended",
                            f"{self.name}: {error}; gave up after {self._tries.failed} tries",
                        )
                    )
                    return
                self._put(
                    Notice(
                        "retrying",
                        f"{self.name}: {error}; try {self._tries.failed + 1} in {wait:.1f} s",
                    )
                )
                await asyncio.sleep(wait)
                continue
            self._tries.connected()
            self._put(Notice("connected", self._greeting(connection.session_present)))
            self._resumed = True
            self._put_new(self._deliveries.subscribed())
            self._settle()
            since = clock()
            try:
                why = await connection.lost()
            except asyncio.CancelledError:
                await connection.close()
                raise
            finally:
                self._connection = None
            wait = self._tries.lost(clock() - since)
            self._put(Notice("lost", f"{self.name}: {why}; trying again in {wait:.1f} s"))
            await asyncio.sleep(wait)

    def _greeting(self, session_present: bool) -> str:
        if not self._address.client or session_present or not self._resumed:
            return self.name
        return (
            f"{self.name}, which had not kept the session of {self._address.client!r}: "
            "what was published meanwhile is lost"
        )

    def _receive(self, message: Any) -> None:
        """Called by the connection for each message it reads."""
        payload = bytes(message.payload[: MOST_BYTES + 1])
        packet = message.mid if message.qos else 0
        why = self._never_a_step(message)
        self._put_new(
            self._deliveries.receive(packet, payload, (payload, why), again=bool(message.dup))
        )
        if not message.qos and not self._seen_qos0:
            self._seen_qos0 = True
            self._put(Notice("note", f"{self.name}: {_QOS_0}"))
        self._settle()

    def _put_new(self, messages: list[tuple[int, tuple[bytes, str]]]) -> None:
        for count, (payload, why) in messages:
            self._put(_Message(count, payload, why))

    def _never_a_step(self, message: Any) -> str:
        if message.topic != self._address.topic:
            return (
                f"it is of the topic {message.topic!r}, to which the client "
                f"{self._address.client!r} had subscribed before; choose another ?client=NAME"
            )
        if message.retain:
            return "it is retained, a value of the past; publish steps without retain"
        if len(message.payload) > MOST_BYTES:
            return f"{len(message.payload)} bytes are too many; send at most {MOST_BYTES}"
        return ""

    def _settle(self) -> None:
        """Tell the broker what it may forget, and read on if there is room."""
        if self._connection is None:
            return
        self._connection.acknowledge(self._deliveries.to_acknowledge())
        if self._deliveries.full:
            self._connection.pause()
        else:
            self._connection.resume()

    def _put(self, item: Notice | _Message) -> None:
        last = self._inbox[-1] if self._inbox else None
        if isinstance(item, Notice) and isinstance(last, Notice) and last.kind == item.kind:
            self._inbox.pop()  # of many notices that nobody has fetched the last one counts
        self._inbox.append(item)
        self._arrived.set()

    def _events_of(self, batch: deque[Notice | _Message]) -> Iterator[Event]:
        """Messages that follow each other as one arrival, those refused as one refusal."""
        for _, group in groupby(map(self._judge, batch), _alike):
            outcomes = list(group)
            first = outcomes[0]
            if isinstance(first, Notice):
                yield from (notice for notice in outcomes if isinstance(notice, Notice))
            elif isinstance(first, _Taken):
                taken = [outcome for outcome in outcomes if isinstance(outcome, _Taken)]
                position = self._deliveries.position(taken[-1].count)
                yield Arrival(join([message.steps for message in taken]), position)
            else:
                place = f"topic {self._address.topic}"
                yield merge_refusals([(place, why) for why in outcomes if isinstance(why, str)])
        self._settle()

    def _judge(self, item: Notice | _Message) -> Notice | _Taken | str:
        """The steps of a message, or why it is refused."""
        if isinstance(item, Notice):
            return item
        try:
            if item.refused:
                raise MalformedError(item.refused)
            return _Taken(decode(item.payload, self._address.form, self._channels), item.count)
        except MalformedError as error:
            self._deliveries.refuse(item.count)
            return str(error)


_NO_CLIENT = (
    "without ?client=NAME the broker keeps nothing for this program while it is away; "
    "name a client to lose no step"
)
_QOS_0 = "published with QoS 0: a step that is lost on the way is not sent again; publish with 1"


def _alike(outcome: Notice | _Taken | str) -> tuple[object, ...]:
    """Equal for those that can be one event."""
    if isinstance(outcome, _Taken):
        return _Taken, outcome.steps.seq is None, outcome.steps.time is None
    return (type(outcome),)


def _tls_context(address: MqttAddress) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.ca or None)
    except (OSError, ssl.SSLError):
        raise InputError(
            f"{address.ca} cannot be read as certificates; ?ca= names a file in PEM form"
        ) from None
