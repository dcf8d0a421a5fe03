"""Files that only grow. What was appended is on the disk, and survives a crash.

An entry is written before the next one is begun. So only the last entry of a file can be
unfinished; it was never acknowledged, and opening the file cuts it off. A bad entry before the end
was whole once: then the file is damaged, and nothing is cut. An entry is a binary frame or a line
of text, each with a checksum.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .disk import disk_errors, flush_folder, flush_to_disk, lock
from .errors import DiskError, InputError


class AppendLog:
    """A file, open for appending by this process alone.

    Parameters
    ----------
    path : path
        Made if it does not exist, and removed by `close` if it is empty then.
    read : callable
        Gets what the file holds, and returns how many bytes of it are whole: the rest is cut off.
        Default: all of them.
    in_use : str
        The message where another process has it open; ``""`` if something else keeps others away.
    then : str
        What a person can do about an error of the disk.

    Attributes
    ----------
    size : int
        Bytes of whole entries.
    cut : int
        Bytes that opening has cut off.

    Raises
    ------
    DiskError
        If it cannot be read or written, or another process has it open.
    """

    def __init__(
        self, path: Path, read: Callable[[bytes], int] = len, *, in_use: str = "", then: str
    ) -> None:
        self.path, self._then = path, then
        self._is_ours = False
        with disk_errors(path, then):
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        try:
            if in_use:
                lock(self._file, in_use)
            with disk_errors(path, then):
                if not path.exists() or not os.path.samestat(os.fstat(self._file), path.stat()):
                    # Until a moment ago it was in use: it was removed on closing.
                    raise DiskError(in_use or f"{path} was removed while it was opened")
                self._is_ours = True
                content = path.read_bytes()
                self.size = read(content)
                self.cut = len(content) - self.size
                if self.cut:
                    os.ftruncate(self._file, self.size)
                if content:
                    # The last process may have ended before it flushed an entry that now counts.
                    os.fsync(self._file)
                    flush_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have it. May be called again."""
        if self._file >= 0:
            with suppress(OSError):
                if self._is_ours and not os.fstat(self._file).st_size:
                    self.path.unlink()
            os.close(self._file)
            self._file = -1

    def write(self, entry: bytes, *, flush: bool = True) -> None:
        """Append an entry. When this returns it is on the disk; when it raises it is not there.

        Parameters
        ----------
        entry : bytes
        flush : bool
            Wait for the disk. Otherwise the entry survives the end of the process, but perhaps not
            a loss of power.

        Raises
        ------
        DiskError
        """
        if self._file < 0:
            raise DiskError(f"{self.path} is closed after an error of the disk; start again")
        with disk_errors(self.path, self._then):
            try:
                left = memoryview(entry)
                while left:
                    left = left[os.write(self._file, left) :]
                if flush:
                    flush_to_disk(self._file)
                if not self.size:
                    flush_folder(self.path.parent)
            except BaseException:
                try:
                    os.ftruncate(self._file, self.size)
                except OSError:  # half an entry may be left: nothing may be written after it
                    self.close()
                raise
        self.size += len(entry)

    def flush(self) -> None:
        """Wait until the disk has all entries."""
        with disk_errors(self.path, self._then):
            flush_to_disk(self._file)


# Frames: a head of 24 bytes and a payload, all little endian.
#
# ====== ======= ==========================================================
# offset bytes
# ====== ======= ==========================================================
# 0      4       the mark ``\xabMLR``
# 4      4       CRC-32 of everything after it, head and payload
# 8      4       length of the payload
# 12     4       kind, whatever that is to the writer
# 16     8       number of the record
# ====== ======= ==========================================================

_MARK = b"\xabMLR"
_FRAME = struct.Struct("<4sIIIQ")
_AFTER_CRC = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was read; ``stop`` is the offset of the byte after it."""

    kind: int
    number: int
    payload: bytes
    stop: int


def encode_frame(kind: int, number: int, payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    head = _FRAME.pack(_MARK, 0, len(payload), kind, number)
    crc = zlib.crc32(payload, zlib.crc32(head[_AFTER_CRC:]))
    return head[:4] + struct.pack("<I", crc) + head[_AFTER_CRC:] + payload


def decode_frame(content: bytes, offset: int = 0) -> Frame | None:
    """Return the frame that begins at an offset; None if it is unfinished or damaged."""
    if len(content) - offset < _FRAME.size:
        return None
    mark, crc, length, kind, number = _FRAME.unpack_from(content, offset)
    stop = offset + _FRAME.size + length
    if mark != _MARK or stop > len(content):
        return None
    if zlib.crc32(memoryview(content)[offset + _AFTER_CRC : stop]) != crc:
        return None
    return Frame(kind, number, content[offset + _FRAME.size : stop], stop)


def decode_frames(content: bytes, where: str, *, last: bool) -> Iterator[Frame]:
    """Yield the frames of a file in order; in the ``last`` file, up to an unfinished one.

    Raises
    ------
    InputError
        If a frame is damaged: a good one follows it, or the file is not the last.
    """
    offset = 0
    while offset < len(content):
        found = decode_frame(content, offset)
        if found is None:
            later = _good_frame_after(content, offset)
            if last and later is None:
                return
            raise InputError(
                f"{where} is damaged at byte {offset}"
                + (f" (the next good record is at byte {later})" if later is not None else "")
                + "; put back a copy of the file, or choose another folder for the journal"
            )
        yield found
        offset = found.stop


def _good_frame_after(content: bytes, offset: int) -> int | None:
    candidate = content.find(_MARK, offset + 1)
    while candidate >= 0:
        if decode_frame(content, candidate) is not None:
            return candidate
        candidate = content.find(_MARK, candidate + 1)
    return None


def last_frame(content: bytes) -> Frame | None:
    """Return the frame that ends where the content ends; None if there is none."""
    candidate = content.rfind(_MARK)
    while candidate >= 0:
        found = decode_frame(content, candidate)
        if found is not None:
            return found if found.stop == len(content) else None
        candidate = content.rfind(_MARK, 0, candidate)
    return None


# Lines: a checksum in eight hexadecimal digits, a blank, a text. The checksum is the CRC-32 of the
# text continued from the checksum of the line before, so that a line that is missing or out of
# place is found, too.


def encode_line(text: bytes, crc: int) -> tuple[bytes, int]:
    """Return the bytes of a line, and its checksum; ``crc`` is that of the line before."""
    crc = zlib.crc32(text, crc)
    return b"%08x %s\n" % (crc, text), crc


def decode_lines(content: bytes, where: str) -> Iterator[tuple[bytes, int]]:
    """Yield the text of each line and the offset of the byte after it, up to an unfinished one.

    Raises
    ------
    InputError
        If a line is damaged: it looks whole and is not.
    """
    start = crc = number = 0
    while start < len(content):
        stop = content.find(b"\n", start) + 1 or len(content)
        text = content[start + 9 : stop - 1]
        line, following = encode_line(text, crc)
        number += 1
        if line != content[start:stop]:
            rest = content[start:]
            if (b"\n" in rest and b"\0" not in rest) or line[:9] == rest[:9]:
                raise InputError(
                    f"{where} is damaged in line {number}; put back a copy of it, or move it away"
                )
            return
        yield text, stop
        start, crc = stop, following
