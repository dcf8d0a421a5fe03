"""An append-only log of edits. What was appended is on the disk, and survives a crash.

A line is a checksum, a blank and JSON; the first line says what was labelled. The checksum of a
line is the CRC-32 of its JSON continued from the checksum of the line before it, so that a line
that is missing or out of place is found, too. A line is flushed to the disk before the next one is
written: only the last can be unfinished, and then it was never acknowledged.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.disk import disk_errors, flush_folder, flush_to_disk, lock
from ..base.errors import DiskError, InputError

REMEDY = "all edits before it are kept; make room, and do the last one again"


class EditLog:
    """A log, open for appending by this process alone.

    Parameters
    ----------
    path : path
        Made if it does not exist, and removed by `close` if nothing was appended.
    head : dict
        What is labelled; the first line, written with the first record.

    Attributes
    ----------
    head : dict
        As the file has it.
    records : list of dict
        What was in the file when it was opened.
    cut : int
        Bytes of an unfinished line that opening has cut off.

    Raises
    ------
    InputError
        If the file is damaged or no log.
    DiskError
        If it cannot be read or written, or another process has it open.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path, self.head, self.cut = path, head, 0
        self._size = self._crc = 0  # of what is whole
        self._locked = False
        in_use = f"{path} is in use: these labels are open in another mlat label"
        with disk_errors(path):
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        try:
            lock(self._file, in_use)
            with disk_errors(path):
                if not os.path.samestat(os.fstat(self._file), path.stat()):
                    raise DiskError(in_use)  # until a moment ago: it was removed on closing
                self._locked = True
                self._read(path.read_bytes())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                if self._locked and not os.fstat(self._file).st_size:
                    self.path.unlink()
            os.close(self._file)
            self._file = -1

    def append(self, record: dict[str, Any], *, flush: bool = True) -> None:
        """Write a record. When this returns it is on the disk; when it raises it is not there.

        Parameters
        ----------
        record : dict
        flush : bool
            Wait for the disk. Otherwise the record may be lost with the power, but no other is.

        Raises
        ------
        DiskError
        """
        if self._file < 0:
            raise DiskError(f"{self.path} is closed; start mlat label again")
        if not self._size:
            self._append(self.head, flush=flush)
            flush_folder(self.path.parent)
        self._append(record, flush=flush)

    def _append(self, record: dict[str, Any], *, flush: bool) -> None:
        line, crc = _line(record, self._crc)
        with disk_errors(self.path, REMEDY):
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._file, left) :]
                if flush:
                    flush_to_disk(self._file)
            except OSError:
                self._cut_back()
                raise
        self._size, self._crc = self._size + len(line), crc

    def _cut_back(self) -> None:
        """Take a line away that was not written to its end."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            # Half a line may be left: nothing may be written after it. Opening again cuts it off.
            self.close()

    def _read(self, content: bytes) -> None:
        found: list[dict[str, Any]] = []
        while self._size < len(content):
            stop = content.find(b"\n", self._size) + 1
            read = _read_line(content[self._size : stop], self._crc) if stop else None
            if read is None:
                # A line that looks whole was whole once: it is no unfinished one.
                if stop and (stop < len(content) or _record(content[self._size + 9 : stop])):
                    raise InputError(
                        f"{self.path} is damaged in line {len(found) + 1}; put back a copy of it, "
                        "or move it away: then the table of labels is taken as it is"
                    )
                break
            self._crc, record = read
            self._size = stop
            found.append(record)
        if self._size < len(content):
            if not found and not _line(self.head, 0)[0].startswith(content):  # no other file is cut
                raise InputError(f"{self.path} is no log of labels; choose another table")
            self.cut = len(content) - self._size
            os.ftruncate(self._file, self._size)
            flush_to_disk(self._file)
        if found:
            self.head = found[0]
        self.records = found[1:]


def _line(record: dict[str, Any], crc: int) -> tuple[bytes, int]:
    payload = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    crc = zlib.crc32(payload, crc)
    return b"%08x %s\n" % (crc, payload), crc


def _read_line(line: bytes, crc: int) -> tuple[int, dict[str, Any]] | None:
    """The checksum and the record; None if the line is not whole."""
    payload = line[9:-1]
    crc = zlib.crc32(payload, crc)
    if line[:9] != b"%08x " % crc:
        return None
    record = _record(payload)
    return None if record is None else (crc, record)


def _record(payload: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        record = json.loads(payload)
        if isinstance(record, dict):
            return record
    return None
