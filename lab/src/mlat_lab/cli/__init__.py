"""The ``mlat-lab`` command."""

from __future__ import annotations

from mlat.cli.one_line import run_in_one_line


def main() -> None:
    """Run the command that the arguments name."""
    run_in_one_line(_run)


def _run() -> None:
    from .commands import app

    app(prog_name="mlat-lab")
