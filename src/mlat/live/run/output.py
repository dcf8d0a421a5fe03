"""Predictions as lines on standard output, notices on standard error."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...base.checks import finite
from ..core.steps import Predictions

FIELDS = ("step", "state", "proba", "distance", "why", "neighbours", "seq", "time", "agreement")
EVERY = 1.0  # seconds between notices of a kind, once there were many
_PIECE = 4096  # bytes that a pipe which is ready takes without blocking


def json_lines(told: Predictions) -> str:
    """Return one JSON object per line; NaN and infinity, which JSON has not, are null."""
    rows = (dict(zip(FIELDS, row, strict=True)) for row in _rows(told))
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def csv_lines(told: Predictions) -> str:
    """Return one row per line, neighbours separated by spaces; NaN and infinity are empty."""
    text = io.StringIO()
    near = FIELDS.index("neighbours")
    rows = ((*row[:near], " ".join(map(str, row[near])), *row[near + 1 :]) for row in _rows(told))
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _rows(told: Predictions) -> Iterator[tuple[Any, ...]]:
    """The fields of each prediction; None for what is not finite or not there."""
    names = [str(name) if isinstance(name, str) else int(name) for name in told.names]
    none = [None] * len(told)
    return zip(
        range(told.first, told.first + len(told)),
        (names[code] for code in told.codes.tolist()),
        map(finite, told.proba.tolist()),
        map(finite, told.distance.tolist()),
        (told.reasons[why] for why in told.why.tolist()),
        ([row for row in near if row >= 0] for near in told.neighbours.tolist()),
        none if told.seq is None else told.seq.tolist(),
        none
        if told.time is None
        else (None if t is None else finite(t) for t in told.time.tolist()),
        map(finite, told.agreement.tolist()),
        strict=True,
    )


class Lines:
    """Predictions as lines of text on standard output.

    Parameters
    ----------
    form : "json", "csv" or "none"
    """

    def __init__(self, form: str = "json") -> None:
        self._lines = csv_lines if form == "csv" else json_lines
        self._is_silent = form == "none"
        self._before = ",".join(FIELDS) + "\n" if form == "csv" else ""
        self._given_up = threading.Event()

    def write(self, predictions: Predictions) -> None:
        """Write predictions. This waits for the reader, so call it in a thread."""
        if self._is_silent:
            return
        text = self._before + self._lines(predictions)
        self._before = ""
        if text:
            self._write(text)

    def give_up(self) -> None:
        """Stop waiting for a reader that does not read."""
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
            # On Windows select takes only sockets; there a slow reader is always waited for.
            if os.name == "nt" or select.select([], [file], [], 0.1)[1]:
                left = left[os.write(file, left[:_PIECE]) :]


class Notices:
    """Notices on standard error, one line each, with a limited rate for each kind.

    Parameters
    ----------
    at_once : int
        So many lines of a kind are printed at once, then one a second.

    Attributes
    ----------
    n_refused, n_doubtful : int
        Refusals, and steps that may have come before, so far, printed or not.
    """

    def __init__(self, *, at_once: int = 5, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._clock = at_once, clock
        self._free_at: dict[str, float] = {}  # when a kind may use its full number of lines again
        self._unsaid = 0
        self.n_refused = self.n_doubtful = 0

    def say(self, text: str) -> None:
        """Print a line."""
        with suppress(OSError, ValueError):  # nobody reads it: no reason to stop
            print(f"mlat: {' '.join(text.split())}", file=sys.stderr, flush=True)

    def notice(self, kind: str, text: str) -> None:
        """Print a line, unless too many of its kind have just been printed."""
        if self._may_say(kind):
            self.say(text)

    def refused(self, reason: str, count: int = 1) -> None:
        """Count a refusal, and print it unless too many have just been printed."""
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
        if free_at - now > (self._at_once - 1) * EVERY:
            return False
        self._free_at[kind] = free_at + EVERY
        return True


@contextmanager
def log_lines(notices: Notices) -> Iterator[None]:
    """Print what libraries log, such as a connection that broke off, as a line without traceback.

    A program that has set up logging of its own keeps it.
    """
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler = _LogHandler(notices)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _LogHandler(logging.Handler):
    def __init__(self, notices: Notices) -> None:
        super().__init__(logging.WARNING)
        self._notices = notices

    def emit(self, record: logging.LogRecord) -> None:
        said = (record.getMessage().strip().splitlines() or ["no reason given"])[0]
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__}: {error})" if error is not None else ""
        self._notices.notice(record.name, f"{record.name}: {said}{why}")
