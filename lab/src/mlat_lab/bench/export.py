"""A model in C: what it takes, how fast it is, and how many states stay the same.

The C is compiled by the system's compiler. A step of it, a live session's step in Python and a step
of emlearn's nearest neighbours in C are timed in one run.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats, Ints
from mlat.base.errors import InputError, MissingPackageError, require_package
from mlat.classifier.classifier import StreamClassifier
from mlat.classifier.thin import Thinning
from mlat.export.c_source import CSource, write_c
from mlat.export.plain_model import PlainModel
from mlat.plots.figure import bare, save_figure, state_colours
from mlat.stream.stream import Stream
from mlat.stream.windows import sliding_windows
from mlat.synthetic import rotating_states

from .harness import Bench, Row, Stopwatch

# Reads rows of doubles and tells of each a state, and of all the mean time.
MAIN = """
#include <math.h>
#include <stdio.h>
#include <time.h>
{before}
int main(void)
{{
    double row[{n_values}];
    clock_t spent = 0;
    long n = 0;
    {begin}
    while (fread(row, sizeof row, 1, stdin) == 1) {{
        clock_t began;
        int c, state;
        for (c = 0; c < {n_values}; c++) {{
            values[c] = {value};
        }}
        began = clock();
        {step}
        spent += clock() - began;
        n++;
        printf("%d\\n", state);
    }}
    fprintf(stderr, "%.6f\\n", 1e6 * (double)spent / CLOCKS_PER_SEC / (double)n);
    return 0;
}}
"""
WHOLE = "(mlat_real)floor(ldexp(row[c], mlat_input_bits[c]) + 0.5)"
N_STATES, RUN_LENGTH, N_RUNS = 5, 60, 10  # of the stream that is learned: 2,550 references
LEAST_SAME = 0.99


class Choice(NamedTuple):
    """One way to export: the fraction of references, and options of :func:`write_c`."""

    fraction: float
    bits: int
    fixed: bool = False
    incremental: bool = False


CHOICES = (
    *(Choice(1.0, 32), Choice(1.0, 16)),
    *(Choice(fraction, 8) for fraction in (1.0, 0.5, 0.25, 0.1)),
    *(Choice(1.0, bits, fixed=True) for bits in (16, 8)),
    *(Choice(1.0, 32, incremental=True), Choice(1.0, 16, fixed=True, incremental=True)),
)


class Timed(NamedTuple):
    """States (T,), -1 for unknown, and microseconds of a step."""

    states: Ints
    microseconds: float


def compiled(folder: Path, sources: dict[str, str], include: Sequence[Path] = ()) -> Path:
    """A program of some sources."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise InputError("there is no C compiler on PATH; install one, for example gcc")
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = [str(folder / name) for name in sources if name.endswith(".c")]
    flags = ["-std=gnu99", "-O2", "-w", *(f"-I{place}" for place in include)]
    program = folder / "run"
    subprocess.run([compiler, *flags, *files, "-o", str(program), "-lm"], check=True)
    return program


def run(program: Path, rows: Floats) -> Timed:
    """What a program says of rows of values."""
    steps = np.ascontiguousarray(rows, np.float64).tobytes()
    done = subprocess.run([program], input=steps, capture_output=True, check=True)
    return Timed(np.array(done.stdout.split(), np.int64), float(done.stderr))


def sources_of(code: CSource, n_channels: int) -> dict[str, str]:
    """The files of a program that classifies standard input."""
    main = MAIN.format(
        before='#include "mlat.h"\nstatic mlat m;\nstatic mlat_real values[MLAT_CHANNELS];\n'
        "static mlat_out out;",
        n_values=n_channels,
        begin="mlat_init(&m);",
        value=WHOLE if code.bounds else "(mlat_real)row[c]",
        step="state = mlat_push(&m, values, &out);",
    )
    return {**code.files(), "main.c": main}


def run_c(code: CSource, values: Floats) -> Timed:
    """What the compiled model says of a stream."""
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), sources_of(code, values.shape[1]))
        return run(program, values)


def codes_of(clf: StreamClassifier, stream: Stream) -> tuple[Ints, NDArray[np.bool_]]:
    """What ``predict`` says, as codes, and where there is a window."""
    predicted = clf.predict(stream)
    known = predicted != clf.unknown_
    return np.where(known, np.searchsorted(clf.classes_, predicted), -1), known


