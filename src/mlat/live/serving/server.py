"""Serving the page: from a host and a port to a server that is ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .access import MAX_BODY, check_token, is_loopback
from .hub import FRAMES_PER_SECOND, Hub
from .routes import Routes, Teach

if TYPE_CHECKING:
    import uvicorn

    from ...classifier import StreamClassifier

MAX_CLIENTS = 32
MAX_CONNECTIONS = 256  # of any kind


class Server:
    """A running server; made by :func:`serve`.

    Attributes
    ----------
    url : str
        Where the page is; without the token.
    port : int
        The port it listens on, also where 0 was asked for.
    """

    def __init__(self, url: str, port: int, runs: uvicorn.Server, tasks: list[Any]) -> None:
        self.url, self.port = url, port
        self._uvicorn, self._tasks = runs, tasks

    async def close(self) -> None:
        """Stop listening and hang up; pages will try to come back."""
        self._uvicorn.should_exit = True
        pump, serving = self._tasks
        await serving
        pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pump


async def serve(
    hub: Hub,
    clf: StreamClassifier,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    *,
    teach: Teach | None = None,
    max_clients: int = MAX_CLIENTS,
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
        loopback the environment's ``MLAT_TOKEN`` is taken where none is given.
    teach : callable, optional
        Called with a state and a number of windows; without it the page has no buttons to teach.
    max_clients : int, default=32
        Pages that may watch at once.
    """
    if token is None and not is_loopback(host):
        token = os.environ.get("MLAT_TOKEN") or None
    check_token(host, token)
    try:
        import starlette  # noqa: F401
        import uvicorn
        import websockets  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"the page needs {error.name}; install it: pip install 'mlat[live]'"
        ) from None

    listening = _listen(host, port)
    port = int(listening.getsockname()[1])
    config = uvicorn.Config(
        Routes(hub, clf, teach, max_clients).app(local=is_loopback(host), token=token, port=port),
        lifespan="off",
        http="h11",
        log_level="error",
        access_log=False,  # it would hold tokens
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=16_384,
        ws="websockets-sansio",
        ws_max_size=MAX_BODY,
        ws_per_message_deflate=False,  # a page on this machine gains nothing by it
        timeout_graceful_shutdown=1,
    )
    runs = uvicorn.Server(config)
    # Signals are for the program that serves, not for its page.
    vars(runs)["capture_signals"] = contextlib.nullcontext
    serving = asyncio.create_task(runs.serve(sockets=[listening]))
    while not runs.started:
        if serving.done():
            serving.result()
            raise InputError(f"the page could not be served on {host}:{port}")
        await asyncio.sleep(0.005)
    pump = asyncio.create_task(_pump(hub))
    named = f"[{host}]" if ":" in host else host
    return Server(f"http://{named}:{port}/", port, runs, [pump, serving])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65_536:
        raise InputError(f"port {port} is none; choose one from 1 to 65535, or 0 for any")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise InputError(f"cannot serve on {host}:{port}: {_said(error)}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
        listening.setblocking(False)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"cannot serve on {host}:{port}: {_said(error)}; choose another port, or 0 for any"
        ) from None
    return listening


def _said(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


async def _pump(hub: Hub) -> None:
    """Have the hub make frames: at once after a pause, and at most so many a second."""
    loop = asyncio.get_running_loop()
    news = asyncio.Event()
    stop = hub.listen(_from_any_thread(loop, news))
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


def _from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    def wake() -> None:
        if event.is_set():
            return  # sets nothing twice: publishing is often
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)

    return wake
