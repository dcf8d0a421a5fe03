"""Who may ask the server what: everything is checked here before any route sees a request.

On loopback no token is needed, for whoever can connect is on this machine. But a browser on this
machine runs the pages of strangers. So the ``Host`` must name loopback (a stranger's name that is
made to point here is refused: DNS rebinding), and a request that a page makes must come from a page
of this server (``Origin``). On other addresses a token is asked for.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ...errors import InputError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY = 4096  # bytes; also of a message through the WebSocket
SHORTEST_TOKEN = 8

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
# Once the token was given in the address, a page of this server sends the browser on: a redirect
# would still count as a stranger's link, with which a strict cookie is not sent.
_ENTER = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content='0;url=/'>"
    "<title>mlat live</title><p><a href='/'>Go on to the page</a>"
)


def is_loopback(host: str) -> bool:
    """Whether a host, as it is written, is this machine alone."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str | None) -> None:
    """Refuse to serve a stream to a network without a token, or with one that is soon guessed."""
    if token is None and not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines, so the page needs a token; give one with "
            "--token or MLAT_TOKEN, or serve on 127.0.0.1"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"the token has {len(token)} letters and needs at least {SHORTEST_TOKEN}; make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )


class Guard:
    """Refuses requests that are not the page's or not the owner's, and bodies that are too long.

    Parameters
    ----------
    app : ASGI application
    local : bool
        Whether the server listens on loopback.
    token : str or None
    port : int
        Names the cookie, for browsers keep those of all ports of a host together.
    refused : callable
        Called with the reason of every refusal.
    """

    def __init__(
        self, app: App, *, local: bool, token: str | None, port: int, refused: Callable[[str], None]
    ) -> None:
        self._app, self._local, self._refused = app, local, refused
        self._token = None if token is None else token.encode()
        self._cookie_name = f"mlat-{port}"
        # The cookie is not the token itself: who reads it cannot use it elsewhere.
        self._cookie = (
            "" if token is None else hmac.digest(token.encode(), b"mlat live page", "sha256").hex()
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        wrong = self._wrong_site(scope, headers)
        if wrong:
            await self.refuse(scope, receive, send, 403, *wrong)
            return
        if self._token is not None and not self._known(headers):
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if scope["type"] == "http" and scope["path"] == "/" and self._is_token(given):
                await self._enter(send)
            else:
                text = "a token is needed: open /?token=…, or send Authorization: Bearer …"
                await self.refuse(scope, receive, send, 401, "token", text)
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            body = await _body(headers, receive)
            if body is None:
                text = f"the body is longer than {MAX_BODY} bytes"
                await self.refuse(scope, receive, send, 413, "too long", text)
                return
            receive = _replay(body)
        await self._app(scope, receive, _with_headers(send))

    def _wrong_site(self, scope: Message, headers: dict[str, str]) -> tuple[str, str] | None:
        host = headers.get("host", "")
        if self._local and not is_loopback(_name(host)):
            return "host", f"this server is on loopback and does not answer for {host[:80]!r}"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "origin", f"a page of {origin[:80]!r} may not ask this server"
        # A browser that sends no Origin with a POST still says whose page it is.
        site = headers.get("sec-fetch-site", "none")
        reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not reads and origin is None and site not in ("none", "same-origin"):
            return "origin", "a page of another site may not ask this server"
        return None

    def _known(self, headers: dict[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        sent = cookies[self._cookie_name].value if self._cookie_name in cookies else ""
        return hmac.compare_digest(sent.encode(), self._cookie.encode())

    def _is_token(self, given: str) -> bool:
        # Both are hashed first, so that not even the length is told by the time it takes.
        ours = hashlib.sha256(self._token or b"").digest()
        return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), ours)

    async def _enter(self, send: Send) -> None:
        cookie = f"{self._cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        await _respond(send, 200, _ENTER, "text/html", (b"set-cookie", cookie.encode()))

    async def refuse(
        self, scope: Message, receive: Receive, send: Send, status: int, reason: str, text: str
    ) -> None:
        """Answer with a status and one line, and count it."""
        self._refused(reason)
        prefix = ""
        if scope["type"] == "websocket":
            await receive()  # the handshake, which must be taken before it is answered
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": 1008})
                return
            prefix = "websocket."
        extra = ((b"www-authenticate", b"Bearer"),) if status == 401 else ()
        await _respond(send, status, text + "\n", "text/plain", *extra, prefix=prefix)


def _name(host: str) -> str:
    """The name in a ``Host`` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


async def _body(headers: dict[str, str], receive: Receive) -> bytes | None:
    """The whole body; None if it is too long."""
    said = headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > MAX_BODY:
        return None
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            return None
    return body


def _replay(body: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sending


async def _respond(
    send: Send,
    status: int,
    text: str,
    kind: str,
    *extra: tuple[bytes, bytes],
    prefix: str = "",
) -> None:
    body = text.encode()
    headers = [
        (b"content-type", f"{kind}; charset=utf-8".encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *HEADERS,
        *extra,
    ]
    start = {"type": f"{prefix}http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": f"{prefix}http.response.body", "body": body})
