"""Who may send which request to the server. Everything is checked here, before any route.

On loopback no token is needed, because whoever can connect is on this machine. But a browser there
also runs pages of other sites. So the ``Host`` header must name loopback (another name that is made
to point here is refused: DNS rebinding), and a request that a page makes must come from a page of
this server (``Origin``). On other addresses a token is required.

Starlette's ``TrustedHostMiddleware`` would not replace the host check: it compares with a list of
names, which cannot say "any loopback address" (127.0.0.0/8), older versions cannot read ``[::1]``,
and its refusals are neither counted nor sent with the headers below.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...base.errors import InputError

MAX_BODY = 4096  # bytes; also of a message through the WebSocket
SHORTEST_TOKEN = 8
NO_STORE = {"Cache-Control": "no-store"}

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# After the token was given in the address, a page of this server sends the browser on. A redirect
# would still count as a link from another site, with which a strict cookie is not sent.
_ENTER = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content='0;url=/'>"
    "<title>mlat</title><p><a href='/'>Go on to the page</a>"
)


def is_loopback(host: str) -> bool:
    """Whether a host, as it is written, can be reached from this machine only."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str | None) -> None:
    """Refuse to serve a stream to a network without a token, or with one that is easy to guess."""
    if token is None and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines, so the page needs a token: give token or "
            "MLAT_TOKEN, or serve on 127.0.0.1"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"the token has {len(token)} letters and needs at least {SHORTEST_TOKEN}; make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


class Guard:
    """ASGI middleware that refuses requests of other sites, without a token, or too long.

    Parameters
    ----------
    app : ASGI application
    local : bool
        Whether the server listens on loopback.
    token : str or None
    port : int
        Part of the cookie's name, because browsers share cookies between all ports of a host.
    refused : callable
        Called with the reason of every refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        local: bool,
        token: str | None,
        port: int,
        refused: Callable[[str], None],
    ) -> None:
        self._app, self._local, self._refused = app, local, refused
        self._token = None if token is None else token.encode()
        self._cookie_name = f"mlat-{port}"
        # The cookie is not the token itself: whoever reads it cannot use it elsewhere.
        self._cookie = (
            "" if token is None else hmac.digest(token.encode(), b"mlat live page", "sha256").hex()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        send = _with_headers(send)
        request = HTTPConnection(scope)
        wrong_site = self._wrong_site(scope, request.headers)
        if wrong_site:
            await self._refuse(scope, receive, send, 403, *wrong_site)
            return
        if self._token is not None and not self._is_known(request):
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if (
                scope["type"] == "http"
                and scope["path"] == "/"
                and self._is_token(given.encode("utf-8", "replace"))
            ):
                cookie = f"{self._cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
                enter = HTMLResponse(_ENTER, headers={**NO_STORE, "Set-Cookie": cookie})
                await enter(scope, receive, send)
            else:
                text = "a token is needed: open /?token=…, or send Authorization: Bearer …"
                await self._refuse(scope, receive, send, 401, "token", text)
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            try:
                body = await _read_body(request.headers, receive)
            except ClientDisconnect:  # whoever sent half a request gets no answer
                return
            if body is None:
                text = f"the body is longer than {MAX_BODY} bytes"
                await self._refuse(scope, receive, send, 413, "too long", text)
                return
            receive = _replay(body)
        await self._app(scope, receive, send)

    def _wrong_site(self, scope: Scope, headers: Headers) -> tuple[str, str] | None:
        """The reason to refuse a request for its host or origin, short and in full."""
        host = headers.get("host", "")
        if self._local and not is_loopback(_host_name(host)):
            return "host", f"this server is on loopback and does not answer for {host[:80]!r}"
        origin = headers.get("origin")
        if origin is not None and _site_of(origin) != host.lower():
            return "origin", f"a page of {origin[:80]!r} may not ask this server"
        # A browser that sends no Origin with a POST still says which site the page is from.
        site = headers.get("sec-fetch-site", "none")
        reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not reads and origin is None and site not in ("none", "same-origin"):
            return "origin", "a page of another site may not ask this server"
        return None

    def _is_known(self, request: HTTPConnection) -> bool:
        """Whether a request has the token, or the cookie that stands for it."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Headers are Latin-1 to the server; a client sends a token's letters as UTF-8.
        if scheme.lower() == "bearer" and self._is_token(given.strip().encode("latin-1")):
            return True
        cookie = request.cookies.get(self._cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._cookie.encode())

    def _is_token(self, given: bytes) -> bool:
        # Both are hashed first, so that the time it takes does not even reveal the length.
        ours = hashlib.sha256(self._token or b"").digest()
        return hmac.compare_digest(hashlib.sha256(given).digest(), ours)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, reason: str, text: str
    ) -> None:
        """Answer with a status and one line, and count it."""
        self._refused(reason)
        if scope["type"] == "websocket":
            await receive()  # the handshake, which must be received before it is answered
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": 1008})
                return
        headers = {**NO_STORE, "WWW-Authenticate": "Bearer"} if status == 401 else NO_STORE
        await PlainTextResponse(text + "\n", status, headers)(scope, receive, send)


def _site_of(origin: str) -> str | None:
    """The host and port of an ``Origin`` header; None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as "http://["
        return None


def _host_name(host: str) -> str:
    """The name in a ``Host`` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


async def _read_body(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body; None if it is too long. `ClientDisconnect` if the rest does not come."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 10 or int(length) > MAX_BODY:
        return None
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            return None
    return body


def _replay(body: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"].endswith("http.response.start"):  # of a refused WebSocket, too
            own = message.get("headers", ())
            if message["type"].startswith("websocket"):
                # uvicorn gives it; before 0.53 it was there twice then, which clients refuse.
                own = [header for header in own if header[0].lower() != b"content-length"]
            message["headers"] = [*own, *HEADERS]
        await send(message)

    return sending
