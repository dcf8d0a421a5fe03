"""``mlat reproduce``: the paper's tables, with our figures beside the paper's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..experiments.journal import Job, Journal, Result
from ..experiments.protocol import PROTOCOLS
from ..experiments.runner import Experiment, plan, run_jobs
from ..experiments.sources import uci_people
from ..experiments.timing import TimeLeft
from .output import check_can_write, make_folder

# People that no default was chosen on; one run of them under ``holdout`` takes a minute or two.
QUICK_PEOPLE = ("scma:3", "scma:4", "arem:all", "emg:sub3", "vicon:sub4")

SECONDS_BETWEEN_LINES = 15.0


class TableChoice(StrEnum):
    TWO = "2"
    THREE = "3"
    BOTH = "both"

    @property
    def tables(self) -> tuple[int, ...]:
        return (2, 3) if self == TableChoice.BOTH else (int(self.value),)


class ProtocolChoice(StrEnum):
    HOLDOUT = "holdout"
    WITHIN = "within"
    BOTH = "both"

    @property
    def protocols(self) -> tuple[str, ...]:
        return PROTOCOLS if self == ProtocolChoice.BOTH else (self.value,)


def reproduce(
    table: Annotated[TableChoice, typer.Option(help="Which of the paper's tables.")] = (
        TableChoice.BOTH
    ),
    data: Annotated[
        Path | None,
        typer.Option(help="Where the UCI sets are; default MLAT_DATA, else a cache folder."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(help="scma, arem, emg, vicon; several with commas. Default all."),
    ] = None,
    people: Annotated[
        list[str] | None,
        typer.Option(help="Such as sub1 or emg:sub1; several with commas. Default everyone."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs per person; default 5, with --quick 1.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few people, one run, holdout: three minutes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results; default reproduction (reproduction-quick)."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per processor.")
    ] = None,
    protocol: Annotated[
        ProtocolChoice | None, typer.Option(help="Default both, with --quick holdout.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the report here as well, with its plots beside it.")
    ] = None,
) -> None:
    """Run the paper's Tables 2 and 3; a run that was stopped goes on where it was."""
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    chosen = protocol or (ProtocolChoice.HOLDOUT if quick else ProtocolChoice.BOTH)
    asked = _names(people) or (list(QUICK_PEOPLE) if quick and not sets else None)
    experiment = Experiment(uci_people(_names(sets), asked, data))
    todo = plan(experiment, chosen.protocols, runs or (1 if quick else 5), table.tables)
    if report is not None:
        check_can_write(report)
    with Journal(make_folder(folder) / "journal.jsonl") as journal:
        results = _run(experiment, todo, journal, jobs or _n_processors())
    # Not before: a long run should not fail for what only its report needs.
    from ..experiments.report import write_reports

    for path in write_reports(results, experiment, table.tables, folder, report):
        typer.echo(f"wrote {path}")


def _run(experiment: Experiment, jobs: list[Job], journal: Journal, n_workers: int) -> list[Result]:
    """Do the jobs, with a bar on a terminal and with lines elsewhere."""
    keys = [(job, experiment.fingerprint(job)) for job in jobs]
    todo = [job for job, fingerprint in keys if (job, fingerprint) not in journal.results]
    kept = len(jobs) - len(todo)
    typer.echo(f"{len(jobs)} jobs, {kept} of them done before; {n_workers} processes", err=True)
    asked = set(jobs)
    stale = {job for job, _ in journal.results if job in asked} & set(todo)
    if stale:
        typer.echo(
            f"{len(stale)} results in {journal.path} are of another version or other settings; "
            "they are computed anew",
            err=True,
        )
    left = TimeLeft(todo, journal.results.values(), n_workers)
    console = Console(stderr=True)
    try:
        with (
            _bar(console, len(jobs), kept)
            if console.is_terminal
            else _lines(len(jobs), kept) as show
        ):

            def on_done(result: Result) -> None:
                left.done(result)
                show(result, left.seconds)

            return run_jobs(experiment, jobs, journal, n_workers=n_workers, on_done=on_done)
    except KeyboardInterrupt:
        typer.echo(
            f"stopped; {journal.path} keeps what is done: the same command goes on", err=True
        )
        raise typer.Exit(130) from None


Show = Callable[[Result, float | None], None]


@contextmanager
def _bar(console: Console, total: int, done: int) -> Iterator[Show]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("reproduce", total=total, completed=done, left="")

        def show(result: Result, seconds: float | None) -> None:
            progress.update(task, advance=1, description=_name(result), left=_left(seconds))

        yield show


@contextmanager
def _lines(total: int, done: int) -> Iterator[Show]:
    spoke, count = time.monotonic(), done

    def show(result: Result, seconds: float | None) -> None:
        nonlocal spoke, count
        count += 1
        if count == total or time.monotonic() - spoke > SECONDS_BETWEEN_LINES:
            spoke = time.monotonic()
            typer.echo(f"{count}/{total} {_name(result)} {_left(seconds)}", err=True)

    yield show


def _name(result: Result) -> str:
    return f"{result['data_set']} {result['person']} run {result['run'] + 1}"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def _names(given: list[str] | None) -> list[str] | None:
    names = [name.strip() for text in given or () for name in text.split(",") if name.strip()]
    return names or None


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
