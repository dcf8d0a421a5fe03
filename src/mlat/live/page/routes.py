"""What the server answers: the page's files, frames, references, examples, health and metrics."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from ...base.checks import check_text
from ...base.errors import InputError, MlatError
from ...classifier.classifier import StreamClassifier
from ..web.access import NO_STORE
from ..web.page_files import file_routes
from .hub import Hub, Subscription, encode_page_frame, json_state, setter
from .metrics import CONTENT_TYPE
from .model_view import describe, reference

Action = Callable[..., Any]
MAX_TAUGHT = 256  # windows at once
TOO_BIG, POLICY = 1009, 1008  # closing codes of RFC 6455


class PageActions(NamedTuple):
    """What a page may do to the session; None of each that is not offered.

    Each may be a coroutine; an `InputError` that it raises is shown on the page.

    Attributes
    ----------
    teach : callable(state, n)
        Labels the last n windows with a state.
    teach_span : callable(state, begin, end)
        Those inside some steps. This and the next return the state and a number of windows.
    undo : callable()
        Takes the last example back.
    save : callable()
        Writes what was taught into a new model file, and returns the file's name.
    """

    teach: Action | None = None
    teach_span: Action | None = None
    undo: Action | None = None
    save: Action | None = None


class RefusedError(Exception):
    """A request that is refused: the status, the reason by which it is counted, and the text."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status, self.reason = status, reason


