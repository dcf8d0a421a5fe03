"""The ``mlat`` command."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from .one_line import run_in_one_line
    except KeyboardInterrupt:
        sys.stderr.write("mlat: interrupted\n")
        sys.exit(130)
    run_in_one_line(_run)


def _run() -> None:
    from .commands import app  # takes a second or two, so an error or Ctrl-C in it is handled, too

    app(prog_name="mlat")


def __getattr__(name: str) -> Any:
    if name == "app":
        from .commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
