"""``mlat-lab reproduce``: its options. ``tables.py`` has the tables themselves."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlat.base.errors import InputError

if TYPE_CHECKING:
    from ..experiments.people import People

# People that no default was chosen on; one run of them under ``holdout`` takes a minute or two.
QUICK_PEOPLE = ("scma:3", "scma:4", "arem:all", "emg:sub3", "vicon:sub4")
# Of the whole streams some that defaults were chosen on: nobody else is to be looked at in passing.
QUICK_STREAMS = (
    "emg_gestures:p01",
    "phone_watch:s01",
    "gesture_phase:persona_story1",
    "room_occupancy:room",
)

QUICK_ENROL = ("phone_watch:s01", "phone_watch:s05")


class TableChoice(StrEnum):
    TWO = "2"
    THREE = "3"
    BOTH = "both"
    BEYOND = "beyond"
    RELATED = "related"
    STREAMS = "streams"
    SYNTHETIC = "synthetic"
    ENROL = "enrol"
    ACTIVE_LEARNING = "active-learning"

    @property
    def tables(self) -> tuple[int, ...]:
        """Of the paper."""
        return (2, 3) if self == TableChoice.BOTH else (int(self.value),)


# The tables of whole streams.
WHOLE = (TableChoice.STREAMS, TableChoice.ENROL, TableChoice.ACTIVE_LEARNING)

# The default folders of results.
_FOLDERS = {
    TableChoice.BEYOND: "beyond",
    TableChoice.RELATED: "related",
    TableChoice.STREAMS: "streams",
    TableChoice.SYNTHETIC: "synthetic",
    TableChoice.ENROL: "enrol",
    TableChoice.ACTIVE_LEARNING: "active-learning",
}

# In place of people: the files of whole streams that defaults are chosen on.
DEVELOPMENT_FILES = "development"


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
            "and the siamese LSTM beside those of 2; streams: whole recordings with every switch; "
            "synthetic: streams of which it is known what tells their states."
        ),
    ] = TableChoice.BOTH,
    data: Annotated[
        Path | None,
        typer.Option(help="Where the data sets are; default MLAT_DATA, else a cache folder."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            help="scma, arem, emg, vicon; for --table streams, enrol and active-learning scma and "
            "the sets "
            "of streams, for synthetic the kinds; several with commas. Default all."
        ),
    ] = None,
    people: Annotated[
        list[str] | None,
        typer.Option(
            help="Such as sub1 or emg:sub1; several with commas; for --table streams, enrol and "
            "active-learning also: development. Default everyone, for active-learning "
            "development."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs per person; default 5, with --quick 1. For --table synthetic seeds; "
            "default 20, with --quick 2.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few people, one run, holdout: three minutes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results; default reproduction or the table's name; -quick."),
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
        typer.Option(
            help="For --table beyond and streams: a Python that has aeon; default this one."
        ),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(
            help="For --table beyond and streams: run these only, with commas. Default all."
        ),
    ] = None,
    only_report: Annotated[
        bool,
        typer.Option(
            "--only-report",
            help="For --table beyond, streams and enrol: run nothing, report what is there.",
        ),
    ] = False,
) -> None:
    """Run the paper's Tables 2 and 3, or ours; a stopped run goes on where it was."""
    open_tables = (TableChoice.BEYOND, TableChoice.STREAMS)
    real = tuple(one for one in TableChoice if one is not TableChoice.SYNTHETIC)
    _check_together(
        table,
        protocol,
        **{
            "--runs": (tuple(t for t in TableChoice if t not in WHOLE), runs is not None),
            "--people": (real, bool(people)),
            "--data": (real, data is not None),
            "--runs-second": ((TableChoice.BEYOND,), runs_second is not None),
            "--peer-python": ((*open_tables, TableChoice.ENROL), peer_python is not None),
            "--systems": (open_tables, bool(systems)),
            "--only-report": ((*open_tables, TableChoice.ENROL), only_report),
            "--runs-all": ((TableChoice.RELATED,), runs_all is not None),
        },
    )
    # Not before: the rivals take a moment to import, which no other command should wait for.
    from ..experiments.enrolment import SETS as SETS_OF_PEOPLE
    from ..experiments.people import uci_people
    from ..experiments.stream_protocol import STREAM
    from . import tables

    folder = out or Path(_FOLDERS.get(table, "reproduction") + ("-quick" if quick else ""))
    run = tables.Run(folder, report, quick, jobs, scheduler)
    if table is TableChoice.STREAMS:
        tables.reproduce_streams(
            _whole_streams(_names(sets), _names(people), data, quick),
            run,
            python=peer_python,
            systems=_names(systems),
            only_report=only_report,
        )
        return
    if table is TableChoice.ENROL:
        if quick and not sets and not people:
            people = list(QUICK_ENROL)
        names = _names(sets) or _sets_there(data, SETS_OF_PEOPLE, _names(people))
        whole = _whole_streams(names, _names(people), data, quick=False)
        tables.reproduce_enrol(whole[STREAM], run, peer_python, only_report)
        return
    if table is TableChoice.ACTIVE_LEARNING:
        tables.reproduce_active_learning(_to_ask(_names(sets), _names(people), data, quick), run)
        return
    if table is TableChoice.SYNTHETIC:
        tables.reproduce_suite(_names(sets), run, seeds=runs)
        return
    wanted = _names(people) or (list(QUICK_PEOPLE) if quick and not sets else None)
    of_sets = uci_people(_names(sets), wanted, data)
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


