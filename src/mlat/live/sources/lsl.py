"""Steps from an outlet of the Lab Streaming Layer."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ..steps import Steps
from .backoff import Tries
from .lsl_inlet import Inlet, UnfitError
from .optional import need
from .source import Arrival, Closing, Event, Notice, Refusal

RESOLVE = 3.0  # seconds to look for an outlet in one try
_PROPERTY = re.compile(r"(name|type|source_id|hostname|uid)=(.*)", re.DOTALL)
T = TypeVar("T")


class LslSource:
    """Samples of one outlet, found by its name or another property (``type=EEG``).

    pylsl blocks, so it runs in a thread of its own, and asks for nothing before the last samples
    were taken: what arrives meanwhile waits in liblsl, which keeps the last 60 seconds and drops
    older ones. The source cannot be resumed.

    Parameters
    ----------
    spec : str
        A name, or ``property=value``.
    max_tries : int, optional
        End after so many failed tries in a row to find the outlet; default never.
    """

    def __init__(
        self,
        spec: str,
        *,
        max_tries: int | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        match = _PROPERTY.fullmatch(spec)
        self._property, self._value = (match[1], match[2]) if match else ("name", spec)
        if not self._value or "'" in self._value or "\0" in self._value:
            raise InputError(
                "lsl: needs the name of an outlet, without apostrophes, or a property: "
                "lsl:NAME, lsl:type=EEG, lsl:source_id=…"
            )
        self.name = f"lsl:{spec}"
        self._tries = Tries(max_tries, uniform)
        self._closing = Closing()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mlat-lsl")

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        self._channels = channels
        self._pylsl = await self._in_thread(lambda: need("pylsl", "an LSL source"))

    async def events(self) -> AsyncIterator[Event]:
        clock = asyncio.get_running_loop().time
        try:
            while not self._closing:
                try:
                    inlet = await self._connect()
                except UnfitError as error:
                    wait = self._tries.could_not_connect()
                    if error.refused:
                        yield Refusal(f"{self.name}: {error}")
                    if self._tries.given_up:
                        gave_up = f"gave up after {self._tries.failed} tries"
                        yield Notice("ended", f"{self.name}: {error}; {gave_up}")
                        return
                    again = f"try {self._tries.failed + 1} in {wait:.1f} s"
                    yield Notice("retrying", f"{self.name}: {error}; {again}")
                    await self._closing.sleep(wait)
                    continue
                if inlet is None:
                    return
                self._tries.connected()
                yield Notice("connected", f"{self.name}, {inlet.about}")
                if inlet.note:
                    yield Notice("note", f"{self.name}: {inlet.note}")
                since = clock()
                try:
                    async for event in self._samples(inlet):
                        yield event
                finally:
                    await self._in_thread(inlet.close)
                if self._closing:
                    return
                wait = self._tries.lost(clock() - since)
                yield Notice("lost", f"{self.name}: the outlet is gone; looking for it again")
                await self._closing.sleep(wait)
        finally:
            self._thread.shutdown(wait=False)

    async def acknowledge(self, position: str) -> None:
        pass

    async def close(self) -> None:
        self._closing.close()

    async def _connect(self) -> Inlet | None:
        """Find the outlet and see whether it fits; None if the source is closed meanwhile."""
        # It looks for outlets in threads of liblsl's own, so that this can be left at any time.
        resolver = self._pylsl.ContinuousResolver(self._property, self._value)
        deadline = asyncio.get_running_loop().time() + RESOLVE
        found = resolver.results()
        while not found and asyncio.get_running_loop().time() < deadline:
            if await self._closing.sleep(0.05):
                return None
            found = resolver.results()
        if not found:
            raise UnfitError(f"no outlet with this {self._property} within {RESOLVE:g} s")
        inlet = Inlet(self._pylsl, found[0], self._channels)
        for call in (inlet.describe, inlet.subscribe, inlet.set_clock):
            await self._in_thread(call)
            if self._closing:
                await self._in_thread(inlet.close)
                return None
        return inlet

    async def _samples(self, inlet: Inlet) -> AsyncIterator[Arrival | Refusal]:
        while not self._closing:
            pulled = await self._in_thread(inlet.pull)
            if pulled is None:
                return
            for steps, n_refused, reason in _without_infinities(*pulled, self._channels):
                if len(steps):
                    yield Arrival(steps)
                if n_refused:
                    yield Refusal(f"{self.name}: {reason}", n_refused)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _without_infinities(
    values: NDArray[np.float64], time: NDArray[np.float64], channels: tuple[str, ...]
) -> Iterator[tuple[Steps, int, str]]:
    """Stretches of good samples, each with the number of bad ones behind it and their reason."""
    infinite = np.isinf(values)
    bad = np.asarray(infinite.any(axis=1))
    begins = [0, *(np.flatnonzero(bad[1:] != bad[:-1]) + 1).tolist(), len(bad)]
    for start, stop in itertools.pairwise(begins):
        if start == stop:  # nothing came
            continue
        if bad[start]:
            channel = channels[int(np.argmax(infinite[start]))]
            yield Steps(values[:0]), stop - start, f"channel {channel!r} is infinite"
        else:
            yield Steps(values[start:stop], None, time[start:stop]), 0, ""
