"""``mlat reproduce``: the paper's tables, with our figures beside the paper's."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..experiments.journal import Journal
from ..experiments.protocol import PROTOCOLS
from ..experiments.runner import Experiment, plan
from ..experiments.sources import uci_people
from .jobs import do_jobs, doers
from .output import check_can_write, make_folder

# People that no default was chosen on; one run of them under ``holdout`` takes a minute or two.
QUICK_PEOPLE = ("scma:3", "scma:4", "arem:all", "emg:sub3", "vicon:sub4")


class TableChoice(StrEnum):
    TWO = "2"
    THREE = "3"
    BOTH = "both"
    BEYOND = "beyond"

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
    table: Annotated[
        TableChoice, typer.Option(help="The paper's 2 or 3, or beyond: ours, with more rivals.")
    ] = TableChoice.BOTH,
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
        typer.Option(help="Folder for results; default reproduction, or beyond; or -quick."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default one per processor.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Run on the workers of this Dask scheduler, such as tcp://host:8786."),
    ] = None,
    protocol: Annotated[
        ProtocolChoice | None, typer.Option(help="Default both, with --quick holdout.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the report here as well, with its plots beside it.")
    ] = None,
    runs_second: Annotated[
        int | None,
        typer.Option(
            min=0, help="For --table beyond: runs with windows of one second; default 1, quick 0."
        ),
    ] = None,
    peer_python: Annotated[
        Path | None,
        typer.Option(help="For --table beyond: a Python that has aeon; default this one."),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(help="For --table beyond: run these only, with commas. Default all."),
    ] = None,
    only_report: Annotated[
        bool,
        typer.Option(
            "--only-report", help="For --table beyond: run nothing, report what is there."
        ),
    ] = False,
) -> None:
    """Run the paper's Tables 2 and 3, or ours; a stopped run goes on where it was."""
    is_beyond = table is TableChoice.BEYOND
    _check_together(is_beyond, protocol, runs_second, peer_python, systems, only_report)
    folder = out or Path(("beyond" if is_beyond else "reproduction") + ("-quick" if quick else ""))
    asked = _names(people) or (list(QUICK_PEOPLE) if quick and not sets else None)
    if is_beyond:
        # Not before: its rivals take a moment to import, which no other command should wait for.
        from .beyond import reproduce_beyond

        reproduce_beyond(
            uci_people(_names(sets), asked, data),
            folder,
            runs=runs,
            runs_second=runs_second,
            quick=quick,
            python=peer_python,
            systems=_names(systems),
            only_report=only_report,
            jobs=jobs,
            scheduler=scheduler,
            report=report,
        )
        return
    chosen = protocol or (ProtocolChoice.HOLDOUT if quick else ProtocolChoice.BOTH)
    experiment = Experiment(uci_people(_names(sets), asked, data))
    todo = plan(experiment, chosen.protocols, runs or (1 if quick else 5), table.tables)
    if report is not None:
        check_can_write(report)
    with doers(jobs, scheduler) as by, Journal(make_folder(folder) / "journal.jsonl") as journal:
        results = do_jobs(experiment, todo, journal, by)
    # Not before: a long run should not fail for what only its report needs.
    from ..experiments.report import write_reports

    for path in write_reports(results, experiment, table.tables, folder, report):
        typer.echo(f"wrote {path}")


def _check_together(
    is_beyond: bool,
    protocol: ProtocolChoice | None,
    runs_second: int | None,
    peer_python: Path | None,
    systems: list[str] | None,
    only_report: bool,
) -> None:
    """Refuse an option that would go unheard."""
    if is_beyond:
        if protocol not in (None, ProtocolChoice.HOLDOUT):
            raise InputError(f"--table beyond knows no --protocol {protocol}; leave it out")
        return
    for name, given in (
        ("--runs-second", runs_second is not None),
        ("--peer-python", peer_python is not None),
        ("--systems", systems),
        ("--only-report", only_report),
    ):
        if given:
            raise InputError(f"{name} is for --table beyond; add that, or leave {name} out")


def _names(given: list[str] | None) -> list[str] | None:
    names = [name.strip() for text in given or () for name in text.split(",") if name.strip()]
    return names or None
