"""Serving the page of a hub: from a host and a port to a server that is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..web.server import Server, check_packages, start
from .hub import FRAMES_PER_SECOND, Hub, setter

if TYPE_CHECKING:  # the packages of the extra "live" are imported on use
    from ...classifier.classifier import StreamClassifier
    from .routes import Action

MAX_CLIENTS = 32


async def serve(
    hub: Hub,
    clf: StreamClassifier,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    *,
    max_clients: int = MAX_CLIENTS,
    say: Callable[[str], None] = lambda line: None,
    **actions: Action,
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
    max_clients : int, default=32
        Pages that may watch at once.
    say : callable, optional
        Called with a line where connections had to be closed.
    **actions : callable
        What the page has buttons for: "teach", "teach_span", "undo" and "save"; see `PageActions`.

    Raises
    ------
    InputError
        No token where one is needed, or a number that is no port.
    ServiceError
        The host or port cannot be used.
    MissingPackageError
    """
    check_packages()
    from .routes import PageActions, Routes

    routes = Routes(hub, clf, PageActions(**actions), max_clients)
    return await start(
        routes.app(),
        host,
        port,
        token,
        refused=routes.refused,
        say=say,
        beside=lambda: _pump(hub),
    )


async def _pump(hub: Hub) -> None:
    """Make the hub emit frames: at once after a pause, and at most `FRAMES_PER_SECOND`."""
    news = asyncio.Event()
    stop = hub.listen(setter(news))
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
