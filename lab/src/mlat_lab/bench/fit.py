"""Speed and memory of learning a metric, against other libraries in one run.

CPU seconds on one thread, each fit in a process of its own, compiled code warm: what is compared
is the work. The objective is the same for all, LMNN's loss with three Euclidean targets, worked
out here from the matrix that each system returns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from mlat.base.disk import atomic_write
from mlat.base.errors import InputError
from mlat.metric.problem import Problem
from mlat.metric.targets import select_targets
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows, sliding_windows
from mlat.synthetic import rotating_states

from . import fit_worker
from .output import bench_console, table, write_json


@dataclass(frozen=True)
class Size:
    """``n_per_state`` windows of each state, d channels, w steps."""

    n_states: int
    n_per_state: int
    channels: int
    width: int

    @property
    def n(self) -> int:
        return self.n_states * self.n_per_state

    def __str__(self) -> str:
        return f"n={self.n}, d={self.channels}, w={self.width}, {self.n_states} states"


# The sizes of the paper's accelerometer (A) and motion-capture (C) sets.
SIZES = {"A": Size(7, 500, 3, 10), "C": Size(5, 500, 27, 10)}
LONG = Size(5, 400, 27, 200)


def make_windows(size: Size, seed: int = 1) -> Windows:
    """One run per state of a rotation at a speed of its own, scaled to unit variance."""
    speeds = np.linspace(-0.3, 0.3, size.n_states)
    stream = rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=size.channels,
        run_length=size.n_per_state + size.width - 1,
        runs_per_state=1,
        drift=1.5,
        noise=0.5,
        random_state=seed,
    )
    values = (stream.values - stream.values.mean(axis=0)) / stream.values.std(axis=0)
    return sliding_windows(Stream(values, stream.states), size.width)


def save_windows(windows: Windows, path: Path) -> None:
    """The windows as plain arrays, for programs that know nothing of streams."""
    np.savez(
        path,
        X=windows.X.reshape(len(windows), -1),
        y=np.unique(windows.y, return_inverse=True)[1],
        start=windows.start,
        run=windows.run,
        width=windows.width,
    )


OURS = ("LMNN", "LMNN to the end", "MLAT filter", "MLAT admm")
PEERS = ("metric-learn", "pylmnn")
GROWTH_N = (500, 1000, 2000, 4000, 8000)
GROWTH_W = (10, 25, 50, 100, 200)


@dataclass(frozen=True)
class Fit:
    """One fit of one system.

    ``to_peer`` is when the loss first was as low as metric-learn's result, ``trace`` the CPU
    seconds and the loss at each iteration.
    """

    problem: str
    system: str
    seconds: float
    wall: float
    peak_mb: float
    n_iter: int
    objective: float | None
    to_peer: float | None = None
    trace: list[tuple[float, float]] = field(default_factory=list, repr=False)


def run_one(system: str, size: Size, *, python: str = sys.executable, threads: int = 1) -> Fit:
    """Fit one system on one problem in a process of its own."""
    windows = make_windows(size)
    with tempfile.TemporaryDirectory() as folder:
        problem, result, components = (Path(folder) / f for f in ("p.npz", "r.json", "c.npy"))
        save_windows(windows, problem)
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        done = subprocess.run(
            [python, fit_worker.__file__, system, problem, result, components],
            env={**os.environ, **dict.fromkeys(names, str(threads))},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise InputError(f"{system} failed in {python}: {last}")
        report: dict[str, Any] = json.loads(result.read_text())
        objective = report.get("loss")
        if components.exists():
            objective = _objective(windows, np.load(components))
    return Fit(
        str(size),
        system,
        report["seconds"],
        report["wall"],
        report["peak_bytes"] / 1e6,
        report["n_iter"],
        objective,
        trace=report.get("trace", []),
    )


def _objective(windows: Any, L: np.ndarray) -> float:
    """LMNN's loss per window at the given components."""
    codes = np.unique(windows.y, return_inverse=True)[1]
    flat = windows.X.reshape(len(windows), -1)
    targets = select_targets(flat, codes, 3, gap=0, start=windows.start, run=windows.run)
    problem = Problem(windows.X, codes, targets, windows.start, windows.run)
    return problem.margin_loss()(problem.flat @ L.T)[0]


