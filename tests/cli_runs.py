"""Running the commands in this process, and streams as files for them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import typer
from typer.testing import CliRunner

import mlat
from mlat.cli import app

WIDTH = 8
SENSORS = {"n_channels": 4, "drift": 0.3, "noise": 0.3}


def run(*arguments: object, status: int = 0, command: typer.Typer = app) -> tuple[str, str]:
    """The command's output and its word on stderr."""
    # As into a pipe, whatever terminal the tests themselves run in: parallel workers have a width.
    result = CliRunner().invoke(command, [str(a) for a in arguments], env={"COLUMNS": None})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.stdout, result.stderr


def refused(*arguments: object, command: typer.Typer = app) -> str:
    """The one line that says what is wrong, after what was said of columns and compiling."""
    out, error = run(*arguments, status=2, command=command)
    assert out == ""
    *said, wrong = error.splitlines(keepends=True)
    assert all(re.fullmatch(r"mlat: (.* ignored: .*|.*compil.*)\n", note) for note in said)
    assert re.fullmatch(r"mlat: .*\n", wrong)
    return wrong


def write_csv(file: Path, stream: mlat.Stream, **columns: object) -> Path:
    """A stream as a file, with further columns before it."""
    with file.open("w", newline="", encoding="utf-8") as handle:
        rows = csv.writer(handle)
        rows.writerow([*columns, *stream.channels, "state"])
        rows.writerows(
            [*more, *values, state]
            for *more, values, state in zip(
                *columns.values(), stream.values.tolist(), stream.states, strict=True
            )
        )
    return file
