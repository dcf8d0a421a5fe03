"""One connection to a broker: aiomqtt, with manual acknowledgement and reading that can pause."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Any

from .mqtt_address import MqttAddress
from .optional import need

TIMEOUT = 5.0  # seconds for the broker to answer
KEEPALIVE = 30  # seconds between signs of life
_NOWHERE = "mlat/none"  # a topic that nobody has subscribed to
_READS = 32  # messages before other tasks have their turn


class NoConnectionError(Exception):
    """Why there is no connection, or no longer, in a few words."""


class MqttConnection:
    """A session with a broker, which hands every message to ``on_message`` as it is read.

    aiomqtt acknowledges by itself and reads without bound, so the paho client below it is asked
    for what it offers beyond that: manual acknowledgement, the "again" mark of a message, whether
    the broker still had the session, and when to read.

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
        self._aiomqtt = need("aiomqtt", "an MQTT source")
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
        self._paho = self._client._client
        self._paho.manual_ack_set(True)
        self._paho.on_message = self._read_message
        self._paho.on_connect = self._note_session(self._paho.on_connect)

    async def open(self, ready: Callable[[bool], None]) -> None:
        """Connect and subscribe. ``ready`` hears whether the session is an old one, before the
        first message."""
        self._ready = ready
        entering = asyncio.ensure_future(self._client.__aenter__())
        try:
            await asyncio.shield(entering)
            self._read_ourselves()
            codes = await self._client.subscribe(self._address.topic, qos=1)
        except asyncio.CancelledError:
            if entering.done() and not entering.cancelled() and entering.exception() is None:
                await self.close()  # in order: acknowledgements may be on their way
            else:
                # The thread that connects cannot be stopped: what it opens is to be closed.
                entering.add_done_callback(self._abandon)
            raise
        except self._aiomqtt.MqttError as error:
            self._shut()
            raise NoConnectionError(_why(error)) from None
        except (OSError, ValueError) as error:  # a host name that cannot be one, a TLS failure
            self._shut()
            raise NoConnectionError(_why(error)) from None
        self._subscribed = True
        if any(getattr(code, "is_failure", False) for code in codes):
            await self.close()
            raise NoConnectionError("the broker refuses the subscription; may this user read it?")

    async def lost(self) -> str:
        """Wait until the connection is lost, and say why."""
        try:
            # Our callback takes the messages, so the next "message" is the end.
            await anext(self._client.messages)
        except self._aiomqtt.MqttError as error:
            why = _why(error.__cause__ or error)
            return "the connection broke off" if why == "unspecified error" else why
        return "the connection ended"

    def acknowledge(self, packets: list[int]) -> None:
        for packet in packets:
            self._paho.ack(packet, 1)
            self._has_acknowledged = True

    def pause(self) -> None:
        """Stop reading: the network's buffers fill, and the broker has to wait.

        Not before the broker has answered the subscription, which is to be read.
        """
        sock = self._paho.socket()
        if sock is not None and self._subscribed and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(sock.fileno())

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._read_ourselves()

    async def close(self) -> None:
        """Take leave of the broker, or after a second leave without it."""
        self.resume()
        try:
            async with asyncio.timeout(1.0):
                if self._has_acknowledged:
                    # A broker may throw away what it has not read when the same client is back at
                    # once; it answers in order, so its answer says that it has read all before.
                    await self._client.unsubscribe(_NOWHERE)
                await self._client.__aexit__(None, None, None)
        except (self._aiomqtt.MqttError, OSError, TimeoutError):
            self._shut()
        with contextlib.suppress(self._aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(0.1):
                await (
                    self.lost()
                )  # else aiomqtt's reason, if it has one, is logged as not asked for

    def _read_ourselves(self) -> None:
        sock = self._paho.socket()
        if sock is None or sock.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock.fileno())
        loop.add_reader(sock.fileno(), self._read)
        loop.call_soon(self._read)  # TLS may hold what no longer makes the socket readable

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
            self._shut()

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
            entering.exception()  # which nobody else will ask for
        self._shut()

    def _shut(self) -> None:
        """Break the connection. paho finds it broken when it reads, and cleans up itself."""
        self.resume()
        sock = self._paho.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _why(error: BaseException) -> str:
    """The reason without the numbers that only programmers know."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("["):
        text = text.partition("] ")[2] or text
    return text[0].lower() + text[1:] if text[:2] != text[:2].upper() else text
