"""Exported C beside ``predict``, step by step, on streams that are as bad as can be.

A test stream of each set, over and over, with missing, infinite and extreme values, other scales,
held values and restarts drawn at random. The C is compiled with checks of addresses and of
undefined behaviour, which stop it, and in double precision: every state has to be that of
``predict``. In whole numbers every step is run and counted, too, under the same checks.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from mlat.base.checks import Bools, Floats
from mlat.classifier.classifier import StreamClassifier
from mlat.export.c_source import CSource, write_c
from mlat.export.plain_model import PlainModel
from mlat.export.tables import EXTREME
from mlat.stream.stream import Stream

from .export import codes_of
from .export_streams import STREAMS, streams_of
from .harness import Bench, Row

MAIN = """
#include <math.h>
#include <stdio.h>
#include "mlat.h"
static mlat m;
static mlat_out out;
int main(void)
{{
    double row[MLAT_CHANNELS + 1]; /* first whether the stream begins anew */
    mlat_init(&m);
    while (fread(row, sizeof row, 1, stdin) == 1) {{
        mlat_real values[MLAT_CHANNELS];
        int c;
        if (row[0] != 0) {{
            mlat_reset(&m);
        }}
        for (c = 0; c < MLAT_CHANNELS; c++) {{
            const double v = row[c + 1];
            values[c] = {value};
        }}
        printf("%d\\n", mlat_push(&m, values, &out));
    }}
    return 0;
}}
"""
IN_WHOLES = (
    "fabs(ldexp(v, mlat_input_bits[c])) < 2147483647.0 ? "
    "(mlat_real)floor(ldexp(v, mlat_input_bits[c]) + 0.5) : MLAT_NO_VALUE"
)
CHECKS = "-fsanitize=undefined,address", "-fno-sanitize-recover=all"
STRANGE = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e30, 1e9, 0.0, -0.0, 5e-324)
N_STEPS = 100_000


def strange_stream(test: Stream, n: int, seed: int = 0) -> tuple[Floats, Bools]:
    """Steps (n, d), and which of them begin anew."""
    rng = np.random.default_rng(seed)
    values = np.resize(test.values.astype(np.float64), (n, test.n_channels))
    values[np.isnan(values)] = 0.0
    begins = rng.random(n) < 1e-3
    at = 0
    while at < n:  # stretches: as they are, larger or smaller, shifted, held
        length = int(rng.integers(50, 500))
        part = values[at : at + length]
        kind = rng.integers(0, 6)
        if kind == 1:
            part *= 10.0 ** rng.uniform(-6, 6)
        elif kind == 2:
            part += rng.normal(size=part.shape[1]) * part.std(axis=0)
        elif kind == 3:
            part[:, rng.integers(part.shape[1])] = part[0, 0]
        at += length
    where = rng.random(values.shape) < 2e-3 / values.shape[1] * 5
    values[where] = rng.choice(STRANGE, int(where.sum()))
    return values, begins


def told_by_c(code: CSource, values: Floats, begins: Bools) -> NDArray[np.int64]:
    """What the C says of each step, compiled with checks."""
    rows = np.column_stack([begins, values]).tobytes()
    value = "(mlat_real)v" if code.input_bits is None else IN_WHOLES
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**code.files(), "main.c": MAIN.format(value=value)}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        command = ["gcc", "-std=c99", "-O1", "-w", *CHECKS, "main.c", "mlat.c", "-o", "run", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        done = subprocess.run(["./run"], cwd=folder, input=rows, stdout=subprocess.PIPE, check=True)
    return np.array(done.stdout.split(), np.int64)


def measure(name: str, data: Path, n_steps: int) -> Row:
    train, test = streams_of(name, data)
    clf = StreamClassifier().fit(train)
    values, begins = strange_stream(test, n_steps)
    plain = PlainModel.of(clf)
    told = told_by_c(write_c(plain, bits=64), values, begins)
    # As the library documents it: infinite values and those far out of range are missing.
    model = (values - plain.channel_mean) / plain.channel_scale
    clean = np.where(np.abs(model) <= EXTREME[64], values, np.nan)
    gap = begins.copy()
    gap[0] = False
    stream = Stream(clean, recordings=np.cumsum(gap), channels=test.channels)
    wanted, known = codes_of(clf, stream)
    whole = told_by_c(write_c(plain, bits=8, fixed=True), values, begins)
    return {
        "stream": name,
        "steps": n_steps,
        "decided": int(known.sum()),
        "other_states": int((told != wanted).sum()),
        "whole_same": float((whole == wanted)[known].mean()),
    }


def fuzz(
    bench: Bench,
    data: Annotated[Path, typer.Argument(help="Where the sets of whole streams are.")],
    steps: Annotated[int, typer.Option(help="Of each stream.")] = N_STEPS,
    only: Annotated[str | None, typer.Option(help="One, such as 'ecg_rhythm r104'.")] = None,
) -> None:
    """Exported C beside predict on missing, infinite and extreme values and restarts."""
    rows = []
    for name in STREAMS:
        if only in (None, name):
            rows.append(measure(name, data, steps))
            bench.say(f"  {rows[-1]}")
            bench.keep(rows)
    bench.table("C beside predict on strange streams", rows, percent=("whole_same",))
