"""A recording played as if it were live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...stream.read import open_table, read_stream
from ..core.steps import Steps
from .source import Arrival, Closing, Event, Notice

MOST_STEPS = 512  # in one arrival, when as fast as it goes or behind
_RATE = re.compile(r"max|(\d+\.?\d*|\.\d+)(x?)", re.ASCII)
_SLOWEST = 1.0  # seconds between steps beyond which the time column is hardly in seconds


def split_rate(text: str) -> tuple[str, str]:
    """File and rate of ``FILE[@rate]``, where the name may have an @ of its own.

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
    """How fast a recording is played: "100" is Hz, "2x" twice its own time, "max", "" its time."""

    def __init__(self, text: str = "") -> None:
        match = _RATE.fullmatch(text) if text else None
        if text and (match is None or (match[1] is not None and float(match[1]) == 0)):
            raise InputError(
                f"replay rate {text!r}: write @100 for 100 steps a second, @2x for twice as fast "
                "as recorded, or @max"
            )
        self.by_time = not text or (match is not None and match[2] == "x")
        self.number = float(match[1]) if match is not None and match[1] is not None else 1.0
        self.fastest = text == "max"

    def due(self, time: NDArray[np.float64] | None, n_steps: int) -> NDArray[np.float64] | None:
        """When each step is due, in seconds from the first; None: at once."""
        if self.fastest or (self.by_time and time is None) or not n_steps:
            return None
        if not self.by_time:
            return np.arange(n_steps) / self.number
        assert time is not None
        # A clock that was set back must not make steps due before those ahead of them.
        return np.maximum.accumulate(time - time[0]) / self.number


class ReplaySource:
    """A CSV, TSV or Parquet file; a step's position is the number of its row, from 0.

    Each step has a deadline counted from the start, so that errors of sleeping do not add up; a
    consumer that falls behind gets what is due as one batch, as from a live source.

    Parameters
    ----------
    path : path of the recording
    rate : str
        See `Pace`.
    time : str
        The column of time. Used if it is there.
    """

    def __init__(self, path: str | Path, rate: str = "", *, time: str = "time") -> None:
        self.name = f"replay:{path}"
        self._path = Path(path)
        self._pace = Pace(rate)
        self._time_column = time
        self._closing = Closing()
        self._steps: Steps | None = None
        self._first = 0

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        # In this thread: it happens before anything is live.
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
            yield Arrival(_part(steps, at, stop), str(stop - 1))
            at = stop
        yield Notice("ended", f"{self.name} ended after row {len(steps) - 1}")

    async def acknowledge(self, position: str) -> None:
        pass

    async def close(self) -> None:
        self._closing.close()

    def _note(self, time: NDArray[np.float64] | None) -> str:
        if time is None:
            return (
                f"{self.name} has no column {self._time_column!r} to keep time by and is played as "
                "fast as it goes; write @100 for 100 steps a second"
            )
        usual = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
        if usual > _SLOWEST * self._pace.number:
            return (
                f"{self.name}: its time advances by {usual:g} from step to step, which is played "
                "as seconds; if it is in milliseconds write @1000x"
            )
        return ""


def read_recording(path: Path, channels: tuple[str, ...], time: str = "time") -> Steps:
    """The model's channels of a recording, with its time in seconds and its numbers if it has them.

    Raises
    ------
    InputError
        In one line: no such file, a channel that it lacks, a value that is not a number.
    """
    columns = [str(name) for name in open_table(path).columns]
    roles = [name for name in ("seq", time) if name in columns and name not in channels]
    try:
        # As numbers, not as a stream's time: a live source may well send steps out of order.
        stream = read_stream(path, channels=[*channels, *roles])
        dated = None
    except InputError:
        if time not in roles:
            raise
        stream = read_stream(path, channels=[*channels, *roles[:-1]], time=time)
        dated = _seconds(stream.time)
    values = np.asarray(stream.values, dtype=np.float64)
    told = {name: values[:, len(channels) + i] for i, name in enumerate(roles) if name != time}
    if time in roles:
        told[time] = values[:, -1] if dated is None else dated
        _check(path, time, np.isfinite(told[time]), told[time], "a number of seconds")
    if "seq" in told:
        whole = told["seq"] == np.floor(told["seq"])
        _check(path, "seq", whole & (abs(told["seq"]) < 2**53), told["seq"], "a whole number")
    return Steps(
        np.ascontiguousarray(values[:, : len(channels)]),
        told["seq"].astype(np.int64) if "seq" in told else None,
        told.get(time),
    )


def _check(
    path: Path, column: str, is_good: NDArray[np.bool_], told: NDArray[np.float64], what: str
) -> None:
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise InputError(f"{path}, row {row}: {column} is {told[row]:g}; it must be {what}")


def _seconds(time: NDArray[Any] | None) -> NDArray[np.float64]:
    assert time is not None
    if time.dtype.kind == "M":
        # Before the difference is taken in floats: nanoseconds since 1970 need 61 bits.
        whole = time.astype("datetime64[s]")
        rest = (time - whole) / np.timedelta64(1, "s")
        return whole.astype(np.int64).astype(np.float64) + rest
    if time.dtype.kind == "m":
        return np.asarray(time / np.timedelta64(1, "s"), dtype=np.float64)
    return time.astype(np.float64)


def _row_after(after: str, n_steps: int, name: str) -> int:
    if not after:
        return 0
    if not (after.isascii() and after.isdigit()) or int(after) >= n_steps:
        raise InputError(
            f"{name} has rows 0 to {n_steps - 1} and cannot go on after {after!r}; "
            "is this the recording that was played before?"
        )
    return int(after) + 1


def _part(steps: Steps, start: int, stop: int) -> Steps:
    return Steps(
        steps.values[start:stop],
        None if steps.seq is None else steps.seq[start:stop],
        None if steps.time is None else steps.time[start:stop],
    )
