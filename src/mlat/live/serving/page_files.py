"""The files of the page, read once from the installed package; nothing else is ever served."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
    for entry in files(__package__).joinpath("page").iterdir():
        ending = entry.name.rpartition(".")[2]
        if entry.is_file() and ending in _KINDS:
            content = entry.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[entry.name] = PageFile(content, _KINDS[ending], tag)
    return found
