"""What the server answers: the page's files, frames, references, lessons, health and metrics."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .access import Guard
from .client import watch
from .hub import Hub
from .metrics import CONTENT_TYPE
from .model_view import describe, reference
from .page_files import page_files

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

    from ...classifier import StreamClassifier

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
