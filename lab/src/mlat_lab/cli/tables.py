"""The tables that ``mlat-lab reproduce`` computes: of the paper, ``related``, ``beyond``,
``streams``, ``synthetic``, ``enrol`` and ``active-learning``.

Each takes the people and a `Run`, computes what the journals lack, and writes its report.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mlat.base.errors import InputError, MlatError, require_package
from mlat.cli.output import check_can_write, make_folder

from ..experiments.active_learning import active_learning_experiment
from ..experiments.aeon_peer import aeon_versions
from ..experiments.enrolment import enrol_experiment
from ..experiments.experiment import Experiment, gather, plan
from ..experiments.journal import Job, Journal, Result, read_results
from ..experiments.people import People
from ..experiments.stream_protocol import SECOND, STREAM
from ..experiments.suite import DEVELOPMENT_SEED, N_SEEDS, suite_people
from ..experiments.systems import (
    MOST_JUDGED,
    ONE_SECOND,
    SYSTEMS,
    TEN_STEPS,
    aeon_method,
    beyond_experiments,
    related_systems,
    streams_development,
    streams_experiments,
    suite_systems,
)
from .jobs import do_jobs, start_workers

if TYPE_CHECKING:
    from ..reports.page import Report


@dataclass(frozen=True)
class Run:
    """Where results go, and what computes them.

    Attributes
    ----------
    folder : path
        For the journals and the report.
    page : path, optional
        A second place for the report.
    quick : bool
        One run, where the number of runs is not given.
    jobs : int, optional
        Processes; default one per processor.
    scheduler : str, optional
        The address of a Dask scheduler whose workers are used instead.
    """

    folder: Path
    page: Path | None = None
    quick: bool = False
    jobs: int | None = None
    scheduler: str | None = None

    def compute(
        self,
        experiment: Experiment,
        jobs: list[Job],
        file: str = "journal.jsonl",
        title: str = "",
    ) -> list[Result]:
        """The results of all jobs; those that the journal lacks are computed."""
        with (
            start_workers(self.jobs, self.scheduler) as workers,
            Journal(make_folder(self.folder) / file) as journal,
        ):
            return do_jobs(experiment, jobs, journal, workers, title)

    def check_page(self) -> None:
        """Refuse a place for the report that cannot be written, before the long work."""
        if self.page is not None:
            check_can_write(self.page)

    def write(self, report: Report) -> None:
        from ..reports.page import HEADLINE, write_report

        written = list(write_report(report, self.folder, self.page))
        for path in written:
            typer.echo(f"wrote {path}")
        for path in written:
            if path.name == HEADLINE:
                typer.echo("\n" + aligned(path.read_text(encoding="utf-8")))


def aligned(text: str) -> str:
    """The tables of a Markdown text with columns that stand below each other."""
    lines = text.splitlines()
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:end]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for i, row in enumerate(rows, begin):
            cells = zip(row, widths, strict=True)
            lines[i] = f"| {' | '.join(cell.ljust(width) for cell, width in cells)} |"
        begin = end + 1
    return "\n".join(lines)


# Reports are imported after the results are there: a long run should not fail for what only its
# report needs.


def reproduce_paper(
    people: Mapping[str, People],
    run: Run,
    tables: Sequence[int],
    protocols: Sequence[str],
    *,
    runs: int | None = None,
) -> None:
    """The paper's tables; ``runs`` is 5 by default, or 1 if quick."""
    experiment = Experiment(people, SYSTEMS)
    jobs = plan(experiment, protocols, runs or (1 if run.quick else 5), tables)
    run.check_page()
    results = run.compute(experiment, jobs)
    from ..reports.paper_tables import paper_report

    run.write(paper_report(results, experiment, tables))


