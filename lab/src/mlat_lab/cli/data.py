"""``mlat-lab data``: download the UCI sets, or check a copy of them or of the sets of streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from mlat.base.errors import InputError
from mlat.cli.one_line import OneLineCommand, OneLineGroup

from ..datasets.catalog import SETS, STREAM_SETS, any_set, get_set
from ..datasets.check import SetCheck, check
from ..datasets.fetch import UCI, fetch

app = typer.Typer(
    cls=OneLineGroup,
    help="The UCI data sets: download them, or check a copy.",
    no_args_is_help=True,
)

Sets = Annotated[
    list[str] | None, typer.Argument(metavar="SET", help=f"{', '.join(SETS)}; default all.")
]
AnySets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SET",
        help=f"{', '.join(SETS)} (the default); {', '.join(STREAM_SETS)}.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Where the sets are; default MLAT_DATA, else a cache folder."),
]


@app.command("fetch", cls=OneLineCommand)
def fetch_command(
    sets: Sets = None,
    data: Data = None,
    base: Annotated[str, typer.Option("--base", help="Where UCI's addresses start.")] = UCI,
) -> None:
    """Download sets from UCI and check every file; continue a download that stopped."""
    # All names are checked before the first long download.
    for name in [get_set(name).name for name in sets or SETS]:
        typer.echo(f"{name}: {_fetch_with_bar(name, data, base)}")


@app.command("check", cls=OneLineCommand)
def check_command(sets: AnySets = None, data: Data = None) -> None:
    """Compare every file of a copy with known checksums; exit status 2 if one is not right."""
    results = [check(name, data) for name in [any_set(name).name for name in sets or SETS]]
    Console().print(_table(results))
    problems = [result.problem for result in results if not result.all_right]
    if problems:
        more = f" (and {len(problems) - 1} more sets not right)" if len(problems) > 1 else ""
        raise InputError(problems[0] + more)


def _fetch_with_bar(name: str, data: Path | None, base: str) -> Path:
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        return fetch(name, data, base=base, progress=show)


def _table(results: list[SetCheck]) -> Table:
    table = Table("set", "person")
    for column in ("ok", "missing", "different"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        if result.place is None:
            table.add_row(result.name, "not found", "", "", "")
        for person in result.people:
            style = None if person.all_right else "bold red"
            counts = (person.ok, person.missing, person.different)
            table.add_row(result.name, person.person, *(str(len(c)) for c in counts), style=style)
        table.add_section()
    return table
