"""The commands of ``mlat``, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from ..base.errors import InputError
from .demo import demo
from .enrol import enrol
from .evaluate import evaluate
from .explain import explain_step
from .export import export
from .fit import fit
from .inspect import inspect_model
from .label import label
from .live import live
from .one_line import OneLineCommand, OneLineGroup
from .predict import predict

app = typer.Typer(
    name="mlat",
    cls=OneLineGroup,
    help="Classify the states of a sensor stream, from a few labelled runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo", cls=OneLineCommand)(demo)
app.command("label", cls=OneLineCommand)(label)
app.command("fit", cls=OneLineCommand)(fit)
app.command("enrol", cls=OneLineCommand)(enrol)
app.command("predict", cls=OneLineCommand)(predict)
app.command("evaluate", cls=OneLineCommand)(evaluate)
app.command("explain", cls=OneLineCommand)(explain_step)
app.command("inspect", cls=OneLineCommand)(inspect_model)
app.command("live", cls=OneLineCommand)(live)
app.command("export", cls=OneLineCommand)(export)


def _moved(context: typer.Context) -> None:
    name = context.info_name
    raise InputError(
        f"{name} is a command of the laboratory, a package of its own: mlat-lab {name} "
        "(in a checkout: pip install ./lab)"
    )


for _name in ("reproduce", "bench", "data"):
    app.command(
        _name,
        cls=OneLineCommand,
        hidden=True,
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        },
    )(_moved)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mlat {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass
