"""What the commands put on the screen: consoles, and a bar for long work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from ..progress import Report, listen

PIPE_WIDTH = 160  # columns where no terminal says how many it has


def console(*, stderr: bool = False) -> Console:
    """A console that takes every text as it is: names from files are not markup."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    return Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        width=None if terminal else PIPE_WIDTH,
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr that ``what`` is going on, with a bar once the work reports its steps.

    Nothing is shown where a bar cannot be drawn over: in a file, a pipe or a dumb terminal.
    """
    screen = console(stderr=True)
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        waiting = bar.add_task(what, total=None, figures="")
        tasks: dict[str, TaskID] = {}

        def show(report: Report) -> None:
            bar.update(waiting, visible=False)
            if report.task not in tasks:
                tasks[report.task] = bar.add_task(f"{what}, {report.task}", figures="")
            loss = report.figures.get("objective")
            bar.update(
                tasks[report.task],
                completed=report.step,
                total=report.total,
                figures="" if loss is None else f"loss {loss:.4g}",
            )

        with listen(show):
            yield


def size_of(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    for unit, bytes_per_unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= bytes_per_unit:
            return f"{n_bytes / bytes_per_unit:.1f} {unit}"
    return f"{n_bytes} bytes"
