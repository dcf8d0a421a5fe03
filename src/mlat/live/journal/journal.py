"""The journal: a folder of append-only segments. What has been appended survives a crash.

A segment is a file named by its first record. It begins with a head that says which session it
belongs to. Segments are only ever appended to. Opening the journal cuts off a record that a crash
left unfinished at the end of the last segment, and checks that the older ones are there, begin with
their head and end with their last record. What is in between is checked when it is read.

A small file beside them has the number of the next record. So a segment that was cut between two
records, or a last one that was deleted, is noticed.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

from ...base.append_log import (
    AppendLog,
    Frame,
    decode_frame,
    decode_frames,
    encode_frame,
    last_frame,
)
from ...base.checksummed import (
    ANYTHING,
    FLAG,
    MEASURED,
    NOTHING,
    TEXT,
    either,
    listed,
    mapped,
    one_of,
    record,
    whole,
)
from ...base.disk import disk_errors
from ...base.errors import InputError
from ..core.options import BEFORE, LiveOptions, other_option
from ..core.session import LiveSession
from ..core.steps import NO_PREDICTIONS
from .records import BATCH, END, HEAD, Batch, Records, decode_json, decode_records, encode_batch

SEGMENT_SIZE = 64_000_000
PATTERN = "steps-*.journal"
REACHED = "reached"  # the file that says how far the journal is
REMEDY = "what the journal holds is kept; start again with the same folder to go on from there"
_FORMAT, _VERSION = "mlat live journal", 1
_HEAD = record(
    {
        "format": one_of(_FORMAT),
        "version": whole(1),
        "journal": TEXT,
        "model": TEXT,
        "channels": listed(TEXT),
        "options": mapped(TEXT, either(NOTHING, FLAG, TEXT, MEASURED)),
    }
)
AT_A_TIME = 256  # records that are read together
_ENDS = 1 << 16  # bytes of an older segment that are read at its ends


@dataclass(frozen=True, slots=True)
class Identity:
    """Which session a journal belongs to: the model's fingerprint, its channels, the options."""

    model: str
    channels: tuple[str, ...]
    options: Mapping[str, Any]

    @classmethod
    def of(cls, session: LiveSession) -> Identity:
        made_by = session.state.made_by
        return cls(made_by.model, tuple(session.model.clf.channels_), made_by.options.as_dict())

    def head(self, journal: str) -> bytes:
        """Return the payload of the head of a segment, in the journal of that name."""
        fields = {
            "format": _FORMAT,
            "version": _VERSION,
            "journal": journal,
            "model": self.model,
            "channels": list(self.channels),
            "options": dict(self.options),
        }
        return json.dumps(fields, ensure_ascii=False).encode()

    def check(self, fields: dict[str, Any], folder: Path) -> None:
        """Raise `InputError` if the fields of a head are those of another session."""
        if fields["model"] != self.model or fields["channels"] != list(self.channels):
            raise InputError(
                f"{folder} is the journal of another model; give that model, or choose another "
                "folder for the journal"
            )
        # As LiveOptions understands them: an option that the journal does not have was not there
        # yet, and had its default; a value may have another name today.
        known = LiveOptions().as_dict()
        options = {name: value for name, value in fields["options"].items() if name in known}
        try:
            before = LiveOptions(**BEFORE | options).as_dict()
        except InputError as error:
            raise InputError(f"{folder} was begun with options that are none: {error}") from None
        name = other_option(before, self.options)
        if name is not None:
            raise InputError(
                f"{folder} was begun with {name}={before[name]}, now it is {self.options[name]}; "
                "give the same options, or choose another folder for the journal"
            )