def recording(channels: int, n_runs: int, seed: int = 1) -> Stream:
    """Some runs of each of five states, so that what they have in common can be told from drift."""
    speeds = np.linspace(-0.3, 0.3, N_STATES)
    return rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=channels,
        run_length=RUN_LENGTH,
        runs_per_state=n_runs,
        drift=0.5,
        noise=0.5,
        random_state=seed,
    )


def measure(
    name: str,
    clf: StreamClassifier,
    values: Floats,
    bench: Bench,
    choices: Sequence[Choice] = CHOICES,
) -> list[Row]:
    """Every choice."""
    plain, thinning = PlainModel.of(clf), Thinning(clf, by_steps=True)
    wanted, known = codes_of(clf, Stream(values))
    rows = []
    for choice in choices:
        some = plain.take(thinning.keep(int(choice.fraction * len(plain.start))).rows)
        code = write_c(some, **{name: getattr(choice, name) for name in Choice._fields[1:]})
        told = run_c(code, values)
        rows.append(
            {
                "model": name,
                "references": len(some.start),
                "bits": choice.bits,
                "kind": "whole " * choice.fixed + "incremental" * choice.incremental,
                "tables_kB": code.flash / 1e3,
                "RAM_kB": code.ram / 1e3,
                "products": code.work.products,
                "µs": told.microseconds,
                "same_states": float((told.states == wanted)[known].mean()),
            }
        )
        bench.say(f"  {name}: {len(some.start):,} references, {choice.bits} bits")
    return rows


def python_step(clf: StreamClassifier, values: Floats) -> float:
    """Microseconds of a live session's step."""
    session = clf.live(far=None, dead="off")
    session.push(values[: 2 * clf.width_])
    taken = []
    for value in values[2 * clf.width_ :][:300]:
        with Stopwatch() as spent:
            session.push(value)
        taken.append(spent.clock)
    return 1e6 * float(np.median(taken))


def beside_emlearn(
    name: str, clf: StreamClassifier, train: Stream, fresh: Stream, bench: Bench
) -> list[Row]:
    """mlat and emlearn in C, each beside its own Python form; nothing without emlearn."""
    try:
        emlearn = require_package("emlearn.neighbors", "", "the comparison", title="emlearn")
    except MissingPackageError:
        bench.say("emlearn is not installed, and left out: pip install emlearn")
        return []
    values = fresh.values.astype(np.float64)
    wanted, known = codes_of(clf, fresh)
    truth = np.searchsorted(clf.classes_, fresh.states)
    rivals = []
    for bits, incremental in ((16, False), (16, True), (8, False)):
        code = write_c(PlainModel.of(clf), bits=bits, fixed=True, incremental=incremental)
        told = run_c(code, values)
        how = f"mlat, {bits} bits"
        same = float((told.states == wanted)[known].mean())
        right = float((told.states == truth)[known].mean())
        said = (name, how + ", incremental" * incremental, code.flash, code.ram, told.microseconds)
        rivals.append(_rival(*said, same, right))
    w = clf.width_
    scaled = clf.features_.channels(train.values), clf.features_.channels(values)
    X = _flat(scaled[0], sliding_windows(train, w).start, w)
    y = np.searchsorted(clf.classes_, sliding_windows(train, w).y)
    ends = np.flatnonzero(known)
    Z = _flat(scaled[1], ends - w + 1, w)
    # As fine as its 32-bit sums of squares allow.
    unit = 2 * max(np.abs(X).max(), np.abs(Z).max()) / np.sqrt(2.0**31 / X.shape[1])
    X, Z = np.rint(X / unit), np.rint(Z / unit)
    model = KNeighborsClassifier(1, algorithm="brute").fit(X, y)
    text = emlearn.c_generate_neighbors(X.astype(np.int64), y, 1, "rival")
    main = MAIN.format(
        before='#include "rival.h"\n'
        f"static int16_t values[{X.shape[1]}];\n"
        f"static EmlNeighborsDistanceItem distances[{len(X)}];",
        n_values=X.shape[1],
        begin="int16_t found = -1;",
        value="(int16_t)row[c]",
        step=f"eml_neighbors_predict(&rival, values, {X.shape[1]}, distances, {len(X)}, &found);\n"
        "        state = found;",
    )
    with tempfile.TemporaryDirectory() as folder:
        include = [Path(emlearn.__file__).parent]
        program = compiled(Path(folder), {"rival.h": text, "main.c": main}, include)
        told = run(program, Z)
    same = float((told.states == model.predict(Z)).mean())
    right = float((told.states == truth[ends]).mean())
    flash, ram = 2 * X.size + 2 * len(X), 8 * len(X) + 2 * X.shape[1]
    said = (name, "emlearn, 16 bits", flash, ram, told.microseconds)
    return [*rivals, _rival(*said, same, right)]


