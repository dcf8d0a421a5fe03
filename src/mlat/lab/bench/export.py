"""A model in C: what it takes, how fast it is, and how many states stay the same.

The C is compiled by the system's compiler. A step of it and a live session's step in Python are
timed in one run.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from ...checks import Floats, Ints
from ...classifier.classifier import StreamClassifier
from ...classifier.thin import Thinning
from ...errors import InputError
from ...export.c_source import write_c
from ...export.plain_model import PlainModel
from ...stream.stream import Stream
from .live import live_values, recording
from .output import bench_console, table, write_json

MAIN = """
#include <stdio.h>
#include <time.h>
#include "mlat.h"
static mlat m;
int main(void)
{
    double row[MLAT_CHANNELS];
    clock_t spent = 0;
    long n = 0;
    mlat_init(&m);
    while (fread(row, sizeof row, 1, stdin) == 1) {
        mlat_real values[MLAT_CHANNELS];
        mlat_out out;
        clock_t began;
        int c;
        for (c = 0; c < MLAT_CHANNELS; c++) {
            values[c] = (mlat_real)row[c];
        }
        began = clock();
        mlat_push(&m, values, &out);
        spent += clock() - began;
        n++;
        printf("%d\\n", out.state);
    }
    fprintf(stderr, "%.6f\\n", 1e6 * (double)spent / CLOCKS_PER_SEC / (double)n);
    return 0;
}
"""
BITS = (32, 16, 8)
FRACTIONS = (1.0, 0.5, 0.25, 0.1)


@dataclass(frozen=True)
class Row:
    """One way to export a model; bytes, microseconds of a step, and the fraction of same states."""

    model: str
    n_references: int
    bits: int
    flash: int
    ram: int
    products: int
    microseconds: float
    same: float


def run_c(model: PlainModel, bits: int, values: Floats) -> tuple[Ints, float]:
    """The states (T,) of a stream by the compiled model, -1 for unknown, and µs for each step."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise InputError("there is no C compiler on PATH; install one, for example gcc")
    code = write_c(model, bits=bits)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, text in (("mlat.h", code.header), ("mlat.c", code.source), ("main.c", MAIN)):
            (place / name).write_text(text, encoding="utf-8")
        files = [str(place / name) for name in ("main.c", "mlat.c")]
        subprocess.run(
            [compiler, "-std=c99", "-O2", *files, "-o", str(place / "run"), "-lm"], check=True
        )
        steps = np.ascontiguousarray(values, np.float64).tobytes()
        done = subprocess.run([place / "run"], input=steps, capture_output=True, check=True)
    return np.array(done.stdout.split(), np.int64), float(done.stderr)


def measure(name: str, clf: StreamClassifier, values: Floats, console: Console) -> list[Row]:
    """Every number of references with every number of bits."""
    plain, thinning = PlainModel.of(clf), Thinning(clf)
    predicted = clf.predict(Stream(values))
    known = predicted != clf.unknown_
    wanted = np.where(known, np.searchsorted(clf.classes_, predicted), -1)
    rows = []
    for fraction in FRACTIONS:
        some = plain.take(thinning.keep(int(fraction * len(plain.start))).rows)
        for bits in BITS:
            states, microseconds = run_c(some, bits, values)
            code = write_c(some, bits=bits)
            rows.append(
                Row(
                    *(name, len(some.start), bits, code.flash, code.ram, code.products),
                    *(microseconds, float((states == wanted)[known].mean())),
                )
            )
        console.print(f"  {name}: {len(some.start):,} references")
    return rows


def python_step(clf: StreamClassifier, values: Floats) -> float:
    """Microseconds of a live session's step."""
    session = clf.live(far=None, dead="off")
    session.push(values[: 2 * clf.width_])
    taken = []
    for value in values[2 * clf.width_ :][:300]:
        began = time.perf_counter()
        session.push(value)
        taken.append(time.perf_counter() - began)
    return 1e6 * float(np.median(taken))


def show(rows: list[Row], python: dict[str, float], console: Console) -> None:
    """Print the table."""
    headings = ["model", "references", "bits", "tables", "RAM", "products", "µs", "same states"]
    cells = [
        [
            *(row.model, f"{row.n_references:,}", str(row.bits), f"{row.flash / 1e3:.1f} kB"),
            *(f"{row.ram / 1e3:.1f} kB", f"{row.products:,}", f"{row.microseconds:.0f}"),
            f"{row.same:.1%}",
        ]
        for row in rows
    ]
    console.print(table("A model in C", headings, cells))
    for name, microseconds in python.items():
        console.print(f"a live session's step in Python, {name}: {microseconds:.0f} µs")


def main(
    small: Annotated[bool, typer.Option(help="Only the model of three channels.")] = False,
    steps: Annotated[int, typer.Option(help="Of the stream that is classified.")] = 2000,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Export: bytes, time and same states, by bits and references, beside Python."""
    console = bench_console()
    rows: list[Row] = []
    python = {}
    with threadpool_limits(1):
        for channels in (3,) if small else (3, 27):
            name = f"{channels} channels"
            clf = StreamClassifier(budget=0).fit(recording(510, channels))
            values = live_values(steps, channels)
            python[name] = python_step(clf, values)
            rows += measure(name, clf, values, console)
    show(rows, python, console)
    write_json(out, {"rows": [asdict(row) for row in rows], "python_microseconds": python})
