"""The batches inside the records of a journal, as bytes.

``docs/live/journal.md`` describes the format; ``tests/journal_description.py`` reads it by that
description alone. The bytes of predictions are canonical: equal predictions have equal bytes, NaN
included.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.append_log import Frame
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


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """What some records that follow each other hold.

    Attributes
    ----------
    first : int
        The number of the first.
    inputs : list of list of Input
        Of each.
    ends : list of int
        How many predictions there are up to the end of each.
    predictions : Predictions
        Of all.
    """

    first: int
    inputs: list[list[Input]]
    ends: list[int]
    predictions: Predictions

    def __len__(self) -> int:
        return len(self.inputs)

    @classmethod
    def joined(cls, first: int, parts: Sequence[Records]) -> Records:
        """Those that follow each other; refused where their steps do not."""
        told = Predictions.joined(part.predictions for part in parts)
        ends = [0]
        for part in parts:
            expected = told.first + ends[-1]
            if len(part.predictions) and part.predictions.first != expected:
                record = part.first + part.ends.count(0)
                step = part.predictions.first
                raise InputError(f"record {record}: step {step} where {expected} should be")
            ends += [ends[-1] + end for end in part.ends]
        return cls(first, [one for part in parts for one in part.inputs], ends[1:], told)

    @property
    def whole(self) -> Batch:
        """All of them as one."""
        return Batch([one for inputs in self.inputs for one in inputs], self.predictions)

    def batches(self) -> Iterator[Batch]:
        """Each record alone."""
        for inputs, (begin, end) in zip(self.inputs, pairwise([0, *self.ends]), strict=True):
            yield Batch(inputs, self.predictions.part(begin, end))

    def arrived(self, n_channels: int) -> Iterator[tuple[Steps, Predictions]]:
        """Steps as they arrived, and what was predicted then.

        All at once where every step has its prediction; else record by record.
        """
        if self.whole.n_steps == len(self.predictions) and len(steps := self.whole.steps) == 1:
            yield steps[0], self.predictions
            return
        for batch in self.batches():
            *before, last = batch.steps or [Steps(np.empty((0, n_channels)))]
            yield from ((steps, NO_PREDICTIONS) for steps in before)
            yield last, batch.predictions


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
_MOST_CELLS = 1 << 26
_ANOTHER_LENGTH = "predictions have another length than their entry"
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
        both = zip(told.agreement.tolist(), told.why.tolist(), strict=True)
        if any(own == own if told.reasons[why] else own != 1.0 for own, why in both):
            entries.append((_AGREEMENT, _bytes(told.agreement, "<f8")))
    return b"".join(_ENTRY_HEAD.pack(kind, len(body)) + body for kind, body in entries)


class _Told(NamedTuple):
    """An entry of predictions: how many, their tables, the columns, and how far experts agree."""

    record: int
    n: int
    states: tuple[str | int, ...]
    reasons: tuple[str, ...]
    columns: bytes
    agreement: bytes | None = None

    @property
    def form(self) -> Any:
        """Entries of one prediction that have the same form are read at once."""
        return self.columns[_ROW_SIZE - 4 : _ROW_SIZE] if self.n == 1 else id(self)


def decode_records(frames: Sequence[Frame]) -> Records:
    """Return what is in some records that follow each other, of one at least.

    Raises
    ------
    InputError
        If one is none, or a later version of mlat wrote it.
    """
    inputs, told = list[list[Input]](), list[_Told]()
    ends = np.zeros(len(frames), np.int64)
    for i, frame in enumerate(frames):
        n_before = len(told)
        try:
            inputs.append(_decode_entries(frame, told))
        except InputError as error:
            raise InputError(f"record {frame.number}: {error}") from None
        ends[i] = sum([one.n for one in told[n_before:]])
    first = frames[0].number
    return Records(first, inputs, ends.cumsum().tolist(), _decode_predictions(told))


def _decode_entries(frame: Frame, told: list[_Told]) -> list[Input]:
    """The inputs in a record; its predictions are added to those of the records before."""
    inputs: list[Input] = []
    entries, last = _Reader(frame.payload), 0
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
            reader = _Reader(body)
            n, length = reader.unpack(_PREDICTIONS_HEAD)
            tables = _decode_tables(reader.bytes(length))
            told.append(_Told(frame.number, n, *tables, reader.bytes(reader.left)))
        elif kind == _AGREEMENT:  # of the entry just before
            if last != _PREDICTIONS or len(body) != 8 * told[-1].n:
                raise InputError("how far experts agree is of other predictions")
            told[-1] = told[-1]._replace(agreement=body)
        else:
            raise InputError(
                f"the journal has an entry of kind {kind}, which this version of mlat does not "
                "know; use the version that wrote it"
            )
        last = kind
    return inputs


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
    table = _encode_tables(names, tuple([told.reasons[code] for code in reasons]))
    near, there = told.neighbours >= 0, ~np.isnan(told.probabilities)
    columns = np.zeros((), _columns_of(n))
    columns["step"] = np.arange(told.first, told.first + n)
    columns["state"], columns["why"] = state, why
    figures = np.array([told.proba, told.distance])
    figures[np.isnan(figures)] = np.nan  # the one NaN for every NaN
    columns["proba"], columns["distance"] = figures
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


def _decode_predictions(told: Sequence[_Told]) -> Predictions:
    """The predictions of some entries, of steps that must follow each other."""
    found: list[tuple[Ints, Predictions]] = []
    for _, group in groupby(told, lambda one: one.form):
        some = [*group]
        try:
            found.append(_decode_alike(some))
        except InputError:
            for one in some:  # which of them?
                try:
                    found.append(_decode_alike([one]))
                except InputError as error:
                    raise InputError(f"record {one.record}: {error}") from None
    predictions = Predictions.joined(part for _, part in found)
    steps = np.concatenate([np.empty(0, np.int64), *(own for own, _ in found)])
    expected = predictions.first + np.arange(len(steps))
    if (steps != expected).any():
        at = int((steps != expected).argmax())
        records = np.repeat([one.record for one in told], [one.n for one in told])
        raise InputError(f"record {records[at]}: step {steps[at]} where {expected[at]} should be")
    return predictions


def _decode_alike(told: Sequence[_Told]) -> tuple[Ints, Predictions]:
    """The predictions of one entry, or of some of one prediction each; and their steps."""
    n = told[0].n
    columns, neighbours, probabilities = _decode_rows(told) if n == 1 else _decode_columns(told[0])
    names, reasons = dict[Any, int](), dict[str, int]()
    rows = zip(
        told if n == 1 else [told[0]] * n,
        columns["state"].tolist(),
        columns["why"].tolist(),
        strict=True,
    )
    try:
        both = [
            (
                names.setdefault(one.states[state], len(names)),
                reasons.setdefault(one.reasons[why], len(reasons)),
            )
            for one, state, why in rows
        ]
    except IndexError:
        raise InputError("a prediction is of no state in its entry") from None
    codes, why = np.array(both, np.int64).reshape(-1, 2).T
    seq, time = (
        _where_there(columns["has"] & bit != 0, columns[name])
        for name, bit in (("seq", _HAS_SEQ), ("time", _HAS_TIME))
    )
    agreement, proba, distance = np.empty(len(why)), columns["proba"], columns["distance"]
    made = Predictions(
        *(int(columns["step"][0]) if n else 0, tuple(names), codes, proba, agreement, distance),
        *(neighbours, tuple(reasons), why, probabilities, seq, time),
    )
    agreement[:] = np.where(made.reasoned(bool), np.nan, 1.0)  # as if all experts agreed
    for i, one in enumerate(told):
        if one.agreement is not None:
            agreement[i * n : (i + 1) * n] = np.frombuffer(one.agreement, "<f8")
    return columns["step"], made


def _decode_rows(told: Sequence[_Told]) -> tuple[NDArray[Any], Ints, Floats]:
    """The columns of entries of one prediction each, with as many neighbours and probabilities."""
    if len(told[0].columns) < _ROW_SIZE:
        raise InputError(_ANOTHER_LENGTH)
    near, there = np.frombuffer(told[0].columns, "<u2", 2, _ROW_SIZE - 4).tolist()
    flat = [("neighbours", "<i8", (near,)), ("probabilities", "<f8", (there,))]
    form = np.dtype([*_ROW, *flat])
    if any(len(one.columns) != form.itemsize for one in told):
        raise InputError(_ANOTHER_LENGTH)
    rows = np.frombuffer(b"".join([one.columns for one in told]), form)
    return rows, rows["neighbours"], rows["probabilities"]


def _decode_columns(told: _Told) -> tuple[NDArray[Any], Ints, Floats]:
    """The columns of an entry of any number of predictions."""
    reader = _Reader(told.columns)
    columns = np.ndarray((), _columns_of(told.n), reader.bytes(told.n * _ROW_SIZE))
    neighbours = _filled(reader, "<i8", columns["near"], -1)
    probabilities = _filled(reader, "<f8", columns["there"], np.nan)
    if reader.left:
        raise InputError(_ANOTHER_LENGTH)
    return columns, neighbours, probabilities


def _filled(reader: _Reader, kind: str, lengths: Ints, nothing: float) -> NDArray[Any]:
    """Rows of some lengths, one after the other, as a table that is filled up."""
    width = int(lengths.max(initial=0))
    flat = reader.column(kind, int(lengths.sum()))
    if len(lengths) * width > _MOST_CELLS:  # of a forged record; all that is written has far fewer
        raise InputError(_ANOTHER_LENGTH)
    table = np.full((len(lengths), width), nothing)
    table[np.arange(width) < lengths[:, None]] = flat
    return table


def _where_there(there: Bools, column: NDArray[Any]) -> NDArray[Any] | None:
    """A column that is None, or masked, where the source gave no such number."""
    if there.all():
        return column
    return np.ma.masked_array(column, ~there) if there.any() else None


# The tables of most records are those of the records before.


@lru_cache(maxsize=256)
def _encode_tables(states: tuple[Any, ...], reasons: tuple[str, ...]) -> bytes:
    return json.dumps({"states": [*map(_plain, states)], "why": reasons}).encode()


@lru_cache(maxsize=256)
def _decode_tables(text: bytes) -> tuple[tuple[str | int, ...], tuple[str, ...]]:
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
        if form.size > self.left:
            self.bytes(form.size)
        self._offset += form.size
        return form.unpack_from(self._content, self._offset - form.size)

    def column(self, kind: str, n: int) -> NDArray[Any]:
        column = np.frombuffer(self.bytes(n * np.dtype(kind).itemsize), dtype=kind)
        # A copy in native byte order, so that it is writable and does not keep the body alive.
        return column.astype(column.dtype.newbyteorder("="))
