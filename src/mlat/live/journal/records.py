"""The batches inside the records of a journal, as bytes.

``docs/live/journal.md`` describes the format; ``tests/journal_description.py`` reads it by that
description alone. The bytes of predictions are canonical: equal predictions have equal bytes, NaN
included.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints
from ...base.checksummed import COUNT, SIZE, TEXT, Kind, either, listed, record, whole
from ...base.errors import InputError
from ..core.steps import NO_PREDICTIONS, Predictions, Steps, join
from ..sources.source import Arrival


@dataclass(frozen=True, slots=True)
class Example:
    """The last ``n`` windows become references of a state."""

    state: str | int
    n: int = 1


@dataclass(frozen=True, slots=True)
class Flushed:
    """The steps that wait for an earlier one are classified without it."""


@dataclass(frozen=True, slots=True)
class SpanExample:
    """The windows inside the steps ``begin`` to ``end - 1`` become references of a state."""

    state: str | int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Undone:
    """The last example is taken back."""


Taught = Example | SpanExample | Undone
Input = Arrival | Example | SpanExample | Undone | Flushed


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one record holds: the inputs of a session in order, and the predictions they led to."""

    inputs: Sequence[Input]
    predictions: Predictions = field(default_factory=lambda: NO_PREDICTIONS)

    @property
    def arrivals(self) -> list[Arrival]:
        return [one for one in self.inputs if isinstance(one, Arrival)]

    @property
    def steps(self) -> list[Steps]:
        """Those of the arrivals, joined as far as they have the same columns."""
        return [joined(group).steps for group in joinable(self.arrivals)]

    @property
    def n_steps(self) -> int:
        return sum(len(arrival.steps) for arrival in self.arrivals)

    @property
    def position(self) -> str:
        """Where the source resumes after this batch; ``""`` if the batch does not say."""
        return last_position(self.arrivals)


def last_position(arrivals: Sequence[Arrival]) -> str:
    """Return the last position that an arrival has; ``""`` if none has one."""
    return next((a.position for a in reversed(arrivals) if a.position), "")


def joinable(arrivals: Sequence[Arrival]) -> list[list[Arrival]]:
    """Split arrivals, in order, into groups that have the same columns."""
    return [list(group) for _, group in groupby(arrivals, _columns)]


def _columns(arrival: Arrival) -> tuple[object, ...]:
    steps = arrival.steps
    return steps.values.shape[1:], steps.seq is None, steps.time is None


def joined(group: Sequence[Arrival]) -> Arrival:
    """Arrivals of the same columns as one."""
    return Arrival(join([arrival.steps for arrival in group]), last_position(group))


HEAD, BATCH, SNAPSHOT, END = 1, 2, 3, 4  # the kinds of frames


