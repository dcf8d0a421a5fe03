"""Serving the page: from a host and a port to a server that is ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import InputError, ServiceError, require_package
from .hub import FRAMES_PER_SECOND, Hub

if TYPE_CHECKING:  # the packages of the extra "live" are imported on use
    import uvicorn

    from ...classifier.classifier import StreamClassifier
    from .routes import Teach

PACKAGES = ("starlette", "uvicorn", "websockets", "prometheus_client")
MAX_CLIENTS = 32
PING_EVERY = 20.0  # seconds; a page that does not answer in as many is gone


class Server:
    """A running server; made by :func:`serve`.

    Attributes
    ----------
    url : str
        The page's address, without the token.
    port : int
        The port it listens on, also where 0 was given.
    """

    def __init__(self, url: str, port: int, runs: uvicorn.Server, tasks: list[Any]) -> None:
        self.url, self.port = url, port
        self._uvicorn, self._tasks = runs, tasks

    async def close(self) -> None:
        """Stop listening and close all connections; pages will try to reconnect."""
        self._uvicorn.should_exit = True
        serving, *others = self._tasks
        for task in others:
            task.cancel()
        await serving
        for one in list(self._uvicorn.server_state.connections):  # which do not read
            one.transport.abort()
        await asyncio.gather(*others, return_exceptions=True)


async def serve(
    hub: Hub,
    clf: StreamClassifier,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    *,
    teach: Teach | None = None,
    max_clients: int = MAX_CLIENTS,
    say: Callable[[str], None] = lambda line: None,
) -> Server:
    """Serve the page of a hub; it is ready when this returns.

    Parameters
    ----------
    hub : Hub
    clf : fitted StreamClassifier
    host : str, default="127.0.0.1"
        On any other than loopback a token is needed.
    port : int, default=8765
        0 for any that is free.
    token : str, optional
        What a browser (``/?token=…``) or program (``Authorization: Bearer …``) has to show. Beyond
        loopback the default is the environment's ``MLAT_TOKEN``.
    teach : callable, optional
        Called with a state and a number of windows; without it the page has no buttons to teach.
    max_clients : int, default=32
        Pages that may watch at once.
    say : callable, optional
        Called with a line where connections had to be closed.

    Raises
    ------
    InputError
        No token where one is needed, or a number that is no port.
    ServiceError
        The host or port cannot be used.
    MissingPackageError
    """
    for package in PACKAGES:
        require_package(package, "live", "the page")
    import uvicorn

    from .access import MAX_BODY, check_token, is_loopback
    from .connections import Connections
    from .routes import Routes

    if token is None and not is_loopback(host):
        token = os.environ.get("MLAT_TOKEN") or None
    check_token(host, token)
    listening = _listen(host, port)
    port = int(listening.getsockname()[1])
    routes, local = Routes(hub, clf, teach, max_clients), is_loopback(host)
    config = uvicorn.Config(
        routes.app(local=local, token=token, port=port),
        lifespan="off",
        http="h11",
        log_config=None,  # its messages go where the program's own go
        log_level="error",
        access_log=False,  # it would hold tokens
        server_header=False,
        h11_max_incomplete_event_size=16_384,
        ws="websockets-sansio",
        ws_max_size=MAX_BODY,
        ws_per_message_deflate=False,  # it saves nothing on one machine
        ws_ping_interval=PING_EVERY,
        ws_ping_timeout=PING_EVERY,
        timeout_graceful_shutdown=1,
    )
    runs = uvicorn.Server(config)
    # Signals are for the program that serves, not for its page.
    vars(runs)["capture_signals"] = contextlib.nullcontext
    serving = asyncio.create_task(runs.serve(sockets=[]))
    while not runs.started:
        if serving.done():
            serving.result()
            raise ServiceError(f"the page could not be served on {host}:{port}")
        await asyncio.sleep(0.005)
    connections = Connections(runs, listening, local=local, refused=routes.refused, say=say)
    others = [asyncio.create_task(connections.run()), asyncio.create_task(_pump(hub))]
    url_host = f"[{host}]" if ":" in host else host
    return Server(f"http://{url_host}:{port}/", port, runs, [serving, *others])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65_536:
        raise InputError(f"port {port} is none; choose one from 1 to 65535, or 0 for any")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise ServiceError(f"cannot serve on {host}:{port}: {_reason(error)}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(256)
        listening.setblocking(False)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ServiceError(
            f"cannot serve on {host}:{port}: {_reason(error)}; choose another port, or 0 for any"
        ) from None
    return listening


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


async def _pump(hub: Hub) -> None:
    """Make the hub emit frames: at once after a pause, and at most `FRAMES_PER_SECOND`."""
    loop = asyncio.get_running_loop()
    news = asyncio.Event()
    stop = hub.listen(_setter(loop, news))
    news.set()  # something may have come before anyone listened
    period = 1 / FRAMES_PER_SECOND
    try:
        while True:
            await news.wait()
            news.clear()
            if hub.emit():
                await asyncio.sleep(period)
    finally:
        stop()


def _setter(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    """A function that sets an event of a loop, from any thread."""

    def wake() -> None:
        if event.is_set():  # publishing is frequent: do not wake the loop twice
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)

    return wake
