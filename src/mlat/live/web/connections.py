"""How many connections the server keeps, and for how long.

Whoever reaches the port can open connections, before any token is asked for. Each costs a file
descriptor, and the journal and the source of the session need theirs. So the connections are
accepted here instead of by uvicorn, which handles each of them from then on:

- no more are open than there are descriptors to spare, and no address has more than its share;
- where there are too many, the oldest one that waits for its client is closed: whoever sends a
  whole request is served, whatever else is open. A page that watches is never closed;
- one that waits for its client for too long is closed: for a request, or the rest of one, however
  slowly it comes, or until an answer is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import h11

if TYPE_CHECKING:
    import uvicorn

MAX_CONNECTIONS = 256
MAX_PER_ADDRESS = 64
FEWEST_CONNECTIONS = 8
RESERVED = 128  # file descriptors for everything but connections
LONGEST_WAIT = 15.0  # seconds
SWEEP = 1.0  # seconds
SAY_EVERY = 10.0  # seconds


class Connections:
    """Accepts connections and closes those that are too many or too slow.

    Parameters
    ----------
    runs : uvicorn.Server
        It has started, without sockets of its own.
    listening : socket
    local : bool
        Whether it listens on loopback, where all have the same address.
    refused : callable
        Called with the reason of every connection that is closed here.
    say : callable
        Called with a line about them, at most every ten seconds.
    """

    def __init__(
        self,
        runs: uvicorn.Server,
        listening: socket.socket,
        *,
        local: bool,
        refused: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self._uvicorn, self._listening = runs, listening
        self._refused, self._say = refused, say
        self._most = spare_descriptors(MAX_CONNECTIONS)
        self._local = local
        self._most_per_address = self._most if local else min(self._most, MAX_PER_ADDRESS)
        self._open: set[Any] = runs.server_state.connections  # uvicorn's protocols
        self._accepted: dict[Any, None] = {}  # those with HTTP, in their order
        self._waiting: dict[Any, tuple[object, float]] = {}  # for what, since when
        self._closed = 0  # and not yet said

    async def run(self) -> None:
        """Accept connections until it is cancelled."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            while True:
                await self._accept()
        finally:
            sweeping.cancel()
            self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, address = await loop.sock_accept(self._listening)
        except OSError:  # no descriptor is left, or the client is gone again
            self._count("not accepted")
            await asyncio.sleep(0.1)
            return
        if not self._make_room(_site(address[0])):
            accepted.close()
            await asyncio.sleep(0)
            return
        try:
            _, protocol = await loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:
            accepted.close()
        else:
            self._accepted[protocol] = None

    def _protocol(self) -> asyncio.Protocol:
        """As uvicorn makes them."""
        made: asyncio.Protocol = self._uvicorn.config.http_protocol_class(
            config=self._uvicorn.config,
            server_state=self._uvicorn.server_state,
            app_state=self._uvicorn.lifespan.state,
            _loop=asyncio.get_running_loop(),
        )
        return made

    def _make_room(self, site: str) -> bool:
        """Whether one more may come from there, if need be in the place of another."""
        crowd = self._open
        if not self._local:
            crowd = {one for one in self._open if one.client and _site(one.client[0]) == site}
        if len(crowd) < self._most_per_address:
            crowd = self._open
            if len(crowd) < self._most:
                return True
        for one in self._accepted:
            if one in crowd and _waits_for(one) is not None:
                self._close(one, "too many connections")
                return True
        self._count("too many connections")
        return False

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        said = -SAY_EVERY
        while True:
            await asyncio.sleep(SWEEP)
            now = loop.time()
            self._accepted = {one: None for one in self._accepted if one in self._open}
            waiting = {one: _waits_for(one) for one in self._open}
            before = self._waiting
            self._waiting = {
                one: before[one] if one in before and before[one][0] == what else (what, now)
                for one, what in waiting.items()
                if what is not None
            }
            for one, (_, since) in self._waiting.items():
                if now - since > LONGEST_WAIT:
                    self._close(one, "too slow")
            if self._closed and now - said > SAY_EVERY:
                self._say(
                    f"the page: {self._closed} connections were closed, for there were too many "
                    "or they were silent for too long"
                )
                self._closed, said = 0, now

    def _close(self, one: Any, reason: str) -> None:
        self._count(reason)
        one.transport.abort()  # what it has not read must not keep it open
        self._accepted.pop(one, None)

    def _count(self, reason: str) -> None:
        self._closed += 1
        self._refused(reason)


def _waits_for(connection: Any) -> object | None:
    """What a connection waits for its client to do; None if that is nothing.

    The answer is another one as soon as the client has done something that counts: sent a whole
    request, or taken in a part of an answer.
    """
    unsent = connection.transport.get_write_buffer_size()
    if unsent or connection.transport.is_closing():
        return "read", unsent
    http = connection.conn  # over a WebSocket anything may come at any time, or nothing
    if isinstance(http, h11.Connection) and http.their_state in (h11.IDLE, h11.SEND_BODY):
        return "send", connection.cycle
    return None


@lru_cache(1024)
def _site(host: str) -> str:
    """The address; of IPv6 the network, since one machine has all addresses of it."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def spare_descriptors(wanted: int) -> int:
    """How many of so many file descriptors can be had, with `RESERVED` left for others.

    The limit of this process is raised where that is needed and allowed.
    """
    try:
        import resource

        others = len(os.listdir("/dev/fd")) + RESERVED
    except (ImportError, OSError):  # Windows, where a socket is no such descriptor
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= others + wanted:
        return wanted
    raised = others + wanted if hard == resource.RLIM_INFINITY else min(others + wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return max(FEWEST_CONNECTIONS, soft - others)
