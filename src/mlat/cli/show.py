"""What the commands put on the screen: consoles, and a bar for long work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
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
def working(what: str, *, budget: float | None = None) -> Iterator[None]:
    """Show on stderr that ``what`` is going on, with a bar once the work reports its steps.

    Work that cannot say how many steps there are gets a count, with its ``budget`` of seconds.
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
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        waiting = bar.add_task(what, total=None, count="", figures="")
        tasks: dict[str, TaskID] = {}

        def show(report: Report) -> None:
            bar.update(waiting, visible=False)
            total = report.total or None  # 0 means that nobody knows
            if report.task not in tasks:
                tasks[report.task] = bar.add_task(
                    f"{what}, {report.task}", total=total, count="", figures=""
                )
            bar.update(
                tasks[report.task],
                completed=report.step,
                total=total,
                count=f"{report.step} tried" if total is None else f"{report.step}/{total}",
                figures=_figures(report, budget),
            )

        with listen(show):
            yield


def _figures(report: Report, budget: float | None) -> str:
    loss, seconds = report.figures.get("objective"), report.figures.get("seconds")
    if loss is not None:
        return f"loss {loss:.4g}"
    if seconds is not None and budget is not None:
        return f"{seconds:.0f} of at most {budget:g} s"
    return ""


def size_of(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    for unit, bytes_per_unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= bytes_per_unit:
            return f"{n_bytes / bytes_per_unit:.1f} {unit}"
    return f"{n_bytes} bytes"
