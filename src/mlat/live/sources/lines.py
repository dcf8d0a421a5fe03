"""Steps from lines of text, CSV or JSON: standard input, or any file object.

`LineSource` reads blocks of bytes, `LineParser` cuts them into lines, and the lines become steps by
`CsvReader` or `payloads.json_rows`.
"""

from __future__ import annotations

import asyncio
import csv
import math
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import IO, Any

from ...base.errors import InputError
from ..core.steps import Steps
from .payloads import (
    MOST_BYTES,
    MalformedError,
    Row,
    check_seq,
    check_time,
    json_rows,
    merge_refusals,
    missing_names,
    refuse_infinity,
    rows_to_steps,
    shown,
)
from .source import Arrival, Event, Notice, Refusal, Source

BLOCK = 1 << 16  # bytes at a time, what a pipe holds: more arrives while these are classified
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What `read_stream` takes for a missing value in a text file.
_MISSING = frozenset(
    {"", "na", "nan", "-nan", "n/a", "null", "#na", "#n/a", "#n/a n/a"}
    | {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
)


class LineSource(Source):
    """CSV or JSON lines as they are written to a pipe, a terminal or a file.

    What has arrived is read at once, up to 64 KB: a single line without delay, many lines as
    one batch. Nothing is read ahead of the consumer, so a full pipe stops its writer. The source
    cannot be resumed (its positions are ``""``).

    Parameters
    ----------
    file : file object, optional
        Default standard input. If it has a descriptor, that is read, past the file's buffer.
    """

    def __init__(self, file: IO[Any] | None = None) -> None:
        super().__init__("-")
        self._file: IO[Any] | None = sys.stdin if file is None else file
        self._title = "standard input" if file is None else "lines"
        self._parser: LineParser | None = None
        self._readable: asyncio.Future[None] | None = None

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        if self._file is None:
            raise InputError("standard input is closed; pipe lines into it, or name a source")
        self._parser = LineParser(channels, self._title)

    async def events(self) -> AsyncIterator[Event]:
        assert self._parser is not None, "open the source first"
        while True:
            try:
                block = await self._read()
            except OSError as error:  # such as a terminal that was closed
                reason = error.strerror or type(error).__name__
                yield Notice("ended", f"{self._title} cannot be read: {reason}")
                return
            if self._closing:
                return
            for outcome in self._parser.feed(block) if block else self._parser.finish():
                yield outcome if isinstance(outcome, Refusal) else Arrival(outcome)
            if not block:
                yield Notice("ended", f"{self._title} ended")
                return

    async def close(self) -> None:
        await super().close()
        if self._readable is not None:
            _set_done(self._readable)

    async def _read(self) -> bytes:
        """What there is, as soon as there is something; b"" at the end."""
        descriptor = _descriptor(self._file)
        if descriptor is None:
            return await asyncio.to_thread(self._read_object)
        while not self._closing:
            try:
                await self._until_readable(descriptor)
                return b"" if self._closing else os.read(descriptor, BLOCK)
            except BlockingIOError:  # another process has read it
                continue
            except NotImplementedError:  # on Windows the event loop cannot watch pipes
                return await asyncio.to_thread(os.read, descriptor, BLOCK)
        return b""

    async def _until_readable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        self._readable = readable = loop.create_future()
        try:
            loop.add_reader(descriptor, _set_done, readable)
        except PermissionError:  # a plain file is always readable, and epoll does not accept it
            await asyncio.sleep(0)
            return
        try:
            await readable
        finally:
            # Watched only during the wait: otherwise unread lines would wake the loop all the time.
            loop.remove_reader(descriptor)

    def _read_object(self) -> bytes:
        assert self._file is not None
        read = getattr(self._file, "read1", self._file.read)
        block = read(BLOCK)
        return block.encode("utf-8", "surrogatepass") if isinstance(block, str) else block


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _descriptor(file: IO[Any] | None) -> int | None:
    try:
        return None if file is None else file.fileno()
    except (AttributeError, OSError, ValueError):
        return None


class LineParser:
    """Takes blocks of bytes cut anywhere and gives the steps of the lines they complete.

    The first line that is neither empty nor a comment decides: JSON if it begins with ``{`` or
    ``[``, else CSV. A line longer than ``max_line`` bytes is refused; no more than that is ever
    kept of it.

    Parameters
    ----------
    channels : names of the model's channels, in its order
    name : str
        The source's name in a refusal.

    Examples
    --------
    >>> parser = LineParser(("ax", "ay"))
    >>> parser.feed(b"ay,ax,note\\n1,2,a\\n3,fa")
    [Steps(values=array of shape (1, 2), seq=None, time=None)]
    >>> parser.feed(b"st,b\\n")[0].reason
    "lines, line 3: channel 'ax' is 'fast', which is not a number; leave a missing value empty"
    """

    def __init__(
        self, channels: tuple[str, ...], name: str = "lines", max_line: int = MOST_BYTES
    ) -> None:
        self._channels = channels
        self._name = name
        self._max_line = max_line
        self._kept = bytearray()  # the start of a line
        self._too_long = False
        self._line = 0
        self._read: Callable[[bytes], list[Row]] | None = None

    def feed(self, block: bytes) -> list[Steps | Refusal]:
        """The steps and refusals of the lines that this block completes, in their order."""
        return _merge(self._outcomes(block))

    def finish(self) -> list[Steps | Refusal]:
        """Those of a last line that has no newline at its end."""
        return self.feed(b"\n") if self._kept or self._too_long else []

    def _outcomes(self, block: bytes) -> Iterator[tuple[str, str] | Row]:
        *ended, rest = block.split(b"\n")
        for line in ended:
            self._line += 1
            whole = self._end_line(line)
            place = f"{self._name}, line {self._line}"
            if whole is None:
                yield place, f"longer than {self._max_line} bytes; break it into lines"
                continue
            try:
                yield from self._rows(whole)
            except MalformedError as error:
                yield place, str(error)
        self._keep(rest)

    def _rows(self, line: bytes) -> list[Row]:
        if self._line == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        line = line.removesuffix(b"\r")
        if self._read is None:
            text = line.lstrip()
            if not text or _is_comment(text):
                return []
            is_json = text[:1] in (b"{", b"[")
            self._read = self._read_json if is_json else CsvReader(self._channels, line).read
        return self._read(line)

    def _read_json(self, line: bytes) -> list[Row]:
        return json_rows(line, self._channels) if line.strip() else []

    def _end_line(self, end: bytes) -> bytes | None:
        """The whole line, None if it is too long."""
        self._keep(end)
        whole = None if self._too_long else bytes(self._kept)
        self._kept.clear()
        self._too_long = False
        return whole

    def _keep(self, piece: bytes) -> None:
        if len(self._kept) + len(piece) > self._max_line:
            self._too_long = True
        if self._too_long:
            self._kept.clear()
        else:
            self._kept += piece


def _merge(outcomes: Iterator[tuple[str, str] | Row]) -> list[Steps | Refusal]:
    """Consecutive rows as one batch, consecutive refusals as one."""
    merged: list[Steps | Refusal] = []
    for is_step, group in groupby(outcomes, lambda outcome: isinstance(outcome, Row)):
        if is_step:
            merged += rows_to_steps(row for row in group if isinstance(row, Row))
        else:
            merged.append(merge_refusals([o for o in group if not isinstance(o, Row)]))
    return merged


class CsvReader:
    """Reads one line after the other.

    A first line that is not all numbers is a header. It names the model's channels in any order,
    among other columns; those called "seq" and "time" are used, the rest is ignored. Without a
    header a line holds the channels' values in the model's order. A later line that names all
    channels is a header again: two files one after the other, a logger that was restarted.

    Parameters
    ----------
    first : bytes
        The first line, which shows the delimiter: a comma or a tab.
    """

    def __init__(self, channels: tuple[str, ...], first: bytes) -> None:
        self._channels = channels
        self._delimiter = b"\t" if b"\t" in first and b"," not in first else b","
        self._begun = False
        self._fits = True  # False between a header that lacks a channel and one that does not
        self._n_columns = len(channels)
        self._columns = list(range(len(channels)))
        self._in_order = True
        self._seq: int | None = None
        self._time: int | None = None

    def read(self, line: bytes) -> list[Row]:
        """The step of a line; none for a header, a comment or an empty line."""
        if self._is_skipped(line):
            return []
        fields = self._split(line)
        if not self._begun:
            self._begun = True
            if self._names_channels(fields) or not all(map(_is_number, fields)):
                self._set_header(fields)
                return []
        # float() also reads 1_000 and the digits of other scripts.
        values = self._usual(fields) if line.isascii() and b"_" not in line else None
        if values is None:
            if self._names_channels(fields):
                self._set_header(fields)
                return []
            values = self._described(fields)
        refuse_infinity(values, self._channels)
        seq = None if self._seq is None else _whole(fields[self._seq])
        time = None if self._time is None else _seconds(fields[self._time])
        return [Row(values, seq, time)]

    def _usual(self, fields: list[str]) -> list[float] | None:
        """The values of a line with as many columns as expected, all of them numbers; else None."""
        if self._fits and len(fields) == self._n_columns:
            with suppress(ValueError):
                return [float(fields[i]) for i in self._columns]
        return None

    def _described(self, fields: list[str]) -> list[float]:
        """The values of any line, some of them missing, or an error that says what is wrong."""
        if not self._fits:
            raise MalformedError("no header names the model's channels yet; see the first refusal")
        if len(fields) != self._n_columns:
            wanted = (
                f"the model has {self._n_columns} channels"
                if self._in_order and self._n_columns == len(self._channels)
                else f"the header has {self._n_columns}"
            )
            raise MalformedError(f"{len(fields)} columns where {wanted}")
        named = zip(self._columns, self._channels, strict=True)
        return [_number(fields[at], name) for at, name in named]

    def _names_channels(self, fields: list[str]) -> bool:
        return set(self._channels) <= set(fields)

    def _set_header(self, names: list[str]) -> None:
        self._fits = False
        if not self._names_channels(names):
            raise MalformedError(
                f"the header {shown(','.join(names))} lacks the model's channel "
                f"{missing_names(self._channels, names)}; name the columns as in training"
            )
        twice = [name for name in self._channels if names.count(name) > 1]
        if twice:
            raise MalformedError(f"the header names {twice[0]!r} twice; name each channel once")
        self._fits = True
        self._n_columns = len(names)
        self._columns = [names.index(name) for name in self._channels]
        self._in_order = self._columns == list(range(len(names)))
        self._seq = self._column_of("seq", names)
        self._time = self._column_of("time", names)

    def _column_of(self, role: str, names: list[str]) -> int | None:
        return names.index(role) if role in names and role not in self._channels else None

    def _is_skipped(self, line: bytes) -> bool:
        if not line or line.isspace():
            # As in a file: where a line holds one number, an empty one is a missing number.
            return self._n_columns > 1 or not self._begun
        return _is_comment(line)

    def _split(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", "replace")
        delimiter = self._delimiter.decode()
        try:
            fields = next(csv.reader([text], delimiter=delimiter)) if '"' in text else None
        except (csv.Error, StopIteration):
            fields = None
        return [field.strip() for field in (fields or text.split(delimiter))]


def _is_comment(line: bytes) -> bool:
    return line.startswith(b"#") and not line.startswith((b"#N", b"#n"))  # "#N/A" is missing


def _is_number(field: str) -> bool:
    try:
        _number(field, "")
    except MalformedError:
        return False
    return True


def _number(field: str, channel: str) -> float:
    if field.lower() in _MISSING:
        return math.nan
    try:
        return _float(field)
    except ValueError:
        raise MalformedError(
            f"channel {channel!r} is {shown(field)}, which is not a number; "
            "leave a missing value empty"
        ) from None


def _whole(field: str) -> int:
    try:
        number = _float(field)
        try:
            whole = int(field)
        except ValueError:  # "7.0", as a table with a missing number writes it
            if not number.is_integer() or abs(number) > 2**53:
                raise
            whole = int(number)
    except ValueError:
        raise MalformedError(f"seq must be a whole number, not {shown(field)}") from None
    return check_seq(whole)


def _seconds(field: str) -> float:
    try:
        seconds = _float(field)
    except ValueError:
        raise MalformedError(f"time must be a number of seconds, not {shown(field)}") from None
    return check_time(seconds)


def _float(field: str) -> float:
    # float() also reads 1_000 and the digits of other scripts, which are typing errors here.
    if "_" in field or not field.isascii():
        raise ValueError(field)
    return float(field)
