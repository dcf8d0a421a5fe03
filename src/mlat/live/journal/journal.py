"""The journal: a folder of append-only segments. What has been appended survives a crash.

A segment is a file named by its first record, and begins with a head that says which session it
belongs to. Segments are only ever appended to; the end of the last one is cut where a crash left
a record unfinished.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...disk import FolderLock, disk_errors, flush_folder, flush_to_disk
from ...errors import InputError
from .records import Batch, decode_batch, encode_batch

# -------------------------------------------------------------------- frames
# How a record lies in a file, so that a torn end is told from damage.
#
# A frame is a head of 24 bytes and its payload, all little endian:
#
# ====== ======= ==========================================================
# offset bytes
# ====== ======= ==========================================================
# 0      4       the mark ``\xabMLR``
# 4      4       CRC-32 of everything after it, head and payload
# 8      4       length of the payload
# 12     4       kind: 1 head of a segment, 2 batch, 3 snapshot
# 16     8       number of the record, or of the next one for a head
# ====== ======= ==========================================================
#
# One frame is written and flushed before the next begins. So only the last can be unfinished: a bad
# frame with a good one after it was whole once, and has been damaged since.

STAYS = "what the journal holds stays, and the same command goes on from there"
MARK = b"\xabMLR"
HEAD, BATCH, SNAPSHOT = 1, 2, 3
_FRAME = struct.Struct("<4sIIIQ")
_AFTER_CRC = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """One record: ``stop`` is the offset of the byte after it."""

    kind: int
    number: int
    payload: bytes
    stop: int


def frame(kind: int, number: int, payload: bytes) -> bytes:
    """The bytes of a record."""
    head = _FRAME.pack(MARK, 0, len(payload), kind, number)
    crc = zlib.crc32(payload, zlib.crc32(head[_AFTER_CRC:]))
    return head[:4] + struct.pack("<I", crc) + head[_AFTER_CRC:] + payload


def frame_at(content: bytes, offset: int) -> Frame | None:
    """The whole, undamaged record that begins at an offset, if there is one."""
    if len(content) - offset < _FRAME.size:
        return None
    mark, crc, length, kind, number = _FRAME.unpack_from(content, offset)
    stop = offset + _FRAME.size + length
    if mark != MARK or stop > len(content):
        return None
    if zlib.crc32(memoryview(content)[offset + _AFTER_CRC : stop]) != crc:
        return None
    return Frame(kind, number, content[offset + _FRAME.size : stop], stop)


def frames(content: bytes, where: str, *, last: bool) -> Iterator[Frame]:
    """The records of a file in turn, up to an unfinished one if the file is the ``last``.

    Raises
    ------
    InputError
        Where a record is damaged: a good one follows, or the file is not the last.
    """
    offset = 0
    while offset < len(content):
        found = frame_at(content, offset)
        if found is None:
            later = _good_frame_after(content, offset)
            if last and later is None:
                return
            raise InputError(
                f"{where} is damaged at byte {offset}"
                + (f" (the next good record is at byte {later})" if later is not None else "")
                + "; put back a copy of the file, or choose another --journal"
            )
        yield found
        offset = found.stop


def _good_frame_after(content: bytes, offset: int) -> int | None:
    candidate = content.find(MARK, offset + 1)
    while candidate >= 0:
        if frame_at(content, candidate) is not None:
            return candidate
        candidate = content.find(MARK, candidate + 1)
    return None


FORMAT, VERSION = "mlat live journal", 1
SEGMENT_SIZE = 64_000_000
PATTERN = "steps-*.journal"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose journal it is: the model's fingerprint, its channels and the session's options."""

    model: str
    channels: tuple[str, ...]
    options: Mapping[str, Any]

    def head(self, journal: str) -> bytes:
        """The payload of a segment's head, in the journal of that name."""
        said = {
            "format": FORMAT,
            "version": VERSION,
            "journal": journal,
            "model": self.model,
            "channels": list(self.channels),
            "options": dict(self.options),
        }
        return json.dumps(said, ensure_ascii=False).encode()


