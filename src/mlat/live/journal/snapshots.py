"""Snapshots: where a session stood after a record, so that a restart replays only what follows."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...disk import atomic_write, disk_errors
from ...errors import InputError
from .journal import SNAPSHOT, STAYS, frame, frame_at

VERSION = 1
KEPT = 3
PATTERN = "state-*.snapshot"
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session's state after all records before number ``record``.

    ``position`` is where its source resumes.
    """

    record: int
    position: str
    session: bytes


class Snapshots:
    """The snapshots in the folder of a journal, of which the newest few are kept."""

    def __init__(self, folder: str | os.PathLike[str], *, kept: int = KEPT) -> None:
        self.folder, self._kept = Path(folder), kept

    def write(self, snapshot: Snapshot) -> Path:
        """Add one: the file appears whole or not at all; the oldest goes."""
        path = self.folder / f"state-{snapshot.record:016d}.snapshot"
        with disk_errors(self.folder, STAYS):
            with atomic_write(path) as temporary:
                temporary.write_bytes(_encode(snapshot))
            for old in self._files()[self._kept :]:
                old.unlink()
        return path

    def read(self) -> Iterator[Snapshot]:
        """Those that open, newest first; a broken one is passed over."""
        for path in self._files():
            snapshot = read_snapshot(path)
            if snapshot is not None:
                yield snapshot

    def oldest_record(self) -> int:
        """The record from which the oldest snapshot kept goes on; 0 without any."""
        return min((s.record for s in self.read()), default=0)

    def tidy(self) -> None:
        """Remove what a crash left of a snapshot that was being written."""
        for rest in self.folder.glob(".????????????.snapshot"):
            with suppress(OSError):
                rest.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(PATTERN), reverse=True)


def read_snapshot(path: Path) -> Snapshot | None:
    """The snapshot in a file; None where it is damaged.

    Raises
    ------
    InputError
        If a later version of mlat wrote it.
    """
    with disk_errors(path, STAYS):
        content = path.read_bytes()
    found = frame_at(content, 0)
    if found is None or found.kind != SNAPSHOT or found.stop != len(content):
        return None
    (length,) = _LENGTH.unpack_from(found.payload)
    said = json.loads(found.payload[_LENGTH.size : _LENGTH.size + length])
    if said["version"] > VERSION:
        raise InputError(
            f"{path} has version {said['version']}, this mlat knows up to {VERSION}; upgrade mlat"
        )
    return Snapshot(found.number, said["position"], found.payload[_LENGTH.size + length :])


def _encode(snapshot: Snapshot) -> bytes:
    said = json.dumps({"version": VERSION, "position": snapshot.position}).encode()
    return frame(SNAPSHOT, snapshot.record, _LENGTH.pack(len(said)) + said + snapshot.session)