class Journal:
    """The records of one session, open for appending.

    Parameters
    ----------
    folder : path
        Made if it does not exist. Only one process can have it open.
    identity : Identity
        Of the session. The journal of another model or of other options is refused.
    segment_size : int
        Bytes after which a new segment is begun.
    fsync : bool
        Wait for the disk after every record. Otherwise records survive the end of the process,
        but not a loss of power.

    Attributes
    ----------
    name : str
        Random, chosen when the journal was begun.
    end : int
        The number of the next record; records count from 0.
    cut : int
        Bytes of an unfinished record that opening has cut off.
    lost : int
        Records that were written once, and are not there any more.

    Raises
    ------
    InputError
        If the journal belongs to another session or is damaged.
    DiskError
        If the folder cannot be read or written, or another process has it open.
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
        with disk_errors(self.folder, REMEDY):
            if self.folder.exists() and not self.folder.is_dir():
                raise InputError(
                    f"{self.folder} is not a folder; give a folder to keep the journal in"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        other = "end that one, or choose another folder"
        in_use = f"{self.folder} is in use by another mlat live; {other}"
        self._lock = AppendLog(self.folder / "lock", in_use=in_use, then=REMEDY)
        self._segment: AppendLog | None = None
        self._reached: BinaryIO | None = None
        try:
            with disk_errors(self.folder, REMEDY):
                self._open_last()
                self._open_reached()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files, so that another process can open the journal."""
        for file in (self._segment, self._reached, self._lock):
            if file is not None:
                file.close()

    def append(self, batch: Batch) -> int:
        """Write a record and return its number. When this returns, the record is on disk."""
        record = encode_frame(BATCH, self.end, encode_batch(batch))
        assert self._segment is not None
        if self._segment.size >= self._segment_size and self.end > _first(self._segment.path):
            self.flush()
            self._begin_segment()
        self._segment.write(record, flush=self._fsync)
        self.end += 1
        self._write_reached()
        return self.end - 1

    def flush(self) -> None:
        """Wait until the disk has all records, where ``append`` does not."""
        if not self._fsync and self._segment is not None:
            self._segment.flush()

    @property
    def begin(self) -> int:
        """The number of the first record that has not been deleted."""
        return _first(self.segments()[0])

    def records(self, first: int = 0) -> Iterator[Records]:
        """Yield the records from number ``first`` on, some at a time."""
        segments = self.segments()
        start = sum(_first(segment) <= first for segment in segments) - 1
        if start < 0:
            raise InputError(
                f"{self.folder} begins at record {_first(segments[0])}, but record {first} is "
                "needed; put back the segments or snapshots that were removed"
            )
        expected = _first(segments[start])
        for segment in segments[start:]:
            _check_follows(expected, segment)
            with disk_errors(segment, REMEDY):
                content = segment.read_bytes()
            frames = [*read_frames(segment, content, self.identity, last=False)]
            expected += len(frames)
            yield from read_records(segment, frames[max(0, first - _first(segment)) :])

    def segments(self) -> list[Path]:
        """Return the files, oldest first."""
        return segments_of(self.folder)

    def delete_before(self, record: int, *, keep: int) -> list[Path]:
        """Delete the segments that end before a record, but never the newest ``keep``."""
        segments = self.segments()
        gone = [segment for segment, following in pairwise(segments) if _first(following) <= record]
        gone = gone[: max(len(segments) - max(keep, 1), 0)]
        with disk_errors(self.folder, REMEDY):
            for segment in gone:  # oldest first, so that a crash here leaves no hole
                segment.unlink()
        return gone

    def _open_last(self) -> None:
        """Find the end, cut off what is unfinished, and get ready to append."""
        segments = self.segments()
        if segments and not _has_head(segments[-1], segments[-1].read_bytes()):
            # A crash between making the file and writing its head: it holds no record.
            unfinished = segments.pop()
            self.cut += unfinished.stat().st_size
            unfinished.unlink()
        if segments:
            last = segments[-1]
            self._segment = AppendLog(last, partial(self._read_last, last), then=REMEDY)
            self.cut += self._segment.cut
            for segment, following in pairwise(segments):
                self._check_ends(segment, following)
        else:
            self.end = 0
            self._begin_segment()

    def _open_reached(self) -> None:
        """Find how far the journal once was."""
        path = self.folder / REACHED
        path.touch()
        self._reached = path.open("r+b", buffering=0)
        found = decode_frame(self._reached.read())
        self.lost = max(0, found.number - self.end) if found is not None else 0
        self._write_reached()

    def _write_reached(self) -> None:
        assert self._reached is not None
        with suppress(OSError):  # the record itself is on the disk
            self._reached.seek(0)
            self._reached.write(encode_frame(END, self.end, b""))

    def _read_last(self, segment: Path, content: bytes) -> int:
        """Find the end of the last segment: the number of the next record, and the byte."""
        fields, stop = _check_head(segment, decode_frame(content), self.identity)
        self.name, self.end = fields["journal"], _first(segment)
        for found in read_frames(segment, content, self.identity, last=True):
            stop, self.end = found.stop, found.number + 1
        return stop

    def _check_ends(self, segment: Path, following: Path) -> None:
        """Check that an older segment begins and ends with the records that it should.

        All of it is read only when it is needed: at a GB a second or less, a restart would have to
        wait for that.
        """
        size = segment.stat().st_size
        with segment.open("rb") as file:
            head = end = None
            n = _ENDS
            while head is None or end is None:
                n = min(n, size)
                head = decode_frame(file.read(n))
                file.seek(-n, os.SEEK_END)
                end = last_frame(file.read(n))
                file.seek(0)
                if n == size:
                    break
                n *= 4  # records can be long
        _check_head(segment, head, self.identity, self.name)
        if end is None:
            # Says at which byte.
            list(read_frames(segment, segment.read_bytes(), self.identity, last=False))
        if end is None or end.kind != BATCH:
            raise InputError(f"{segment} holds no record; put back a copy of the file")
        _check_follows(end.number + 1, following)

    def _begin_segment(self) -> None:
        new = AppendLog(self.folder / f"steps-{self.end:016d}.journal", then=REMEDY)
        try:
            new.write(encode_frame(HEAD, self.end, self.identity.head(self.name)))
        except BaseException:
            new.close()  # and removed: the segment before goes on
            raise
        if self._segment is not None:
            self._segment.close()
        self._segment = new


