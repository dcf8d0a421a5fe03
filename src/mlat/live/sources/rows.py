"""One step as it was sent, the reason it is refused, and many steps as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..steps import Steps
from .source import Refusal

_INT64 = 2**63


class Row(NamedTuple):
    """One step: its values in the order of the model's channels, NaN where one is missing."""

    values: list[float]
    seq: int | None = None
    time: float | None = None


class MalformedError(ValueError):
    """What was sent is not a step. Never leaves this package: it becomes a `Refusal`."""


def shown(text: object, most: int = 40) -> str:
    """What was sent, short and on one line, for a reason."""
    written = repr(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    return written if len(written) <= most else f"{written[: most - 1]}…"


def check_finite(values: list[float], channels: tuple[str, ...]) -> None:
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


def as_steps(rows: Iterable[Row]) -> list[Steps]:
    """Rows as arrays: one `Steps` where all or none have a number and a time, else several.

    >>> [(len(s), s.seq) for s in as_steps([Row([1.0]), Row([2.0]), Row([3.0], seq=7)])]
    [(2, None), (1, array([7]))]
    """
    parts = []
    for (has_seq, has_time), group in groupby(rows, _told):
        values, seq, time = zip(*group, strict=True)
        parts.append(
            Steps(
                np.array(values, dtype=np.float64),
                np.array(seq, dtype=np.int64) if has_seq else None,
                np.array(time, dtype=np.float64) if has_time else None,
            )
        )
    return parts


def _told(row: Row) -> tuple[bool, bool]:
    return row.seq is not None, row.time is not None


def merge_refusals(refusals: list[tuple[str, str]]) -> Refusal:
    """Several refusals in a row as one: the first one's place and reason, and their number."""
    place, reason = refusals[0]
    more = f" (and {len(refusals) - 1} more after it)" if len(refusals) > 1 else ""
    return Refusal(f"{place}: {reason}{more}", len(refusals))
