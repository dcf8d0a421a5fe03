"""What a source of live steps is: the events it gives, and how it is resumed and closed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ..core.steps import Steps


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
    """A change of the connection: "connected", "lost", "retrying", "ended", or a "note".

    ``doubtful`` counts steps of which the source cannot know whether they came before.
    """

    kind: str
    text: str
    doubtful: int = field(default=0, repr=False)


Event = Arrival | Refusal | Notice


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


class Source(ABC):
    """Where live steps come from.

    Call ``open`` once, iterate over ``events`` once, and ``close`` at any time, which ends the
    events. The next event is fetched only on demand, so a slow consumer slows the source down; each
    source documents what it does then.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._closing = Closing()

    @abstractmethod
    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        """Prepare to give the steps of these channels, in this order, after a position."""

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """Yield steps, refusals and notices in order, until the source ends or is closed."""

    async def acknowledge(self, position: str) -> None:  # noqa: B027 - of most there is none to tell
        """Say that all steps up to the position are kept, and need not be sent again."""

    async def close(self) -> None:
        """End the events, and close files and connections."""
        self._closing.close()

    def _notice(self, kind: str, text: str) -> Notice:
        return Notice(kind, f"{self.name}: {text}")
