"""The program behind ``mlat live``: the journal, the page, signals, and the exit status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..base.compiled import say_compiling
from ..base.disk import next_free
from ..live.core.session import LiveSession
from ..live.core.teaching import Examples
from ..live.journal.journal import Identity, Journal
from ..live.journal.writer import JournalWriter
from ..live.run.output import Lines, Notices, log_lines
from ..live.run.runner import Runner
from ..live.sources.source import Source
from .one_line import INTERRUPTED

SHOWN = ("rejected", "late", "duplicate", "gaps", "held", "taught", "undone")


@dataclass(kw_only=True)
class Program:
    """A live session, from the options of ``mlat live`` that were parsed.

    Parameters
    ----------
    folder : path, optional
        Of the journal; ``journal_options`` are those of `Journal`.
    again : int, optional
        Print again what the journal holds from this step on.
    address : (host, port), optional
        Where to serve the page.
    model : path
        The model's file; what is taught is saved beside it.
    """

    session: LiveSession
    source: Source
    form: str
    folder: Path | None
    journal_options: dict[str, Any]
    again: int | None
    snapshot_every: int
    keep: int | None
    address: tuple[str, int] | None
    token: str | None
    model: Path

    def __post_init__(self) -> None:
        self._lines, self._notices = Lines(self.form), Notices()
        self._saving = asyncio.Lock()
        self._saved: tuple[Examples, Path] | None = None
        self._status = 0

    def run(self) -> int:
        """Run until the source ends or a signal comes; return the exit status."""
        with say_compiling(self._notices.say):
            # Before the source is opened: whoever sends steps need not wait for a compiler.
            self.session.warm_up()
        opened: AbstractContextManager[Journal | None] = nullcontext()
        if self.folder is not None:
            identity, options = Identity.of(self.session), self.journal_options
            opened = Journal(self.folder, identity, **options)
        with opened as journal, log_lines(self._notices):
            asyncio.run(self._run(journal))
        return self._status

    async def _run(self, journal: Journal | None) -> None:
        hub = writer = server = None
        if self.address is not None:
            from ..live.page.hub import Hub
            from ..live.page.server import serve

            hub = Hub(stream=None if journal is None else journal.name)
        if journal is not None:
            writer = JournalWriter(journal, snapshot_steps=self.snapshot_every, keep=self.keep)
        runner = Runner(
            self.session,
            self.source,
            writer=writer,
            lines=self._lines,
            notices=self._notices,
            hub=hub,
        )
        self._recover(runner, journal)
        if self.address is not None and hub is not None:
            server = await serve(
                hub,
                self.session.model.clf,
                *self.address,
                self.token,
                teach=runner.teach,
                teach_span=runner.teach_span,
                undo=runner.undo,
                save=partial(self._save, runner),
                say=self._notices.say,
            )
            self._notices.say(f"page at {server.url}")
        ended = asyncio.Event()
        _on_signals(lambda number: self._end(number, runner, ended))
        try:
            await runner.run()
            self._notices.say(self._summary(runner))
            if server is not None and not ended.is_set():
                self._notices.say("the source has ended; the page stays until Ctrl-C")
                await ended.wait()
        finally:
            if server is not None:
                await server.close()

    async def _save(self, runner: Runner) -> str:
        """Write what was taught into a new model file beside the model; returns its name.

        One file for the same examples, however often it is asked for.
        """
        async with self._saving:  # two pages may ask at once
            examples = self.session.state.examples
            if self._saved is not None and self._saved[0] is examples and self._saved[1].exists():
                return self._saved[1].name
            taught = await runner.taught_model()
            path = next_free(self.model)
            await asyncio.to_thread(taught.save, path)
            self._saved = examples, path
        self._notices.say(f"saved what was taught in {path}")
        return path.name

    def _recover(self, runner: Runner, journal: Journal | None) -> None:
        runner.recover()
        if journal is None:
            return
        if journal.cut:
            self._notices.say(
                f"{journal.folder}: cut {journal.cut} bytes of a record that was never finished"
            )
        if journal.lost:
            self._notices.say(
                f"{journal.folder}: {journal.lost} records after record {journal.end} were there "
                "once and are lost: a segment was deleted or cut; to have them, end this, and put "
                "back a copy of the folder"
            )
        if journal.end:
            self._notices.say(
                f"{journal.folder}: goes on after {journal.end} records, with step "
                f"{self.session.counters['accepted']}"
            )
        if self.again is not None:
            for records in journal.records(journal.begin):
                told = records.predictions
                self._lines.write(told.part(max(0, self.again - told.first), len(told)))

    def _end(self, number: int, runner: Runner, ended: asyncio.Event) -> None:
        # SIGTERM is an ordinary end; Ctrl-C has the same status in all commands.
        self._status = INTERRUPTED if number == signal.SIGINT else 0
        ended.set()
        runner.stop()

    def _summary(self, runner: Runner) -> str:
        counters = self.session.counters
        parts = [f"{counters['accepted']} steps", f"{counters['unknown']} of them unknown"]
        parts += [f"{counters[name]} {name}" for name in SHOWN if counters[name]]
        if self._notices.n_doubtful:
            parts.append(f"{self._notices.n_doubtful} perhaps doubled")
        parts.append(f"{self._notices.n_refused} refused")
        if runner.lags:
            goal = "prediction" if runner.writer is None else "disk"
            usual, worst = np.quantile(runner.lags, [0.5, 0.99])
            parts.append(f"{1e3 * usual:.1f} ms to {goal} (p99 {1e3 * worst:.1f} ms)")
        return ", ".join(parts)


def _on_signals(handle: Callable[[int], None]) -> None:
    loop = asyncio.get_running_loop()

    def once(number: int) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)  # a second signal ends it at once
        handle(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in every thread
            loop.add_signal_handler(number, once, number)
