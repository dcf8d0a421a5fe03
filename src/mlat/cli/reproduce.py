"""``mlat reproduce``: its options. ``tables.py`` has the tables themselves."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError

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


# The default folders of results.
_FOLDERS = {TableChoice.BEYOND: "beyond", TableChoice.RELATED: "related"}


class ProtocolChoice(StrEnum):
    HOLDOUT = "holdout"
    WITHIN = "within"
    BOTH = "both"

    @property
    def protocols(self) -> tuple[str, ...]:
        return ("holdout", "within") if self == ProtocolChoice.BOTH else (self.value,)


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
    # Not before: the rivals take a moment to import, which no other command should wait for.
    from ..lab.experiments.people import uci_people
    from . import tables

    wanted = _names(people) or (list(QUICK_PEOPLE) if quick and not sets else None)
    of_sets = uci_people(_names(sets), wanted, data)
    folder = out or Path(_FOLDERS.get(table, "reproduction") + ("-quick" if quick else ""))
    run = tables.Run(folder, report, quick, jobs, scheduler)
    protocols = (protocol or ProtocolChoice("holdout" if quick else "both")).protocols
    if table is TableChoice.BEYOND:
        tables.reproduce_beyond(
            of_sets,
            run,
            runs=runs,
            runs_second=runs_second,
            python=peer_python,
            systems=_names(systems),
            only_report=only_report,
        )
    elif table is TableChoice.RELATED:
        tables.reproduce_related(of_sets, run, protocols, runs=runs, runs_all=runs_all)
    else:
        tables.reproduce_paper(of_sets, run, table.tables, protocols, runs=runs)


def _check_together(
    table: TableChoice, protocol: ProtocolChoice | None, **given: tuple[TableChoice, bool]
) -> None:
    """Refuse an option that would be ignored.

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