def _to_ask(
    sets: list[str] | None, people: list[str] | None, data: Path | None, quick: bool
) -> dict[str, People]:
    """Development people of the sets of whole streams, and of two of the paper's sets."""
    from ..experiments.people import WHOLE as WHOLE_SETS
    from ..experiments.people import uci_people
    from ..experiments.stream_protocol import STREAM
    from ..experiments.systems import DEVELOPMENT

    if quick and sets is None and people is None:
        sets, people = ["phone_watch"], ["phone_watch:s01", "phone_watch:s05"]
    recordings = [name for name in ("emg", "vicon") if sets is None or name in sets]
    whole = None if sets is None else [name for name in sets if name not in recordings]
    found: dict[str, People] = {}
    if whole is None:
        whole = _sets_there(data, tuple(WHOLE_SETS), people)
    if whole:
        found = _whole_streams(whole, people or [DEVELOPMENT_FILES], data, quick=False)[STREAM]
    for name in recordings if people is None else ():
        try:
            found |= uci_people([name], [f"{name}:{who}" for who in DEVELOPMENT[name]], data)
        except InputError as error:
            if sets is not None:
                raise
            typer.echo(f"without {name}: {error}", err=True)
    return found


def _sets_there(data: Path | None, wanted: tuple[str, ...], people: list[str] | None) -> list[str]:
    """Those of the wanted sets of streams that are there, or that named people are of."""
    from ..experiments.people import whole_sets

    named = {who.rpartition(":")[0].lower() for who in people or ()} - {""}
    there, missing = whole_sets(data)
    for name, why in missing.items():
        if name in wanted and (not named or name in named):
            typer.echo(f"without {name}: {why}", err=True)
    found = [name for name in there if name in wanted and (not named or name in named)]
    if not found:
        raise InputError("none of these sets of streams is there; say where they are with --data")
    return found


def _whole_streams(
    sets: list[str] | None, people: list[str] | None, data: Path | None, quick: bool
) -> dict[str, dict[str, People]]:
    """The people of whole streams by protocol and set; sets that are not there are said."""
    from ..experiments.people import get_whole_set, stream_people, whole_sets
    from ..experiments.stream_protocol import STREAM
    from ..experiments.systems import streams_development

    if sets is None:
        sets, missing = whole_sets(data)
        for name, why in missing.items():
            typer.echo(f"without {name}: {why}", err=True)
        if not sets:
            raise InputError("none of the sets of streams is there; say where they are with --data")
    if people is None and quick:
        people = [who for who in QUICK_STREAMS if who.split(":")[0] in map(str.lower, sets)]
        people = people or [DEVELOPMENT_FILES]
    if people is not None and DEVELOPMENT_FILES in people:
        chosen_on = streams_development(STREAM)
        names = [get_whole_set(name).name for name in sets]
        people = [who for who in people if who != DEVELOPMENT_FILES]
        people += [f"{name}:{who}" for name in names for who in chosen_on[name]]
    return stream_people(sets, people, data)


def _check_together(
    table: TableChoice,
    protocol: ProtocolChoice | None,
    **given: tuple[tuple[TableChoice, ...], bool],
) -> None:
    """Refuse an option that would be ignored.

    Parameters
    ----------
    given : option to (tuple of TableChoice, bool)
        The tables an option is for, and whether it was given.
    """
    if table in (*WHOLE, TableChoice.SYNTHETIC) and protocol is not None:
        raise InputError(f"--table {table} knows no --protocol {protocol}; leave it out")
    if table is TableChoice.BEYOND and protocol not in (None, ProtocolChoice.HOLDOUT):
        raise InputError(f"--table beyond knows no --protocol {protocol}; leave it out")
    for name, (of_tables, is_given) in given.items():
        if is_given and table not in of_tables:
            others = " or ".join(of_tables)
            raise InputError(f"{name} is for --table {others}; add that, or leave {name} out")


def _names(given: list[str] | None) -> list[str] | None:
    names = [name.strip() for text in given or () for name in text.split(",") if name.strip()]
    return names or None
