"""Reading a journal by its description alone, without the code that writes it.

``docs/live-journal.md`` says what the bytes mean. Whatever is not as it should be is a
:class:`BrokenError`.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class BrokenError(Exception):
    """What a journal or a session should not be, in one line."""


@dataclass(slots=True)
class Held:
    """What a journal holds, all records together.

    Attributes
    ----------
    head : dict
        What the segments say of themselves.
    first_record, n_records, n_segments : int
    unfinished : int
        Bytes after the last record.
    inputs : list of (record, kind, what)
        ``"steps"`` with a dict of values, seq, time and position; ``"teach"``; ``"flush"``.
    predictions : list of (record, dict)
    """

    head: dict[str, Any] = field(default_factory=dict)
    first_record: int = 0
    n_records: int = 0
    n_segments: int = 0
    unfinished: int = 0
    inputs: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    predictions: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    @property
    def values(self) -> NDArray[np.float64]:
        """The steps as they arrived, shape (n, d)."""
        parts = [what["values"] for _, kind, what in self.inputs if kind == "steps"]
        return np.concatenate(parts) if parts else np.empty((0, len(self.head["channels"])))

    @property
    def positions(self) -> list[tuple[int, str]]:
        """After how many steps the source was where."""
        n, found = 0, []
        for _, kind, what in self.inputs:
            if kind == "steps":
                n += len(what["values"])
                found.append((n, what["position"]))
        return found


def read_journal(folder: Path) -> Held:
    """Everything in the segments of a folder; the end of the last one may be unfinished."""
    held = Held()
    segments = sorted(folder.glob("steps-*.journal"))
    next_record = None
    for segment in segments:
        content = segment.read_bytes()
        last = segment == segments[-1]
        offset = 0
        while offset < len(content):
            record = _frame(content, offset)
            if record is None:
                if not last or _frame_follows(content, offset):
                    raise BrokenError(f"{segment}: bad record at byte {offset}")
                held.unfinished = len(content) - offset
                break
            kind, number, payload, stop = record
            if offset == 0:
                _head(held, segment, kind, number, payload, next_record)
                next_record = number
            elif kind != 2 or number != next_record:
                raise BrokenError(f"{segment}: record {number} where {next_record} should be")
            else:
                _batch(held, number, payload)
                held.n_records += 1
                next_record = number + 1
            offset = stop
    return held


def _frame(content: bytes, offset: int) -> tuple[int, int, bytes, int] | None:
    if len(content) < offset + 24 or content[offset : offset + 4] != b"\xabMLR":
        return None
    crc, length, kind = struct.unpack("<III", content[offset + 4 : offset + 16])
    (number,) = struct.unpack("<Q", content[offset + 16 : offset + 24])
    stop = offset + 24 + length
    if stop > len(content) or zlib.crc32(content[offset + 8 : stop]) != crc:
        return None
    return kind, number, content[offset + 24 : stop], stop


def _frame_follows(content: bytes, offset: int) -> bool:
    return any(
        content[i : i + 4] == b"\xabMLR" and _frame(content, i) is not None
        for i in range(offset + 1, len(content))
    )


def _head(
    held: Held, segment: Path, kind: int, number: int, payload: bytes, expected: int | None
) -> None:
    head = json.loads(payload)
    if kind != 1 or head["format"] != "mlat live journal":
        raise BrokenError(f"{segment}: does not begin with a head")
    if int(segment.stem.removeprefix("steps-")) != number:
        raise BrokenError(f"{segment}: says that it begins at record {number}")
    if expected is None:
        held.first_record, held.head = number, head
    elif number != expected:
        raise BrokenError(f"{segment}: records {expected} to {number - 1} are missing")
    elif head != held.head:
        raise BrokenError(f"{segment}: belongs to another journal than the segments before")
    held.n_segments += 1


def _batch(held: Held, record: int, payload: bytes) -> None:
    offset = 0
    while offset < len(payload):
        kind, length = struct.unpack_from("<BI", payload, offset)
        body = payload[offset + 5 : offset + 5 + length]
        if len(body) != length:
            raise BrokenError(f"record {record}: an entry is longer than its record")
        if kind == 1:
            held.inputs.append((record, "steps", _steps(body)))
        elif kind == 2:
            held.inputs.append((record, "teach", json.loads(body)))
        elif kind == 3:
            held.inputs.append((record, "flush", {}))
        elif kind == 4:
            held.predictions += [(record, told) for told in _predictions(body)]
        else:
            raise BrokenError(f"record {record}: an entry of unknown kind {kind}")
        offset += 5 + length


def _steps(body: bytes) -> dict[str, Any]:
    has, n, d, length = struct.unpack_from("<BIII", body)
    at = 13 + length
    values, at = _column(body, at, "<f8", n * d)
    seq = time = None
    if has & 1:
        seq, at = _column(body, at, "<i8", n)
    if has & 2:
        time, at = _column(body, at, "<f8", n)
    position = body[13 : 13 + length].decode()
    return {"values": values.reshape(n, d), "seq": seq, "time": time, "position": position}


def _predictions(body: bytes) -> list[dict[str, Any]]:
    n, length = struct.unpack_from("<II", body)
    table = json.loads(body[8 : 8 + length])
    at = 8 + length
    columns: list[list[Any]] = []
    for kind in ("<i8", "<u2", "<u2", "<u1", "<f8", "<f8", "<i8", "<f8", "<u2", "<u2"):
        column, at = _column(body, at, kind, n)
        columns.append(column.tolist())
    rows, at = _column(body, at, "<i8", sum(columns[8]))
    shares, at = _column(body, at, "<f8", sum(columns[9]))
    row_stops, share_stops = np.cumsum(columns[8]), np.cumsum(columns[9])
    return [
        {
            "step": step,
            "state": table["states"][state],
            "why": table["why"][why],
            "proba": proba,
            "distance": distance,
            "seq": seq if has & 1 else None,
            "time": time if has & 2 else None,
            "neighbours": rows[row_stops[i] - n_rows : row_stops[i]].tolist(),
            "probabilities": shares[share_stops[i] - n_shares : share_stops[i]].tolist(),
        }
        for i, (step, state, why, has, proba, distance, seq, time, n_rows, n_shares) in enumerate(
            zip(*columns, strict=True)
        )
    ]


def _column(body: bytes, at: int, kind: str, n: int) -> tuple[NDArray[Any], int]:
    stop = at + n * np.dtype(kind).itemsize
    return np.frombuffer(body[at:stop], dtype=kind), stop
