"""Steps from lines of text: standard input, or any file object."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import IO, Any

from ...errors import InputError
from .line_parser import LineParser
from .payloads import MOST_BYTES
from .source import Arrival, Closing, Event, Notice, Refusal

BLOCK = 1 << 16  # bytes at a time, what a pipe holds: more arrives while these are classified


class LineSource:
    """CSV or JSON lines as they are written to a pipe, a terminal or a file.

    What has arrived is taken at once, up to 64 KB: a single line without delay, many lines as
    one batch. Nothing is read ahead of the consumer, so a full pipe stops its writer. The source
    cannot be resumed (its positions are ``""``).

    Parameters
    ----------
    file : file object, optional
        Default standard input. With a descriptor it is read through that, past its buffer.
    """

    def __init__(
        self, file: IO[Any] | None = None, *, name: str = "-", max_line: int = MOST_BYTES
    ) -> None:
        self.name = name
        self._file: IO[Any] | None = sys.stdin if file is None else file
        self._what = "standard input" if file is None else "lines"
        self._max_line = max_line
        self._parser: LineParser | None = None
        self._closing = Closing()
        self._readable: asyncio.Future[None] | None = None

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        if self._file is None:
            raise InputError("standard input is closed; pipe lines into it, or name a source")
        self._parser = LineParser(channels, self._what, self._max_line)

    async def events(self) -> AsyncIterator[Event]:
        assert self._parser is not None, "open the source first"
        while True:
            try:
                block = await self._read()
            except OSError as error:  # a terminal that went away
                why = error.strerror or type(error).__name__
                yield Notice("ended", f"{self._what} cannot be read: {why}")
                return
            if self._closing:
                return
            for outcome in self._parser.feed(block) if block else self._parser.finish():
                yield outcome if isinstance(outcome, Refusal) else Arrival(outcome)
            if not block:
                yield Notice("ended", f"{self._what} ended")
                return

    async def acknowledge(self, position: str) -> None:
        pass

    async def close(self) -> None:
        self._closing.close()
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    async def _read(self) -> bytes:
        """What there is, as soon as there is something; b"" at the end."""
        descriptor = _descriptor(self._file)
        if descriptor is None:
            return await asyncio.to_thread(self._read_object)
        while not self._closing:
            try:
                await self._until_readable(descriptor)
                return b"" if self._closing else os.read(descriptor, BLOCK)
            except BlockingIOError:  # someone else has read it
                continue
            except NotImplementedError:  # Windows: its event loop watches no pipes
                return await asyncio.to_thread(os.read, descriptor, BLOCK)
        return b""

    async def _until_readable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        self._readable = readable = loop.create_future()
        try:
            loop.add_reader(descriptor, _settle, readable)
        except PermissionError:  # a plain file is always readable, and epoll does not take it
            await asyncio.sleep(0)
            return
        try:
            await readable
        finally:
            # Watched only while someone waits: else unread lines would wake the loop ever again.
            loop.remove_reader(descriptor)

    def _read_object(self) -> bytes:
        assert self._file is not None
        read = getattr(self._file, "read1", self._file.read)
        block = read(BLOCK)
        return block.encode("utf-8", "surrogatepass") if isinstance(block, str) else block


def _settle(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _descriptor(file: IO[Any] | None) -> int | None:
    try:
        return None if file is None else file.fileno()
    except (AttributeError, OSError, ValueError):
        return None
