"""What the server answers: the page's files, frames, references, examples, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
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
from ..web.page_files import answer_file, answer_icon, page_files
from .hub import Hub, Subscription, encode_page_frame, json_state
from .metrics import CONTENT_TYPE
from .model_view import describe, reference

# Labels the last n windows with a state; an InputError that it raises is shown on the page.
Teach = Callable[[Any, int], Awaitable[Any] | Any]
# As above, of the windows inside some steps; and what takes the last example back. Both return the
# state and how many windows it was about.
TeachSpan = Callable[[Any, int, int], Awaitable[tuple[Any, int]] | tuple[Any, int]]
Undo = Callable[[], Awaitable[tuple[Any, int]] | tuple[Any, int]]
Save = Callable[[], Awaitable[str] | str]  # writes a new model file, and returns its name

MAX_TAUGHT = 256  # windows at once
TOO_BIG, POLICY = 1009, 1008  # closing codes of RFC 6455


class PageActions(NamedTuple):
    """What a page may do to the session; None of each that is not offered."""

    teach: Teach | None = None
    teach_span: TeachSpan | None = None
    undo: Undo | None = None
    save: Save | None = None


class Routes:
    """The application of one hub.

    Parameters
    ----------
    hub : Hub
    clf : fitted StreamClassifier
    teaching : PageActions
    max_clients : int
    """

    def __init__(
        self, hub: Hub, clf: StreamClassifier, teaching: PageActions, max_clients: int
    ) -> None:
        self._hub, self._clf, self._teaching, self._max_clients = hub, clf, teaching, max_clients
        offered = {name: given is not None for name, given in teaching._asdict().items()}
        self._model = {**describe(clf), **offered}

    def app(self) -> Starlette:
        routes = [
            Route("/", self.file),
            Route("/page/{name}", self.file),
            Route("/favicon.ico", self.icon),  # which browsers request before they have the page
            Route("/healthz", self.healthz),
            Route("/metrics", self.metrics),
            Route("/references/{row}", self.reference),
            Route("/teach", self.teach, methods=["POST"]),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/save", self.save, methods=["POST"]),
            WebSocketRoute("/frames", self.frames),
        ]
        return Starlette(routes=routes, exception_handlers={404: self.missing})

    def refused(self, reason: str) -> None:
        self._hub.counts.refused[reason] += 1

    def _refuse(self, status: int, reason: str, text: str) -> Response:
        self.refused(reason)
        return JSONResponse({"error": text}, status, NO_STORE)

    async def missing(self, request: Request, error: Exception) -> Response:
        return self._refuse(404, "no such page", "there is nothing here; the page is at /")

    async def file(self, request: Request) -> Response:
        answer = answer_file(page_files(__package__), request)
        return answer or self._refuse(404, "no such page", "there is no such file")

    async def icon(self, request: Request) -> Response:
        return answer_icon()

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
            return self._refuse(404, "no such reference", "there is no reference of that row")
        return JSONResponse(found, headers=NO_STORE)

    async def teach(self, request: Request) -> Response:
        async def given(body: Any) -> dict[str, Any]:
            state, about = self._example(body)
            if "n" in about:
                assert self._teaching.teach is not None
                n = about["n"]
                await _awaited(self._teaching.teach(state, n))
            else:
                if self._teaching.teach_span is None:
                    raise InputError("spans cannot be taught here; teach the last n windows")
                taught = self._teaching.teach_span(state, about["begin"], about["end"])
                _, n = await _awaited(taught)
            self._hub.counts.taught += n
            return {"state": state, "n": n}

        return await self._change(request, self._teaching.teach, given)

    async def undo(self, request: Request) -> Response:
        async def given(body: Any) -> dict[str, Any]:
            _check_empty(body)
            assert self._teaching.undo is not None
            state, n = await _awaited(self._teaching.undo())
            return {"state": json_state(state), "n": n}

        return await self._change(request, self._teaching.undo, given)

    async def save(self, request: Request) -> Response:
        async def given(body: Any) -> dict[str, Any]:
            _check_empty(body)
            assert self._teaching.save is not None
            return {"file": await _awaited(self._teaching.save())}

        return await self._change(request, self._teaching.save, given)

    async def _change(
        self,
        request: Request,
        offered: Callable[..., Any] | None,
        given: Callable[[Any], Awaitable[dict[str, Any]]],
    ) -> Response:
        """Answer a request that changes something, with what ``given`` makes of its JSON."""
        what = request.url.path.removeprefix("/")
        if offered is None:
            return self._refuse(404, what, "teaching is not offered here")
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return self._refuse(415, "bad request", "send JSON: Content-Type: application/json")
        try:
            answer = await given(json.loads(await request.body()))
        except InputError as error:
            return self._refuse(400, "bad request", str(error))
        except MlatError as error:  # such as a full disk: the session ends, and the page says why
            return self._refuse(503, what, str(error))
        except (ValueError, RecursionError):
            return self._refuse(400, "bad request", "the body is not JSON")
        return JSONResponse(answer)

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
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ready.set)

        hub = self._hub
        since = socket.query_params.get("since", "")
        subscription = hub.subscribe(
            since=int(since) if since.isdecimal() and len(since) < 16 else None,
            stream=socket.query_params.get("stream"),
            wake=wake,
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


def _check_empty(body: Any) -> None:
    if body != {}:
        raise InputError("send {}")


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
