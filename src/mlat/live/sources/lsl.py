"""Steps from an outlet of the Lab Streaming Layer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ..core.steps import Steps
from .backoff import Tries
from .source import Arrival, Closing, Event, Notice, Refusal, need

# -------------------------------------------------------------------- lsl_inlet
# One inlet of the Lab Streaming Layer: does it fit the model, and what does it bring.

PATIENCE = 0.8  # seconds for a call that blocks: a source closes within one
KEEP = 60  # seconds of samples that liblsl holds for a consumer that is behind
MOST_SAMPLES = 1024  # at once
CLOCK_EVERY = 5.0  # seconds between updates of the clocks' offset; liblsl measures as often
_UNNAMED = re.compile(r"x\d+")  # what `Stream` calls channels that have no names


class UnfitError(Exception):
    """Why an outlet cannot be used; ``refused`` if it is there and does not fit the model."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class Inlet:
    """Call `describe`, `subscribe` and `set_clock`, then `pull`; each blocks at most `PATIENCE`.

    Parameters
    ----------
    pylsl : module
    found : pylsl.StreamInfo
        As resolved: without the description.
    channels : names of the model's channels
    """

    def __init__(self, pylsl: Any, found: Any, channels: tuple[str, ...]) -> None:
        self._pylsl = pylsl
        self._found = found
        self._channels = channels
        self._inlet: Any = None
        self._columns: list[int] | None = None
        self._last = -np.inf
        self._offset = 0.0
        self._clock_due = 0.0
        rate = found.nominal_srate()
        self.about = f"{len(channels)} channels at {f'{rate:g} Hz' if rate else 'irregular times'}"
        self.note = ""

    def describe(self) -> None:
        """See which channels the outlet has, and whether they are the model's."""
        if self._found.channel_format() == self._pylsl.cf_string:
            raise UnfitError("the outlet sends texts, not numbers", refused=True)
        with _answers():
            # A lost outlet is looked for by us, who then check it anew, not by liblsl silently.
            self._inlet = self._pylsl.StreamInlet(self._found, max_buflen=KEEP, recover=False)
            labels = self._inlet.info(PATIENCE).get_channel_labels()
        self._columns = columns(labels, self._found.channel_count(), self._channels)
        self.note = _note(labels, self._channels)

    def subscribe(self) -> None:
        """From now on no sample is missed."""
        with _answers():
            self._inlet.open_stream(PATIENCE)

    def set_clock(self) -> None:
        """Learn how far the outlet's clock is from the local one."""
        try:
            self._offset = self._inlet.time_correction(PATIENCE)
        except RuntimeError:
            self._clock_due = np.inf  # a jump later on would be worse than a constant error
            self.note = self.note or "the clocks' offset is unknown; its time stamps stay as sent"

    def pull(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """What has arrived, as soon as something has: values (t, d) and time (t,) by the local
        clock. Both are empty if nothing came for a while; None if the outlet is gone."""
        try:
            # Only the first is waited for: pull_chunk would wait until it has as many as it may.
            first, stamp = self._inlet.pull_sample(timeout=0.2)
            if first is None:
                return np.empty((0, len(self._channels))), np.empty(0)
            samples, stamps = self._inlet.pull_chunk(timeout=0.0, max_samples=MOST_SAMPLES)
        except RuntimeError:
            return None
        values = np.array([first, *samples], dtype=np.float64)
        stamps = np.array([stamp, *stamps], dtype=np.float64)
        if self._columns is not None:
            values = values[:, self._columns]
        return np.ascontiguousarray(values), self._local(stamps)

    def close(self) -> None:
        if self._inlet is not None:
            self._inlet.close_stream()
            self._inlet = None  # which frees it

    def _local(self, stamps: NDArray[np.float64]) -> NDArray[np.float64]:
        now = self._pylsl.local_clock()
        if now >= self._clock_due:
            self._clock_due = now + CLOCK_EVERY
            try:
                offset = self._inlet.time_correction(0.0)
            except RuntimeError:
                offset = self._offset
            if stamps[0] + offset > self._last:  # a better estimate must not turn time back
                self._offset = offset
        local = stamps + self._offset
        self._last = float(local[-1])
        return local


@contextlib.contextmanager
def _answers() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # pylsl's TimeoutError, LostError and others
        raise UnfitError(f"the outlet does not answer ({str(error).rstrip('.')})") from None


def columns(
    labels: Sequence[str | None] | None, n_sent: int, channels: tuple[str, ...]
) -> list[int] | None:
    """Which column of the outlet is which channel of the model; None: as they come.

    Raises
    ------
    UnfitError
        The outlet has another number of channels, or other ones.

    Examples
    --------
    >>> columns(["ay", "ax", "trigger"], 3, ("ax", "ay"))
    [1, 0]
    >>> columns(None, 2, ("ax", "ay"))
    """
    named = list(labels or [])
    if len(set(named)) == len(named) and set(channels) <= set(named):
        found = [named.index(name) for name in channels]
        return None if found == list(range(n_sent)) else found
    if n_sent != len(channels):
        raise UnfitError(
            f"the outlet has {n_sent} channels, the model was learned on {len(channels)}",
            refused=True,
        )
    if _tells_names(labels) and not _are_unnamed(channels):
        absent = [name for name in channels if name not in named]
        raise UnfitError(
            f"the outlet has no channel {absent[0]!r} (it has {', '.join(map(str, named[:5]))}"
            f"{', …' if len(named) > 5 else ''}); name its channels as in training"
            if absent
            else "the outlet gives two channels one name",
            refused=True,
        )
    return None


def _tells_names(labels: Sequence[str | None] | None) -> bool:
    return bool(labels) and all(labels or [])


def _are_unnamed(channels: tuple[str, ...]) -> bool:
    return all(_UNNAMED.fullmatch(name) for name in channels)


def _note(labels: Sequence[str | None] | None, channels: tuple[str, ...]) -> str:
    if set(channels) <= set(labels or []):
        return ""
    return "channels are taken in the order they are sent, as no names tell them apart"


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
