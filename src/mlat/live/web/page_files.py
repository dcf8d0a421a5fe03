"""The files of a page, read once from the installed package; no other file is ever served."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


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


def answer_file(known: dict[str, PageFile], request: Request) -> Response | None:
    """The file that a request names, or the page itself; None if there is no such file."""
    file = known.get(request.path_params.get("name", "index.html"))
    if file is None:
        return None
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers={**headers, "Content-Type": file.kind})


def answer_icon() -> Response:
    """The icon, which browsers request before they have the page."""
    file = page_files(__package__)["icon.svg"]
    return Response(file.content, headers={"Content-Type": file.kind})
