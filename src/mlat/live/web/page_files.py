"""The files of a page, read once from the installed package; no other file is ever served."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


# Browsers request the icon there, before they have the page.
_NAMES = {"/": "index.html", "/favicon.ico": "icon.svg"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file, its content type, and a tag that changes with it."""

    content: bytes
    kind: str
    tag: str


@cache
def page_files(package: str) -> dict[str, PageFile]:
    """All files of a page by name: those in ``static`` of its package, and those of every page."""
    found = {}
    for folder in (__package__, package):
        for entry in files(folder).joinpath("static").iterdir():
            ending = entry.name.rpartition(".")[2]
            if entry.is_file() and ending in _KINDS:
                content = entry.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                found[entry.name] = PageFile(content, _KINDS[ending], tag)
    return found


def file_routes(package: str) -> list[Route]:
    """The page of a package, its files, and the icon."""
    known = page_files(package)

    async def file(request: Request) -> Response:
        path = request.url.path
        found = known.get(_NAMES.get(path) or path.removeprefix("/page/"))
        if found is None:
            raise HTTPException(404)
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers={**headers, "Content-Type": found.kind})

    return [Route(path, file) for path in (*_NAMES, "/page/{name}")]
