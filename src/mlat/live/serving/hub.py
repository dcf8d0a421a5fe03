"""Between a session and the pages that watch it: recent steps, frames, and a queue for each page.

Publishing is cheap and never waits for anyone: a page that is too slow loses its oldest frames and
is told how many. The hub knows nothing of sockets; :mod:`mlat.live.serving.server` carries its
frames.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .arrivals import Arrivals
from .frames import encode, number, plain
from .history import History
from .metrics import Counts, exposition

if TYPE_CHECKING:
    from ..prediction import Prediction
    from ..steps import Steps

FRAMES_PER_SECOND = 25
MOST_STEPS = 12_000  # kept, whatever the seconds: two minutes at 100 Hz, and 1.3 MB of 27 channels
FRAME_STEPS = 1000  # in one frame; of a stream that is faster, only the newest are shown
QUEUE = 38  # frames that wait for a page,
IN_FLIGHT = 12  # and that it may leave unacknowledged: 2 s together, and no page is later than that


class Subscription:
    """The frames for one page, oldest first; made by :meth:`Hub.subscribe`.

    Attributes
    ----------
    dropped : int
        Frames that were dropped because the page was too slow.
    """

    def __init__(self, hub: Hub, begin: int, live: int, wake: Callable[[], None]) -> None:
        self._hub, self._wake = hub, wake
        self._next, self._live = begin, live  # steps of the history still to be sent: next..live-1
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
                frame = encode(*_parts(self._hub.history, begin, end))
            elif self._queue:
                frame = self._queue.popleft()
            else:
                return None
            self._unacknowledged += 1
            return frame

    def acknowledge(self, frames: int = 1) -> None:
        """The page has dealt with so many more frames."""
        with self._hub.lock:
            self._unacknowledged = max(0, self._unacknowledged - frames)
        self._wake()

    def offer(self, frame: bytes) -> None:
        """Called by the hub, under its lock."""
        if len(self._queue) >= QUEUE:
            self._queue.popleft()
            self.dropped += 1
            self._hub.counts.dropped += 1
        self._queue.append(frame)
        self._wake()

    def close(self) -> None:
        self._hub.leave(self)


class Hub:
    """Takes what a session tells, and hands it to any number of pages as frames.

    May be called from any thread.

    Parameters
    ----------
    seconds : float, default=60
        How much of the past a page that joins is shown; at most ``MOST_STEPS`` steps.
    stream : str, optional
        Names the stream whose steps are numbered. A page that reconnects goes on where it was if
        the name is still the same, and begins anew otherwise; give the same one after a restart
        that goes on numbering. Default a new name for every hub.
    rate : float, optional
        Steps a second, where known; a page estimates it otherwise.
    """

    def __init__(
        self, *, seconds: float = 60.0, stream: str | None = None, rate: float | None = None
    ) -> None:
        self.seconds, self.rate = seconds, rate
        self.stream = stream or secrets.token_hex(8)
        self.history, self.counts = History(MOST_STEPS), Counts()
        self.lock = threading.RLock()
        self.session: Any = None
        self._arrivals = Arrivals()
        self._subscriptions: set[Subscription] = set()
        self._listeners: set[Callable[[], None]] = set()
        self._emitted = 0  # the first step that no frame holds yet
        self._changed = False
        self._latest: Prediction | None = None
        self._lag = self._last_lag = 0.0
        self._last_step: float | None = None
        self._notice: dict[str, str] | None = None
        self.lost = False  # whether the source is away

    def publish(
        self,
        steps: Steps,
        predictions: Sequence[Prediction],
        session: Any,
        lag: float,
        *,
        past: bool = False,
    ) -> None:
        """Tell what arrived and what was predicted.

        Parameters
        ----------
        steps : Steps
            As they arrived: late and doubled ones too.
        predictions : sequence of Prediction
            Of the steps that were accepted, which may have arrived before these.
        session : LiveSession or None
            Its ``counters`` are shown, and its taught windows.
        lag : float
            Seconds from the arrival of the steps to their predictions.
        past : bool
            Told by a process before this one: shown as history, and counted no more.
        """
        now = time.time()
        with self.lock:
            self.session, self._changed = session, True
            values = self._arrivals.match(steps, predictions)
            if predictions:
                if predictions[0].step != self.history.next:
                    self._emitted = predictions[0].step
                self.history.extend(predictions, values, now - max(lag, 0.0))
                if not past:
                    self.counts.add(predictions, lag)
                self._latest, self._last_step = predictions[-1], now
                self._lag, self._last_lag = max(self._lag, lag), lag
        self._tell()

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count something from the source that was no step."""
        with self.lock:
            self.counts.source_refused += count
        self.notice("refused", reason)

    def notice(self, kind: str, text: str) -> None:
        """Show a line about the source: "connected", "lost", "retrying", "ended" or "refused"."""
        with self.lock:
            self._notice, self._changed = {"kind": kind, "text": text}, True
            if kind != "refused":  # which says nothing of whether the source is there
                self.lost = kind in ("lost", "retrying")
        self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever there is something to emit; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def emit(self) -> bool:
        """Make a frame of all that is new, for every page; whether there was anything new."""
        with self.lock:
            if not self._changed:
                return False
            self._changed = False
            begin = max(self._emitted, self.history.first, self.history.next - FRAME_STEPS)
            self._emitted = self.history.next
            if self._subscriptions:
                header, arrays = _parts(self.history, begin, self.history.next)
                frame = encode(header | {"now": self.status()}, arrays)
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
        """Frames from now on, after those of the recent past.

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
            self._changed = True  # who watches has changed
        self._tell()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        with self.lock:
            self._subscriptions.discard(subscription)
            self._changed = True
        self._tell()

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
        """How things stand, as a page shows it."""
        status: dict[str, Any] = {
            "lag": number(max(self._lag, self._last_lag)),
            "steps": self.history.next,
            "unknown": dict(self.counts.unknown),
            "counters": self.session_counters(),
            "refused": self.counts.source_refused,
            "clients": self.clients,
            "notice": self._notice,
        }
        if self._latest is not None:
            p = self._latest
            status["latest"] = {
                "step": p.step,
                "state": None if p.why else plain(p.state),
                "why": p.why,
                "proba": number(p.proba),
                "distance": number(p.distance),
                "neighbours": [int(row) for row in p.neighbours],
                "shares": [number(share) for share in p.shares],
            }
            classes = getattr(self.session, "classes", None)
            if classes is not None:  # taught states come after those of the model
                status["classes"] = [plain(state) for state in classes]
        return status

    def health(self) -> dict[str, Any]:
        """Whether steps can be expected, how late they are told, and when the last one came."""
        with self.lock:
            return {
                "ok": not self.lost,
                "lag": number(self._last_lag),
                "last_step_age": self.age,
                "steps": self.counts.steps,
                "clients": self.clients,
            }

    def prometheus(self) -> str:
        with self.lock:
            return exposition(
                self.counts, self.session_counters(), clients=self.clients, age=self.age
            )


def _parts(history: History, begin: int, end: int) -> tuple[dict[str, Any], list[Any]]:
    header, arrays = history.between(begin, end)
    return {"kind": "steps", **header}, arrays