class Routes:
    """The application of one hub.

    Parameters
    ----------
    hub : Hub
    clf : fitted StreamClassifier
    actions : PageActions
    max_clients : int
    """

    def __init__(
        self, hub: Hub, clf: StreamClassifier, actions: PageActions, max_clients: int
    ) -> None:
        self._hub, self._clf, self._actions, self._max_clients = hub, clf, actions, max_clients
        offered = {name: given is not None for name, given in actions._asdict().items()}
        self._model = {**describe(clf), **offered}

    def app(self) -> Starlette:
        routes = [
            *file_routes(__package__),
            Route("/healthz", self.healthz),
            Route("/metrics", self.metrics),
            Route("/references/{row}", self.reference),
            Route("/teach", self.teach, methods=["POST"]),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/save", self.save, methods=["POST"]),
            WebSocketRoute("/frames", self.frames),
        ]
        handlers = {
            404: self.missing,
            InputError: self.bad_request,
            MlatError: self.trouble,
            RefusedError: self.refusal,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    def refused(self, reason: str) -> None:
        self._hub.counts.refused[reason] += 1

    async def refusal(self, request: Request, error: RefusedError) -> Response:
        self.refused(error.reason)
        return JSONResponse({"error": str(error)}, error.status, NO_STORE)

    async def missing(self, request: Request, error: Exception) -> Response:
        text = "there is nothing here; the page is at /"
        return await self.refusal(request, RefusedError(404, "no such page", text))

    async def bad_request(self, request: Request, error: InputError) -> Response:
        return await self.refusal(request, RefusedError(400, "bad request", str(error)))

    async def trouble(self, request: Request, error: MlatError) -> Response:
        """Such as a full disk: the session ends, and the page says why."""
        return await self.refusal(request, RefusedError(503, _what(request), str(error)))

    async def healthz(self, request: Request) -> Response:
        health = {**self._hub.health(), "max_clients": self._max_clients}
        return JSONResponse(health, 200 if health["ok"] else 503, NO_STORE)

    async def metrics(self, request: Request) -> Response:
        return Response(self._hub.prometheus(), headers={**NO_STORE, "Content-Type": CONTENT_TYPE})

    async def reference(self, request: Request) -> Response:
        row = request.path_params["row"]
        is_row = row.isascii() and row.isdecimal() and len(row) < 16  # longer ones are no rows
        found = reference(self._clf, self._hub.session, int(row)) if is_row else None
        if found is None:
            raise RefusedError(404, "no such reference", "there is no reference of that row")
        return JSONResponse(found, headers=NO_STORE)

    async def teach(self, request: Request) -> Response:
        teach, body = await self._asked(request, self._actions.teach)
        state, about = self._example(body)
        if "n" in about:
            n = about["n"]
            await _awaited(teach(state, n))
        elif self._actions.teach_span is None:
            raise InputError("spans cannot be taught here; teach the last n windows")
        else:
            given = self._actions.teach_span(state, about["begin"], about["end"])
            _, n = await _awaited(given)
        self._hub.counts.taught += n
        return JSONResponse({"state": state, "n": n})

    async def undo(self, request: Request) -> Response:
        undo, _ = await self._asked(request, self._actions.undo, {})
        state, n = await _awaited(undo())
        return JSONResponse({"state": json_state(state), "n": n})

    async def save(self, request: Request) -> Response:
        save, _ = await self._asked(request, self._actions.save, {})
        return JSONResponse({"file": await _awaited(save())})

    async def _asked(
        self, request: Request, action: Action | None, expected: Any = None
    ) -> tuple[Action, Any]:
        """What does what a request asks for, and its JSON, which is ``expected`` if that is given.

        Raises
        ------
        RefusedError, InputError
        """
        if action is None:
            raise RefusedError(404, _what(request), "teaching is not offered here")
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise RefusedError(415, "bad request", "send JSON: Content-Type: application/json")
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise InputError("the body is not JSON") from None
        if expected not in (None, body):
            raise InputError(f"send {expected}")
        return action, body

    def _example(self, body: Any) -> tuple[Any, dict[str, int]]:
        """The state of a request to teach, and the number of windows or the steps of a span."""
        fields = set(body) if isinstance(body, dict) else set()
        if fields == {"state", "begin", "end"}:
            about = {name: body[name] for name in ("begin", "end")}
            if not all(type(step) is int and 0 <= step < 1 << 53 for step in about.values()):
                raise InputError("begin and end must be numbers of steps")
        elif {"state"} <= fields <= {"state", "n"}:
            about = {"n": body.get("n", 1)}
            if type(about["n"]) is not int or not 1 <= about["n"] <= MAX_TAUGHT:
                raise InputError(f"n must be a whole number from 1 to {MAX_TAUGHT}")
        else:
            raise InputError('send {"state": …, "n": …} or {"state": …, "begin": …, "end": …}')
        return self._state(body["state"]), about

    def _state(self, state: Any) -> Any:
        if self._clf.classes_.dtype.kind in "iu":
            try:
                return int(str(state))
            except ValueError:
                raise InputError("the states of this model are whole numbers") from None
        if not isinstance(state, str) or not state.strip() or len(state) > 100:
            raise InputError("state must be a name of at most 100 letters")
        return check_text(state.strip(), "the state")

    async def frames(self, socket: WebSocket) -> None:
        """Hello, then frames as the page acknowledges them, until either side ends it.

        A page acknowledges every frame after it has processed it. While too many are not
        acknowledged it is sent no more: TCP alone would let minutes of frames wait in buffers
        before a slow page is noticed.
        """
        if self._hub.clients >= self._max_clients:
            self.refused("too many clients")
            text = f"{self._max_clients} pages are watching already; close one\n"
            await socket.send_denial_response(PlainTextResponse(text, 503))
            return
        await socket.accept()
        hub, ready = self._hub, asyncio.Event()
        since = socket.query_params.get("since", "")
        subscription = hub.subscribe(
            since=int(since) if since.isdecimal() and len(since) < 16 else None,
            stream=socket.query_params.get("stream"),
            wake=setter(ready),
        )
        hello = {"kind": "hello", "stream": hub.stream, "rate": hub.rate, "now": hub.status()}
        try:
            hello_frame = encode_page_frame({**self._model, **hello})
            sending = asyncio.create_task(_send(socket, subscription, ready, hello_frame))
            receiving = asyncio.create_task(self._receive(socket, subscription))
            done, left = await asyncio.wait((sending, receiving), return_when="FIRST_COMPLETED")
            for task in left:
                task.cancel()
            await asyncio.gather(*done, *left, return_exceptions=True)
        finally:
            subscription.close()

    async def _receive(self, socket: WebSocket, subscription: Subscription) -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                if message.get("code") == TOO_BIG:
                    self.refused("too long")
                return
            frames = _acknowledged(message.get("text"))
            if frames is None:
                self.refused("bad message")
                await socket.close(POLICY, "send the number of frames taken in")
                return
            subscription.acknowledge(frames)


async def _awaited(value: Awaitable[Any] | Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _what(request: Request) -> str:
    return request.url.path.removeprefix("/")


async def _send(
    socket: WebSocket, subscription: Subscription, ready: asyncio.Event, hello: bytes
) -> None:
    await socket.send_bytes(hello)
    reported = 0
    while True:
        ready.clear()
        frame = subscription.take()
        if frame is None:
            await ready.wait()
            continue
        if subscription.dropped > reported:
            reported = subscription.dropped
            await socket.send_bytes(encode_page_frame({"kind": "dropped", "frames": reported}))
        await socket.send_bytes(frame)


def _acknowledged(text: str | None) -> int | None:
    """How many more frames a page has processed; None if the message is anything else."""
    try:
        frames = json.loads(text or "")["ack"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return frames if type(frames) is int and 0 < frames <= 1_000_000 else None
