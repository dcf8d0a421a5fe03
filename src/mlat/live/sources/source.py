"""What a source of live steps is: the events it gives, how it is resumed, closed and connected."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
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


# --- connecting again and again

FIRST_CEILING = 0.5  # seconds
CAP = 30.0  # seconds
LASTING = 5.0  # seconds that a connection must hold to end a series of failures


def delay(failures: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Seconds to wait after so many failures in a row: exponential backoff with full jitter.

    Uniform between 0 and a ceiling that doubles with every failure up to ``CAP``. The draw is from
    the whole range, not from its upper half, so that clients that lost one broker at the same time
    come back spread out.

    Examples
    --------
    >>> [delay(n, lambda low, high: high) for n in range(1, 9)]
    [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    if failures < 1:
        return 0.0
    # 2.0 ** 1100 would overflow; the cap decides long before that.
    ceiling = min(CAP, FIRST_CEILING * 2.0 ** min(failures - 1, 64))
    return uniform(0.0, ceiling)


class Tries:
    """Counts the tries to connect; says how long to wait and when to give up.

    Parameters
    ----------
    max_tries : int, optional
        Give up after so many failed tries in a row; default never.
    """

    def __init__(
        self,
        max_tries: int | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.max_tries = max_tries
        self.failed = 0  # tries in a row without a connection
        self._losses = 0  # the same, with connections that did not last
        self._uniform = uniform

    @property
    def given_up(self) -> bool:
        return self.max_tries is not None and self.failed >= self.max_tries

    def connected(self) -> None:
        self.failed = 0

    def could_not_connect(self) -> float:
        """A try failed: the seconds to wait before the next."""
        self.failed += 1
        self._losses += 1
        return delay(self._losses, self._uniform)

    def news(self, why: Exception, wait: float) -> tuple[str, str]:
        """What is said after a try that failed: the kind of a notice, and its text."""
        if self.given_up:
            return "ended", f"{why}; gave up after {self.failed} tries"
        return "retrying", f"{why}; try {self.failed + 1} in {wait:.1f} s"

    def lost(self, held: float) -> float:
        """A connection that held for some seconds was lost: the seconds to wait.

        One that does not last counts as a failure: otherwise two clients of one name, which push
        each other out of a broker, would do so without a pause.
        """
        self._losses = 1 if held >= LASTING else self._losses + 1
        return delay(self._losses, self._uniform)
