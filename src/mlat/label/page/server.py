"""Serving the labelling page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...live.web.server import Server, check_packages, start
from ..learner import Learner
from ..session import LabelSession


class LabelServer:
    """A running server of a labelling session; made by :func:`serve`.

    Attributes
    ----------
    url : str
    port : int
    learner : Learner
    """

    def __init__(self, server: Server, learner: Learner) -> None:
        self.url, self.port, self.learner = server.url, server.port, learner
        self._server = server

    async def close(self) -> None:
        await self._server.close()
        self.learner.close()


async def serve(
    session: LabelSession,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> LabelServer:
    """Serve the page of a session; it is ready when this returns.

    Parameters
    ----------
    session : LabelSession
    host, port, token
        As for the live page: beyond loopback a token is needed.
    say : callable, optional
        Called with a line where connections had to be closed.
    **options
        See :class:`~mlat.label.page.routes.LabelRoutes`.

    Raises
    ------
    InputError, ServiceError, MissingPackageError
    """
    check_packages()
    from .routes import LabelRoutes

    routes = LabelRoutes(session, **options)
    server = await start(routes.app(), host, port, token, refused=routes.refused, say=say)
    routes.learner.start()
    return LabelServer(server, routes.learner)
