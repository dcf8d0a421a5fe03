"""What a source is sent, as steps: JSON objects and arrays, packed numbers, and their refusal.

Lines and messages share this module. A step is first a `Row`; what is not a step raises
`MalformedError`, which the source turns into a `Refusal`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.steps import Steps
from .source import Refusal

MOST_BYTES = 1 << 20  # of a message or a line: some thousand steps of 27 channels
LONGEST_SHOWN = 40  # characters of what was sent, in a message
_PACKED = re.compile(r"(q\+)?f([48])")
_NUMBERS = {float, int}
_NUMBERS_OR_NULL = {float, int, type(None)}
_NULL = "null marks a missing value"
_INT64 = 2**63


class Row(NamedTuple):
    """One step: its values in the order of the model's channels, NaN where one is missing."""

    values: list[float]
    seq: int | None = None
    time: float | None = None


class MalformedError(ValueError):
    """What was sent is not a step. Never leaves this package: it becomes a `Refusal`."""


# --- messages


def decode(payload: bytes, form: str, channels: tuple[str, ...]) -> Steps:
    """Decode the steps of one message.

    A message is accepted or refused as a whole, because it is acknowledged as a whole.

    Parameters
    ----------
    payload : bytes
    form : str
        ``"json"``, or packed little-endian numbers: ``"f4"``, ``"f8"``, ``"q+f4"``, ``"q+f8"``.
    channels : names of the model's channels

    Raises
    ------
    MalformedError
        If any part of it is not a step.
    """
    if len(payload) > MOST_BYTES:
        raise MalformedError(
            f"{len(payload)} bytes are too many; send at most {MOST_BYTES} at once"
        )
    if form == "json":
        parts = rows_to_steps(json_rows(payload, channels))
        if len(parts) > 1:
            raise MalformedError("some of its steps have a seq or a time and others do not")
        return parts[0]
    return packed_steps(payload, form, channels)


def is_format(form: str) -> bool:
    """Whether `decode` knows a format."""
    return form == "json" or _PACKED.fullmatch(form) is not None


def packed_steps(payload: bytes, form: str, channels: tuple[str, ...]) -> Steps:
    """Decode rows of little-endian floats.

    If the format begins with "q+", the number of the first row stands before them, in 8 bytes.

    >>> steps = packed_steps(bytes(8) + np.float32([1, 2, 3, 4]).tobytes(), "q+f4", ("ax", "ay"))
    >>> steps.values.tolist(), steps.seq.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0, 1])
    """
    match = _PACKED.fullmatch(form)
    assert match is not None
    head = 8 if match[1] else 0
    row = len(channels) * int(match[2])
    if len(payload) <= head or (len(payload) - head) % row:
        raise MalformedError(
            f"{len(payload)} bytes; format {form} of {len(channels)} channels needs "
            f"{f'{head} and ' if head else ''}a multiple of {row}"
        )
    values = np.frombuffer(payload, f"<f{match[2]}", offset=head).astype(np.float64)
    values = values.reshape(-1, len(channels))
    infinite = np.isinf(values)
    if infinite.any():
        at, channel = (int(i) for i in np.argwhere(infinite)[0])
        raise MalformedError(
            f"row {at}, channel {channels[channel]!r} is infinite; send NaN if missing"
        )
    if not head:
        return Steps(values)
    first = int(np.frombuffer(payload, "<i8", count=1)[0])
    check_seq(first + len(values) - 1)
    return Steps(values, first + np.arange(len(values), dtype=np.int64))


# --- JSON


def json_rows(text: bytes, channels: tuple[str, ...]) -> list[Row]:
    """Read the steps of one JSON text.

    A step is ``{"seq": 7, "time": 1.25, "values": [...]}``, an object with the channels' names,
    or an array of numbers; several steps are an array of these. A channel whose name is "seq",
    "time" or "values" is a channel.

    >>> json_rows(b'{"ay": null, "ax": 1, "seq": 7}', ("ax", "ay"))
    [Row(values=[1.0, nan], seq=7, time=None)]
    """
    try:
        # Without parse_constant Python reads NaN and Infinity, which are not JSON.
        sent = json.loads(text.decode("utf-8"), parse_constant=_not_json)
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{shown(text)} is not JSON ({_json_reason(error)})") from None
    if isinstance(sent, list) and sent and isinstance(sent[0], list | dict):
        rows = []
        for i, step in enumerate(sent):
            try:
                rows.append(_json_row(step, channels))
            except MalformedError as error:
                raise MalformedError(f"step {i} of {len(sent)}: {error}") from None
        return rows
    return [_json_row(sent, channels)]