def compare(
    peer_python: str | None, console: Console, sizes: dict[str, Size] | None = None
) -> list[Fit]:
    """All systems on the problems A and C."""
    rows: list[Fit] = []
    for name, size in (sizes or SIZES).items():
        console.print(f"problem {name}: {size}")
        peer_objective = None
        if peer_python is not None:
            for peer in PEERS:
                try:
                    row = run_one(peer, size, python=peer_python)
                except InputError as error:
                    console.print(f"  left out: {error}")
                    continue
                if peer == "metric-learn":
                    peer_objective = row.objective
                rows.append(row)
        for system in OURS:
            row = run_one(system, size)
            if peer_objective is not None and system.startswith("LMNN"):
                reached = [t for t, loss in row.trace if loss <= peer_objective]
                row = replace(row, to_peer=reached[0] if reached else None)
            rows.append(row)
    return rows


def growth(console: Console) -> list[Fit]:
    """The filter solver and LMNN as windows become more, and longer."""
    rows = []
    for n in GROWTH_N:
        console.print(f"growth in n: {n}")
        rows += [run_one(s, Size(5, n // 5, 8, 10)) for s in ("LMNN", "MLAT filter")]
    for w in GROWTH_W:
        console.print(f"growth in w: {w}")
        systems = ("LMNN", "MLAT filter") if w <= 50 else ("MLAT filter",)
        rows += [run_one(s, Size(5, 200, 8, w)) for s in systems]
    return rows


def plot_growth(rows: list[Fit], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, key, label in ((axes[0], "n=", "windows n (d=8, w=10)"), (axes[1], "w=", "width w")):
        for system in ("LMNN", "MLAT filter"):
            points = {}
            for row in rows:
                parts = dict(p.split("=") for p in row.problem.split(", ")[:3])
                n, w = int(parts["n"]), int(parts["w"])
                if row.system == system and (w == 10 if key == "n=" else n == 1000):
                    points[n if key == "n=" else w] = row.seconds / max(row.n_iter, 1)
            axis.loglog(*zip(*sorted(points.items()), strict=True), "o-", label=system)
        ticks = GROWTH_N if key == "n=" else GROWTH_W
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set(xlabel=label, ylabel="CPU seconds per iteration")
        axis.grid(True, alpha=0.3)
        axis.legend()
    axes[1].set_xlabel("width w (d=8, n=1000)")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=130)
    plt.close(figure)


def show(rows: list[Fit], console: Console) -> None:
    base: dict[str, float] = {r.problem: r.seconds for r in rows if r.system == "LMNN"}
    cells = [
        (
            r.problem.rpartition(",")[0],  # without the number of states: a line of the terminal
            r.system,
            f"{r.seconds:.2f}",
            "" if r.to_peer is None else f"{r.to_peer:.2f}",
            f"{r.seconds / base[r.problem]:.1f}" if r.problem in base else "",
            "" if r.objective is None else f"{r.objective:.5g}",
            str(r.n_iter),
            f"{r.peak_mb:.0f}",
        )
        for r in rows
    ]
    headings = ("problem", "system", "CPU s", "to peer", "x LMNN", "loss", "it.", "MB")
    console.print(table("Learning a metric: CPU seconds on one thread", headings, cells, left=2))
    for problem in dict.fromkeys(r.problem for r in rows):
        of = {r.system: r for r in rows if r.problem == problem}
        peer, ours = of.get("metric-learn"), of.get("LMNN to the end")
        if peer is not None and ours is not None and ours.to_peer:
            console.print(
                f"{problem}: LMNN reaches metric-learn's loss {peer.seconds / ours.to_peer:.0f} "
                f"times faster, and ends at {ours.objective:.5g} against {peer.objective:.5g}"
            )


def main(
    peer_python: Annotated[
        str | None,
        typer.Option(help="A Python with metric-learn (lab/benchmarks/peers-fit.txt)."),
    ] = None,
    long: Annotated[bool, typer.Option(help="Also d=27, w=200, n=2000 on two threads.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw growth in n and w into this PNG.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Learning: CPU time, objective and memory, against metric-learn in one run."""
    console = bench_console()
    rows = compare(peer_python, console)
    show(rows, console)
    if long:
        row = run_one("MLAT filter", LONG, threads=2)
        console.print(
            f"filter, {LONG}: {row.wall:.0f} s of wall time on two threads, "
            f"{row.seconds:.0f} CPU s, {row.peak_mb:.0f} MB, {row.n_iter} iterations"
        )
        rows.append(row)
    if plot is not None:
        grown = growth(console)
        plot_growth(grown, plot)
        rows += grown
    write_json(out, [asdict(row) for row in rows])
