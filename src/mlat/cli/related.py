"""``mlat reproduce --table related``: the related systems beside those of Table 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from ..errors import InputError, MissingPackageError, require_package
from ..lab.experiments.journal import Journal
from ..lab.experiments.people import People
from ..lab.experiments.related import on_all_windows, related_experiment
from ..lab.experiments.runner import Experiment, plan
from .jobs import do_jobs, doers
from .output import check_can_write, make_folder


def reproduce_related(
    people: Mapping[str, People],
    folder: Path,
    protocols: Sequence[str],
    *,
    runs: int | None = None,
    runs_all: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    report: Path | None = None,
) -> None:
    """Compute what is missing, and report.

    Parameters
    ----------
    runs, runs_all : int, optional
        Runs on the footing of Table 2, and runs with everyone on all windows, under ``holdout``
        alone. Default 5 and 1, or 1 and 0 if quick: a network takes half a minute for a fit.
    jobs, scheduler
        As for the other tables.
    """
    if runs_all is None:
        runs_all = 0 if quick or "holdout" not in protocols else 1
    elif runs_all and "holdout" not in protocols:
        raise InputError("--runs-all is under holdout; leave --protocol within out, or --runs-all")
    experiment = related_experiment(people)
    lacking = _lacking(experiment)
    if lacking:
        experiment = related_experiment(people, lacking)
    if report is not None:
        check_can_write(report)
    few = plan(experiment, protocols, runs or (1 if quick else 5), [2])
    on_all = plan(on_all_windows(experiment), ["holdout"], runs_all, [2])
    todo = list(dict.fromkeys([*few, *on_all]))  # MLAT is on all windows in both
    with doers(jobs, scheduler) as by, Journal(make_folder(folder) / "journal.jsonl") as journal:
        results = dict(zip(todo, do_jobs(experiment, todo, journal, by), strict=True))
    # Not before: a long run should not fail for what only its report needs.
    from ..lab.reports.related_report import write_reports

    found = [results[job] for job in few], [results[job] for job in on_all]
    for path in write_reports(*found, experiment, folder, report):
        typer.echo(f"wrote {path}")


def _lacking(experiment: Experiment) -> tuple[str, ...]:
    """The systems that need PyTorch, where there is none; the others go on without them."""
    names = tuple(name for name, system in experiment.systems.items() if system.needs == "torch")
    if names:
        try:
            require_package("torch", "deep", "either", title="PyTorch")
        except MissingPackageError as error:
            typer.echo(f"without {', '.join(names)}: {error}", err=True)
            return names
    return ()
