"""Running the jobs of an experiment at the command line: progress, time left, interrupts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mlat.base.errors import InputError
from mlat.cli.screen import time_left

from ..experiments.experiment import Experiment
from ..experiments.journal import Job, Journal, Result
from ..experiments.runner import Engine, TimeLeft, run_jobs

SECONDS_BETWEEN_LINES = 15.0


@dataclass(frozen=True)
class Workers:
    """What runs the jobs: some processes, or an engine that has as many workers of its own."""

    n_workers: int
    engine: Engine | None = None


@contextmanager
def start_workers(jobs: int | None, scheduler: str | None) -> Iterator[Workers]:
    """Processes of this machine, or the workers of a Dask scheduler."""
    if scheduler is None:
        yield Workers(jobs or n_processors())
        return
    if jobs is not None:
        raise InputError("--jobs is for processes here; with --scheduler its workers are counted")
    # Not before: Dask need not be there for the rest.
    from ..experiments.dask_jobs import connect, dask_engine

    with connect(scheduler) as client:
        yield Workers(sum(client.nthreads().values()), dask_engine(client))


def do_jobs(
    experiment: Experiment, jobs: list[Job], journal: Journal, workers: Workers, title: str = ""
) -> list[Result]:
    """Run the jobs, with a progress bar on a terminal and with lines elsewhere.

    Parameters
    ----------
    title : str
        What these jobs are, where a command has several kinds of them.
    """
    keys = [(job, experiment.fingerprint(job)) for job in jobs]
    todo = [job for job, fingerprint in keys if (job, fingerprint) not in journal.results]
    kept = len(jobs) - len(todo)
    who = "processes" if workers.engine is None else "threads of the Dask cluster"
    counts = f"{len(jobs)} jobs, {kept} of them done before; {workers.n_workers} {who}"
    typer.echo(f"{title}: {counts}" if title else counts, err=True)
    stale = {job for job, _ in journal.results} & set(todo)
    if stale:
        typer.echo(
            f"{len(stale)} results in {journal.path} are of another version or other settings; "
            "they are computed anew",
            err=True,
        )
    left = TimeLeft(todo, journal.results.values(), workers.n_workers)
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

            return run_jobs(
                experiment,
                jobs,
                journal,
                n_workers=workers.n_workers,
                engine=workers.engine,
                on_done=on_done,
            )
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
    return "" if seconds is None else time_left(seconds)


def n_processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
