"""The log of edits: JSON in lines of an append-only file; the first says what is labelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..base.append_log import AppendLog, decode_lines, encode_line
from ..base.checksummed import ANYTHING, TEXT, mapped
from ..base.errors import InputError
from ..live.journal.records import decode_json


class EditLog(AppendLog):
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

    Raises
    ------
    InputError
        If the file is damaged or no log.
    DiskError
        If it cannot be read or written, or another process has it open.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.head, self.records = head, list[dict[str, Any]]()
        self._crc = 0
        super().__init__(
            path,
            self._read,
            in_use=f"{path} is in use: these labels are open in another mlat label",
            then="all edits before it are kept; make room, and do the last one again",
        )

    def append(self, record: dict[str, Any], *, flush: bool = True) -> None:
        """Write a record; as :meth:`AppendLog.write`."""
        for one in [record] if self.size else [self.head, record]:
            line, crc = encode_line(_text(one), self._crc)
            self.write(line, flush=flush)
            self._crc = crc

    def _read(self, content: bytes) -> int:
        whole = 0
        for text, stop in decode_lines(content, str(self.path)):
            self.records.append(decode_json(text, mapped(TEXT, ANYTHING), f"{self.path}, an edit"))
            _, self._crc = encode_line(text, self._crc)
            whole = stop
        if self.records:
            self.head, *self.records = self.records
        elif not encode_line(_text(self.head), 0)[0].startswith(content):  # no other file is cut
            raise InputError(f"{self.path} is no log of labels; choose another table")
        return whole


def _text(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
