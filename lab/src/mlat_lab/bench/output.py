"""What the benchmarks share: a table on the terminal, measurements as JSON, and peak memory."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mlat.base.disk import atomic_write

WIDTH = 100  # columns where no terminal says how many it has; every table fits in so many


def bench_console() -> Console:
    """Where the tables go."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_known else WIDTH)


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1
) -> Table:
    """A table; the first ``left`` columns are text, the others figures."""
    result = Table(title=title)
    for i, heading in enumerate(headings):
        result.add_column(heading, justify="left" if i < left else "right")
    for row in rows:
        result.add_row(*row)
    return result


def write_json(path: Path | None, content: Any) -> None:
    """Write the measurements, if a path is given."""
    if path is not None:
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def peak_mb() -> float:
    """The most memory that this process has had, in MB.

    Linux also counts, in ``getrusage``, what the process that started it had; its status does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(s.split()[1]) for s in lines if s.startswith("VmHWM")) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