def _json_row(sent: Any, channels: tuple[str, ...]) -> Row:
    if isinstance(sent, list):
        return Row(_values(sent, channels))
    if not isinstance(sent, dict):
        raise MalformedError(f"{shown(sent)} is no step; send an object or an array of numbers")
    if "values" in sent and "values" not in channels:
        if not isinstance(sent["values"], list):
            raise MalformedError(f"values must be an array of numbers, not {shown(sent['values'])}")
        values = _values(sent["values"], channels)
    else:
        try:
            values = _values([sent[name] for name in channels], channels)
        except KeyError:
            raise MalformedError(f"no channel {missing_names(channels, sent)}; {_NULL}") from None
    return Row(values, _seq(sent, channels), _time(sent, channels))


def _values(sent: list[Any], channels: tuple[str, ...]) -> list[float]:
    if len(sent) != len(channels):
        raise MalformedError(f"{len(sent)} values where the model has {len(channels)} channels")
    if not set(map(type, sent)) <= _NUMBERS_OR_NULL:
        at = next(i for i, value in enumerate(sent) if type(value) not in _NUMBERS_OR_NULL)
        raise MalformedError(
            f"channel {channels[at]!r} is {shown(sent[at])}, which is not a number; {_NULL}"
        )
    try:
        values = [math.nan if v is None else float(v) for v in sent]
    except OverflowError:  # a whole number of hundreds of digits
        raise MalformedError("a value is beyond the largest float; send numbers that fit") from None
    refuse_infinity(values, channels)
    return values


def _seq(sent: dict[str, Any], channels: tuple[str, ...]) -> int | None:
    seq = None if "seq" in channels else sent.get("seq")
    if seq is None:
        return None
    if type(seq) is not int:
        raise MalformedError(f"seq must be a whole number, not {shown(seq)}")
    return check_seq(seq)


def _time(sent: dict[str, Any], channels: tuple[str, ...]) -> float | None:
    time = None if "time" in channels else sent.get("time")
    if time is None:
        return None
    if type(time) not in _NUMBERS:
        raise MalformedError(f"time must be a number of seconds, not {shown(time)}")
    try:
        return check_time(float(time))
    except OverflowError:
        raise MalformedError("time is beyond the largest float; send seconds") from None


def _not_json(constant: str) -> NoReturn:
    raise MalformedError(f"{constant} is not JSON; {_NULL}")


def _json_reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deep" if isinstance(error, RecursionError) else "a number is too long"


# --- rows: checks that all forms share, and many rows as arrays


def refuse_infinity(values: list[float], channels: tuple[str, ...]) -> None:
    if math.inf in values or -math.inf in values:
        at = next(i for i, value in enumerate(values) if math.isinf(value))
        raise MalformedError(f"channel {channels[at]!r} is infinite; leave a missing value empty")


def check_seq(seq: int) -> int:
    if not -_INT64 <= seq < _INT64:
        raise MalformedError(f"seq {shown(str(seq))} does not fit into 64 bits")
    return seq


def check_time(time: float) -> float:
    if not math.isfinite(time):
        raise MalformedError(f"time must be a number of seconds, not {time}")
    return time


def shown(sent: object) -> str:
    """What was sent, short and on one line, for a message."""
    text = repr(sent.decode("utf-8", "replace") if isinstance(sent, bytes) else sent)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def missing_names(channels: tuple[str, ...], sent: Collection[str]) -> str:
    """The first channels that are not among the names that were sent, for a message."""
    missing = [name for name in channels if name not in sent]
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{', '.join(map(repr, missing[:3]))}{more}"


def rows_to_steps(rows: Iterable[Row]) -> list[Steps]:
    """Rows as arrays: one `Steps` where all or none have a number and a time, else several.

    >>> [(len(s), s.seq) for s in rows_to_steps([Row([1.0]), Row([2.0]), Row([3.0], seq=7)])]
    [(2, None), (1, array([7]))]
    """
    parts = []
    groups = groupby(rows, lambda row: (row.seq is not None, row.time is not None))
    for (has_seq, has_time), group in groups:
        values, seq, time = zip(*group, strict=True)
        parts.append(
            Steps(
                np.array(values, dtype=np.float64),
                np.array(seq, dtype=np.int64) if has_seq else None,
                np.array(time, dtype=np.float64) if has_time else None,
            )
        )
    return parts


def merge_refusals(refusals: list[tuple[str, str]]) -> Refusal:
    """Several refusals in a row, each a place and a reason, as one with their number."""
    place, reason = refusals[0]
    more = f" (and {len(refusals) - 1} more after it)" if len(refusals) > 1 else ""
    return Refusal(f"{place}: {reason}{more}", len(refusals))
