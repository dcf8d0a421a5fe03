"""Snapshots of a session, so that a restart replays only the records after the newest one."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...base.append_log import decode_frame, encode_frame
from ...base.checks import is_whole
from ...base.checksummed import ANYTHING, TEXT, mapped, one_of, record
from ...base.disk import atomic_write, disk_errors
from ...base.errors import InputError
from .journal import REMEDY
from .records import SNAPSHOT, decode_json

VERSION = 1
KEPT = 3
PATTERN = "state-*.snapshot"
_HEAD = record({"version": one_of(VERSION), "position": TEXT})
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a session after all records before number ``record``.

    ``position`` is where the source resumes; ``session`` is what ``LiveSession.snapshot`` returned.
    """

    record: int
    position: str
    session: bytes


class Snapshots:
    """The snapshots in the folder of a journal, of which the newest three are kept."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def write(self, snapshot: Snapshot) -> Path:
        """Write a snapshot, whole or not at all, and delete the oldest."""
        path = self.folder / f"state-{snapshot.record:016d}.snapshot"
        with disk_errors(self.folder, REMEDY):
            with atomic_write(path) as temporary:
                temporary.write_bytes(encode_snapshot(snapshot))
            for old in self._files()[KEPT:]:
                old.unlink()
        return path

    def read(self) -> Iterator[Snapshot]:
        """Yield the snapshots, newest first, without damaged ones."""
        for path in self._files():
            snapshot = read_snapshot(path)
            if snapshot is not None:
                yield snapshot

    def oldest_record(self) -> int:
        """Return the first record after the oldest snapshot; 0 without any."""
        return min((s.record for s in self.read()), default=0)

    def tidy(self) -> None:
        """Remove temporary files that a crash left behind."""
        for rest in self.folder.glob(".????????????.snapshot"):
            with suppress(OSError):
                rest.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(PATTERN), reverse=True)


def read_snapshot(path: Path) -> Snapshot | None:
    """Return the snapshot in a file; None if it is damaged.

    Raises
    ------
    InputError
        If a later version of mlat wrote it.
    """
    with disk_errors(path, REMEDY):
        return decode_snapshot(path.read_bytes(), path)


def decode_snapshot(content: bytes, path: Path) -> Snapshot | None:
    """Return the snapshot in the content of a file; as :func:`read_snapshot`."""
    found = decode_frame(content)
    if found is None or found.kind != SNAPSHOT or found.stop != len(content):
        return None
    if len(found.payload) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(found.payload)
    stop = _LENGTH.size + length
    try:
        head = decode_json(found.payload[_LENGTH.size : stop], mapped(TEXT, ANYTHING), "its head")
        version = head.get("version")
        if not is_whole(version) or version <= VERSION:
            _HEAD(head, "its head")
    except InputError:
        return None
    if version > VERSION:
        raise InputError(
            f"{path} has version {version}, this mlat knows up to {VERSION}; upgrade mlat"
        )
    return Snapshot(found.number, head["position"], found.payload[stop:])


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the content of the file of a snapshot."""
    head = json.dumps({"version": VERSION, "position": snapshot.position}).encode()
    payload = _LENGTH.pack(len(head)) + head + snapshot.session
    return encode_frame(SNAPSHOT, snapshot.record, payload)