@dataclass(slots=True)
class JournalContents:
    """What a journal holds.

    Attributes
    ----------
    head : dict
        The fields in the head of the first segment; empty where there is none.
    records : Records
    n_segments : int
    unfinished : int
        Bytes after the last record.
    """

    head: dict[str, Any] = field(default_factory=dict)
    records: Records = field(default_factory=lambda: Records(0, [], [], NO_PREDICTIONS))
    n_segments: int = 0
    unfinished: int = 0


def read_journal(folder: Path) -> JournalContents:
    """Read all segments of a folder, which is not changed; a session may go on with it meanwhile.

    Raises
    ------
    InputError
        If it is damaged.
    DiskError
    """
    contents, segments = JournalContents(), segments_of(folder)
    records, first, number = list[Records](), 0, 0
    for segment in segments:
        with disk_errors(segment):
            content = segment.read_bytes()
        last = segment == segments[-1]
        stop = 0
        if not last or _has_head(segment, content):
            name = contents.head.get("journal")
            fields, stop = _check_head(segment, decode_frame(content), None, name)
            if name is None:
                contents.head, first = fields, _first(segment)
                number = first
            _check_follows(number, segment)
            contents.n_segments += 1
            frames = [*read_frames(segment, content, None, last=last)]
            number, stop = number + len(frames), frames[-1].stop if frames else stop
            records += read_records(segment, frames)
        contents.unfinished = len(content) - stop
    contents.records = Records.joined(first, records)
    return contents


def segments_of(folder: Path) -> list[Path]:
    """Return the segments in a folder, oldest first."""
    return sorted(folder.glob(PATTERN), key=_first)


def read_frames(
    segment: Path, content: bytes, identity: Identity | None, *, last: bool
) -> Iterator[Frame]:
    """Yield the records of a segment, without its head; in the last one up to an unfinished one.

    Raises
    ------
    InputError
        If the segment is damaged, or of another session.
    """
    _check_head(segment, decode_frame(content), identity)
    first = _first(segment)
    frames = decode_frames(content, str(segment), last=last)
    next(frames)  # the head
    for expected, found in enumerate(frames, first):
        if found.kind != BATCH or found.number != expected:
            kind = "" if found.kind == BATCH else f" of kind {found.kind}"
            raise InputError(
                f"{segment} has record {found.number}{kind} where {expected} should be; put back "
                "a copy of the file"
            )
        yield found


def read_records(segment: Path, frames: Sequence[Frame]) -> Iterator[Records]:
    """Yield what is in the records of a segment, some at a time.

    Raises
    ------
    InputError
    """
    for begin in range(0, len(frames), AT_A_TIME):
        try:
            yield decode_records(frames[begin : begin + AT_A_TIME])
        except InputError as error:
            raise InputError(f"{segment}, {error}") from None


def _check_head(
    segment: Path, head: Frame | None, identity: Identity | None, journal: str | None = None
) -> tuple[dict[str, Any], int]:
    """Return the fields of the head of a segment, which is of a journal, and where it stops."""
    damaged = f"{segment} is damaged at byte 0"
    if head is None or head.kind != HEAD or head.number != _first(segment):
        raise InputError(f"{damaged}: no head is there; put back a copy of the file")
    fields: dict[str, Any] = decode_json(head.payload, mapped(TEXT, ANYTHING), damaged)
    version = fields.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise InputError(
            f"{segment} has version {version}, this mlat knows up to {_VERSION}; upgrade mlat"
        )
    _HEAD(fields, damaged)
    if identity is not None:
        identity.check(fields, segment.parent)
    if journal not in (None, fields["journal"]):
        raise InputError(f"{segment} is of another journal; put back a copy of the file")
    return fields, head.stop


def _check_follows(expected: int, segment: Path) -> None:
    """Refuse a segment that does not begin with the record that is expected."""
    if _first(segment) != expected:
        raise InputError(
            f"{segment.parent} lacks the records {expected} to {_first(segment) - 1}, which come "
            f"before {segment.name}; put the missing segment back"
        )


def _has_head(segment: Path, content: bytes) -> bool:
    """Whether the head was ever written; raises `InputError` if it has been damaged since."""
    return any(True for _ in decode_frames(content, str(segment), last=True))


def _first(segment: Path) -> int:
    try:
        return int(segment.name.removeprefix("steps-").removesuffix(".journal"))
    except ValueError:
        raise InputError(
            f"{segment} is not a segment of the journal; move it out of the folder"
        ) from None