def reproduce_related(
    people: Mapping[str, People],
    run: Run,
    protocols: Sequence[str],
    *,
    runs: int | None = None,
    runs_all: int | None = None,
) -> None:
    """The related systems beside those of Table 2.

    Parameters
    ----------
    runs, runs_all : int, optional
        Runs on the footing of Table 2, and runs with everyone on all windows, under ``holdout``
        alone. Default 5 and 1, or 1 and 0 if quick: a network takes half a minute for a fit.
    """
    if runs_all is None:
        runs_all = 0 if run.quick or "holdout" not in protocols else 1
    elif runs_all and "holdout" not in protocols:
        raise InputError("--runs-all is under holdout; leave --protocol within out, or --runs-all")
    experiment = Experiment(people, related_systems(_without_torch()))
    run.check_page()
    few = plan(experiment, protocols, runs or (1 if run.quick else 5), [2])
    on_all = plan(experiment.on_all_windows(), ["holdout"], runs_all, [2])
    jobs = list(dict.fromkeys([*few, *on_all]))  # MLAT is on all windows in both
    results = dict(zip(jobs, run.compute(experiment, jobs), strict=True))
    from ..reports.related import related_report

    found = [results[job] for job in few], [results[job] for job in on_all]
    run.write(related_report(*found, experiment))


def _without_torch() -> tuple[str, ...]:
    """The systems that need PyTorch, where there is none; the others go on without them."""
    names = tuple(name for name, system in related_systems().items() if system.needs == "torch")
    if names:
        try:
            require_package("torch", "deep", "either", title="PyTorch")
        except MlatError as error:
            typer.echo(f"without {', '.join(names)}: {error}", err=True)
            return names
    return ()


def reproduce_beyond(
    people: Mapping[str, People],
    run: Run,
    *,
    runs: int | None = None,
    runs_second: int | None = None,
    python: Path | None = None,
    systems: Sequence[str] | None = None,
    only_report: bool = False,
) -> None:
    """Everyone on the same windows, with classifiers of other kinds; reports whatever there is.

    Parameters
    ----------
    runs, runs_second : int, optional
        Runs with windows of ten steps and of one second. Default 5 and 1: one second of EMG is
        1000 steps, of which the rivals take minutes for a fit. If quick 1 and 0, without aeon.
    python : path, optional
        A Python that has aeon.
    systems : sequence of str, optional
        Compute these alone. The report has whatever the journals have.
    only_report : bool
        Compute nothing.
    """
    peer = _absolute(python)
    experiments = beyond_experiments(people, peer)
    wanted = _wanted(experiments, systems, run.quick)
    run.check_page()
    n_runs = {TEN_STEPS: runs, ONE_SECOND: runs_second}
    if not only_report:
        wanted = _runnable(wanted, peer, is_named=systems is not None)
        if runs is None:
            n_runs[TEN_STEPS] = 1 if run.quick else 5
        if runs_second is None:
            n_runs[ONE_SECOND] = 0 if run.quick else 1
    results = {}
    for width, experiment in experiments.items():
        file, limit = f"journal-{width.replace(' ', '-')}.jsonl", n_runs[width]
        if limit and not only_report:
            some = replace(experiment, systems={name: experiment.systems[name] for name in wanted})
            run.compute(experiment, plan(some, ["holdout"], limit, [2]), file, width)
        results[width] = _found(experiment, run.folder / file, limit)
    if not any(results.values()):
        raise _nothing_to_report(run)
    from ..reports.beyond import beyond_report

    run.write(beyond_report(results, experiments))


def reproduce_streams(
    people: Mapping[str, Mapping[str, People]],
    run: Run,
    *,
    python: Path | None = None,
    systems: Sequence[str] | None = None,
    only_report: bool = False,
) -> None:
    """Everyone on whole recordings; reports whatever there is.

    Parameters
    ----------
    people : mapping of protocol and data set to People
    python, systems, only_report
        As for :func:`reproduce_beyond`; if quick without aeon.
    """
    peer = _absolute(python)
    experiments = streams_experiments(people, peer)
    wanted = _wanted(experiments, systems, run.quick)
    run.check_page()
    if not only_report:
        wanted = _runnable(wanted, peer, is_named=systems is not None)
    results = {}
    for protocol, experiment in experiments.items():
        file = f"journal-{protocol}.jsonl"
        if experiment.people and not only_report:
            some = replace(experiment, systems={name: experiment.systems[name] for name in wanted})
            run.compute(experiment, plan(some, [protocol], 1, [2]), file, protocol)
        results[protocol] = _found(experiment, run.folder / file, 1, protocol)
    if not any(results.values()):
        raise _nothing_to_report(run)
    from ..reports.streams import streams_report

    run.write(streams_report(results, experiments))