def decode_json(text: bytes, kind: Kind, where: str) -> Any:
    """Return the JSON in some bytes, which must be of a kind.

    Raises
    ------
    InputError
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is no JSON") from None
    kind(value, where)
    return value


# Batches: entries one after the other, each a kind, a length and a body.

_STEPS, _PREDICTIONS, _AGREEMENT = 1, 4, 5
_HAS_SEQ, _HAS_TIME = 1, 2
_ENTRY_HEAD = struct.Struct("<BI")
_STEPS_HEAD = struct.Struct("<BIII")
_PREDICTIONS_HEAD = struct.Struct("<II")
# Of predictions; the last two are how many neighbours and probabilities there are.
_ROW = [("step", "<i8"), ("state", "<u2"), ("why", "<u2"), ("has", "<u1"), ("proba", "<f8")]
_ROW += [("distance", "<f8"), ("seq", "<i8"), ("time", "<f8"), ("near", "<u2"), ("there", "<u2")]
_ROW_SIZE = np.dtype(_ROW).itemsize
_STATE = either(TEXT, whole())
# The other inputs: their fields are written as JSON, if they have any.
_OTHERS: dict[int, tuple[type[Any], Kind | None]] = {
    2: (Example, record({"state": _STATE, "n": SIZE})),
    3: (Flushed, None),
    6: (SpanExample, record({"state": _STATE, "begin": COUNT, "end": SIZE})),
    7: (Undone, None),
}
_TABLES = record({"states": listed(_STATE), "why": listed(TEXT)})


def encode_batch(batch: Batch) -> bytes:
    """Return the payload of a record."""
    entries = [_encode_input(one) for one in batch.inputs]
    told = batch.predictions
    if len(told):
        entries.append((_PREDICTIONS, encode_predictions(told)))
        if not np.array_equal(told.agreement, _usual_agreement(told), equal_nan=True):
            entries.append((_AGREEMENT, _bytes(told.agreement, "<f8")))
    return b"".join(_ENTRY_HEAD.pack(kind, len(body)) + body for kind, body in entries)


def decode_batch(payload: bytes) -> Batch:
    """Return the batch in a payload.

    Raises
    ------
    InputError
        If it is none, or a later version of mlat wrote it.
    """
    inputs: list[Input] = []
    predictions: list[Predictions] = []
    entries = _Reader(payload)
    while entries.left:
        kind, length = entries.unpack(_ENTRY_HEAD)
        body = entries.bytes(length)
        if kind == _STEPS:
            inputs.append(_decode_arrival(body))
        elif kind in _OTHERS:
            made, form = _OTHERS[kind]
            given = {} if form is None else decode_json(body, form, "what was taught")
            inputs.append(made(**given))
        elif kind == _PREDICTIONS:
            predictions.append(decode_predictions(body))
        elif kind == _AGREEMENT:  # of the entry just before
            if not predictions or len(body) != 8 * len(predictions[-1]):
                raise InputError("how far experts agree is of other predictions")
            predictions[-1].agreement[:] = np.frombuffer(body, "<f8")
        else:
            raise InputError(
                f"the journal has an entry of kind {kind}, which this version of mlat does not "
                "know; use the version that wrote it"
            )
    for one, following in pairwise(predictions):
        if following.first != one.first + len(one):
            raise InputError("its predictions are not of steps that follow each other")
    return Batch(inputs, Predictions.joined(predictions))


def _encode_input(one: Input) -> tuple[int, bytes]:
    if isinstance(one, Arrival):
        return _STEPS, _encode_arrival(one)
    kind = next(kind for kind, (made, _) in _OTHERS.items() if isinstance(one, made))
    fields = asdict(one)
    return kind, json.dumps(fields).encode() if fields else b""


def _encode_arrival(arrival: Arrival) -> bytes:
    steps, position = arrival.steps, arrival.position.encode()
    n_steps, n_channels = steps.values.shape
    has = _HAS_SEQ * (steps.seq is not None) | _HAS_TIME * (steps.time is not None)
    parts = [_STEPS_HEAD.pack(has, n_steps, n_channels, len(position)), position]
    parts.append(_bytes(steps.values, "<f8"))
    if steps.seq is not None:
        parts.append(_bytes(steps.seq, "<i8"))
    if steps.time is not None:
        parts.append(_bytes(steps.time, "<f8"))
    return b"".join(parts)


def _decode_arrival(body: bytes) -> Arrival:
    reader = _Reader(body)
    has, n_steps, n_channels, length = reader.unpack(_STEPS_HEAD)
    try:
        position = reader.bytes(length).decode()
    except UnicodeDecodeError:
        raise InputError("a position is no text") from None
    values = reader.column("<f8", n_steps * n_channels).reshape(-1, max(n_channels, 1))
    seq = reader.column("<i8", n_steps) if has & _HAS_SEQ else None
    time = reader.column("<f8", n_steps) if has & _HAS_TIME else None
    if len(values) != n_steps or reader.left:
        raise InputError("steps have another length than their entry")
    return Arrival(Steps(values, seq, time), position)


def encode_predictions(told: Predictions) -> bytes:
    """Return the predictions column by column; states and reasons are indices of a table.

    Without how far experts agree, which a batch has an entry of its own for.
    """
    n = len(told)
    states, state = _in_order(told.codes)
    reasons, why = _in_order(told.why)
    names = tuple([told.names[code] for code in states])
    table = _encode_table(names, tuple([told.reasons[code] for code in reasons]))
    near, there = told.neighbours >= 0, ~np.isnan(told.probabilities)
    columns = np.zeros((), _columns_of(n))
    columns["step"] = np.arange(told.first, told.first + n)
    columns["state"], columns["why"] = state, why
    columns["proba"] = np.where(np.isnan(told.proba), np.nan, told.proba)
    columns["distance"] = np.where(np.isnan(told.distance), np.nan, told.distance)
    for name, bit, own in (("seq", _HAS_SEQ, told.seq), ("time", _HAS_TIME, told.time)):
        if own is not None:
            columns["has"] += np.uint8(bit) * ~np.ma.getmaskarray(own)
            columns[name] = np.ma.filled(own, 0)
    columns["near"], columns["there"] = near.sum(axis=1), there.sum(axis=1)
    flat = _bytes(told.neighbours[near], "<i8"), _bytes(told.probabilities[there], "<f8")
    return b"".join([_PREDICTIONS_HEAD.pack(n, len(table)), table, columns.tobytes(), *flat])


def _in_order(codes: Ints) -> tuple[list[int], list[int]]:
    """The codes that there are, in the order in which they come, and each as an index of these."""
    order: dict[int, int] = {}
    index = [order.setdefault(code, len(order)) for code in codes.tolist()]
    return [*order], index


def decode_predictions(body: bytes) -> Predictions:
    """Return the predictions that :func:`encode_predictions` encoded.

    Raises
    ------
    InputError
    """
    reader = _Reader(body)
    n, length = reader.unpack(_PREDICTIONS_HEAD)
    states, reasons = _decode_table(reader.bytes(length))
    columns = np.ndarray((), _columns_of(n), reader.bytes(n * _ROW_SIZE))
    step, state, why = columns["step"], columns["state"], columns["why"]
    neighbours = _filled(reader, "<i8", columns["near"], -1)
    probabilities = _filled(reader, "<f8", columns["there"], np.nan)
    if reader.left:
        raise InputError("predictions have another length than their entry")
    if n and (state.max() >= len(states) or why.max() >= len(reasons)):
        raise InputError("a prediction is of no state in its entry")
    first = int(step[0]) if n else 0
    if n > 1 and (step != np.arange(first, first + n)).any():
        raise InputError("its predictions are not of steps that follow each other")
    seq, time = (
        _where_there(columns["has"] & bit != 0, columns[name])
        for name, bit in (("seq", _HAS_SEQ), ("time", _HAS_TIME))
    )
    found = (states, state, columns["proba"], np.empty(n), columns["distance"], neighbours)
    told = Predictions(first, *found, reasons, why, probabilities, seq, time)
    told.agreement[:] = _usual_agreement(told)
    return told


def _filled(reader: _Reader, kind: str, lengths: Ints, nothing: float) -> NDArray[Any]:
    """Rows of some lengths, one after the other, as a table that is filled up."""
    width = int(lengths.max(initial=0))
    flat = reader.column(kind, int(lengths.sum()))
    if len(flat) == len(lengths) * width:
        return flat.reshape(len(lengths), width)
    table = np.full((len(lengths), width), nothing)
    table[np.arange(width) < lengths[:, None]] = flat
    return table


def _where_there(there: Bools, column: NDArray[Any]) -> NDArray[Any] | None:
    """A column that is None, or masked, where the source gave no such number."""
    if there.all():
        return column
    return np.ma.masked_array(column, ~there) if there.any() else None


def _usual_agreement(told: Predictions) -> Floats:
    """All experts agree, where there is a state at all."""
    return np.where(told.reasoned(bool), np.nan, 1.0)


# The tables of most records are those of the records before.


@lru_cache(maxsize=256)
def _encode_table(states: tuple[Any, ...], reasons: tuple[str, ...]) -> bytes:
    return json.dumps({"states": [*map(_plain, states)], "why": reasons}).encode()


@lru_cache(maxsize=256)
def _decode_table(text: bytes) -> tuple[tuple[str | int, ...], tuple[str, ...]]:
    table = decode_json(text, _TABLES, "the states of predictions")
    return tuple(table["states"]), tuple(table["why"])


@lru_cache(maxsize=64)
def _columns_of(n: int) -> np.dtype[Any]:
    """The columns of n predictions, one after the other."""
    return np.dtype([(name, kind, (n,)) for name, kind in _ROW])


def _plain(state: Any) -> str | int:
    """A state of numpy's types as JSON can write it."""
    return str(state) if isinstance(state, str) else int(state)


def _bytes(values: Any, kind: str) -> bytes:
    column = np.array(values, dtype=kind)
    if kind == "<f8":
        column[np.isnan(column)] = np.nan  # the one NaN for every NaN
    return column.tobytes()


class _Reader:
    """Reads what lies one after the other in some bytes, and nothing beyond them."""

    def __init__(self, content: bytes) -> None:
        self._content, self._offset = content, 0

    @property
    def left(self) -> int:
        return len(self._content) - self._offset

    def bytes(self, n: int) -> bytes:
        if n > self.left:
            raise InputError(f"an entry has {self.left} bytes where {n} should be")
        self._offset += n
        return self._content[self._offset - n : self._offset]

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.bytes(form.size))

    def column(self, kind: str, n: int) -> NDArray[Any]:
        column = np.frombuffer(self.bytes(n * np.dtype(kind).itemsize), dtype=kind)
        # A copy in native byte order, so that it is writable and does not keep the body alive.
        return column.astype(column.dtype.newbyteorder("="))
