"""Reads a journal by its description in ``docs/live/journal.md``, without the code that writes it.

Everything that differs from the description is a :class:`BrokenError`.
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

Floats = NDArray[np.float64]


class BrokenError(Exception):
    """Something is wrong with a journal or a session; the message is one line."""


@dataclass(slots=True)
class JournalContents:
    """What a journal holds, of all records.

    Attributes
    ----------
    head : dict
        The fields in the heads of the segments.
    first_record, n_records, n_segments : int
    unfinished : int
        Bytes after the last record.
    inputs : list of (record, kind, what)
        ``"steps"`` with a dict of values, seq, time and position; ``"teach"``; ``"teach span"``;
        ``"undo"``; ``"flush"``.
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
    def values(self) -> Floats:
        """The steps as they arrived, of shape (n, d)."""
        parts = [what["values"] for _, kind, what in self.inputs if kind == "steps"]
        return np.concatenate(parts) if parts else np.empty((0, len(self.head["channels"])))

    @property
    def positions(self) -> list[tuple[int, str]]:
        """Pairs of a number of steps, and the position of the source after them."""
        n, found = 0, []
        for _, kind, what in self.inputs:
            if kind == "steps":
                n += len(what["values"])
                found.append((n, what["position"]))
        return found


def read_journal(folder: Path) -> JournalContents:
    """Read all segments of a folder; the last record of the last one may be unfinished."""
    contents = JournalContents()
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
                contents.unfinished = len(content) - offset
                break
            kind, number, payload, stop = record
            try:
                if offset == 0:
                    _head(contents, segment, kind, number, payload, next_record)
                    next_record = number
                elif kind != 2 or number != next_record:
                    raise BrokenError(f"{segment}: record {number} where {next_record} should be")
                else:
                    _batch(contents, number, payload)
                    contents.n_records += 1
                    next_record = number + 1
            except (ValueError, LookupError, TypeError, struct.error) as error:
                what = f"record {number} is not as described ({error!r})"
                raise BrokenError(f"{segment}: {what}") from None
            offset = stop
    return contents


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
    contents: JournalContents,
    segment: Path,
    kind: int,
    number: int,
    payload: bytes,
    expected: int | None,
) -> None:
    head = json.loads(payload)
    if kind != 1 or head["format"] != "mlat live journal":
        raise BrokenError(f"{segment}: does not begin with a head")
    if int(segment.stem.removeprefix("steps-")) != number:
        raise BrokenError(f"{segment}: says that it begins at record {number}")
    if expected is None:
        contents.first_record, contents.head = number, head
    elif number != expected:
        raise BrokenError(f"{segment}: records {expected} to {number - 1} are missing")
    elif _lasting(head) != _lasting(contents.head):
        raise BrokenError(f"{segment}: belongs to another journal than the segments before")
    contents.n_segments += 1


def _lasting(head: dict[str, Any]) -> dict[str, Any]:
    """A head without what may change from one segment to the next."""
    options = {name: value for name, value in head["options"].items() if name != "teachable"}
    return head | {"options": options}


def _batch(contents: JournalContents, record: int, payload: bytes) -> None:
    offset = 0
    while offset < len(payload):
        kind, length = struct.unpack_from("<BI", payload, offset)
        body = payload[offset + 5 : offset + 5 + length]
        if len(body) != length:
            raise BrokenError(f"record {record}: an entry is longer than its record")
        if kind == 1:
            contents.inputs.append((record, "steps", _steps(body)))
        elif kind == 2:
            contents.inputs.append((record, "teach", json.loads(body)))
        elif kind == 6:
            contents.inputs.append((record, "teach span", json.loads(body)))
        elif kind == 7:
            contents.inputs.append((record, "undo", {}))
        elif kind == 3:
            contents.inputs.append((record, "flush", {}))
        elif kind == 4:
            contents.predictions += [(record, prediction) for prediction in _predictions(body)]
        elif kind == 5:
            agreement = np.frombuffer(body, "<f8").tolist()
            of = contents.predictions[len(contents.predictions) - len(agreement) :]
            if [number for number, _ in of] != [record] * len(agreement):
                raise BrokenError(f"record {record}: agreement without a prediction")
            for (_, prediction), value in zip(of, agreement, strict=True):
                prediction["agreement"] = value
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
            "agreement": np.nan if table["why"][why] else 1.0,
        }
        for i, (step, state, why, has, proba, distance, seq, time, n_rows, n_shares) in enumerate(
            zip(*columns, strict=True)
        )
    ]


def _column(body: bytes, at: int, kind: str, n: int) -> tuple[NDArray[Any], int]:
    stop = at + n * np.dtype(kind).itemsize
    return np.frombuffer(body[at:stop], dtype=kind), stop