def _rival(
    model: str, name: str, flash: int, ram: int, us: float, same: float, right: float
) -> Row:
    """A classifier in C beside its Python form and beside the true states, on the same windows."""
    sizes = {"tables_kB": flash / 1e3, "RAM_kB": ram / 1e3, "µs": us}
    return {"model": model, "in_C": name, **sizes, "as_in_Python": same, "accuracy": right}


def _flat(values: Floats, start: Ints, width: int) -> Floats:
    """Windows (n, w·d)."""
    return values[start[:, None] + np.arange(width)].reshape(len(start), -1)


def draw(rows: Sequence[Row]) -> Figure:
    """How bytes and same states fall together, for each model."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure = Figure(figsize=(4.6 * len(models), 3.6), layout="constrained")
    axes = figure.subplots(1, len(models), squeeze=False)[0]
    # Those that are incremental are as large, and say the same.
    rows = [row for row in rows if "incremental" not in row["kind"]]
    kinds = list(dict.fromkeys((row["bits"], row["kind"]) for row in rows))
    for ax, model in zip(axes, models, strict=True):
        for (bits, kind), colour in zip(kinds, state_colours(len(kinds)), strict=True):
            which = (model, bits, kind)
            mine = [r for r in rows if (r["model"], r["bits"], r["kind"]) == which]
            label = f"{bits} bits"
            label += ", whole numbers" if kind else ""
            flash, same = [r["tables_kB"] for r in mine], [100 * r["same_states"] for r in mine]
            ax.plot(flash, same, "s" if kind else "o-", color=colour, label=label, markersize=4)
        ax.axhline(100 * LEAST_SAME, color="#d0d0d0", linewidth=0.8)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("tables, kB")
        ax.set_ylabel("same states, %")
        ax.set_title(model, fontsize=9, loc="left")
        bare(ax)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=7)
    return figure


def show(
    rows: list[Row],
    python: dict[str, float],
    bench: Bench,
    rivals: Sequence[Row] = (),
) -> None:
    """Print the tables."""
    bench.table("A model in C", rows, percent=("same_states",))
    for name, microseconds in python.items():
        bench.say(f"a live session's step in Python, {name}: {microseconds:.0f} µs")
    for name in dict.fromkeys(row["model"] for row in rows):
        enough = [r for r in rows if r["model"] == name and r["same_states"] >= LEAST_SAME]
        if enough:
            least = min(enough, key=lambda row: row["tables_kB"])
            bench.say(
                f"{LEAST_SAME:.0%} of the states, {name}: {least['tables_kB']:.1f} kB of tables "
                f"and {least['RAM_kB']:.1f} kB RAM, with {least['references']:,} references, "
                f"{least['bits']} bits"
            )
    title = "Beside emlearn's nearest neighbours"
    bench.table(title, rivals, left=2, percent=("as_in_Python", "accuracy"))


def in_c(
    bench: Bench,
    small: Annotated[bool, typer.Option(help="Only the model of three channels.")] = False,
    large: Annotated[bool, typer.Option(help="Only the model of 27 channels.")] = False,
    steps: Annotated[int, typer.Option(help="Of the stream that is classified.")] = 2000,
    plot: Annotated[Path | None, typer.Option(help="Draw bytes and same states there.")] = None,
) -> None:
    """Export: bytes, time and same states, beside Python and emlearn."""
    rows: list[Row] = []
    rivals: list[Row] = []
    python: dict[str, float] = {}
    with threadpool_limits(1):
        for channels in (3,) * (small or not large) + (27,) * (large or not small):
            name = f"{channels} channels"
            train = recording(channels, N_RUNS)
            clf = StreamClassifier(held_out=False).fit(train)
            fresh = recording(channels, -(-steps // (N_STATES * RUN_LENGTH)), seed=2)
            values = fresh.values.astype(np.float64)
            python[name] = python_step(clf, values)
            rows += measure(name, clf, values, bench)
            with np.errstate():  # emlearn makes every warning of numpy an error, for all
                rivals += beside_emlearn(name, clf, train, fresh, bench)
    show(rows, python, bench, rivals)
    if plot is not None:
        save_figure(draw(rows), plot)
    bench.keep(
        {
            "rows": rows,
            "python_microseconds": python,
            "beside_emlearn": rivals,
        }
    )
