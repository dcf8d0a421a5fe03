"""What UCI's files hold: the rows and the checksum of every one, shipped with the library.

The checksums are of content and not of archives, because the same files travel in UCI's zips and
rars, in re-packed zips and in plain folders.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources

from .catalog import SETS, UciSet
from .rows import tidy


@dataclass(frozen=True)
class FileRecord:
    """The number of data rows of a file and the SHA-256 of its tidied content."""

    rows: int
    sha256: str


def describe(data: bytes) -> FileRecord:
    """The record of a file's content; see `rows.tidy` for what counts as the same content."""
    text = tidy(data)
    lines = text.count(b"\n") + 1 if text else 0
    comments = text.count(b"\n#") + text.startswith(b"#")
    return FileRecord(lines - comments, hashlib.sha256(text).hexdigest())


@cache
def _shipped() -> dict[str, dict[str, FileRecord]]:
    text = resources.files(__package__).joinpath("manifest.json").read_text("utf-8")
    return {
        name: {file: FileRecord(rows, sha256) for file, (rows, sha256) in files.items()}
        for name, files in json.loads(text).items()
    }


def manifest(uci: UciSet) -> dict[str, FileRecord]:
    """The data files of a set by their path below its folder, in the order they are listed."""
    return _shipped()[uci.name]


def _build(data: str) -> str:
    """The manifest of a complete copy of all four sets, as JSON with one file a line."""
    from .source import open_set

    sets = []
    for uci in SETS.values():
        with open_set(uci, data) as source:
            lines = []
            for file in sorted(source.files):
                record = describe(source.read(file))
                lines.append(f"  {json.dumps(file)}: {json.dumps([record.rows, record.sha256])}")
        sets.append(f"{json.dumps(uci.name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sets) + "\n}\n"


if __name__ == "__main__":
    # python -m mlat.datasets.manifest DIR > manifest.json
    sys.stdout.write(_build(sys.argv[1]))
