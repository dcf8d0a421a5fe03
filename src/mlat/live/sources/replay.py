"""Steps from a recording, played as if it were live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats
from ...base.errors import InputError
from ...stream.column_roles import role_by_name
from ..core.steps import Steps
from .source import Arrival, Event, Notice, Source

MOST_STEPS = 512  # in one arrival
_RATE = re.compile(r"max|(\d+\.?\d*|\.\d+)(x?)", re.ASCII)
_LONGEST = 1.0  # seconds between steps; where it is usually more, time may be in milliseconds


class ReplaySource(Source):
    """A file that :func:`mlat.read_stream` reads, such as CSV, Parquet or XDF.

    A step's position is the number of its row, from 0.

    Each step has a deadline counted from the start, so that errors of sleeping do not add up; a
    consumer that falls behind gets what is due as one batch, as from a live source.

    Parameters
    ----------
    path : path of the recording
    rate : str
        See `Pace`.
    time : str
        The column of time, used if the recording has it; otherwise the one column that has the
        name of a time and rises.
    """

    def __init__(self, path: str | Path, rate: str = "", *, time: str = "time") -> None:
        super().__init__(f"replay:{path}")
        self._path = Path(path)
        self._pace = Pace(rate)
        self._time_column = time
        self._steps: Steps | None = None
        self._first = 0

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        # In this thread: nothing is live yet.
        self._steps = read_recording(self._path, channels, self._time_column)
        self._first = _row_after(after, len(self._steps), self.name)

    async def events(self) -> AsyncIterator[Event]:
        assert self._steps is not None, "open the source first"
        steps, first = self._steps, self._first
        time = steps.time
        yield Notice("connected", f"{self.name} from row {first}")
        if self._pace.by_time and self._note(time):
            yield Notice("note", self._note(time))
        due = self._pace.due(None if time is None else time[first:], len(steps) - first)
        clock = asyncio.get_running_loop().time
        start, at = clock(), first
        while at < len(steps):
            if due is None:
                await asyncio.sleep(0)
                stop = at + MOST_STEPS
            else:
                await self._closing.sleep_until(start + due[at - first])
                stop = first + int(np.searchsorted(due, clock() - start, side="right"))
                stop = min(max(stop, at + 1), at + MOST_STEPS)
            if self._closing:
                return
            stop = min(stop, len(steps))
            yield Arrival(steps[at:stop], str(stop - 1))
            at = stop
        yield Notice("ended", f"{self.name} ended after row {len(steps) - 1}")

    def _note(self, time: Floats | None) -> str:
        if time is None:
            return (
                f"{self.name} has no column {self._time_column!r} to keep time by and is played as "
                "fast as it goes; write @100 for 100 steps a second"
            )
        usual = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
        if usual > _LONGEST * self._pace.number:
            return (
                f"{self.name}: its time advances by {usual:g} from step to step, which is played "
                "as seconds; if it is in milliseconds write @1000x"
            )
        return ""


def _row_after(after: str, n_steps: int, name: str) -> int:
    if not after:
        return 0
    if not (after.isascii() and after.isdigit()) or int(after) >= n_steps:
        raise InputError(
            f"{name} has rows 0 to {n_steps - 1} and cannot go on after {after!r}; "
            "is this the recording that was played before?"
        )
    return int(after) + 1


def split_rate(text: str) -> tuple[str, str]:
    """File and rate of ``FILE[@rate]``, where the file's name may contain an @.

    >>> split_rate("walk.csv@2x"), split_rate("me@home.csv")
    (('walk.csv', '2x'), ('me@home.csv', ''))
    """
    path, _, rate = text.rpartition("@")
    if path and (_RATE.fullmatch(rate) or not Path(text).suffix[1:].isalnum()):
        return path, rate
    if not text or text.startswith("@"):
        raise InputError("replay: names no file; write replay:FILE or replay:FILE@rate")
    return text, ""


class Pace:
    """How fast a recording is played.

    Parameters
    ----------
    text : str
        "100" is 100 steps a second, "2x" twice as fast as recorded, "max" without pauses, "" as
        recorded.
    """

    def __init__(self, text: str = "") -> None:
        match = _RATE.fullmatch(text) if text else None
        if text and (match is None or (match[1] is not None and float(match[1]) == 0)):
            raise InputError(
                f"replay rate {text!r}: write @100 for 100 steps a second, @2x for twice as fast "
                "as recorded, or @max"
            )
        self.by_time = not text or (match is not None and match[2] == "x")
        self.number = float(match[1] or 1) if match is not None else 1.0
        self.fastest = text == "max"

    def due(self, time: Floats | None, n_steps: int) -> Floats | None:
        """When each step is due, in seconds from the first; None: at once."""
        if self.fastest or (self.by_time and time is None) or not n_steps:
            return None
        if not self.by_time:
            return np.arange(n_steps) / self.number
        assert time is not None
        # A clock that was set back must not make a step due before the steps ahead of it.
        return np.maximum.accumulate(time - time[0]) / self.number


def read_recording(path: Path, channels: tuple[str, ...], time: str = "time") -> Steps:
    """The model's channels of a recording, with its time in seconds and its ``seq`` if it has them.

    Raises
    ------
    InputError
        No such file, a channel that it lacks, a value that is not a number.
    """
    from ...stream.read import open_table, read_stream  # with Arrow, which no other source needs

    names = [str(name) for name in open_table(path, channels=channels).columns]
    if time not in names:
        time = _clock(path, channels, names) or time
    roles = [name for name in ("seq", time) if name in names and name not in channels]
    try:
        # As numbers, not as a stream's time: a live source may well send steps out of order.
        stream = read_stream(path, channels=[*channels, *roles])
        dates = None
    except InputError:
        if time not in roles:
            raise
        stream = read_stream(path, channels=[*channels, *roles[:-1]], time=time)
        dates = _seconds(stream.time)
    values = np.asarray(stream.values, dtype=np.float64)
    extra = {name: values[:, len(channels) + i] for i, name in enumerate(roles) if name != time}
    if time in roles:
        extra[time] = values[:, -1] if dates is None else dates
        _check(path, time, np.isfinite(extra[time]), extra[time], "a number of seconds")
    if "seq" in extra:
        whole = extra["seq"] == np.floor(extra["seq"])
        _check(path, "seq", whole & (abs(extra["seq"]) < 2**53), extra["seq"], "a whole number")
    return Steps(
        np.ascontiguousarray(values[:, : len(channels)]),
        extra["seq"].astype(np.int64) if "seq" in extra else None,
        extra.get(time),
    )


def _clock(path: Path, channels: tuple[str, ...], names: list[str]) -> str:
    """The column that `read_stream` takes as the time by its name, or ""."""
    from ...stream.read import read_channels

    named = [name for name in names if name not in channels and role_by_name(name) == "time"]
    if len(named) != 1 or not set(channels) <= set(names):
        return ""
    return "" if read_channels(path, channels).time is None else named[0]


def _check(path: Path, column: str, is_good: Bools, values: Floats, what: str) -> None:
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise InputError(f"{path}, row {row}: {column} is {values[row]:g}; it must be {what}")


def _seconds(time: NDArray[Any] | None) -> Floats:
    assert time is not None
    if time.dtype.kind == "M":
        # In two parts, because nanoseconds since 1970 need 61 bits and a float has 53.
        whole = time.astype("datetime64[s]")
        rest = (time - whole) / np.timedelta64(1, "s")
        return whole.astype(np.int64).astype(np.float64) + rest
    if time.dtype.kind == "m":
        return np.asarray(time / np.timedelta64(1, "s"), dtype=np.float64)
    return time.astype(np.float64)
