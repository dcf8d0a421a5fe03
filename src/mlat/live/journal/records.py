"""What a record of the journal holds: what came in, in turn, and the predictions it led to.

The bytes of predictions are canonical: equal predictions have equal bytes, NaN included.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ..core.steps import Prediction, Steps

STEPS, TEACHING, FLUSH, PREDICTIONS = 1, 2, 3, 4
_ENTRY = struct.Struct("<BI")
_STEPS = struct.Struct("<BIII")
_PREDICTIONS = struct.Struct("<II")
_HAS_SEQ, _HAS_TIME = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Steps as the source gave them; it can resume behind ``position``."""

    steps: Steps
    position: str = ""


@dataclass(frozen=True, slots=True)
class Taught:
    """The last ``n`` windows became references of a state."""

    state: str | int
    n: int = 1


@dataclass(frozen=True, slots=True)
class Flushed:
    """Steps that waited for an earlier one wait no more."""


Input = Arrived | Taught | Flushed


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one record holds."""

    inputs: Sequence[Input]
    predictions: Sequence[Prediction] = field(default_factory=list)


def encode_batch(batch: Batch) -> bytes:
    """The payload of a record."""
    entries = [_encode_input(one) for one in batch.inputs]
    entries.append((PREDICTIONS, encode_predictions(batch.predictions)))
    return b"".join(_ENTRY.pack(kind, len(body)) + body for kind, body in entries)


def decode_batch(payload: bytes) -> Batch:
    """The batch in a payload, whose checksum has been found right."""
    inputs: list[Input] = []
    predictions: list[Prediction] = []
    offset = 0
    while offset < len(payload):
        kind, length = _ENTRY.unpack_from(payload, offset)
        offset += _ENTRY.size
        body = payload[offset : offset + length]
        offset += length
        if kind == STEPS:
            inputs.append(_decode_steps(body))
        elif kind == TEACHING:
            inputs.append(Taught(**json.loads(body)))
        elif kind == FLUSH:
            inputs.append(Flushed())
        elif kind == PREDICTIONS:
            predictions += decode_predictions(body)
        else:
            raise InputError(
                f"the journal has an entry of kind {kind}, which this version of mlat does not "
                "know; use the version that wrote it"
            )
    return Batch(inputs, predictions)


def _encode_input(one: Input) -> tuple[int, bytes]:
    if isinstance(one, Arrived):
        return STEPS, _encode_steps(one)
    if isinstance(one, Taught):
        return TEACHING, json.dumps({"state": one.state, "n": one.n}).encode()
    return FLUSH, b""


def _encode_steps(arrived: Arrived) -> bytes:
    steps, position = arrived.steps, arrived.position.encode()
    n_steps, n_channels = steps.values.shape
    has = _HAS_SEQ * (steps.seq is not None) | _HAS_TIME * (steps.time is not None)
    parts = [_STEPS.pack(has, n_steps, n_channels, len(position)), position]
    parts.append(_bytes(steps.values, "<f8"))
    if steps.seq is not None:
        parts.append(_bytes(steps.seq, "<i8"))
    if steps.time is not None:
        parts.append(_bytes(steps.time, "<f8"))
    return b"".join(parts)


def _decode_steps(body: bytes) -> Arrived:
    has, n_steps, n_channels, length = _STEPS.unpack_from(body)
    columns = _Columns(body, _STEPS.size + length)
    position = body[_STEPS.size : _STEPS.size + length].decode()
    values = columns.take("<f8", n_steps * n_channels).reshape(n_steps, n_channels)
    seq = columns.take("<i8", n_steps) if has & _HAS_SEQ else None
    time = columns.take("<f8", n_steps) if has & _HAS_TIME else None
    return Arrived(Steps(values, seq, time), position)


def encode_predictions(predictions: Sequence[Prediction]) -> bytes:
    """Column by column; states and reasons as numbers of a short table of texts."""
    states: dict[str | int, int] = {}
    reasons: dict[str, int] = {}
    state = [states.setdefault(p.state, len(states)) for p in predictions]
    why = [reasons.setdefault(p.why, len(reasons)) for p in predictions]
    table = json.dumps({"states": [_plain(s) for s in states], "why": list(reasons)}).encode()
    has = [_HAS_SEQ * (p.seq is not None) | _HAS_TIME * (p.time is not None) for p in predictions]
    columns = [
        _bytes([p.step for p in predictions], "<i8"),
        _bytes(state, "<u2"),
        _bytes(why, "<u2"),
        _bytes(has, "<u1"),
        _bytes([p.proba for p in predictions], "<f8"),
        _bytes([p.distance for p in predictions], "<f8"),
        _bytes([p.seq or 0 for p in predictions], "<i8"),
        _bytes([0.0 if p.time is None else p.time for p in predictions], "<f8"),
        _bytes([len(p.neighbours) for p in predictions], "<u2"),
        _bytes([len(p.probabilities) for p in predictions], "<u2"),
        _bytes([row for p in predictions for row in p.neighbours], "<i8"),
        _bytes([share for p in predictions for share in p.probabilities], "<f8"),
    ]
    return b"".join([_PREDICTIONS.pack(len(predictions), len(table)), table, *columns])


def decode_predictions(body: bytes) -> list[Prediction]:
    """The predictions whose bytes these are."""
    n, length = _PREDICTIONS.unpack_from(body)
    columns = _Columns(body, _PREDICTIONS.size + length)
    table = json.loads(body[_PREDICTIONS.size : _PREDICTIONS.size + length])
    step, state, why, has, proba, distance, seq, time, n_rows, n_shares = (
        columns.take(kind, n).tolist()
        for kind in ("<i8", "<u2", "<u2", "<u1", "<f8", "<f8", "<i8", "<f8", "<u2", "<u2")
    )
    rows = _split(columns.take("<i8", sum(n_rows)).tolist(), n_rows)
    shares = _split(columns.take("<f8", sum(n_shares)).tolist(), n_shares)
    return [
        Prediction(
            step=step[i],
            state=table["states"][state[i]],
            proba=proba[i],
            distance=distance[i],
            neighbours=tuple(rows[i]),
            why=table["why"][why[i]],
            seq=seq[i] if has[i] & _HAS_SEQ else None,
            time=time[i] if has[i] & _HAS_TIME else None,
            probabilities=tuple(shares[i]),
        )
        for i in range(n)
    ]


def _plain(state: Any) -> str | int:
    """A state as JSON knows it: numpy's texts and numbers are Python's in disguise."""
    return str(state) if isinstance(state, str) else int(state)


def _bytes(values: Any, kind: str) -> bytes:
    return np.ascontiguousarray(values, dtype=kind).tobytes()


def _split(flat: list[Any], lengths: Iterable[int]) -> list[list[Any]]:
    parts, start = [], 0
    for length in lengths:
        parts.append(flat[start : start + length])
        start += length
    return parts


class _Columns:
    """Arrays one after the other in a body."""

    def __init__(self, body: bytes, offset: int) -> None:
        self._body, self._offset = body, offset

    def take(self, kind: str, n: int) -> NDArray[Any]:
        column = np.frombuffer(self._body, dtype=kind, count=n, offset=self._offset)
        self._offset += column.nbytes
        # A copy in the machine's own order, so that it can be written to and the body can go.
        return column.astype(column.dtype.newbyteorder("="))
