"""Kills a live session repeatedly, and checks each time what is on disk and what was printed."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from mlat.live.journal.verify import BrokenError, read_unbroken

from .warm import MODEL

SMALL = ("--snapshot-every", "300", "--segment-size", "60000")  # so that kills often hit them
LONGEST_LIFE = 300.0  # seconds without a new step
RUNNING = 0.5  # seconds that a process may run, at most, before it is killed
# When to kill: before the first line is printed, some time after it, or as soon as a file of that
# kind appears in the journal's folder. The file of a snapshot appears before it is written.
MOMENTS = ("starting", "running", "running", "new .snapshot", "new .journal")
FULL = "full disk"  # one more moment: no file may grow any further, and the process ends by itself
DISK_ERROR = 2  # the exit status then


class Life(Protocol):
    """One process of ``mlat live``."""

    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def ended(self) -> int | None: ...
    def wait(self) -> int: ...


class Spawned:
    """A new Python process."""

    def __init__(self, arguments: Sequence[str], out: Path, said: Path) -> None:
        program = "from mlat.cli import main; main()"
        with out.open("wb") as stdout, said.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()

    def ended(self) -> int | None:
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait(LONGEST_LIFE)


@dataclass(frozen=True)
class Troubles:
    """What a process has to live with.

    Attributes
    ----------
    disk : float
        Seconds that each flush takes longer, at most.
    clock : float
        Seconds by which the clock jumps now and then, at most, forward or back.
    """

    disk: float = 0.0
    clock: float = 0.0

    def begin(self) -> None:
        """In the process."""
        chance, ahead = random.Random(), 0.0

        def slow(flush: Callable[[Any], None]) -> Callable[[Any], None]:
            def flushed(file: Any) -> None:
                time.sleep(chance.uniform(0.0, self.disk))
                flush(file)

            return flushed

        def jumping() -> float:
            nonlocal ahead
            if chance.random() < 0.01:
                ahead = chance.uniform(-self.clock, self.clock)
            return clock() + ahead

        clock = time.time
        if self.disk:
            os.fsync, os.fdatasync = slow(os.fsync), slow(os.fdatasync)  # type: ignore[assignment]
        if self.clock:
            time.time = jumping


class Forked:
    """A process forked from one that has imported everything; it starts much faster."""

    _context: Any = None
    # Python asks for the status of all processes whenever one starts, and each can be read once: of
    # two threads that ask at the same time one would be told 255.
    _one_asks = threading.Lock()

    @classmethod
    def prepare(cls, model: Path) -> None:
        """Say which model's kernels are compiled; before the first process is started."""
        os.environ[MODEL] = str(model)
        cls._context = multiprocessing.get_context("forkserver")
        cls._context.set_forkserver_preload(
            [
                "mlat.cli.commands",
                "mlat.cli.live_program",
                "mlat.label.page.server",
                "mlat.label.page.routes",
                "mlat.live.sources.mqtt",
                "mlat.live.web.connections",
                "mlat.live.page.routes",
                "uvicorn",
                "mlat_lab.verify.warm",
                __name__,
            ]
        )

    def __init__(
        self, arguments: Sequence[str], out: Path, said: Path, troubles: Troubles | None = None
    ) -> None:
        self._process = Forked._context.Process(
            target=_run_mlat, args=(list(arguments), str(out), str(said), troubles or Troubles())
        )
        with Forked._one_asks:
            self._process.start()

    def limit(self, size: int = -1) -> None:
        """Let no file grow beyond so many bytes, as on a full disk; -1: as it was."""
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, -1))

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        self._process.terminate()

    def ended(self) -> int | None:
        with Forked._one_asks:
            code: int | None = self._process.exitcode
        return code

    def wait(self) -> int:
        deadline = time.monotonic() + LONGEST_LIFE
        while (code := self.ended()) is None:
            if time.monotonic() > deadline:
                raise BrokenError(f"mlat live did not end within {LONGEST_LIFE:g} s")
            time.sleep(0.01)
        return code


def _run_mlat(arguments: list[str], out: str, said: str, troubles: Troubles) -> None:
    for path, descriptor in ((out, 1), (said, 2)):
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = ["mlat", *arguments]
    troubles.begin()
    (program,) = entry_points(group="console_scripts", name="mlat")
    program.load()()


@dataclass(slots=True)
class Kills:
    """How often and when processes were killed; ``start_up`` is how long one takes to start."""

    wanted: float
    random: random.Random
    start_up: float
    at: Sequence[str] = MOMENTS
    done: int = 0
    moments: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    n_printed: int = 0

    def count(self, moment: str) -> None:
        self.done += 1
        self.moments[moment] = self.moments.get(moment, 0) + 1


