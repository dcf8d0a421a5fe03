"""Serving the page: from a host and a port to a server that is ready."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .access import MAX_BODY, Guard, check_token, is_loopback
from .hub import FRAMES_PER_SECOND, Hub, encode
from .metrics import CONTENT_TYPE
from .model_view import describe, reference

if TYPE_CHECKING:
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

    from ...classifier.classifier import StreamClassifier
    from .hub import Hub, Subscription


# -------------------------------------------------------------------- page_files
# The files of the page, read once from the installed package; nothing else is ever served.

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file, what it is, and a tag that changes with it."""

    content: bytes
    kind: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """All files of the page by name."""
    found = {}
    for entry in files(__package__).joinpath("static").iterdir():
        ending = entry.name.rpartition(".")[2]
        if entry.is_file() and ending in _KINDS:
            content = entry.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[entry.name] = PageFile(content, _KINDS[ending], tag)
    return found


# -------------------------------------------------------------------- client
# One page's WebSocket: a greeting, then frames out and acknowledgements in.
#
# A page acknowledges every frame once it has taken it in. What it does not, it is not sent more of:
# TCP alone would let minutes of frames wait in buffers before a slow page were noticed.

TOO_BIG, POLICY = 1009, 1008  # closing codes of RFC 6455


async def watch(
    hub: Hub, socket: WebSocket, model: Mapping[str, Any], refused: Callable[[str], None]
) -> None:
    """Keep one page up to date until either side ends it."""
    await socket.accept()
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(ready.set)

    since = socket.query_params.get("since", "")
    subscription = hub.subscribe(
        since=int(since) if since.isdecimal() and len(since) < 16 else None,
        stream=socket.query_params.get("stream"),
        wake=wake,
    )
    hello = {**model, "kind": "hello", "stream": hub.stream, "rate": hub.rate, "now": hub.status()}
    try:
        sending = asyncio.create_task(_send(socket, subscription, ready, encode(hello)))
        receiving = asyncio.create_task(_receive(socket, subscription, refused))
        done, left = await asyncio.wait((sending, receiving), return_when="FIRST_COMPLETED")
        for task in left:
            task.cancel()
        await asyncio.gather(*done, *left, return_exceptions=True)
    finally:
        subscription.close()


async def _send(
    socket: WebSocket, subscription: Subscription, ready: asyncio.Event, hello: bytes
) -> None:
    await socket.send_bytes(hello)
    told = 0
    while True:
        ready.clear()
        frame = subscription.take()
        if frame is None:
            await ready.wait()
            continue
        if subscription.dropped > told:
            told = subscription.dropped
            await socket.send_bytes(encode({"kind": "dropped", "frames": told}))
        await socket.send_bytes(frame)


async def _receive(
    socket: WebSocket, subscription: Subscription, refused: Callable[[str], None]
) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            if message.get("code") == TOO_BIG:
                refused("too long")
            return
        frames = _acknowledged(message.get("text"))
        if frames is None:
            refused("bad message")
            await socket.close(POLICY, "send the number of frames taken in")
            return
        subscription.acknowledge(frames)


