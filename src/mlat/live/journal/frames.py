"""How a record lies in a file, so that a torn end is told from damage.

A frame is a head of 24 bytes and its payload, all little endian:

====== ======= ==========================================================
offset bytes
====== ======= ==========================================================
0      4       the mark ``\\xabMLR``
4      4       CRC-32 of everything after it, head and payload
8      4       length of the payload
12     4       kind: 1 head of a segment, 2 batch, 3 snapshot
16     8       number of the record, or of the next one for a head
====== ======= ==========================================================

One frame is written and flushed before the next begins. So only the last can be unfinished: a bad
frame with a good one after it was whole once, and has been damaged since.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import InputError

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
