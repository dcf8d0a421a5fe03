"""``mlat reproduce --table beyond``: everyone on the same windows, and rivals of today."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from ..errors import InputError
from ..lab.experiments.aeon_peer import aeon_versions
from ..lab.experiments.aeon_worker import METHODS
from ..lab.experiments.beyond import ONE_SECOND, TEN_STEPS, beyond_experiments
from ..lab.experiments.journal import Journal, Result, read_results
from ..lab.experiments.people import People
from ..lab.experiments.runner import Experiment
from ..lab.reports.beyond_results import gather, planned
from .jobs import do_jobs, doers
from .output import check_can_write, make_folder


def reproduce_beyond(
    people: Mapping[str, People],
    folder: Path,
    *,
    runs: int | None = None,
    runs_second: int | None = None,
    quick: bool = False,
    python: Path | None = None,
    systems: Sequence[str] | None = None,
    only_report: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    report: Path | None = None,
) -> None:
    """Compute what is missing, and report on all that is there.

    Parameters
    ----------
    runs, runs_second : int, optional
        Runs with windows of ten steps and of one second. Default 5 and 1: one second of EMG is
        1000 steps, of which the rivals take minutes for a fit.
    quick : bool
        One run with windows of ten steps, without the rivals of aeon.
    systems : sequence of str, optional
        Compute these alone. The report has whatever the journals have.
    only_report : bool
        Compute nothing.
    jobs : int, optional
        Processes; default one per processor.
    scheduler : str, optional
        The address of a Dask scheduler whose workers do the jobs instead.
    """
    peer = _place_of(python)
    experiments = beyond_experiments(people, peer)
    wanted = _wanted(experiments, systems, quick)
    if report is not None:
        check_can_write(report)
    n_runs = {TEN_STEPS: runs, ONE_SECOND: runs_second}
    if not only_report:
        wanted = _runnable(wanted, peer, is_asked=systems is not None)
        n_runs = {
            TEN_STEPS: runs or (1 if quick else 5),
            ONE_SECOND: (0 if quick else 1) if runs_second is None else runs_second,
        }
        make_folder(folder)
    results = {}
    for width, experiment in experiments.items():
        path = folder / f"journal-{width.replace(' ', '-')}.jsonl"
        limit = n_runs[width]
        if not only_report and limit:
            some = {name: experiment.systems[name] for name in wanted}
            with doers(jobs, scheduler) as by, Journal(path) as journal:
                todo = planned(replace(experiment, systems=some), limit)
                do_jobs(experiment, todo, journal, by, width)
        results[width] = _found(experiment, path, limit)
    _report(results, experiments, folder, report)


def _place_of(python: Path | None) -> str | None:
    """The whole path: results are of this Python, from whichever folder it is named."""
    if python is None:
        return None
    given = os.path.expanduser(python)
    return os.path.abspath(shutil.which(given) or given)


def _wanted(
    experiments: Mapping[str, Experiment], systems: Sequence[str] | None, quick: bool
) -> list[str]:
    there = list(next(iter(experiments.values())).systems)
    if systems is None:
        return [name for name in there if not (quick and name in METHODS)]
    for name in systems:
        if name not in there:
            raise InputError(f"no system {name!r}; there are {', '.join(there)}")
    return [name for name in there if name in systems]


def _runnable(wanted: list[str], python: str | None, *, is_asked: bool) -> list[str]:
    """Those that can be run here. To be asked for one that cannot is an error."""
    methods = [name for name in wanted if name in METHODS]
    if not methods:
        return wanted
    try:
        versions = aeon_versions(python)
    except InputError as error:
        if is_asked or python is not None:
            raise
        typer.echo(f"without {', '.join(methods)}: {error} as --peer-python", err=True)
        return [name for name in wanted if name not in methods]
    if versions["torch"] is not None:
        return wanted
    lost = [name for name in methods if METHODS[name].needs_torch]
    if lost and not is_asked:  # else the first job says what is missing
        typer.echo(f"without {', '.join(lost)}: they need torch beside aeon", err=True)
        return [name for name in wanted if name not in lost]
    return wanted


def _found(experiment: Experiment, path: Path, n_runs: int | None) -> list[Result]:
    """What the journal has of the experiment, whoever computed it."""
    found, stale = gather(experiment, read_results(path), n_runs)
    if stale:
        others = ", ".join(f"{n} of {name}" for name, n in stale.items())
        typer.echo(
            f"{path}: not reported, for they are of another version, other settings or another "
            f"--peer-python: {others}",
            err=True,
        )
    return found


def _report(
    results: Mapping[str, Sequence[Result]],
    experiments: Mapping[str, Experiment],
    folder: Path,
    report: Path | None,
) -> None:
    if not any(results.values()):
        raise InputError(f"no results in {folder} to report; leave --only-report out to compute")
    # Not before: a long run should not fail for what only its report needs.
    from ..lab.reports.beyond_report import HEADLINE, write_reports

    written = list(write_reports(results, experiments, folder, report))
    for path in written:
        typer.echo(f"wrote {path}")
    for path in written:
        if path.name == HEADLINE:
            typer.echo("\n" + path.read_text(encoding="utf-8"))
