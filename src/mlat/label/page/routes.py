"""What the labelling page asks for, and what it is told.

Pieces of the signal, spans, proposals and the media file are read by HTTP. Everything a person does
goes through one WebSocket, whose answers and news come in one order: a page that has taken in the
news of an edit shows what every other page shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ...base.checks import is_real
from ...base.disk import next_free, stamp
from ...base.errors import InputError, MlatError
from ...live.web.access import NO_STORE
from ...live.web.page_files import file_routes
from ...stream.stream import Stream
from ...stream.write import write_stream
from ..learner import Learner
from ..session import Change, LabelSession
from ..span_list import Stretch, check_state_name

MOST_PAGES = 32
MOST_WAITING = 1000  # messages for a page that does not take them in
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


class LabelRoutes:
    """The application of one labelling session.

    Parameters
    ----------
    session : LabelSession
    width : int, optional
        Steps per window of what is learned; default those of a second, as far as runs allow.
    model : path, optional
        A model that proposes from the beginning.
    model_out : path
        Where a model is saved; a number is added where a file is there already.
    media : path, optional
        A video or audio file that was recorded beside the recordings.
    offset : float
        The second of the recording at which the media file begins.
    """

    def __init__(
        self,
        session: LabelSession,
        *,
        model_out: Path,
        width: int | None = None,
        model: Path | None = None,
        media: Path | None = None,
        offset: float = 0.0,
    ) -> None:
        self._session, self._media, self._offset = session, media, offset
        self._model_out = model_out
        self._name = secrets.token_hex(8)  # a page that meets another one starts again
        self._described: list[dict[str, Any]] | None = None
        self._pages: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.refusals: dict[str, int] = {}
        self._saved: list[str] = []
        self._exported: dict[Path, tuple[int, ...] | None] = {}
        self._exporting = threading.Lock()
        self._slow = ThreadPoolExecutor(4, "mlat-label-slow")
        session.listen(self._tell_change)
        # Its listener comes after: pages know of an edit before they are told of proposals.
        self.learner = Learner(session, width, self.changed, model)

    def app(self) -> Starlette:
        routes = [
            *file_routes(__package__),
            Route("/signal/{digest}/{level:int}/{number:int}", self.signal),
            Route("/spans/{recording:int}", self.spans),
            Route("/proposals/{recording:int}", self.proposals),
            Route("/map", self.map),
            Route("/media", self.media),
            WebSocketRoute("/news", self.news),
        ]
        return Starlette(routes=routes, exception_handlers={404: self.missing})

    def refused(self, reason: str) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    # --- what is read

    async def missing(self, request: Request, error: Exception) -> Response:
        self.refused("no such page")
        return JSONResponse({"error": "there is nothing here; the page is at /"}, 404, NO_STORE)

    async def signal(self, request: Request) -> Response:
        at = request.path_params
        found = [one for one in self._session.recordings if one.digest == at["digest"]]
        level, number = at["level"], at["number"]
        if not found or level >= len(found[0].envelopes.blocks):
            raise HTTPException(404)
        shape = found[0].envelopes
        if number >= shape.n_pieces(level):
            raise HTTPException(404)
        content = shape.piece(level, number).tobytes()
        return Response(content, headers=FOREVER, media_type="application/octet-stream")

    async def spans(self, request: Request) -> Response:
        recording, session = request.path_params["recording"], self._session
        if recording >= len(session.lists):
            raise HTTPException(404)
        with session.lock:
            told = {"version": session.version, "spans": [*session.lists[recording]]}
        return JSONResponse(told, headers=NO_STORE)

    async def proposals(self, request: Request) -> Response:
        recording = request.path_params["recording"]
        if recording >= len(self._session.lists):
            raise HTTPException(404)
        version, found = self.learner.proposed(recording)
        told = [
            [start, end, state, round(confidence, 3)] for start, end, state, confidence in found
        ]
        return JSONResponse({"version": version, "proposals": told}, headers=NO_STORE)

    async def map(self, request: Request) -> Response:
        return JSONResponse(self.learner.map, headers=NO_STORE)

    async def media(self, request: Request) -> Response:
        if self._media is None:
            raise HTTPException(404)
        kind = mimetypes.guess_type(self._media.name)[0] or "application/octet-stream"
        return FileResponse(self._media, media_type=kind, headers=NO_STORE)  # with ranges

    # --- news

    async def news(self, socket: WebSocket) -> None:
        """Hello, then news and answers, until either side ends it."""
        if len(self._pages) >= MOST_PAGES:
            self.refused("too many pages")
            await socket.send_denial_response(
                JSONResponse({"error": f"{MOST_PAGES} pages are open already; close one"}, 503)
            )
            return
        await socket.accept()
        self._loop = asyncio.get_running_loop()
        if self._described is None:  # envelopes of a long recording take a moment
            self._described = await asyncio.to_thread(
                lambda: [one.describe() for one in self._session.recordings]
            )
        queue: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        with self._session.lock:  # no edit between the hello and the first news
            self._pages.add(queue)
            queue.put_nowait(json.dumps(self._hello()))
        sending = asyncio.create_task(_send(socket, queue))
        try:
            while True:
                text = await socket.receive_text()
                await self._take(text, queue)
        except (WebSocketDisconnect, KeyError):  # gone, or bytes where text belongs
            pass
        finally:
            self._pages.discard(queue)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def _hello(self) -> dict[str, Any]:
        media = None
        if self._media is not None:
            kind = mimetypes.guess_type(self._media.name)[0] or ""
            is_video = kind.startswith("video")
            media = {"name": self._media.name, "video": is_video, "offset": self._offset}
        return {
            "kind": "hello",
            "session": self._name,
            "recordings": self._described,
            "states": self._session.states,
            "labels": str(self._session.table.name),
            "notes": self._session.notes,
            "media": media,
            "width": self.learner.width,
            "model": None if self.learner.model is None else self.learner.model.name,
            "proposals": self.learner.version,
            **self._now(),
            **self._learning(),
        }

    def _now(self) -> dict[str, Any]:
        session = self._session
        return {
            "version": session.version,
            "undo": session.can_undo,
            "redo": session.can_redo,
        }

    def _learning(self) -> dict[str, Any]:
        progress = self.learner.progress
        return {
            "doing": progress.doing,
            "fraction": progress.fraction,
            "error": progress.error,
            "current": self.learner.is_current,
            "saved": self._saved,
        }

    def _tell_change(self, change: Change) -> None:
        changes = [
            {"recording": one.recording, "start": one.start, "end": one.end, "after": one.after}
            for one in change
        ]
        used = {piece.state for one in change for piece in one.after}
        told = {"kind": "edit", "changes": changes, "used": sorted(used), **self._now()}
        self._tell(told)

    def changed(self, what: str) -> None:
        """Tell all pages of something that the learner did; from any thread."""
        if what == "proposals":
            self._tell({"kind": "proposals", "version": self.learner.version})
        elif what == "learning":
            self._tell({"kind": "learning", **self._learning()})
        elif what == "map":
            self._tell({"kind": "map", "version": self.learner.map["version"]})
        elif what == "comparison":
            self._tell({"kind": "comparison", "comparison": self.learner.comparison})

    def _tell(self, message: dict[str, Any]) -> None:
        loop, text = self._loop, json.dumps(message)
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._tell_all, text)

    def _tell_all(self, text: str) -> None:
        for queue in [*self._pages]:
            _put(queue, text)

    # --- what a person does

    async def _take(self, text: str, queue: asyncio.Queue[str | None]) -> None:
        """Do what a page asks for, and answer it."""
        try:
            asked = json.loads(text)
            number, do = asked.pop("id"), asked.pop("do")
            act = self._acts().get(do)
            if act is None:
                raise InputError(f"nothing is called {str(do)[:40]!r} here")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            self.refused("bad message")
            said = str(error) if isinstance(error, InputError) else "send {id, do, …}"
            _put(queue, json.dumps({"kind": "answer", "id": None, "error": said}))
            return

        may_take_long = do in ("save", "export", "next")
        pool = self._slow if may_take_long else None  # edits must not wait for their threads, too

        async def answer() -> None:
            try:
                told = await asyncio.get_running_loop().run_in_executor(pool, act, asked)
            except MlatError as error:
                told = {"error": str(error)}
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                self.refused("bad message")
                told = {"error": f"that request lacks something: {error}"}
            trouble = self._session.table_error
            _put(queue, json.dumps({"kind": "answer", "id": number, "trouble": trouble, **told}))

        if may_take_long:
            task = asyncio.create_task(answer())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            await answer()

    def _acts(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        session = self._session

        def edit(method: Callable[..., int], *names: str) -> Callable[[dict[str, Any]], Any]:
            return lambda asked: {"version": method(*(asked[name] for name in names))}

        def run(method: Callable[[], Any]) -> Callable[[dict[str, Any]], Any]:
            return lambda asked: method() or {}

        return {
            "label": edit(session.label, "recording", "start", "end", "state"),
            "clear": edit(session.clear, "recording", "start", "end"),
            "split": edit(session.split, "recording", "at"),
            "join": edit(session.join, "recording", "start", "end"),
            "move": edit(session.move, "recording", "edge", "to"),
            "rename": edit(session.rename, "state", "to"),
            "undo": edit(session.undo),
            "redo": edit(session.redo),
            "label many": self._label_many,
            "map": run(self.learner.make_map),
            "take": self._take_stretch,
            "take all": self._take_all,
            "next": run(self.learner.next_span),
            "view": self._view,
            "save": self._save,
            "export": self._export,
            "compare": run(self.learner.compare),
        }

    def _label_many(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Give the unlabelled steps of some windows of the map a state.

        As of proposals nothing is judged by them: they were chosen by what a model makes of them.
        """
        known, state = self.learner.map, check_state_name(asked["state"])
        if asked["version"] != known["version"]:
            raise InputError("the map was made anew since; look at it, then choose again")
        chosen = [one for a, b in asked["places"] for one in known["points"][a:b]]
        pieces: dict[int, list[Stretch]] = {}
        for recording, start, end, *_ in sorted(chosen):
            some = pieces.setdefault(recording, [])
            if some and start <= some[-1].end:
                some[-1] = some[-1]._replace(end=max(end, some[-1].end))
            else:
                some.append(Stretch(start, end, state))
        return {"version": self._session.fill(pieces, proposed=True)}

    def _take_stretch(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Take what a page has shown of a stretch."""
        recording, start, end = asked["recording"], asked["start"], asked["end"]
        found = [
            Stretch(max(one.start, start), min(one.end, end), one.state)
            for r, shown in enumerate(self.learner.shown(asked["version"]))
            for one in shown
            if r == recording and one.start < end and one.end > start
        ]
        if not found:
            raise InputError("there is no proposal here")
        return self._fill({recording: found})

    def _take_all(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Take all that a page has shown, and all of other recordings, of such confidence."""
        confidence = asked["confidence"]
        if not is_real(confidence) or not 0 <= confidence <= 1:
            raise InputError("confidence is a number from 0 to 1")
        shown = self.learner.shown(asked["version"])
        return self._fill(
            {
                r: [Stretch(*one[:3]) for one in found if one.confidence >= confidence]
                for r, found in enumerate(shown)
            }
        )

    def _fill(self, pieces: dict[int, list[Stretch]]) -> dict[str, Any]:
        """Take proposals over the steps that have no label, and say of how many there were any."""
        session = self._session
        with session.lock:
            taken = sum(
                bool(session.lists[r].empty(piece.start, piece.end))
                for r, some in pieces.items()
                for piece in some
            )
            return {"version": session.fill(pieces, proposed=True), "taken": taken}

    def _view(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.learner.view = int(asked["recording"]), int(asked["step"])
        return {}

    def _save(self, asked: dict[str, Any]) -> dict[str, Any]:
        path = self.learner.save(self._model_out)
        self._saved.append(path.name)
        self.changed("learning")
        return {"file": str(path)}

    def _export(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Write the recordings with their labels as a stream that can be learned from."""
        session = self._session
        stem = session.table.name.removesuffix("".join(session.table.suffixes[-1:]))
        path = session.table.with_name(f"{stem.removesuffix('.labels')}.labelled.parquet")
        parts = [session.labelled(r) for r in range(len(session.recordings))]
        stream = parts[0] if len(parts) == 1 else Stream.join(parts)
        with self._exporting:
            ours = [file for file, then in self._exported.items() if stamp(file) == then]
            path = ours[0] if ours else next_free(path)  # the recording may have this name
            write_stream(path, stream)
            self._exported = {path: stamp(path)}
        return {"file": str(path)}


def _put(queue: asyncio.Queue[str | None], text: str) -> None:
    try:
        queue.put_nowait(text)
    except asyncio.QueueFull:  # it is told anew when it connects again
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


async def _send(socket: WebSocket, queue: asyncio.Queue[str | None]) -> None:
    while True:
        text = await queue.get()
        if text is None:
            await socket.close(1013, "too slow; connect again")
            return
        await socket.send_text(text)
