"""What a live session says: predictions as lines on standard output, the rest on standard error."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

from ..core.steps import Prediction

FIELDS = ("step", "state", "proba", "distance", "why", "neighbours", "seq", "time")
_PIECE = 4096  # what a pipe that is ready takes without blocking


def json_lines(predictions: Sequence[Prediction]) -> str:
    """One object a line; null where there is no figure."""
    return "".join(json.dumps(_fields(p), ensure_ascii=False) + "\n" for p in predictions)


def csv_lines(predictions: Sequence[Prediction]) -> str:
    """One row a line, its neighbours parted by spaces; empty where there is no figure."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for prediction in predictions:
        fields = _fields(prediction)
        fields["neighbours"] = " ".join(str(row) for row in prediction.neighbours)
        rows.writerow([fields[name] for name in FIELDS])
    return text.getvalue()


def _fields(prediction: Prediction) -> dict[str, object]:
    state = prediction.state
    return {
        "step": prediction.step,
        "state": str(state) if isinstance(state, str) else int(state),
        "proba": _figure(prediction.proba),
        "distance": _figure(prediction.distance),
        "why": prediction.why,
        "neighbours": [int(row) for row in prediction.neighbours],
        "seq": prediction.seq,
        "time": prediction.time,
    }


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


class Lines:
    """Predictions as lines of text on standard output.

    Parameters
    ----------
    form : "json" or "csv"
    """

    def __init__(self, form: str = "json") -> None:
        self._lines = csv_lines if form == "csv" else json_lines
        self._before = ",".join(FIELDS) + "\n" if form == "csv" else ""
        self._given_up = threading.Event()

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Write the predictions; waits for the reader, so call it beside the event loop."""
        text = self._before + self._lines(predictions)
        self._before = ""
        if text:
            self._write(text)

    def give_up(self) -> None:
        """Wait no longer for a reader who does not read."""
        self._given_up.set()

    def _write(self, text: str) -> None:
        try:
            file = sys.stdout.fileno()
        except (OSError, ValueError):  # not a file, as in a notebook
            sys.stdout.write(text)
            return
        sys.stdout.flush()
        left = memoryview(text.encode(sys.stdout.encoding or "utf-8", "replace"))
        while left and not self._given_up.is_set():
            # Windows can wait for sockets only; there a reader who does not read is waited for.
            if os.name == "nt" or select.select([], [file], [], 0.1)[1]:
                left = left[os.write(file, left[:_PIECE]) :]


class Notices:
    """One line each on standard error; of a kind of line no more than a few, then one in a while.

    Parameters
    ----------
    every, at_once : float, int
        Of each kind so many lines are said at once, and then one in so many seconds.

    Attributes
    ----------
    n_refused : int
        How many refusals there were, said or not.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        every: float = 1.0,
        at_once: int = 5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._every, self._at_once, self._clock = stream, every, at_once, clock
        self._free_at: dict[str, float] = {}  # when all lines of a kind may be said again
        self._unsaid = 0
        self.n_refused = 0

    def say(self, text: str) -> None:
        """Say a line."""
        with suppress(OSError, ValueError):  # nobody listens: no reason to stop
            print(f"mlat: {' '.join(text.split())}", file=self._stream or sys.stderr, flush=True)

    def notice(self, kind: str, text: str) -> None:
        """Say a line, unless too many of its kind have just been said."""
        if self._may_say(kind):
            self.say(text)

    def refused(self, reason: str, count: int = 1) -> None:
        """Count what was refused, and say so unless too many refusals have just been said."""
        self.n_refused += count
        if not self._may_say("refused"):
            self._unsaid += count
            return
        more = f" (and {self._unsaid} more since the last such line)" if self._unsaid else ""
        self.say(f"refused{f' {count} times' if count > 1 else ''}: {reason}{more}")
        self._unsaid = 0

    def _may_say(self, kind: str) -> bool:
        now = self._clock()
        free_at = max(self._free_at.get(kind, now), now)
        if free_at - now > (self._at_once - 1) * self._every:
            return False
        self._free_at[kind] = free_at + self._every
        return True
