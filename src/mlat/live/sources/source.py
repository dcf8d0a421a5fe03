"""What a source of live steps is: the events it gives, and how it is resumed and closed."""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import InputError
from ..core.steps import Steps

# -------------------------------------------------------------------- optional
# Packages that only some sources need.


def need(package: str, what: str) -> Any:
    """The module, imported on use; `InputError` with the remedy where it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise InputError(f"{what} needs {package}; install it: pip install 'mlat[live]'") from None
    except (OSError, RuntimeError) as error:  # pylsl without its library
        why = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise InputError(f"{what} needs {package}, which cannot be loaded: {why}") from None


# -------------------------------------------------------------------- rows
# One step as it was sent, the reason it is refused, and many steps as arrays.

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


@dataclass(frozen=True, slots=True)
class Arrival:
    """Steps in the order the source sent them.

    ``position`` is a text from which the source resumes after these steps; ``""`` if it cannot.
    """

    steps: Steps
    position: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Input that is not a step: ``count`` lines, messages or outlets, refused for one reason.

    It comes in the place of the steps.
    """

    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Notice:
    """A change of the connection: "connected", "lost", "retrying", "ended", or a "note"."""

    kind: str
    text: str


Event = Arrival | Refusal | Notice


class Source(Protocol):
    """Where live steps come from.

    Call ``open`` once, iterate over ``events`` once, and ``close`` at any time, which ends the
    events. The next event is fetched only on demand, so a slow consumer slows the source down; each
    source documents what it does then.
    """

    name: str

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        """Prepare to give the steps of these channels, in this order, after a position."""

    def events(self) -> AsyncIterator[Event]:
        """Yield steps, refusals and notices in order, until the source ends or is closed."""

    async def acknowledge(self, position: str) -> None:
        """Say that all steps up to the position are kept, and need not be sent again."""

    async def close(self) -> None:
        """End the events, and close files and connections."""


class Closing:
    """Whether a source was closed, and sleeps that end when it is."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def close(self) -> None:
        self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep, at most until the source is closed; return whether it was."""
        return await self.sleep_until(asyncio.get_running_loop().time() + seconds)

    async def sleep_until(self, when: float) -> bool:
        """Sleep until the event loop's clock shows ``when``, or the source is closed."""
        try:
            async with asyncio.timeout_at(when):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
