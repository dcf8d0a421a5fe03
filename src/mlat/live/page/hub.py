"""Between a session and the pages that watch it: recent steps, frames, and a queue for each page.

Publishing is cheap and never waits: a page that is too slow loses its oldest frames and is told how
many. The hub does not know about sockets; :mod:`mlat.live.page.routes` sends its frames.

A session publishes steps and predictions to the `Hub`, which keeps the recent ones (`History`).
Each page has a `Subscription`: first frames of the recent past, then live ones.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Ints, finite
from ...classifier.drift import Drift
from ...stream.conversion import changes
from ..core.steps import Predictions, Steps
from .metrics import Counts, exposition

FRAMES_PER_SECOND = 25
FRAME_STEPS = 1000  # in one frame; of a stream that is faster, only the newest steps are shown
MOST_STEPS = 12_000  # kept, whatever the seconds: two minutes at 100 Hz, and 1.3 MB of 27 channels
MOST_WAITING = 4096  # steps that are remembered until their prediction comes
# At most so many frames wait for a page, and so many are sent and not acknowledged: 2 s together,
# and no page is later than that.
QUEUE = 38
IN_FLIGHT = 12


class Hub:
    """Takes what a session predicts, and hands it to any number of pages as frames.

    Its methods may be called from any thread.

    Parameters
    ----------
    seconds : float, default=60
        How much of the past a new page is shown; at most ``MOST_STEPS`` steps.
    stream : str, optional
        Names the stream whose steps are numbered. A page that reconnects goes on where it was if
        the name is still the same, and starts again otherwise; give the same one after a restart
        that continues the numbers. Default a new name for every hub.
    rate : float, optional
        Steps a second, if known; otherwise a page estimates it.

    Attributes
    ----------
    history : History
    counts : Counts
    session : LiveSession or None
        The one that published last.
    lost : bool
        Whether the source is away.
    drift : sequence of Drift
        The channels that are not as in training.
    """

    def __init__(
        self, *, seconds: float = 60.0, stream: str | None = None, rate: float | None = None
    ) -> None:
        self.seconds, self.rate = seconds, rate
        self.stream = stream or secrets.token_hex(8)
        self.history, self.counts = History(MOST_STEPS), Counts()
        self.lock = threading.RLock()
        self.session: Any = None
        self.lost = False
        self.drift: Sequence[Drift] = ()
        self._waiting = WaitingValues()
        self._subscriptions: set[Subscription] = set()
        self._listeners: set[Callable[[], None]] = set()
        self._emitted = 0  # the first step that is in no frame yet
        self._changed = False
        self._latest: Predictions | None = None
        self._lag = self._last_lag = 0.0
        self._last_step: float | None = None
        self._notice: dict[str, str] | None = None

    # --- what a session reports

    def publish(
        self,
        steps: Steps,
        predictions: Predictions,
        session: Any,
        lag: float,
        *,
        past: bool = False,
    ) -> None:
        """Report what arrived and what was predicted.

        Parameters
        ----------
        steps : Steps
            As they arrived, with late and duplicate ones.
        predictions : Predictions
            Of the steps that were accepted, which may have arrived before these.
        session : LiveSession or None
            Its ``counters`` are shown, and its taught windows.
        lag : float
            Seconds from the arrival of the steps to their predictions.
        past : bool
            Predicted by a process before this one: shown as history, and not counted again.
        """
        now = time.time()
        with self.lock:
            self.session, self._changed = session, True
            values = self._waiting.match(steps, predictions)
            if len(predictions):
                if predictions.first != self.history.next:
                    self._emitted = predictions.first
                self.history.extend(predictions, values, now - max(lag, 0.0))
                if not past:
                    self.counts.add(predictions, lag, now)
                self._latest, self._last_step = predictions, now
                self._lag, self._last_lag = max(self._lag, lag), lag
        self._call_listeners()

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count something from the source that was no step."""
        with self.lock:
            self.counts.source_refused += count
        self.notice("refused", reason)

    def notice(self, kind: str, text: str) -> None:
        """Show a line about the source: "connected", "lost", "retrying", "ended" or "refused"."""
        with self.lock:
            self._notice, self._changed = {"kind": kind, "text": text}, True
            if kind != "refused":  # which does not say whether the source is there
                self.lost = kind in ("lost", "retrying")
        self._call_listeners()

    # --- frames for pages

    def emit(self) -> bool:
        """Make a frame of all that is new, for every page; return whether anything was new."""
        with self.lock:
            if not self._changed:
                return False
            self._changed = False
            begin = max(self._emitted, self.history.first, self.history.next - FRAME_STEPS)
            self._emitted = self.history.next
            if self._subscriptions:
                header, arrays = self.history.between(begin, self.history.next)
                frame = encode_page_frame(header | {"now": self.status()}, arrays)
                self.counts.frames += 1
                for subscription in self._subscriptions:
                    subscription.offer(frame)
            self._lag = 0.0
            return True

    def subscribe(
        self,
        *,
        since: int | None = None,
        stream: str | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> Subscription:
        """Frames of the recent past, then those from now on.

        Parameters
        ----------
        since : int, optional
            The step to go on from, for a page that saw the ones before of the same ``stream``.
        wake : callable
            Called, from any thread, when :meth:`Subscription.take` may have a frame.
        """
        with self.lock:
            begin = self.history.oldest_within(self.seconds)
            if since is not None and stream == self.stream:
                begin = max(self.history.first, min(since, self._emitted))
            subscription = Subscription(self, begin, self._emitted, wake)
            self._subscriptions.add(subscription)
            self._changed = True  # the number of pages
        self._call_listeners()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self.lock:
            self._subscriptions.discard(subscription)
            self._changed = True
        self._call_listeners()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever there is something to emit; returns a function that ends it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _call_listeners(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # --- how things are

    @property
    def clients(self) -> int:
        return len(self._subscriptions)

    @property
    def age(self) -> float | None:
        """Seconds since the last step; None before the first."""
        return None if self._last_step is None else max(0.0, time.time() - self._last_step)

    def session_counters(self) -> Mapping[str, int]:
        return dict(getattr(self.session, "counters", {}))

    def status(self) -> dict[str, Any]:
        """The latest prediction and the counts, as a page shows them."""
        status: dict[str, Any] = {
            "lag": finite(max(self._lag, self._last_lag)),
            "steps": self.history.next,
            "unknown": dict(self.counts.unknown),
            "counters": self.session_counters(),
            "refused": self.counts.source_refused,
            "doubtful": self.counts.doubtful,
            "clients": self.clients,
            "notice": self._notice,
            "drift": [str(one) for one in self.drift],
        }
        if self._latest is not None:
            p = self._latest[-1]
            status["latest"] = {
                "step": p.step,
                "state": None if p.why else json_state(p.state),
                "why": p.why,
                "proba": finite(p.proba),
                "agreement": finite(p.agreement),
                "distance": finite(p.distance),
                "neighbours": [int(row) for row in p.neighbours],
                "probabilities": [finite(value) for value in p.probabilities],
            }
            classes = getattr(self.session, "classes", None)
            if classes is not None:  # taught states come after those of the model
                status["classes"] = [json_state(state) for state in classes]
            examples = getattr(self.session, "examples", None)
            if examples:  # those that can be undone; the last one is shown
                state, n = examples[-1]
                status["example"] = {"state": json_state(state), "n": n, "of": len(examples)}
        return status

    def health(self) -> dict[str, Any]:
        """Whether steps can be expected, how late predictions are, and when the last step came."""
        with self.lock:
            return {
                "ok": not self.lost,
                "lag": finite(self._last_lag),
                "last_step_age": self.age,
                "steps": self.counts.steps,
                "clients": self.clients,
            }

    def prometheus(self) -> str:
        """The counts in Prometheus's text format."""
        with self.lock:
            return exposition(
                self.counts,
                self.session_counters(),
                clients=self.clients,
                age=self.age,
                drift={one.channel: one.by for one in self.drift},
            )


def setter(event: asyncio.Event) -> Callable[[], None]:
    """A function that sets an event of the running loop, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        if not event.is_set():  # publishing is frequent: do not wake the loop twice
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)

    return wake


class Subscription:
    """The frames for one page, oldest first; made by :meth:`Hub.subscribe`.

    Attributes
    ----------
    dropped : int
        Frames that were dropped because the page was too slow.
    """

    def __init__(self, hub: Hub, begin: int, live: int, wake: Callable[[], None]) -> None:
        self._hub, self._wake = hub, wake
        self._next, self._live = begin, live  # steps of the history still to send: next..live-1
        self._queue: deque[bytes] = deque()
        self._unacknowledged = 0
        self.dropped = 0

    def take(self) -> bytes | None:
        """The next frame; None if there is none, or too many are unacknowledged."""
        with self._hub.lock:
            if self._unacknowledged >= IN_FLIGHT:
                return None
            if self._next < self._live:
                begin = max(self._next, self._hub.history.first)
                self._next = end = max(begin, min(begin + FRAME_STEPS, self._live))
                frame = encode_page_frame(*self._hub.history.between(begin, end))
            elif self._queue:
                frame = self._queue.popleft()
            else:
                return None
            self._unacknowledged += 1
            return frame

    def acknowledge(self, frames: int = 1) -> None:
        """The page has processed so many more frames."""
        with self._hub.lock:
            self._unacknowledged = max(0, self._unacknowledged - frames)
        self._wake()

    def offer(self, frame: bytes) -> None:
        """Add a live frame. Called by the hub, under its lock."""
        if len(self._queue) >= QUEUE:
            self._queue.popleft()
            self.dropped += 1
            self._hub.counts.dropped += 1
        self._queue.append(frame)
        self._wake()

    def close(self) -> None:
        self._hub.unsubscribe(self)


_COLUMNS = [("proba", "f4"), ("agreement", "f4"), ("label", "i4")]
_COLUMNS += [("time", "f8"), ("arrived", "f8")]


class History:
    """The last steps and their predictions: steps ``first`` to ``next - 1``, without a gap.

    Parameters
    ----------
    capacity : int
        Steps that are kept, in a ring buffer.

    Attributes
    ----------
    first, next : int
        The oldest step that is kept, and the one that is expected.
    n_channels : int
        0 before the first step.
    labels : list of (state or None, why)
        Each label once; a step is kept with the index of its label.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.first = self.next = 0
        self.n_channels = 0
        self.labels: list[tuple[Any, str]] = []
        self._label_index: dict[tuple[Any, str], int] = {}
        self._kept = np.empty(capacity, _COLUMNS)
        self._values = np.empty((capacity, 0), np.float32)

    def extend(self, part: Predictions, values: NDArray[Any], arrived: float) -> None:
        """Add steps, their channels (n, d), and when they arrived (seconds since 1970)."""
        if part.first != self.next:  # another stream, or steps that were not published
            self.first = self.next = part.first
        if values.shape[1] != self.n_channels:
            self.n_channels = values.shape[1]
            self._values = np.empty((self.capacity, self.n_channels), np.float32)
        new = slice(max(0, len(part) - self.capacity), None)
        self.next += len(part)
        at = self._at(self.next - len(part) + new.start, self.next)
        with np.errstate(over="ignore"):  # what a 32-bit float cannot hold is drawn as infinite
            self._values[at] = values[new]
        self._kept["proba"][at], self._kept["agreement"][at] = part.proba[new], part.agreement[new]
        self._kept["label"][at] = self._labels_of(part)[new]
        self._kept["time"][at] = (
            np.nan if part.time is None else np.ma.filled(part.time, np.nan)[new]
        )
        self._kept["arrived"][at] = arrived
        self.first = max(self.first, self.next - self.capacity)

    def _labels_of(self, part: Predictions) -> list[int]:
        """The index of the label of each step."""
        every = [*zip(part.codes.tolist(), part.why.tolist(), strict=True)]
        new = dict.fromkeys(every)  # in the order in which they come
        index = {(s, why): self._index(part.names[s], part.reasons[why]) for s, why in new}
        return [index[both] for both in every]

    def _index(self, state: str | int, why: str) -> int:
        label = (None if why or state in ("", -1) else json_state(state), why)
        index = self._label_index.setdefault(label, len(self.labels))
        if index == len(self.labels):
            self.labels.append(label)
        return index

    def oldest_within(self, seconds: float) -> int:
        """The first kept step that arrived at most so long before the last one."""
        arrived = self._kept["arrived"][self._at(self.first, self.next)]
        if not len(arrived):
            return self.next
        return self.first + int(np.searchsorted(arrived, arrived[-1] - seconds))

    def between(self, begin: int, end: int) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """The steps ``begin`` to ``end - 1``, all kept, as a frame's header and arrays.

        The arrays are the channels (n, d), the probability of the state (n,); where the header has
        ``agreement``, that of the experts (n,), who all agree otherwise; and where the stream has
        times, the seconds since the header's ``time`` (n,).
        """
        at = self._at(begin, end)
        kept, n = self._kept[at], end - begin
        header: dict[str, Any] = {"kind": "steps", "first": begin, "n": n, "d": self.n_channels}
        arrays = [self._values[at], kept["proba"]]
        if (kept["agreement"] < 1).any():
            header["agreement"] = True
            arrays.append(kept["agreement"])
        if n:
            # Where the label changes, and to what: ``[step, state or None, why]``.
            labels = kept["label"]
            starts = np.flatnonzero(changes(labels, n, first=True)).tolist()
            header["runs"] = [[begin + i, *self.labels[labels[i]]] for i in starts]
            # Of both ends of the frame: the page shows the latency of the oldest and newest step.
            arrived = kept["arrived"][[0, -1]]
            header["arrived"] = [round(1000 * float(t), 1) for t in arrived]
            time = kept["time"]
            known = time[~np.isnan(time)]
            if len(known):
                # A 32-bit float alone would be off by a minute for seconds since 1970.
                header["time"] = float(known[0])
                arrays.append(time - known[0])
        return header, arrays

    def _at(self, begin: int, end: int) -> slice | Ints:
        """Where steps are kept."""
        place = begin % self.capacity
        if place + end - begin <= self.capacity:
            return slice(place, place + end - begin)
        return np.arange(begin, end) % self.capacity


class WaitingValues:
    """The values of steps that have no prediction yet, by sequence number or else by time.

    A session may hold steps back to put them into order, and it drops late, duplicate and refused
    ones. So the steps of one push and the predictions it gives are not the same rows.
    """

    def __init__(self) -> None:
        self._waiting: dict[float | None, NDArray[Any]] = {}

    def match(self, steps: Steps, predictions: Predictions) -> NDArray[Any]:
        """The channels (n, d) of each prediction's step, as they arrived; NaN if not known."""
        values = np.asarray(steps.values)
        arrived, wanted = _keys(steps, predictions)
        if arrived is None:
            return _match_in_order(values, len(predictions))
        if arrived == wanted and not self._waiting:  # the usual case
            return values
        for key, row in zip(arrived, values, strict=True):
            self._waiting.setdefault(key, row)
        missing = np.full(values.shape[1], np.nan)
        found = [self._waiting.pop(key, missing) for key in wanted]
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return np.array(found).reshape(len(wanted), values.shape[1])


def _keys(steps: Steps, told: Predictions) -> tuple[list[float] | None, list[float | None]]:
    """The keys of the steps that arrived, None if they have none, and of the predictions."""
    for own, wanted in ((steps.seq, told.seq), (steps.time, told.time)):
        if own is not None:
            return own.tolist(), [None] * len(told) if wanted is None else wanted.tolist()
    return None, []


def _match_in_order(values: NDArray[Any], n: int) -> NDArray[Any]:
    """Without keys nothing is reordered: either all were accepted, or those without a NaN."""
    if len(values) == n:
        return values
    whole = values[~np.isnan(values).any(axis=1)]
    if len(whole) == n:
        return whole
    found = np.full((n, values.shape[1]), np.nan)
    kept = values[-n:] if n else values[:0]
    found[n - len(kept) :] = kept
    return found


# --- frames: a JSON header and packed numbers
#
# A frame is the length of its header (4 bytes, little endian), the header as JSON, padded with
# blanks to a multiple of 4 bytes so that a browser can use the rest as a ``Float32Array`` without
# copying, and 32-bit floats (little endian). Against plain JSON it is half as long, and takes about
# an eighth of the time to write and a third to read: ``lab/benchmarks/live_page.py --frames``.

_LENGTH = struct.Struct("<I")


def encode_page_frame(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """A frame of a header and arrays, one after the other; the header gives their shapes."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    packed = (np.ascontiguousarray(array, "<f4").tobytes() for array in arrays)
    return b"".join((_LENGTH.pack(len(text)), text, *packed))


def json_state(state: Any) -> Any:
    """A state that JSON can hold: numpy's numbers as Python's."""
    return state.item() if isinstance(state, np.generic) else state
