"""Two tabs that label one recording while its program is killed, and what must be there of it."""

from __future__ import annotations

import contextlib
import csv
import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlat.base.errors import require_package
from mlat.live.journal.verify import BrokenError

from .feeds import free_port
from .kills import Forked, Troubles, check_said

TIMEOUT = 60.0  # seconds
STATES = ("", "walk", "run", "sit")  # "" is cleared
ENDS = ("kill", "kill", "kill", "full disk", "end")
FULL_FOR = 20  # edits

Labels = NDArray[np.str_]
Edit = tuple[int, int, str]  # start, end, state


class Tabs:
    """Labels a recording by two pages at once, and keeps an account of what was acknowledged.

    Each tab has half of the recording, and both undo. What was not answered before the program was
    killed may be there or not.

    Attributes
    ----------
    until : float
        When to end, by the clock (monotonic).
    counts : Counter
        Edits, refusals, and how the program was ended.
    """

    def __init__(
        self,
        recording: Path,
        n_steps: int,
        chance: random.Random,
        troubles: Sequence[Troubles],
        until: float,
    ) -> None:
        require_package("websockets", "live", "labelling")
        self._recording, self._half, self._chance = recording, n_steps // 2, chance
        self._troubles, self._table = troubles, recording.with_name("labels.csv")
        self._now: Labels = np.full(n_steps, "", dtype="U8")
        self._done: list[Labels] = []  # before each edit that can be undone
        self._undone: list[Labels] = []
        self.until = until
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Start the program and end it, until it is time; then in order.

        Raises
        ------
        BrokenError
            If anything that was acknowledged is lost, or something else is there.
        """
        folder, unanswered, life_number = self._recording.parent, list[Edit](), 0
        while True:
            port, is_last = free_port(), time.monotonic() > self.until
            out, said = folder / f"out-{life_number}.txt", folder / f"said-{life_number}.txt"
            arguments = ["label", str(self._recording), "-o", str(self._table), "--no-browser"]
            life = Forked(
                [*arguments, "--serve", f"127.0.0.1:{port}"],
                out,
                said,
                self._chance.choice(self._troubles),
            )
            try:
                self._wait_for_page(life, said)
                self._settle(port, unanswered)
                end = "end" if is_last else self._chance.choice(ENDS)
                unanswered = self._use(life, port, end)
                if end == "end":
                    life.stop()
                    if (status := life.wait()) != 0:
                        raise BrokenError(f"{said}: mlat label ended with status {status}")
                    self._check_table()
            finally:
                if life.ended() is None:
                    life.kill()
            check_said(said)
            self.counts[end] += 1
            life_number += 1
            if is_last:
                return

    def _wait_for_page(self, life: Forked, said: Path) -> None:
        deadline = time.monotonic() + TIMEOUT
        while "page at" not in (said.read_text() if said.exists() else ""):
            if life.ended() is not None or time.monotonic() > deadline:
                raise BrokenError(f"mlat label did not start: {said.read_text()}")
            time.sleep(0.02)

    def _settle(self, port: int, unanswered: Sequence[Edit]) -> None:
        """What is there must be what was acknowledged; of what was not, any part."""
        found = self._labels(port)
        some = [[edit for i, edit in enumerate(unanswered) if n >> i & 1] for n in range(4)]
        for made in some[: 2 ** len(unanswered)]:
            expected = self._now
            for edit in made:
                expected = _painted(expected, edit)
            if (expected == found).all():
                # An edit that changes nothing may be there or not, too, and the order is not known.
                if unanswered:
                    self._done, self._undone = [], []
                self._now = found
                return
        at = np.flatnonzero(found != self._now)
        raise BrokenError(
            f"{self._table}: steps {at[0]} to {at[-1]} are {str(found[at[0]])!r}, and should "
            f"be {str(self._now[at[0]])!r}; unanswered: {list(unanswered)}"
        )

    def _use(self, life: Forked, port: int, end: str) -> list[Edit]:
        """Edit for a while, then end the program; returns what was not answered."""
        tabs = [_Tab(port), _Tab(port)]
        left = self._chance.randrange(3, 60)
        is_full = False
        with contextlib.ExitStack() as stack:
            for tab in tabs:
                stack.callback(tab.close)
            while left > 0:
                if end == "full disk" and left <= FULL_FOR and not is_full:
                    is_full = True
                    life.limit(self._table.with_name(self._table.name + ".log").stat().st_size + 99)
                if self._chance.random() < 0.2:
                    self._undo(self._chance.choice(tabs))
                    left -= 1
                    continue
                edits = [self._edit(half) for half in range(2)]
                sent = [
                    tab.send("label", **_where(one)) if one[2] else tab.send("clear", **_where(one))
                    for tab, one in zip(tabs, edits, strict=True)
                ]
                left -= 2
                if left <= 0 and end == "kill":
                    time.sleep(self._chance.uniform(0.0, 0.01))
                    life.kill()
                answers = [tab.answer(n) for tab, n in zip(tabs, sent, strict=True)]
                self._note(edits, answers, is_full)
                if left <= 0 and end == "kill":
                    lost = zip(edits, answers, strict=True)
                    return [edit for edit, answer in lost if answer is None]
            if is_full and self._chance.random() < 0.5:  # else it is killed while it is full
                life.limit()
                edit = (*self._edit(0)[:2], STATES[1])
                answer = tabs[0].answer(tabs[0].send("label", **_where(edit)))
                self._note([edit], [answer], False)
        if end == "full disk":
            life.kill()
        return []

    def _edit(self, half: int) -> Edit:
        start = half * self._half + self._chance.randrange(self._half - 1)
        end = min(self._chance.randrange(start + 1, (half + 1) * self._half), start + 200)
        state = self._chance.choice(STATES)
        if not state and not (self._now[start:end] != "").any():  # there is nothing to clear
            state = STATES[1]
        return start, end, state

    def _note(
        self, edits: Sequence[Edit], answers: Sequence[dict[str, Any] | None], may_refuse: bool
    ) -> None:
        """Make the edits that were acknowledged, in the order in which they were made."""
        made = []
        for edit, answer in zip(edits, answers, strict=True):
            if answer is None:
                continue
            if "error" in answer:
                if not may_refuse or "make room" not in answer["error"]:
                    raise BrokenError(f"{edit} was refused: {answer['error']}")
                self.counts["refused"] += 1
            else:
                made.append((answer["version"], edit))
        for _, edit in sorted(made):
            self._done.append(self._now)
            self._undone.clear()
            self._now = _painted(self._now, edit)
            self.counts["edits"] += 1

    def _undo(self, tab: _Tab) -> None:
        name = self._chance.choice(["undo", "undo", "redo"])
        take, put = (self._done, self._undone) if name == "undo" else (self._undone, self._done)
        if not take:
            return
        answer = tab.answer(tab.send(name))
        if answer is None:
            raise BrokenError(f"the page was lost while {name} was asked for")
        if "error" not in answer:
            put.append(self._now)
            self._now = take.pop()
            self.counts["undone"] += 1
        elif "make room" not in answer["error"]:
            raise BrokenError(f"{name} was refused: {answer['error']}")

    def _labels(self, port: int) -> Labels:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request("GET", "/spans/0")
            spans = json.loads(connection.getresponse().read())["spans"]
        return self._of_spans(spans)

    def _of_spans(self, spans: Sequence[Any]) -> Labels:
        found: Labels = np.full(len(self._now), "", dtype="U8")
        for start, end, state in spans:
            if (found[int(start) : int(end)] != "").any():
                raise BrokenError(f"{self._table}: labels overlap at step {start}")
            found[int(start) : int(end)] = state
        return found

    def _check_table(self) -> None:
        with self._table.open(newline="") as file:
            rows = [(row["start"], row["end"], row["state"]) for row in csv.DictReader(file)]
        if not (self._of_spans(rows) == self._now).all():
            raise BrokenError(f"{self._table} is not what was labelled")


class _Tab:
    """One page, as a client of the server."""

    def __init__(self, port: int) -> None:
        from websockets.sync.client import connect

        more: dict[str, Any] = {"proxy": None, "max_size": None, "open_timeout": TIMEOUT}
        self._socket = connect(f"ws://127.0.0.1:{port}/news", **more)
        self._number = 0

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._socket.close()

    def send(self, do: str, **what: Any) -> int:
        self._number += 1
        with contextlib.suppress(Exception):  # it was killed: there will be no answer
            self._socket.send(json.dumps({"id": self._number, "do": do, **what}))
        return self._number

    def answer(self, number: int) -> dict[str, Any] | None:
        """The answer to what was sent under a number; None if the connection ended before."""
        from websockets.exceptions import ConnectionClosed

        deadline = time.monotonic() + TIMEOUT
        try:
            while True:
                told = json.loads(self._socket.recv(timeout=max(0.0, deadline - time.monotonic())))
                if told["kind"] == "answer" and told["id"] == number:
                    return dict(told)
        except (ConnectionClosed, OSError):
            return None
        except TimeoutError:
            raise BrokenError(f"no answer within {TIMEOUT:g} s") from None


def _where(edit: Edit) -> dict[str, Any]:
    start, end, state = edit
    return {"recording": 0, "start": start, "end": end} | ({"state": state} if state else {})


def _painted(labels: Labels, edit: Edit) -> Labels:
    painted = labels.copy()
    painted[edit[0] : edit[1]] = edit[2]
    return painted
