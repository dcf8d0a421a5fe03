"""Kill a session at every single operation on the disk in turn, and check what is left.

A program: ``python live_crashes.py FOLDER``. It forks processes, each of which is killed right
before its k-th operation, or when half of what that one writes is written. Then a process that is
not killed goes on, and all must be as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from journal_description import read_journal
from live_runs import CLF, VALUES, Collected, Given, arrivals, run, same
from mlat.live import LiveSession, Prediction
from mlat.live.sources import Event

LENGTHS = [3, 19, 1, 9, 14]
EVENTS = arrivals(LENGTHS)
_write = os.write


class Disk:
    """Counts what is done to the disk, and ends the process at one of the operations."""

    def __init__(self, dies_at: int, halfway: bool) -> None:
        self._left, self._halfway = dies_at, halfway
        for name in ("write", "open", "fsync", "fdatasync", "replace", "ftruncate", "unlink"):
            setattr(os, name, self._counted(getattr(os, name), name == "write"))
        Path.write_bytes = self._counted(Path.write_bytes, writes=True)  # type: ignore[assignment]

    def _counted(self, operation: Callable[..., object], writes: bool) -> Callable[..., object]:
        def counted(*given: object, **more: object) -> object:
            self._left -= 1
            if self._left < 0:
                if writes and self._halfway:
                    where, content = given
                    operation(where, content[: len(content) // 2])  # type: ignore[index]
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*given, **more)

        return counted


class Patient(Given):
    """Gives the next arrival when the last one is on disk: a record for each."""

    async def events(self) -> AsyncIterator[Event]:
        async for event in super().events():
            self._kept = asyncio.Event()
            yield event
            await self._kept.wait()

    async def acknowledge(self, position: str) -> None:
        if hasattr(self, "_kept"):
            self._kept.set()


class Printing(Collected):
    """Prints to a file that outlives the process."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    def write(self, predictions: Sequence[Prediction]) -> None:
        _write(self._file, json.dumps([p.step for p in predictions]).encode() + b"\n")


def life(folder: Path, printed: Path, dies_at: int, halfway: bool) -> bool:
    """One process; whether it ended by itself."""
    pid = os.fork()
    if pid == 0:
        file = os.open(printed, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        Disk(dies_at, halfway)
        run(Patient(EVENTS), folder, lines=Printing(file), segment_size=1000)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    return status == 0


def check(folder: Path, printed: Path) -> None:
    """Right after a crash: what was printed is on disk, each step once."""
    steps = [s for line in printed.read_text().splitlines() for s in json.loads(line)]
    assert len(steps) == len(set(steps)), "printed twice"
    assert steps == sorted(steps), "out of order"
    on_disk = [one["step"] for _, one in read_journal(folder).predictions]
    assert on_disk == list(range(len(on_disk)))
    assert set(steps) <= set(on_disk), "printed before it was on disk"


def main(folder: Path) -> None:
    expected = LiveSession(CLF).push(VALUES[: sum(LENGTHS)])
    ended = n_deaths = 0
    dies_at = 0
    while not ended:
        for halfway in (False, True):
            place = folder / f"{dies_at}-{halfway}"
            printed = folder / f"{dies_at}-{halfway}.txt"
            place.mkdir()
            ended = life(place, printed, dies_at, halfway)
            n_deaths += not ended
            check(place, printed)
            # The next one dies too, while it recovers and goes on.
            n_deaths += not life(place, printed, dies_at // 2, halfway)
            check(place, printed)
            before = len(read_journal(place).predictions)
            _, more = run(Patient(EVENTS), place)
            assert same(more, expected[before:])
            assert len(read_journal(place).predictions) == len(expected)
        dies_at += 1
    print(n_deaths)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