def _acknowledged(text: str | None) -> int | None:
    """How many more frames a page has taken in; None if it says anything else."""
    try:
        frames = json.loads(text or "")["ack"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return frames if type(frames) is int and 0 < frames <= 1_000_000 else None


# -------------------------------------------------------------------- routes
# What the server answers: the page's files, frames, references, lessons, health and metrics.

# Labels the last n windows with a state; an InputError that it raises is shown on the page.
Teach = Callable[[Any, int], Awaitable[Any] | Any]

MAX_TAUGHT = 256  # windows at once


class Routes:
    """The application of one hub.

    Parameters
    ----------
    hub : Hub
    clf : fitted StreamClassifier
    teach : callable or None
    max_clients : int
    """

    def __init__(
        self, hub: Hub, clf: StreamClassifier, teach: Teach | None, max_clients: int
    ) -> None:
        self._hub, self._clf, self._teach, self._max_clients = hub, clf, teach, max_clients
        self._model = {**describe(clf), "teach": teach is not None}

    def app(self, *, local: bool, token: str | None, port: int) -> Guard:
        from starlette.applications import Starlette
        from starlette.routing import Route, WebSocketRoute

        routes = [
            Route("/", self.file),
            Route("/page/{name}", self.file),
            Route("/favicon.ico", self.icon),  # asked for by browsers that have no page as yet
            Route("/healthz", self.healthz),
            Route("/metrics", self.metrics),
            Route("/references/{row:int}", self.reference),
            Route("/teach", self.teach, methods=["POST"]),
            WebSocketRoute("/frames", self.frames),
        ]
        app: Any = Starlette(routes=routes, exception_handlers={404: self.missing})
        return Guard(app, local=local, token=token, port=port, refused=self.refused)

    def refused(self, reason: str) -> None:
        self._hub.counts.refused[reason] += 1

    async def missing(self, request: Request, error: Exception) -> Response:
        return self._refuse(404, "no such page", "there is nothing here; the page is at /")

    def _refuse(self, status: int, reason: str, text: str) -> Response:
        from starlette.responses import JSONResponse

        self.refused(reason)
        return JSONResponse({"error": text}, status, {"Cache-Control": "no-store"})

    async def file(self, request: Request) -> Response:
        from starlette.responses import Response

        file = page_files().get(request.path_params.get("name", "index.html"))
        if file is None:
            return self._refuse(404, "no such page", "there is no such file")
        headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers={**headers, "Content-Type": file.kind})

    async def icon(self, request: Request) -> Response:
        from starlette.responses import Response

        file = page_files()["icon.svg"]
        return Response(file.content, headers={"Content-Type": file.kind})

    async def healthz(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        health = {**self._hub.health(), "max_clients": self._max_clients}
        status = 200 if health["ok"] else 503
        return JSONResponse(health, status, {"Cache-Control": "no-store"})

    async def metrics(self, request: Request) -> Response:
        from starlette.responses import Response

        headers = {"Cache-Control": "no-store", "Content-Type": CONTENT_TYPE}
        return Response(self._hub.prometheus(), headers=headers)

    async def reference(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        found = reference(self._clf, self._hub.session, request.path_params["row"])
        if found is None:
            return self._refuse(404, "no such reference", "there is no reference of that row")
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    async def teach(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        if self._teach is None:
            return self._refuse(404, "teach", "teaching is not offered here")
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return self._refuse(415, "bad request", "send JSON: Content-Type: application/json")
        try:
            state, n = self._lesson(json.loads(await request.body()))
            taught = self._teach(state, n)
            if inspect.isawaitable(taught):
                await taught
        except InputError as error:
            return self._refuse(400, "bad request", str(error))
        except ValueError:
            return self._refuse(400, "bad request", "the body is not JSON")
        self._hub.counts.taught += n
        return JSONResponse({"state": state, "n": n})

    def _lesson(self, body: Any) -> tuple[Any, int]:
        if not isinstance(body, dict) or not {"state"} <= set(body) <= {"state", "n"}:
            raise InputError('send {"state": …, "n": …}')
        state, n = body["state"], body.get("n", 1)
        if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_TAUGHT:
            raise InputError(f"n must be a whole number from 1 to {MAX_TAUGHT}")
        if self._clf.classes_.dtype.kind in "iu":
            try:
                return int(str(state)), n
            except ValueError:
                raise InputError("the states of this model are whole numbers") from None
        if not isinstance(state, str) or not state.strip() or len(state) > 100:
            raise InputError("state must be a name of at most 100 letters")
        return state.strip(), n

    async def frames(self, socket: WebSocket) -> None:
        """Hello, then frames as the page acknowledges them, until either side ends it."""
        from starlette.responses import PlainTextResponse

        if self._hub.clients >= self._max_clients:
            self.refused("too many clients")
            text = f"{self._max_clients} pages are watching already; close one\n"
            await socket.send_denial_response(PlainTextResponse(text, 503))
            return
        await watch(self._hub, socket, self._model, self.refused)


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