def kill_until_end(
    arguments: Sequence[str],
    folder: Path,
    kills: Kills,
    start: Callable[[Sequence[str], Path, Path], Life],
    *,
    through: Callable[[Path], bool] = lambda _: False,
    n_steps: int | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """One round: start and kill ``mlat live`` until the source has ended, from an empty journal.

    Parameters
    ----------
    arguments : sequence of str
        Of ``mlat``, without the journal.
    folder : path
        For the journal and what is printed; empty.
    through : callable
        Whether no more steps will come, so that there is no point in a further kill. Its argument
        is the file of what the process has said.
    n_steps : int, optional
        Stop the last process when so many steps are on disk; without it, it ends by itself.

    Raises
    ------
    BrokenError
        If something is wrong with what is on disk or was printed.
    """
    journal = folder / "journal"
    printed = Printed()
    life_number = 0
    while True:
        out, said = folder / f"out-{life_number}.jsonl", folder / f"said-{life_number}.txt"
        life = start([*arguments, "--journal", str(journal), *SMALL], out, said)
        moment = None
        try:
            if kills.done < kills.wanted:
                moment = _kill_at_random(life, journal, out, kills, partial(through, said))
            if moment is None:
                if n_steps is not None:
                    _stop_after(life, journal, n_steps)
                status = life.wait()
        except KeyboardInterrupt:
            life.kill()
            raise
        check_said(said)
        if moment is not None:
            kills.count(moment)
            printed.check(out, journal)
            report(f"kill {kills.done}: {moment}, {printed.next} steps printed")
        else:
            if status != 0:
                last = (said.read_text().strip().splitlines() or ["no message"])[-1]
                raise BrokenError(f"mlat live ended with status {status}: {last}")
            printed.check(out, journal)
            kills.rounds += 1
            kills.n_printed += printed.count
            return
        life_number += 1


def check_said(said: Path) -> None:
    """Nothing that a person is told is a traceback."""
    text = said.read_text() if said.exists() else ""
    if "Traceback" in text:
        raise BrokenError(f"{said} has a traceback: {text.strip().splitlines()[-1]}")


class Printed:
    """What all processes have printed: never before it was on disk, never twice."""

    def __init__(self) -> None:
        self.next = 0
        self.count = 0

    def check(self, out: Path, journal: Path) -> None:
        """Check what one process has printed, right after its end."""
        *lines, rest = (out.read_bytes() if out.exists() else b"").split(b"\n")
        kept = read_unbroken(journal).records.predictions if journal.exists() else ()
        on_disk = {one.step: asdict(one) for one in kept}
        for line in lines:
            fields = json.loads(line)
            step = fields["step"]
            if step < self.next:
                raise BrokenError(f"step {step} was printed twice")
            if step not in on_disk:
                raise BrokenError(f"step {step} was printed, but is not on disk")
            if self.next and step > self.next and line is not lines[0]:
                raise BrokenError(f"step {step} was printed after step {self.next - 1}")
            for name, value in fields.items():
                if not _same(on_disk[step][name], value):
                    raise BrokenError(f"step {step}: {name} was printed as {value!r}")
            self.next = step + 1
            self.count += 1
        if rest and self.next not in on_disk:
            raise BrokenError(f"{rest[:40]!r} was printed of a step that is not on disk")


def _same(kept: Any, printed: Any) -> bool:
    if isinstance(kept, float) and math.isnan(kept):
        return printed is None
    return bool((list(kept) if isinstance(kept, tuple) else kept) == printed)


def _stop_after(life: Life, journal: Path, n_steps: int) -> None:
    """Stop a process in order when so many steps are on disk, or when no more come."""
    there, last = 0, time.monotonic()
    while life.ended() is None and time.monotonic() < last + LONGEST_LIFE:
        n = len(read_unbroken(journal).records.predictions) if journal.exists() else 0
        if n >= n_steps:
            time.sleep(0.5)  # whatever may come twice has time to come
            life.stop()
            return
        if n > there:  # however slow the machine is
            there, last = n, time.monotonic()
        time.sleep(0.2)
    if life.ended() is None:
        life.kill()
        raise BrokenError(f"{journal}: no step came for {LONGEST_LIFE:g} s, {there} of {n_steps}")


def _kill_at_random(
    life: Life, journal: Path, out: Path, kills: Kills, through: Callable[[], bool]
) -> str | None:
    """Kill at one of the moments; return which, or None if the process or its source ended."""
    began, before = time.monotonic(), _names(journal)
    moment = kills.random.choice(kills.at)
    delay = kills.random.uniform(0.0, kills.start_up if moment == "starting" else RUNNING)
    from_when = began if moment == "starting" else math.inf
    while life.ended() is None and not through():
        now = time.monotonic()
        if from_when == math.inf and out.exists() and out.stat().st_size:
            from_when = now
            kills.start_up = 0.5 * (kills.start_up + now - began)
        new = _names(journal) - before if moment.startswith("new") else set()
        if any(name.endswith(moment.removeprefix("new ")) for name in new):
            break
        # The file may not appear before the recording ends.
        if now > from_when + delay + (RUNNING if moment.startswith("new") else 0.0):
            if moment == FULL:
                return _fill_the_disk(life, journal)
            moment = "starting" if from_when == began else "running"
            break
        time.sleep(0.0002)
    else:
        return None
    life.kill()
    return moment


def _fill_the_disk(life: Life, journal: Path) -> str:
    """Let nothing be written any more; the process must end in order, and say why."""
    assert isinstance(life, Forked)
    life.limit(max(path.stat().st_size for path in journal.glob("*.journal")))
    status = life.wait()
    if status != DISK_ERROR:
        raise BrokenError(f"mlat live ended with status {status} when the disk was full")
    return FULL


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()
