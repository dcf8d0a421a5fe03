"""How every benchmark runs: options, clocks, memory, processes of their own, tables and JSON.

A benchmark is a function of a `Bench` and of options of its own. It says what it measures; all
that benchmarks have in common is here.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from mlat.base.disk import atomic_write
from mlat.base.errors import InputError

from . import apart
from .apart import Stopwatch, peak_mb

__all__ = [
    "Bench",
    "Row",
    "Stopwatch",
    "add_ratio",
    "cpu_seconds",
    "in_turn",
    "peak_mb",
    "run_apart",
    "with_options",
]

WIDTH = 100  # columns where no terminal says how many it has; every table fits in so many

# One measurement: a figure or a text by what it is, with its unit. A key that begins with an
# underscore is in no table.
Row = dict[str, Any]


class Bench:
    """Where a benchmark puts what it found.

    Parameters
    ----------
    out : path, optional
        A file for the figures as JSON, written whenever there are new ones.
    as_json : bool
        The figures alone go to standard output, everything else to standard error.
    markdown : bool
        Tables as Markdown.
    """

    def __init__(
        self, out: Path | None = None, as_json: bool = False, markdown: bool = False
    ) -> None:
        self.out, self.as_json, self.markdown = out, as_json, markdown
        stream = sys.stderr if as_json else sys.stdout
        is_known = stream.isatty() or "COLUMNS" in os.environ
        self.console = Console(file=stream, width=None if is_known else WIDTH)
        self.figures: Any = None

    def say(self, text: str) -> None:
        self.console.print(text)

    def keep(self, figures: Any) -> None:
        """The figures that are there so far."""
        self.figures = figures
        if self.out is not None:
            with atomic_write(self.out) as temporary:
                temporary.write_text(self._text(), encoding="utf-8")

    def _text(self) -> str:
        return json.dumps(self.figures, indent=1) + "\n"

    def table(
        self,
        title: str,
        rows: Sequence[Row],
        *,
        left: int = 1,
        percent: Container[str] = (),
        digits: Mapping[str, int] | None = None,
    ) -> None:
        """Print a table with a column for each key of its rows; the first ``left`` are text.

        Parameters
        ----------
        percent : container of str
            Columns of fractions.
        digits : mapping of column to int
            How many count, if not three.
        """
        columns = list(dict.fromkeys(k for row in rows for k in row if not k.startswith("_")))
        if not columns:
            return
        heads = [column.replace("_", " ") for column in columns]
        cells = [
            [_cell(row.get(one), one in percent, (digits or {}).get(one, 3)) for one in columns]
            for row in rows
        ]
        if self.markdown:
            from ..reports.page import table as markdown

            lines = markdown(heads, cells, left=left)
            print("\n".join([title, "", *lines]), file=self.console.file)
            return
        shown = Table(title=title)
        for i, heading in enumerate(heads):
            shown.add_column(heading, justify="left" if i < left else "right", overflow="fold")
        for line in cells:
            shown.add_row(*line)
        self.console.print(shown)


def _cell(value: Any, is_fraction: bool, digits: int) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if is_fraction:
        return f"{value:.1%}"
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-4:
        return f"{value:.0e}"
    return f"{value:,.{max(0, digits - 1 - int(np.floor(np.log10(abs(value)))))}f}"


def add_ratio(
    rows: Iterable[Row], name: str, of: str, to: tuple[str, str], within: Sequence[str]
) -> None:
    """Tell each row how many times as much it has as a row to compare with.

    Parameters
    ----------
    name, of : str
        The new key, and that of the figures.
    to : key and value
        Of the row to compare with.
    within : keys
        In which both agree.
    """
    rows = list(rows)
    base = {tuple(row[k] for k in within): row[of] for row in rows if row[to[0]] == to[1]}
    for row in rows:
        there = base.get(tuple(row[k] for k in within))
        row[name] = None if there is None or row[of] is None else row[of] / there


# The options that every benchmark has.
_Out = Annotated[Path | None, typer.Option("-o", "--out", help="Write the figures here as JSON.")]
_Json = Annotated[bool, typer.Option("--json", help="The figures as JSON on standard output.")]
_Markdown = Annotated[bool, typer.Option("--markdown", help="Tables as Markdown.")]


def with_options(benchmark: Callable[..., None]) -> Callable[..., None]:
    """What typer makes a command of: the benchmark's own options, and those of all."""
    hints = get_type_hints(benchmark, include_extras=True)
    own = list(inspect.signature(benchmark).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    shared = {"out": (_Out, None), "as_json": (_Json, False), "markdown": (_Markdown, False)}

    def command(out: Path | None, as_json: bool, markdown: bool, **options: Any) -> None:
        bench = Bench(out, as_json, markdown)
        benchmark(bench, **options)
        if as_json:
            typer.echo(bench._text(), nl=False)

    parameters = [
        *(one.replace(kind=kind, annotation=hints[one.name]) for one in own),
        *(
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in shared.items()
        ),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = benchmark.__doc__
    return command


# Clocks.


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> list[float]:
    """CPU seconds of some calls after a first one, which may compile."""
    taken = []
    for _ in range(repeats + 1):
        with Stopwatch() as spent:
            work()
        taken.append(spent.cpu)
    return taken[1:]


def in_turn(
    steps: Mapping[str, Callable[[int], object]], rounds: int, per_round: int
) -> dict[str, float]:
    """Seconds of each, a few at a time in turn: whatever else runs, slows all equally.

    What a tenth of them took at most: steps that nothing interrupted.
    """
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(0)
    for r in range(rounds):
        for name, step in steps.items():
            for i in range(per_round):
                begin = time.perf_counter()
                step(r * per_round + i)
                taken[name].append(time.perf_counter() - begin)
    return {name: float(np.quantile(times, 0.1)) for name, times in taken.items()}


# Processes of their own: other libraries in other environments, and memory that is theirs alone.


def run_apart(
    system: str, problem: Mapping[str, Any], python: str | None = None, *, threads: int = 1
) -> dict[str, Any] | str:
    """What a system of ``apart.py`` finds in some Python, this one by default; or why not.

    Raises
    ------
    InputError
        If there is no such Python.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "problem.npz"), Path(folder, "result.npz")
        np.savez(given, **problem)
        command = [python or sys.executable, apart.__file__, system, str(given), str(found)]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **dict.fromkeys(names, str(threads))},
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            return f"{system} failed in {command[0]}: {last}"
        with np.load(found) as archive:
            return {name: archive[name] for name in archive}
