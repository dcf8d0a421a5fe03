"""Serving an application on a host and a port, with the rules that all pages have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...base.errors import InputError, ServiceError, require_package

if TYPE_CHECKING:  # the packages of the extra "live" are imported on use
    import uvicorn

PACKAGES = ("starlette", "uvicorn", "websockets", "prometheus_client")
PING_EVERY = 20.0  # seconds; a page that does not answer in as many is gone


class Server:
    """A running server; made by :func:`start`.

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


def check_packages() -> None:
    """Raise `MissingPackageError` where the packages of a server are not installed."""
    for package in PACKAGES:
        require_package(package, "live", "the page")


def token_for(host: str, token: str | None) -> str | None:
    """The token of a page: the given one, or beyond loopback that of ``MLAT_TOKEN``.

    Raises
    ------
    InputError
        No token where one is needed, or one that is easy to guess.
    MissingPackageError
    """
    check_packages()
    from .access import check_token, is_loopback

    if token is None and not is_loopback(host):
        token = os.environ.get("MLAT_TOKEN") or None
    check_token(host, token)
    return token


async def start(
    app: Any,
    host: str,
    port: int,
    token: str | None,
    *,
    refused: Callable[[str], None],
    say: Callable[[str], None],
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Server:
    """Serve an application; it is ready when this returns.

    Parameters
    ----------
    app : ASGI application
        Every request goes through :class:`~mlat.live.web.access.Guard` first.
    host, port, token
        Beyond loopback a token is needed; the default is the environment's ``MLAT_TOKEN``.
    refused : callable
        Called with the reason of every refusal.
    say : callable
        Called with a line where connections had to be closed.
    beside : callable, optional
        Makes a coroutine that runs for as long as the server does.

    Raises
    ------
    InputError
        No token where one is needed, or a number that is no port.
    ServiceError
        The host or port cannot be used.
    MissingPackageError
    """
    token = token_for(host, token)
    import uvicorn

    from .access import MAX_BODY, Guard, is_loopback
    from .connections import Connections

    listening = _listen(host, port)
    port, local = int(listening.getsockname()[1]), is_loopback(host)
    config = uvicorn.Config(
        Guard(app, local=local, token=token, port=port, refused=refused),
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
    connections = Connections(runs, listening, local=local, refused=refused, say=say)
    others = [asyncio.create_task(connections.run())]
    if beside is not None:
        others.append(asyncio.create_task(beside()))
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