class Journal:
    """The records of one session, opened for appending.

    Parameters
    ----------
    folder : path
        Made where it does not exist. One process at a time has it.
    identity : Identity
        A journal of another model, or begun with other options, is refused.
    segment_size : int
        Bytes after which a new segment begins.
    fsync : bool
        Wait for the disk after every record. Without, records survive the end of the process,
        but not a loss of power.

    Attributes
    ----------
    name : str
        Made up when the journal was begun.
    end : int
        The number of the next record; records count from 0.
    cut : int
        Bytes of an unfinished record that opening has cut off.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        identity: Identity,
        *,
        segment_size: int = SEGMENT_SIZE,
        fsync: bool = True,
    ) -> None:
        self.folder, self.identity = Path(folder), identity
        self._segment_size, self._fsync = segment_size, fsync
        self.name, self.cut = secrets.token_hex(8), 0
        with disk_errors(self.folder, STAYS):
            if self.folder.exists() and not self.folder.is_dir():
                raise InputError(
                    f"{self.folder} is not a folder; --journal names one to keep the journal in"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.folder, "mlat live")
        self._file = -1
        try:
            with disk_errors(self.folder, STAYS):
                self._open_last()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()

    def append(self, batch: Batch) -> int:
        """Write a record; when this returns it is on disk. Returns its number."""
        record = frame(BATCH, self.end, encode_batch(batch))
        with disk_errors(self.folder, STAYS):
            if self._size >= self._segment_size and self.end > self._begun:
                os.close(self._file)
                self._file = -1
                self._begin_segment()
            self._write(record)
            if self._fsync:
                flush_to_disk(self._file)
        self.end += 1
        return self.end - 1

    def flush(self) -> None:
        """Have on disk what was appended without waiting for it."""
        if not self._fsync:
            with disk_errors(self.folder, STAYS):
                flush_to_disk(self._file)

    @property
    def begin(self) -> int:
        """The number of the first record that has not been deleted."""
        return _first(self.segments()[0])

    def batches(self, after: int = 0) -> Iterator[Batch]:
        """The batches of the records from number ``after`` on."""
        segments = self.segments()
        first = max((s for s in segments if _first(s) <= after), default=None, key=_first)
        if first is None:
            raise InputError(
                f"{self.folder} begins at record {_first(segments[0])}, but record {after} is "
                "needed; put back the segments or snapshots that were removed"
            )
        expected = _first(first)
        for segment in segments[segments.index(first) :]:
            if _first(segment) != expected:
                raise InputError(
                    f"{self.folder} lacks the records {expected} to {_first(segment) - 1}, which "
                    f"come before {segment.name}; put the missing segment back"
                )
            with disk_errors(segment, STAYS):
                content = segment.read_bytes()
            self._check_head(segment, frame_at(content, 0))
            for record in frames(content, str(segment), last=False):
                if record.kind != BATCH:
                    continue
                _check_number(segment, record, expected)
                expected += 1
                if record.number >= after:
                    yield decode_batch(record.payload)

    def segments(self) -> list[Path]:
        """The files, oldest first."""
        return sorted(self.folder.glob(PATTERN), key=_first)

    def delete_before(self, record: int, *, keep: int) -> list[Path]:
        """Delete segments that end before a record, but never the newest ``keep``."""
        segments = self.segments()
        gone = [segment for segment, following in pairwise(segments) if _first(following) <= record]
        gone = gone[: max(len(segments) - max(keep, 1), 0)]
        with disk_errors(self.folder, STAYS):
            for segment in gone:  # oldest first: what is left has no hole, whenever this ends
                segment.unlink()
        return gone

    def _open_last(self) -> None:
        """Find the end, cut what is unfinished, and be ready to append."""
        segments = self.segments()
        if segments and not _has_head(segments[-1]):
            # A crash between making the file and writing its head; it holds nothing.
            unfinished = segments.pop()
            self.cut += unfinished.stat().st_size
            unfinished.unlink()
        if segments:
            self._continue(segments[-1])
        else:
            self.end = 0
            self._begin_segment()

    def _continue(self, segment: Path) -> None:
        content = segment.read_bytes()
        head = self._check_head(segment, frame_at(content, 0))
        self.name = json.loads(head.payload)["journal"]
        self.end, stop = head.number, head.stop
        for record in frames(content, str(segment), last=True):
            stop = record.stop
            if record.kind == BATCH:
                _check_number(segment, record, self.end)
                self.end += 1
        self._file = os.open(segment, os.O_RDWR | os.O_APPEND)
        if stop < len(content):
            self.cut += len(content) - stop
            os.ftruncate(self._file, stop)
        self._size, self._begun = stop, head.number
        # What the last process wrote but did not live to flush is about to be believed.
        os.fsync(self._file)
        flush_folder(self.folder)

    def _begin_segment(self) -> None:
        path = self.folder / f"steps-{self.end:016d}.journal"
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o666)
        self._size, self._begun = 0, self.end
        self._write(frame(HEAD, self.end, self.identity.head(self.name)))
        os.fsync(self._file)
        flush_folder(self.folder)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(self._file, left) :]
        self._size += len(content)

    def _check_head(self, segment: Path, head: Frame | None) -> Frame:
        said = json.loads(head.payload) if head is not None and head.kind == HEAD else {}
        if head is None or said.get("format") != FORMAT:
            raise InputError(f"{segment} is damaged at byte 0; put back a copy of the file")
        if said["version"] > VERSION:
            raise InputError(
                f"{segment} has version {said['version']}, this mlat knows up to {VERSION}; "
                "upgrade mlat"
            )
        if said["model"] != self.identity.model or said["channels"] != list(self.identity.channels):
            raise InputError(
                f"{self.folder} is the journal of another model; give that model, or choose "
                "another --journal"
            )
        for option, value in json.loads(self.identity.head(self.name))["options"].items():
            before = said["options"].get(option)
            if before != value:
                raise InputError(
                    f"{self.folder} was begun with {option}={before}, now it is {value}; give the "
                    "same options, or choose another --journal"
                )
        return head


def _has_head(segment: Path) -> bool:
    """Whether a segment's head was written; refuses one whose head has been damaged since."""
    return any(True for _ in frames(segment.read_bytes(), str(segment), last=True))


def _first(segment: Path) -> int:
    try:
        return int(segment.name.removeprefix("steps-").removesuffix(".journal"))
    except ValueError:
        raise InputError(
            f"{segment} is not a segment of the journal; move it out of the folder"
        ) from None


def _check_number(segment: Path, record: Frame, expected: int) -> None:
    if record.number != expected:
        raise InputError(
            f"{segment} has record {record.number} where {expected} should be; put back a copy "
            "of the file"
        )
