"""Steps from an outlet of the Lab Streaming Layer (LSL)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from ...base.checks import Floats
from ...base.errors import InputError, require_package
from ...stream.conversion import changes
from ..core.steps import Steps
from .source import Arrival, Event, Refusal, Source, Tries

RESOLVE = 3.0  # seconds to look for an outlet in one try
TIMEOUT = 0.8  # seconds for a call that blocks: a source closes within one
KEEP = 60  # seconds of samples that liblsl holds for a consumer that is behind
MOST_SAMPLES = 1024  # at once
CLOCK_EVERY = 5.0  # seconds between updates of the clocks' offset; liblsl measures as often
_PROPERTY = re.compile(r"(name|type|source_id|hostname|uid)=(.*)", re.DOTALL)
_UNNAMED = re.compile(r"x\d+")  # what `Stream` calls channels that have no names
T = TypeVar("T")


class LslSource(Source):
    """Samples of one outlet, found by its name or another property (``type=EEG``).

    pylsl blocks, so it runs in a thread of its own, and asks for nothing before the last samples
    were handed on: what arrives meanwhile waits in liblsl, which keeps the last 60 seconds and
    drops older ones. The source cannot be resumed.

    Parameters
    ----------
    spec : str
        A name, or ``property=value``.
    max_tries : int, optional
        End after so many failed tries in a row to find the outlet; default never.
    """

    def __init__(self, spec: str, *, max_tries: int | None = None) -> None:
        match = _PROPERTY.fullmatch(spec)
        self._property, self._value = (match[1], match[2]) if match else ("name", spec)
        if not self._value or "'" in self._value or "\0" in self._value:
            raise InputError(
                "lsl: needs the name of an outlet, without apostrophes, or a property: "
                "lsl:NAME, lsl:type=EEG, lsl:source_id=…"
            )
        super().__init__(f"lsl:{spec}")
        self._tries = Tries(max_tries)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mlat-lsl")

    async def open(self, channels: tuple[str, ...], after: str = "") -> None:
        self._channels = channels
        self._pylsl = await self._in_thread(
            lambda: require_package("pylsl", "live", "an LSL source")
        )

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
                    yield self._notice(*self._tries.news(error, wait))
                    if self._tries.given_up:
                        return
                    await self._closing.sleep(wait)
                    continue
                if inlet is None:
                    return
                self._tries.connected()
                yield self._notice("connected", f"connected, {inlet.about}")
                if inlet.note:
                    yield self._notice("note", inlet.note)
                since = clock()
                try:
                    async for event in self._samples(inlet):
                        yield event
                finally:
                    await self._in_thread(inlet.close)
                if self._closing:
                    return
                wait = self._tries.lost(clock() - since)
                yield self._notice("lost", "the outlet is gone; looking for it again")
                await self._closing.sleep(wait)
        finally:
            self._thread.shutdown(wait=False)

    async def _connect(self) -> Inlet | None:
        """Find the outlet and check that it fits; None if the source is closed meanwhile."""
        # It searches in threads of liblsl's own, so that the search can be left at any time.
        resolver = self._pylsl.ContinuousResolver(self._property, self._value)
        deadline = asyncio.get_running_loop().time() + RESOLVE
        found = resolver.results()
        while not found and asyncio.get_running_loop().time() < deadline:
            if await self._closing.sleep(0.05):
                return None
            found = resolver.results()
        if not found:
            raise UnfitError(f"still waiting for an outlet with this {self._property}")
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
            for event in self._split_at_bad(*pulled):
                yield event

    def _split_at_bad(self, values: Floats, time: Floats) -> Iterator[Arrival | Refusal]:
        """Samples in groups: good ones as steps, bad ones with the reason of the first."""
        infinite, n = np.isinf(values), len(values)
        bad = np.asarray(infinite.any(axis=1)) | ~np.isfinite(time)
        edges = [*np.flatnonzero(changes(bad, n, first=True)).tolist(), n]
        for start, stop in itertools.pairwise(edges):
            if not bad[start]:
                yield Arrival(Steps(values[start:stop], None, time[start:stop]))
                continue
            reason = f"its time stamp is {time[start]}"
            if infinite[start].any():
                channel = self._channels[int(np.argmax(infinite[start]))]
                reason = f"channel {channel!r} is infinite"
            yield Refusal(f"{self.name}: {reason}", stop - start)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


class UnfitError(Exception):
    """Why an outlet cannot be used; ``refused`` if it exists and does not fit the model."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class Inlet:
    """One inlet of pylsl.

    Call `describe`, `subscribe` and `set_clock`, then `pull`; each blocks at most `TIMEOUT`.

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
        """Read which channels the outlet has, and match them with the model's."""
        if self._found.channel_format() == self._pylsl.cf_string:
            raise UnfitError("the outlet sends texts, not numbers", refused=True)
        with _pylsl_errors():
            # recover=False: a lost outlet is looked for and checked by the source, not silently by
            # liblsl.
            self._inlet = self._pylsl.StreamInlet(self._found, max_buflen=KEEP, recover=False)
            labels = _labels(self._inlet.info(TIMEOUT))
        self._columns = columns(labels, self._found.channel_count(), self._channels)
        if not set(self._channels) <= set(labels or []):
            self.note = "channels are taken in the order they are sent, as no names tell them apart"

    def subscribe(self) -> None:
        """From now on no sample is missed."""
        with _pylsl_errors():
            self._inlet.open_stream(TIMEOUT)

    def set_clock(self) -> None:
        """Measure the offset between the outlet's clock and the local one."""
        try:
            self._offset = self._inlet.time_correction(TIMEOUT)
        except RuntimeError:
            self._clock_due = np.inf  # a jump later on would be worse than a constant error
            self.note = self.note or "the clocks' offset is unknown; its time stamps stay as sent"

    def pull(self) -> tuple[Floats, Floats] | None:
        """What has arrived, as soon as something has.

        Returns
        -------
        values of shape (t, d) and time of shape (t,) by the local clock
            Both are empty if nothing came for a while. None if the outlet is gone.
        """
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
        return np.ascontiguousarray(values), self._to_local_clock(stamps)

    def close(self) -> None:
        if self._inlet is not None:
            self._inlet.close_stream()
            self._inlet = None  # which frees it

    def _to_local_clock(self, stamps: Floats) -> Floats:
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
        if len(finite := local[np.isfinite(local)]):
            self._last = float(finite[-1])
        return local


