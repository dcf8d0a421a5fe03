"""The commands of ``mlat-lab``, put together."""

from __future__ import annotations

import typer

from mlat.cli.one_line import OneLineCommand, OneLineGroup

from . import bench, data
from .reproduce import reproduce

app = typer.Typer(
    name="mlat-lab",
    cls=OneLineGroup,
    help="The laboratory of mlat: its tables, its benchmarks, its data sets.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("reproduce", cls=OneLineCommand)(reproduce)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
