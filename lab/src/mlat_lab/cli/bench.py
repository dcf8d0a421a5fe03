"""``mlat-lab bench``: speed and memory against other libraries."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from mlat.base.errors import MissingPackageError
from mlat.cli.one_line import INTERRUPTED, OneLineCommand, OneLineGroup

app = typer.Typer(
    cls=OneLineGroup,
    help="Speed and memory against the peers that are installed, as ratios in one run. With "
    "--json the figures as JSON on standard output.",
    no_args_is_help=True,
)

# Everything after the name goes to the benchmark, which has options and help of its own. It is
# imported on use, so that the packages it compares with are needed by nobody else.
_FORWARD: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@app.command("dtw", context_settings=_FORWARD)
def dtw(context: typer.Context) -> None:
    """Nearest neighbours under dynamic time warping."""
    _run("dtw", context)


@app.command("fit", context_settings=_FORWARD)
def fit(context: typer.Context) -> None:
    """Learning a metric."""
    _run("fit", context)


@app.command("live", context_settings=_FORWARD)
def live(context: typer.Context) -> None:
    """Live classification."""
    _run("live", context)


@app.command("device", context_settings=_FORWARD)
def device(context: typer.Context) -> None:
    """Learning on a device of PyTorch."""
    _run("device", context)


@app.command("export", context_settings=_FORWARD)
def export(context: typer.Context) -> None:
    """A model in C."""
    _run("export", context)


@app.command("river", context_settings=_FORWARD)
def river(context: typer.Context) -> None:
    """Learning step by step, beside river's classifiers."""
    _run("river", context)


@app.command("scale", context_settings=_FORWARD)
def scale(context: typer.Context) -> None:
    """Many windows; with --dask a cluster of workers, with --spark many live streams on Spark."""
    module = "many"
    for option, other in (("--dask", "scale"), ("--spark", "scale_spark")):
        if option in context.args:
            context.args.remove(option)
            module = other
    _run(module, context)


def benchmark_command(name: str) -> typer.Typer:
    """The command of a benchmark, with options of its own.

    Raises
    ------
    MissingPackageError
        If what it compares with is not installed.
    """
    module = f"mlat_lab.bench.{name}"
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        lacks = "itself" if error.name == module else str(error.name)
        raise MissingPackageError(
            f"the benchmark {name} lacks {lacks}; install it and try again"
        ) from None
    benchmark = typer.Typer(add_completion=False)
    benchmark.command(cls=OneLineCommand)(main)
    return benchmark


def _run(name: str, context: typer.Context) -> None:
    benchmark = benchmark_command(name)
    with _as_json(context.args) as arguments:
        status = benchmark(arguments, prog_name=context.command_path, standalone_mode=False)
    if status == INTERRUPTED:  # typer makes a status of Ctrl-C, which would be lost here
        raise KeyboardInterrupt
    if status:
        raise typer.Exit(status)


@contextmanager
def _as_json(arguments: list[str]) -> Iterator[list[str]]:
    """The arguments without ``--json``; with it the figures alone go to standard output."""
    if "--json" not in arguments:
        yield arguments
        return
    rest = [argument for argument in arguments if argument != "--json"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        with redirect_stdout(sys.stderr):
            yield [*rest, "--out", str(file)]
        if file.exists():
            typer.echo(file.read_text(encoding="utf-8"), nl=False)
