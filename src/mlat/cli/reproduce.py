"""``mlat reproduce``: the paper's tables, with our figures beside the paper's."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..lab.experiments.journal import Journal
from ..lab.experiments.people import uci_people
from ..lab.experiments.protocol import PROTOCOLS
from ..lab.experiments.runner import Experiment, plan
from .jobs import do_jobs, doers
from .output import check_can_write, make_folder

# People that no default was chosen on; one run of them under ``holdout`` takes a minute or two.
QUICK_PEOPLE = ("scma:3", "scma:4", "arem:all", "emg:sub3", "vicon:sub4")


class TableChoice(StrEnum):
    TWO = "2"
    THREE = "3"
    BOTH = "both"
    BEYOND = "beyond"
    RELATED = "related"

    @property
    def tables(self) -> tuple[int, ...]:
        """Of the paper."""
        return (2, 3) if self == TableChoice.BOTH else (int(self.value),)


# Where results go, if nobody says.
_FOLDERS = {TableChoice.BEYOND: "beyond", TableChoice.RELATED: "related"}


class ProtocolChoice(StrEnum):
    HOLDOUT = "holdout"
    WITHIN = "within"
    BOTH = "both"

    @property
    def protocols(self) -> tuple[str, ...]:
        return PROTOCOLS if self == ProtocolChoice.BOTH else (self.value,)


def reproduce(
    table: Annotated[
        TableChoice,
        typer.Option(
            help="The paper's 2 or 3; beyond: ours, with more rivals; related: LMNN-DTW, DECADE "
            "and the siamese LSTM beside those of 2."
        ),
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
        typer.Option(help="Folder for results; default reproduction, beyond or related; -quick."),
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
    runs_all: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="For --table related: runs with everyone on all windows; default 1, quick 0.",
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
    _check_together(
        table,
        protocol,
        **{
            "--runs-second": (TableChoice.BEYOND, runs_second is not None),
            "--peer-python": (TableChoice.BEYOND, peer_python is not None),
            "--systems": (TableChoice.BEYOND, bool(systems)),
            "--only-report": (TableChoice.BEYOND, only_report),
            "--runs-all": (TableChoice.RELATED, runs_all is not None),
        },
    )
    folder = out or Path(_FOLDERS.get(table, "reproduction") + ("-quick" if quick else ""))
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
    if table is TableChoice.RELATED:
        from .related import reproduce_related

        reproduce_related(
            uci_people(_names(sets), asked, data),
            folder,
            chosen.protocols,
            runs=runs,
            runs_all=runs_all,
            quick=quick,
            jobs=jobs,
            scheduler=scheduler,
            report=report,
        )
        return
    experiment = Experiment(uci_people(_names(sets), asked, data))
    todo = plan(experiment, chosen.protocols, runs or (1 if quick else 5), table.tables)
    if report is not None:
        check_can_write(report)
    with doers(jobs, scheduler) as by, Journal(make_folder(folder) / "journal.jsonl") as journal:
        results = do_jobs(experiment, todo, journal, by)
    # Not before: a long run should not fail for what only its report needs.
    from ..lab.reports.report import write_reports

    for path in write_reports(results, experiment, table.tables, folder, report):
        typer.echo(f"wrote {path}")


def _check_together(
    table: TableChoice, protocol: ProtocolChoice | None, **given: tuple[TableChoice, bool]
) -> None:
    """Refuse an option that would go unheard.

    Parameters
    ----------
    given : option to (TableChoice, bool)
        The table an option is for, and whether it was given.
    """
    if table is TableChoice.BEYOND and protocol not in (None, ProtocolChoice.HOLDOUT):
        raise InputError(f"--table beyond knows no --protocol {protocol}; leave it out")
    for name, (of_table, is_given) in given.items():
        if is_given and table is not of_table:
            raise InputError(f"{name} is for --table {of_table}; add that, or leave {name} out")


def _names(given: list[str] | None) -> list[str] | None:
    names = [name.strip() for text in given or () for name in text.split(",") if name.strip()]
    return names or None