def reproduce_suite(kinds: Sequence[str] | None, run: Run, *, seeds: int | None = None) -> None:
    """The synthetic suite, or some of its kinds; ``seeds`` is 20 by default, or 2 if quick.

    A quick run has seeds of its own, on which defaults may be chosen.
    """
    first = DEVELOPMENT_SEED if run.quick else 0
    people = suite_people(kinds, seeds or (2 if run.quick else N_SEEDS), first)
    experiment = Experiment(people, suite_systems(), n_test=MOST_JUDGED)
    run.check_page()
    results = run.compute(experiment, plan(experiment, [SECOND], 1, [2]))
    from ..reports.synthetic import synthetic_report

    run.write(synthetic_report(results, experiment))


def reproduce_enrol(
    people: Mapping[str, People],
    run: Run,
    python: Path | None = None,
    only_report: bool = False,
) -> None:
    """Leaving one person out, without labels and with some; ``python`` is one that has aeon.

    The first of every set come first: a run that is stopped has something of each.
    """
    experiment = enrol_experiment(people, python=_absolute(python))
    run.check_page()
    jobs = plan(experiment, [STREAM], 1, [2])
    jobs.sort(key=lambda job: experiment.people[job.data_set].names.index(job.person))
    if not only_report:
        run.compute(experiment, jobs)
    results = _found(experiment, run.folder / "journal.jsonl", 1, STREAM)
    if not results:
        raise _nothing_to_report(run)
    from ..reports.enrolment import enrol_report

    run.write(enrol_report(results, experiment, streams_development(STREAM)))


def reproduce_active_learning(people: Mapping[str, People], run: Run) -> None:
    """Labelling with a perfect annotator: our spans, random, uniform, most uncertain."""
    experiment = active_learning_experiment(people)
    run.check_page()
    results = run.compute(experiment, plan(experiment, [STREAM], 1, [2]))
    from ..reports.active_learning import active_learning_report

    run.write(active_learning_report(results, experiment))


def _nothing_to_report(run: Run) -> InputError:
    return InputError(f"no results in {run.folder} to report; leave --only-report out to compute")


def _absolute(python: Path | None) -> str | None:
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
        return [name for name in there if not (quick and aeon_method(name))]
    for name in systems:
        if name not in there:
            raise InputError(f"no system {name!r}; there are {', '.join(there)}")
    return [name for name in there if name in systems]


def _runnable(wanted: list[str], python: str | None, *, is_named: bool) -> list[str]:
    """Those that can be run here. If a system that cannot was named, that is an error."""
    methods = {name: method for name in wanted if (method := aeon_method(name))}
    if not methods:
        return wanted
    try:
        versions = aeon_versions(python)
    except MlatError as error:
        if is_named or python is not None:
            raise
        typer.echo(f"without {', '.join(methods)}: {error} as --peer-python", err=True)
        return [name for name in wanted if name not in methods]
    if versions["torch"] is not None:
        return wanted
    lost = [name for name, method in methods.items() if method.needs_torch]
    if lost and not is_named:  # else the first job says what is missing
        typer.echo(f"without {', '.join(lost)}: they need torch beside aeon", err=True)
        return [name for name in wanted if name not in lost]
    return wanted


def _found(
    experiment: Experiment, path: Path, n_runs: int | None, protocol: str = "holdout"
) -> list[Result]:
    """What the journal has of the experiment, whoever computed it."""
    found, stale = gather(experiment, read_results(path), n_runs, protocol)
    if stale:
        others = ", ".join(f"{n} of {name}" for name, n in stale.items())
        typer.echo(
            f"{path}: not reported, for they are of another version, other settings or another "
            f"--peer-python: {others}",
            err=True,
        )
    return found
