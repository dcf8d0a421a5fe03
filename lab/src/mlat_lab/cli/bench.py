"""``mlat-lab bench``: speed, memory and accuracy, as the pages quote them."""

from __future__ import annotations

from importlib import import_module

import typer

from mlat.base.errors import MissingPackageError
from mlat.cli.one_line import INTERRUPTED, OneLineCommand, OneLineGroup

from ..bench import BENCHMARKS
from ..bench.harness import with_options

app = typer.Typer(
    cls=OneLineGroup,
    help="Speed and memory against the peers that are installed, as ratios in one run. With "
    "--json the figures as JSON on standard output.",
    no_args_is_help=True,
)


def benchmark_command(name: str) -> typer.Typer:
    """The command of a benchmark, with options of its own.

    Raises
    ------
    MissingPackageError
        If what it compares with is not installed.
    """
    module, function = BENCHMARKS[name][0].split(".")
    module = f"mlat_lab.bench.{module}"
    try:
        found = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        lacks = "itself" if error.name == module else str(error.name)
        raise MissingPackageError(
            f"the benchmark {name} lacks {lacks}; install it and try again"
        ) from None
    benchmark = typer.Typer(add_completion=False)
    benchmark.command(cls=OneLineCommand)(with_options(found))
    return benchmark


def _run(context: typer.Context) -> None:
    benchmark = benchmark_command(str(context.info_name))
    status = benchmark(context.args, prog_name=context.command_path, standalone_mode=False)
    if status == INTERRUPTED:  # typer makes a status of Ctrl-C, which would be lost here
        raise KeyboardInterrupt
    if status:
        raise typer.Exit(status)


for _name, (_, _line) in BENCHMARKS.items():
    # Everything after the name goes to the benchmark, which has options and help of its own. It is
    # imported on use, so that the packages it compares with are needed by nobody else.
    app.command(
        _name,
        help=_line,
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        },
    )(_run)
