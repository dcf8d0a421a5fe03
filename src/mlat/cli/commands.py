"""The commands of ``mlat``, put together."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.main import get_command

from ..base.errors import InputError
from .one_line import OneLineCommand, OneLineGroup

# In the order of the help, with the function of the module that has the command's name.
COMMANDS = {
    "demo": "demo",
    "check": "check",
    "label": "label",
    "fit": "fit",
    "enrol": "enrol",
    "predict": "predict",
    "evaluate": "evaluate",
    "explain": "explain_step",
    "inspect": "inspect_model",
    "live": "live",
    "export": "export",
}


@contextmanager
def _loading() -> Iterator[None]:
    """Say on a terminal that a command is being loaded: on a busy machine it takes seconds."""
    shown = sys.stderr.isatty()
    if shown:
        print("loading …", end="\r", file=sys.stderr, flush=True)
    yield
    if shown:
        print(" " * 9, end="\r", file=sys.stderr, flush=True)


def _lazy(read: Callable[[Any], Any]) -> Any:
    """An attribute that is read on use, whatever the parent sets."""
    return property(read, lambda self, value: None)


class LazyCommand(OneLineCommand):
    """A command whose module is imported when it is called: numba alone takes half a second.

    Its first line for the list of commands is read from the source.
    """

    short_help = _lazy(lambda self: _first_line(self.name))
    help = _lazy(lambda self: self.real.help)
    params = _lazy(lambda self: self.real.params)

    @cached_property
    def real(self) -> Any:
        """The command itself."""
        from .options import in_panels

        name = str(self.name)
        with _loading():
            module = import_module(f".{name}", __package__)
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=OneLineCommand)(getattr(module, COMMANDS[name]))
        return in_panels(get_command(alone))

    def make_context(self, *args: Any, **extra: Any) -> Any:
        return self.real.make_context(*args, **extra)


def _first_line(name: str) -> str:
    spec = find_spec(f".{name}", __package__)
    source = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == COMMANDS[name]:
            return (ast.get_docstring(node) or "").split("\n")[0]
    return ""


class LazyGroup(OneLineGroup):
    """The commands of ``COMMANDS``, before those that an app has itself."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {**{name: LazyCommand(name) for name in COMMANDS}, **self.commands}


app = typer.Typer(
    name="mlat",
    cls=LazyGroup,
    help="Classify the states of a sensor stream, from a few labelled runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
        from .. import __version__  # which takes a moment to find out

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
