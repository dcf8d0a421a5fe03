"""Steps from a topic of an MQTT broker.

`MqttAddress` says where the broker is and what to subscribe to. `MqttSource` keeps a connection
(`MqttConnection`) and turns messages into events. `Deliveries` decides which messages are new and
which ones the broker may forget.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import re
import secrets
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any
from urllib.parse import unquote, urlsplit

from ...base.errors import InputError, require_package
from ..core.steps import Steps, join
from .payloads import MOST_BYTES, MalformedError, decode, is_format, merge_refusals
from .source import Arrival, Event, Notice, Source, Tries

# --- the address

PORTS = {"mqtt": 1883, "mqtts": 8883}
PASSWORD_VARIABLE = "MLAT_MQTT_PASSWORD"
_FORM = "write mqtt://[user[:password]@]host[:port]/topic"


@dataclass(frozen=True)
class MqttAddress:
    """``mqtt://[user[:password]@]host[:port]/topic[?client=…&format=…&ca=…]``, read.

    Its text never shows the password.

    Attributes
    ----------
    client : str
        The name under which the broker keeps what was not delivered; "" for none.
    form : str
        See `payloads.decode`.
    ca : str
        File of the certificates to trust, instead of the system's.
    """

    host: str
    port: int
    topic: str
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client: str = ""
    form: str = "json"
    ca: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{host}:{self.port}/{self.topic}"

    @classmethod
    def parse(cls, spec: str) -> MqttAddress:
        """Read an address.

        Raises
        ------
        InputError
            The message never repeats the part that may hold a password.

        Examples
        --------
        >>> print(MqttAddress.parse("mqtt://me:secret@broker/lab/arm?client=arm-1&format=q+f4"))
        mqtt://broker:1883/lab/arm
        """
        try:
            parts = urlsplit(spec)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InputError(
                f"the address of the broker cannot be read; {_FORM}, with a number for the port, "
                "and / : @ ? # in a user or password as %2F %3A %40 %3F %23"
            ) from None
        if parts.scheme not in PORTS:
            raise InputError(f"a broker's address begins with mqtt:// or mqtts://; {_FORM}")
        if "@" in parts.path + parts.query + parts.fragment:
            raise InputError(
                "an @ stands behind the host of the broker's address; write @ in a topic as %40, "
                "and / ? # in a password as %2F %3F %23"
            )
        if not host:
            raise InputError(f"the broker's address names no host; {_FORM}")
        topic = unquote(parts.path.removeprefix("/"))
        _check_topic(topic, has_fragment="#" in spec.rpartition("@")[2])
        options = _address_options(parts.query)
        password = None if parts.password is None else unquote(parts.password)
        if password is None and parts.username is not None:
            password = os.environ.get(PASSWORD_VARIABLE)
        return cls(
            host=host,
            port=port or PORTS[parts.scheme],
            topic=topic,
            tls=parts.scheme == "mqtts",
            user=None if parts.username is None else unquote(parts.username),
            password=password,
            client=options["client"],
            form=options["format"],
            ca=options["ca"],
        )

    def tls_context(self) -> ssl.SSLContext | None:
        """What to trust; None without TLS."""
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError):
            raise InputError(
                f"{self.ca} cannot be read as certificates; ?ca= names a file in PEM form"
            ) from None


def _check_topic(topic: str, *, has_fragment: bool) -> None:
    if has_fragment or "+" in topic or "#" in topic:
        raise InputError(
            "the topic has a wildcard (+ or #), which may bring several streams; a session "
            "classifies one stream: name its topic in full"
        )
    if not topic:
        raise InputError(f"the broker's address names no topic; {_FORM}")
    if "\0" in topic or len(topic.encode("utf-8", "surrogatepass")) > 65535:
        raise InputError("the topic is too long or holds a zero byte; MQTT allows neither")


def _address_options(query: str) -> dict[str, str]:
    options = {"client": "", "format": "json", "ca": ""}
    for item in query.split("&") if query else []:
        name, _, value = item.partition("=")
        if name not in options or not value:
            raise InputError(
                f"{name!r} is not an option of a broker's address; it takes ?client=NAME, "
                "?format=json|f4|f8|q+f4|q+f8 and ?ca=FILE, joined by &"
            )
        options[name] = unquote(value)  # a + stays a +, unlike in web forms
    if not is_format(form := options["format"]):
        raise InputError(f"format={form} is not known; write json, f4, f8, q+f4 or q+f8")
    return options


# --- the source

_NO_CLIENT = (
    "without ?client=NAME the broker keeps nothing for this program while it is away; "
    "name a client to lose no step"
)
_NO_SEQ = (
    "messages without seq: after a crash of the broker or of its publisher a message that is sent "
    "twice may count twice, if its content does not tell; publish seq"
)
_DOUBTFUL = (
    "may have come before: the broker goes on from an older state, and only seq could tell them "
    "apart"
)
_QOS_0 = "published with QoS 0: a step that is lost on the way is not sent again; publish with 1"


@dataclass(frozen=True, slots=True)
class _Message:
    count: int
    steps: Steps | None  # None if it is refused
    refused: str = ""  # why


class MqttSource(Source):
    """Messages of one topic, each with one step or more, acknowledged when they are kept.

    At most 64 messages are read from the network and not yet acknowledged; then reading stops
    until `acknowledge` is called. A broker holds back further messages of QoS 1 by itself.

    Parameters
    ----------
    address : MqttAddress
    max_tries : int, optional
        End after so many failed tries to connect in a row; default never.
    """

    def __init__(self, address: MqttAddress, *, max_tries: int | None = None) -> None:
        super().__init__(str(address))
        self._address = address
        self._tries = Tries(max_tries)
        self._inbox: deque[Notice | _Message] = deque()
        self._arrived = asyncio.Event()
        self._connection: MqttConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._seen_qos0 = self._seen_no_seq = False
        self._doubtful = 0  # steps that may have come before, and were not told of yet

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        require_package("aiomqtt", "live", "an MQTT source")
        self._channels = channels
        self._resumed = bool(after)
        self._tls = self._address.tls_context()
        try:
            self._deliveries = Deliveries(after)
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
        self._update_connection()

    async def close(self) -> None:
        await super().close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        # Again and again: a library may take a cancellation for the end of its own time limit.
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1.0)

    async def _stay_connected(self) -> None:
        """Connect, wait until the connection is lost, and again."""
        clock = asyncio.get_running_loop().time
        if not self._address.client:
            self._put_notice("note", _NO_CLIENT)
        while True:
            connection = MqttConnection(self._address, self._tls, self._receive)
            try:
                self._connection = connection  # messages may come before open() returns
                await connection.open(self._deliveries.connected)
            except NoConnectionError as error:
                self._connection = None
                wait = self._tries.could_not_connect()
                self._put_notice(*self._tries.news(error, wait))
                if self._tries.given_up:
                    return
                await asyncio.sleep(wait)
                continue
            self._tries.connected()
            self._put_notice("connected", self._greeting(connection.session_present))
            self._resumed = True
            self._update_connection()
            since = clock()
            try:
                reason = await connection.lost()
            except asyncio.CancelledError:
                await connection.close()
                raise
            finally:
                self._connection = None
            wait = self._tries.lost(clock() - since)
            self._put_notice("lost", f"{reason}; trying again in {wait:.1f} s")
            await asyncio.sleep(wait)

    def _greeting(self, session_present: bool) -> str:
        if not self._address.client or session_present or not self._resumed:
            return "connected and subscribed"
        return (
            f"connected to a broker which had not kept the session of {self._address.client!r}: "
            "what was published meanwhile is lost"
        )

    def _receive(self, message: Any) -> None:
        """Called by the connection for each message it reads."""
        payload = bytes(message.payload[: MOST_BYTES + 1])
        packet = message.mid if message.qos else 0
        count = self._deliveries.receive(packet, payload, again=bool(message.dup))
        if count is not None:
            if n := self._deliveries.take_recognised():
                self._put_notice("note", f"{n} messages came twice, without a mark: left out")
            try:
                self._check(message)
                steps = decode(payload, self._address.form, self._channels)
                self._put(_Message(count, steps))
                if steps.seq is None:
                    self._note_no_seq(len(steps))
            except MalformedError as error:
                self._put(_Message(count, None, str(error)))
        if not message.qos and not self._seen_qos0:
            self._seen_qos0 = True
            self._put_notice("note", _QOS_0)
        self._update_connection()

    def _note_no_seq(self, n_steps: int) -> None:
        if self._address.client and not self._seen_no_seq:
            self._seen_no_seq = True
            self._put_notice("note", _NO_SEQ)
        if self._deliveries.is_doubtful:
            self._doubtful += n_steps

    def _check(self, message: Any) -> None:
        """Refuse a message that is no step, whatever it holds."""
        if message.topic != self._address.topic:
            raise MalformedError(
                f"it is of the topic {message.topic!r}, to which the client "
                f"{self._address.client!r} had subscribed before; choose another ?client=NAME"
            )
        if message.retain:
            raise MalformedError(
                "it is retained, a value of the past; publish steps without retain"
            )
        if (n := len(message.payload)) > MOST_BYTES:
            raise MalformedError(f"{n} bytes are too many; send at most {MOST_BYTES}")

    def _update_connection(self) -> None:
        """Acknowledge what is kept, and read on if there is room."""
        if self._connection is None:
            return
        self._connection.acknowledge(self._deliveries.to_acknowledge())
        if self._deliveries.full:
            self._connection.pause()
        else:
            self._connection.resume()

    def _put_notice(self, kind: str, text: str) -> None:
        self._put(self._notice(kind, text))

    def _put(self, item: Notice | _Message) -> None:
        match self._inbox[-1] if self._inbox else None, item:
            case Notice(kind=before), Notice(kind=now) if before == now != "note":
                self._inbox.pop()  # of several tries that were not told of, the last one counts
        self._inbox.append(item)
        self._arrived.set()

    def _events_of(self, batch: deque[Notice | _Message]) -> Iterator[Event]:
        """Consecutive messages as one arrival, consecutive refusals as one refusal."""
        for _, group in groupby(batch, _mergeable):
            items = list(group)
            messages = [item for item in items if isinstance(item, _Message)]
            steps = [one.steps for one in messages if one.steps is not None]
            yield from (item for item in items if isinstance(item, Notice))
            if steps:
                yield Arrival(join(steps), self._deliveries.position(messages[-1].count))
            elif messages:
                for one in messages:
                    self._deliveries.refuse(one.count)
                place = f"topic {self._address.topic}"
                yield merge_refusals([(place, one.refused) for one in messages])
        if n := self._doubtful:
            self._doubtful = 0
            yield Notice("note", f"{self.name}: {n} steps {_DOUBTFUL}", n)
        self._update_connection()


def _mergeable(item: Notice | _Message) -> tuple[object, ...]:
    """Equal for what can be one event."""
    steps = item.steps if isinstance(item, _Message) else None
    if steps is None:
        return (type(item),)
    return type(item), steps.seq is None, steps.time is None


# --- the connection

TIMEOUT = 5.0  # seconds for the broker to answer
KEEPALIVE = 30  # seconds
_UNUSED_TOPIC = "mlat/none"  # a topic without subscribers
_READS = 32  # messages before other tasks have their turn


class NoConnectionError(Exception):
    """Why there is no connection, or no longer, in a few words."""


class MqttConnection:
    """A session with a broker, which hands every message to ``on_message`` as it is read.

    aiomqtt acknowledges by itself and reads without bound. So the paho client below it is used for
    what it offers beyond that: manual acknowledgement, the mark of a message that is sent again,
    whether the broker still had the session, and control over when to read.

    Parameters
    ----------
    on_message : callable
        Gets paho's message (``topic``, ``payload``, ``qos``, ``mid``, ``dup``, ``retain``).
    """

    def __init__(
        self,
        address: MqttAddress,
        tls: ssl.SSLContext | None,
        on_message: Callable[[Any], None],
    ) -> None:
        self._aiomqtt = require_package("aiomqtt", "live", "an MQTT source")
        self._address = address
        self._on_message = on_message
        self._n_read = 0
        self._paused = False
        self._subscribed = False
        self._has_acknowledged = False
        self.session_present = False
        self._client = self._aiomqtt.Client(
            address.host,
            address.port,
            username=address.user,
            password=address.password,
            identifier=address.client or f"mlat-{secrets.token_hex(6)}",
            clean_session=not address.client,
            tls_context=tls,
            timeout=TIMEOUT,
            keepalive=KEEPALIVE,
            # Acknowledgements are a few bytes each, and the broker waits for them.
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        # However it ends: asyncio would log a reason that nobody has asked for.
        self._client._disconnected.add_done_callback(lambda end: end.cancelled() or end.exception())
        self._paho = self._client._client
        self._paho.manual_ack_set(True)
        self._paho.on_message = self._read_message
        self._paho.on_connect = self._note_session(self._paho.on_connect)

    async def open(self, ready: Callable[[bool], None]) -> None:
        """Connect and subscribe.

        ``ready`` is called before the first message, with whether the broker still had the session.

        Raises
        ------
        NoConnectionError
        """
        self._ready = ready
        entering = asyncio.ensure_future(self._client.__aenter__())
        try:
            await asyncio.shield(entering)
            self._take_over_reading()
            codes = await self._client.subscribe(self._address.topic, qos=1)
        except asyncio.CancelledError:
            if entering.done() and not entering.cancelled() and entering.exception() is None:
                await self.close()  # in order: acknowledgements may be on their way
            else:
                # The thread that connects cannot be stopped; the connection it opens is closed.
                entering.add_done_callback(self._abandon)
            raise
        except (self._aiomqtt.MqttError, OSError, ValueError) as error:
            # OSError and ValueError: a host name that cannot be one, a TLS failure.
            self._shut_down()
            raise NoConnectionError(_reason(error)) from None
        self._subscribed = True
        if any(getattr(code, "is_failure", False) for code in codes):
            await self.close()
            raise NoConnectionError("the broker refuses the subscription; may this user read it?")

    async def lost(self) -> str:
        """Wait until the connection is lost, and say why."""
        try:
            # Our callback gets the messages, so the next "message" here is the end.
            await anext(self._client.messages)
        except self._aiomqtt.MqttError as error:
            reason = _reason(error.__cause__ or error)
            return "the connection broke off" if reason == "unspecified error" else reason
        return "the connection ended"

    def acknowledge(self, packets: list[int]) -> None:
        for packet in packets:
            self._paho.ack(packet, 1)
            self._has_acknowledged = True

    def pause(self) -> None:
        """Stop reading: the network's buffers fill, and the broker has to wait.

        Not before the broker has answered the subscription, because that answer must be read.
        """
        sock = self._paho.socket()
        if sock is not None and self._subscribed and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(sock.fileno())

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._take_over_reading()

    async def close(self) -> None:
        """Disconnect in order; after a second without an answer, just close."""
        self.resume()
        try:
            async with asyncio.timeout(1.0):
                if self._has_acknowledged:
                    # A broker may discard what it has not read when the same client is back at
                    # once. It answers in order, so this answer says that it has read all before.
                    await self._client.unsubscribe(_UNUSED_TOPIC)
                await self._client.__aexit__(None, None, None)
        except (self._aiomqtt.MqttError, OSError, TimeoutError):
            self._shut_down()

    def _take_over_reading(self) -> None:
        sock = self._paho.socket()
        if sock is None or sock.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock.fileno())
        loop.add_reader(sock.fileno(), self._read)
        loop.call_soon(self._read)  # TLS may hold data that no longer makes the socket readable

    def _read(self) -> None:
        try:
            for _ in range(_READS):
                before = self._n_read
                if self._paused or self._paho.socket() is None:
                    return
                self._paho.loop_read()
                sock = self._paho.socket()
                pending = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
                if self._n_read == before and not pending:
                    return
        except Exception:  # whatever a broken connection makes paho raise
            self._shut_down()

    def _read_message(self, client: Any, userdata: Any, message: Any) -> None:
        self._n_read += 1
        self._on_message(message)

    def _note_session(self, inner: Callable[..., None]) -> Callable[..., None]:
        def on_connect(
            client: Any, userdata: Any, flags: Any, reason: Any, properties: Any = None
        ) -> None:
            self.session_present = bool(flags.session_present)
            self._ready(self.session_present)
            inner(client, userdata, flags, reason, properties)

        return on_connect

    def _abandon(self, entering: asyncio.Future[Any]) -> None:
        if not entering.cancelled():
            entering.exception()  # retrieved, so that asyncio does not log it
        self._shut_down()

    def _shut_down(self) -> None:
        """Break the connection. paho notices when it reads, and cleans up itself."""
        self.resume()
        sock = self._paho.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _reason(error: BaseException) -> str:
    """An error's text without its number, such as "[Errno 111] "."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("["):
        text = text.partition("] ")[2] or text
    return text[0].lower() + text[1:] if text[:2] != text[:2].upper() else text


# --- which messages are new, and which ones the broker may forget

MOST_UNACKNOWLEDGED = 64
MOST_KNOWN = 32_767  # half of the packet numbers, so that "before" and "after" are never confused
ALL_DIFFERENT = 1000  # messages; then their contents are taken for names
_KEY = struct.Struct(">HI")  # packet number, digest
_POSITION = re.compile(r"(\d+):([\w=-]*)(?::(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Known:
    """A message that was received.

    ``run`` is how many messages, up to this one, had packet numbers that follow each other. The
    digest of its payload is None if it was received before a restart of the program.
    """

    count: int
    digest: int | None
    run: int


class Deliveries:
    """The state of one subscription with QoS 1, over connections and restarts.

    A broker keeps a message until it has read its acknowledgement. When the client comes back, the
    broker sends the messages it keeps again, marked as such, in the old order and under the same
    packet numbers if it still has the session. Among them may be thousands that were received,
    kept and acknowledged: all that the network still held when the broker went away, and whose
    acknowledgements it never read. They come over the whole connection, since a broker sends only
    some before it waits for acknowledgements.

    So a message that is sent again is known by its packet number and a digest of its payload.
    Brokers count packet numbers up to 65535 before they begin anew, and the last `MOST_KNOWN` are
    remembered: equal payloads are still different messages. A number that comes back earlier,
    from a broker that uses numbers again at once, says that the message which had it before, and
    all before that one, were acknowledged for good.

    Messages are counted from 1. The *position* of a message is its count, the numbers and digests
    (keys) of the last messages handed on, and how many before them had packet numbers that follow
    each other. After a restart of the program these tell which messages are on disk although the
    broker does not know it yet; the oldest by their number alone.

    A broker that was killed may go on from an older state: it sends what it had kept then without
    a mark, under the old numbers or others. So the first messages of a connection are also known by
    their content: alone, if none of the last `ALL_DIFFERENT` was like one before, and else together
    with their number, if hardly one in `ALL_DIFFERENT` was like that. A message that has the number
    of an earlier one, and about which no more can be known, is new and *doubtful*.

    No more than `MOST_UNACKNOWLEDGED` messages may be received and not acknowledged: `full` says
    when to stop reading.

    Parameters
    ----------
    after : str
        The position to resume behind; `ValueError` if it is none.

    Attributes
    ----------
    is_doubtful : bool
        Whether the message that was received last may have come before.
    """

    def __init__(self, after: str = "") -> None:
        self._count = 0
        self._acknowledged = 0  # the count up to which everything is on disk
        self._open: deque[tuple[int, int]] = deque()  # (count, packet) to acknowledge, as received
        self._refused: set[int] = set()  # counts of messages that are not kept
        self._known: dict[int, _Known] = {}  # by packet number, in the order of arrival
        self._last = 0  # packet number of the last message
        self._forgotten = 0  # the count up to which packet numbers were given to others
        # Of the messages before this connection: how many had a digest, how many may have one that
        # is rare, and the count of a digest, if it alone tells them apart.
        self._times: Counter[int | None] = Counter()
        self._rare = 0
        self._contents: dict[int | None, int] = {}
        self.is_doubtful = False
        self._returned: int | None = None  # the last that came back, while a connection begins
        self._recognised = 0
        if after:
            self._count, keys, before = _parse_position(after)
            self._acknowledged = self._count
            known: list[tuple[int, int | None]] = [
                ((keys[0][0] - 1 - distance) % 65535 + 1, None) for distance in range(before, 0, -1)
            ]
            known += keys
            for count, (packet, digest) in enumerate(known, self._count - len(known) + 1):
                self._remember(count, packet, digest)

    @property
    def full(self) -> bool:
        return self._count - self._acknowledged >= MOST_UNACKNOWLEDGED

    def connected(self, session_present: bool) -> None:
        """A connection begins: what was received over the last one is sent again, or never."""
        self._open.clear()
        self._returned = 0 if session_present else None
        if not session_present:
            self._known.clear()  # their packet numbers will be given to other messages
            self._last = 0
        before = [one.digest for one in self._known.values()]
        times = self._times = Counter(before)
        self._rare = len(before) // ALL_DIFFERENT
        tell_apart = len(before) >= ALL_DIFFERENT and all(
            times[digest] == 1 for digest in before[-ALL_DIFFERENT:]
        )
        known = self._known.values() if tell_apart else ()
        self._contents = {one.digest: one.count for one in known if times[one.digest] == 1}

    def receive(self, packet: int, payload: bytes, *, again: bool) -> int | None:
        """The count of a new message; None if it was received before.

        ``packet`` is 0 for a message without QoS, which is never sent again.
        """
        digest = int.from_bytes(hashlib.blake2s(payload, digest_size=4).digest(), "big")
        known = self._known.get(packet)
        may_be_known = known is not None and known.digest in (None, digest)
        if known is not None and may_be_known and again:
            self._open.append((known.count, packet))
            return None
        self.is_doubtful = False
        if self._returned is not None:
            like = self._contents.get(digest, 0)
            if known is not None and known.digest == digest and self._times[digest] <= self._rare:
                like = known.count
            if like > self._returned:
                self._returned = like
                self._recognised += 1
                self._open.append((like, packet))
                return None
            self.is_doubtful = may_be_known
            if not may_be_known:
                self._returned = None
        self._count += 1
        if packet:
            self._open.append((self._count, packet))
            self._remember(self._count, packet, digest)
        return self._count

    def take_recognised(self) -> int:
        """How many were known without a mark, since this was last asked."""
        n, self._recognised = self._recognised, 0
        return n

    def _remember(self, count: int, packet: int, digest: int | None) -> None:
        while packet in self._known or len(self._known) >= MOST_KNOWN:
            is_reused = packet in self._known
            oldest = self._known.pop(next(iter(self._known)))
            if is_reused:
                self._forgotten = max(self._forgotten, oldest.count)
        last = self._known.get(self._last)
        run = last.run + 1 if last is not None and packet == self._last % 65535 + 1 else 1
        self._known[packet] = _Known(count, digest, run)
        self._last = packet

    def position(self, count: int) -> str:
        """The text by which to resume behind the message of that count."""
        newest = (item for item in reversed(self._known.items()) if item[1].count <= count)
        keys = [item for item in islice(newest, MOST_UNACKNOWLEDGED) if item[1].digest is not None]
        packed = b"".join(_KEY.pack(packet, one.digest) for packet, one in reversed(keys))
        before = 0
        if keys:
            oldest = keys[-1][1]
            # By its number alone a message is known only while no other has that number.
            before = min(oldest.run - 1, MOST_KNOWN - len(keys), oldest.count - 1 - self._forgotten)
            before = max(before, 0)
        return f"{count}:{base64.urlsafe_b64encode(packed).decode()}:{before}"

    def keep(self, position: str) -> None:
        """All messages up to a position are on disk."""
        self._acknowledged = max(self._acknowledged, min(_parse_position(position)[0], self._count))
        self._pass_over_refused()

    def refuse(self, count: int) -> None:
        """A message is no step: the broker may forget it together with those before it."""
        self._refused.add(count)
        self._pass_over_refused()

    def _pass_over_refused(self) -> None:
        while self._acknowledged + 1 in self._refused:
            self._acknowledged += 1
        self._refused = {count for count in self._refused if count > self._acknowledged}

    def to_acknowledge(self) -> list[int]:
        """The packets that the broker may forget now, in the order of acknowledgement."""
        packets = []
        while self._open and self._open[0][0] <= self._acknowledged:
            packets.append(self._open.popleft()[1])
        return packets


def _parse_position(position: str) -> tuple[int, list[tuple[int, int]], int]:
    """Count, keys, and how many messages before those are known by their packet number.

    `ValueError` if it is no position of this source.
    """
    found = _POSITION.fullmatch(position)
    if found is None:
        raise ValueError(position)
    packed = base64.b64decode(found[2].encode(), altchars=b"-_", validate=True)  # or ValueError
    before = int(found[3] or 0)  # positions of earlier versions do not say
    if len(packed) % _KEY.size or before > (MOST_KNOWN if packed else 0):
        raise ValueError(position)
    return int(found[1]), [(packet, digest) for packet, digest in _KEY.iter_unpack(packed)], before