def _labels(info: Any) -> list[str]:
    """The names of the channels, as far as there are any; pylsl's own function prints on stdout."""
    channel, labels = info.desc().child("channels").child("channel"), list[str]()
    while not channel.empty() and len(labels) <= info.channel_count():
        labels.append(channel.child("label").first_child().value())
        channel = channel.next_sibling()
    return labels


@contextlib.contextmanager
def _pylsl_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # pylsl's TimeoutError, LostError and others
        raise UnfitError(f"the outlet does not answer ({str(error).rstrip('.')})") from None


def columns(
    labels: Sequence[str] | None, n_sent: int, channels: tuple[str, ...]
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
    names = list(labels or [])
    if len(names) > n_sent:
        raise UnfitError(f"the outlet names more channels than the {n_sent} it sends", refused=True)
    if len(set(names)) == len(names) and set(channels) <= set(names):
        found = [names.index(name) for name in channels]
        return None if found == list(range(n_sent)) else found
    if n_sent != len(channels):
        raise UnfitError(
            f"the outlet has {n_sent} channels, the model was learned on {len(channels)}",
            refused=True,
        )
    outlet_has_names = bool(names) and all(names)
    if outlet_has_names and not all(_UNNAMED.fullmatch(name) for name in channels):
        absent = [name for name in channels if name not in names]
        some = ", ".join(name[:40] for name in names[:5])
        raise UnfitError(
            f"the outlet has no channel {absent[0]!r} (it has {some}"
            f"{', …' if len(names) > 5 else ''}); name its channels as in training"
            if absent
            else "the outlet gives two channels one name",
            refused=True,
        )
    return None
