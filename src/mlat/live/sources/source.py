"""What a source of live steps is: the events it gives, and how it is resumed and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from ..core.steps import Steps


@dataclass(frozen=True, slots=True)
class Arrival:
    """Steps in the order the source sent them.

    ``position`` is a text by which the source resumes behind these steps; ``""`` if it cannot.
    """

    steps: Steps
    position: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not a step: ``count`` lines, messages or outlets, for one reason.

    It stands among the events where the steps would have stood.
    """

    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Notice:
    """What happens to the connection: "connected", "lost", "retrying", "ended", or a "note"."""

    kind: str
    text: str


Event = Arrival | Refusal | Notice


class Source(Protocol):
    """Where live steps come from.

    ``open`` once, iterate over ``events`` once, ``close`` at any time: the events then end. The
    next event is fetched only when it is asked for, so a slow consumer slows the source down; what
    the source does then is its own affair and stands in its documentation.
    """

    name: str

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        """Prepare to give the steps of these channels, in this order, behind a position."""

    def events(self) -> AsyncIterator[Event]:
        """Steps, refusals and notices in their order, until the source ends or is closed."""

    async def acknowledge(self, position: str) -> None:
        """All steps up to the position are kept: the source need not send them again."""

    async def close(self) -> None:
        """End the events and let go of files and connections."""


class Closing:
    """Whether a source was closed, for those who wait for something else meanwhile."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def close(self) -> None:
        self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep, less if the source is closed meanwhile; say whether it was."""
        return await self.sleep_until(asyncio.get_running_loop().time() + seconds)

    async def sleep_until(self, when: float) -> bool:
        """Sleep until the event loop's clock shows ``when``."""
        try:
            async with asyncio.timeout_at(when):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
