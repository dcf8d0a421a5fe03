"""Speed and memory of learning a metric, against other libraries in one run.

CPU seconds on one thread, each fit in a process of its own, compiled code warm: what is compared
is the work. The objective is the same for all, LMNN's loss with three Euclidean targets, worked
out here from the matrix that each system returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mlat.base.checks import Floats
from mlat.base.errors import InputError
from mlat.metric.estimators import LMNN, MLAT
from mlat.metric.problem import Problem
from mlat.metric.targets import select_targets
from mlat.metric.toeplitz import to_matrix
from mlat.plots.figure import save_figure
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows, sliding_windows
from mlat.synthetic import rotating_states

from .harness import Bench, Row, add_ratio, run_apart


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


def recording(n_steps: int, channels: int = 27, n_states: int = 5, seed: int = 1) -> Stream:
    """One run of ``n_steps`` for each of some states that turn at speeds of their own."""
    speeds = np.linspace(-0.3, 0.3, n_states)
    return rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=channels,
        run_length=n_steps,
        runs_per_state=1,
        drift=1.5,
        noise=0.5,
        random_state=seed,
    )


def make_windows(size: Size, seed: int = 1) -> Windows:
    """One run per state of a rotation at a speed of its own, scaled to unit variance."""
    stream = recording(size.n_per_state + size.width - 1, size.channels, size.n_states, seed)
    values = (stream.values - stream.values.mean(axis=0)) / stream.values.std(axis=0)
    return sliding_windows(Stream(values, stream.states), size.width)


OURS = ("LMNN", "LMNN to the end", "MLAT filter", "MLAT admm")
PEERS = ("metric-learn", "pylmnn")
GROWTH_N = (500, 1000, 2000, 4000, 8000)
GROWTH_W = (10, 25, 50, 100, 200)


def run_one(system: str, size: Size, *, python: str | None = None, threads: int = 1) -> Row:
    """Fit one system on one problem in a process of its own.

    The row's trace has the CPU seconds and the loss at each iteration.
    """
    windows = make_windows(size)
    problem = {
        "X": windows.X.reshape(len(windows), -1),
        "y": np.unique(windows.y, return_inverse=True)[1],
        "start": windows.start,
        "run": windows.run,
        "width": windows.width,
    }
    found = run_apart(system, problem, python, threads=threads)
    if isinstance(found, str):
        raise InputError(found)
    loss = objective_of(windows, found["components"]) if "components" in found else found["loss"]
    return {
        "n": size.n,
        "d": size.channels,
        "w": size.width,
        "system": system,
        "CPU_s": float(found["seconds"]),
        "_wall_s": float(found["wall"]),
        "to_peer": None,  # when the loss first was as low as metric-learn's result
        "loss": float(loss),
        "it.": int(found["n_iter"]),
        "MB": float(found["peak_mb"]),
        "_trace": found["trace"].tolist() if "trace" in found else [],
    }


def problem_of(windows: Windows) -> Problem:
    """LMNN's loss with three Euclidean targets."""
    windows = replace(windows, y=np.unique(windows.y, return_inverse=True)[1])
    return Problem(windows, select_targets(windows, 3, gap=0))


def objective_of(windows: Windows, L: Floats) -> float:
    """The loss per window at the given components."""
    problem = problem_of(windows)
    return problem.margin_loss()(problem.flat() @ L.T)[0]


def compare(peer_python: str | None, bench: Bench) -> list[Row]:
    """All systems on the problems A and C."""
    rows: list[Row] = []
    for name, size in SIZES.items():
        bench.say(f"problem {name}: {size}")
        peer_loss = None
        for peer in PEERS if peer_python is not None else ():
            try:
                row = run_one(peer, size, python=peer_python)
            except InputError as error:
                bench.say(f"  left out: {error}")
                continue
            if peer == "metric-learn":
                peer_loss = row["loss"]
            rows.append(row)
        for system in OURS:
            row = run_one(system, size)
            if peer_loss is not None and system.startswith("LMNN"):
                row["to_peer"] = next((t for t, loss in row["_trace"] if loss <= peer_loss), None)
            rows.append(row)
    add_ratio(rows, "x_LMNN", "CPU_s", ("system", "LMNN"), "ndw")
    return rows


def growth(bench: Bench) -> list[Row]:
    """The filter solver and LMNN as windows become more, and longer."""
    sizes = [Size(5, n // 5, 8, 10) for n in GROWTH_N] + [Size(5, 200, 8, w) for w in GROWTH_W]
    rows = []
    for size in sizes:
        bench.say(f"growth: {size}")
        systems = ("LMNN", "MLAT filter") if size.width <= 50 else ("MLAT filter",)
        rows += [run_one(system, size) for system in systems]
    return rows


def plot_growth(rows: list[Row], path: Path) -> None:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = (("n", "w", 10, GROWTH_N), ("w", "n", 1000, GROWTH_W))
    for axis, (key, fixed, at, ticks) in zip(figure.subplots(1, 2), panels, strict=True):
        for system in ("LMNN", "MLAT filter"):
            points = {
                row[key]: row["CPU_s"] / max(row["it."], 1)
                for row in rows
                if row["system"] == system and row[fixed] == at
            }
            axis.loglog(*zip(*sorted(points.items()), strict=True), "o-", label=system)
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
        name = "windows n" if key == "n" else "width w"
        axis.set(xlabel=f"{name} (d=8, {fixed}={at})", ylabel="CPU seconds per iteration")
        axis.grid(True, alpha=0.3)
        axis.legend()
    save_figure(figure, path)


def show(rows: list[Row], bench: Bench) -> None:
    title = "Learning a metric: CPU seconds on one thread"
    bench.table(title, rows, left=4, digits={"loss": 5})
    for n, d in dict.fromkeys((row["n"], row["d"]) for row in rows):
        of = {row["system"]: row for row in rows if (row["n"], row["d"]) == (n, d)}
        peer, ours = of.get("metric-learn"), of.get("LMNN to the end")
        if peer is not None and ours is not None and ours["to_peer"]:
            bench.say(
                f"n={n}, d={d}: LMNN reaches metric-learn's loss "
                f"{peer['CPU_s'] / ours['to_peer']:.0f} times faster, and ends at "
                f"{ours['loss']:.5g} against {peer['loss']:.5g}"
            )


def learning(
    bench: Bench,
    peer_python: Annotated[
        str | None,
        typer.Option(help="A Python with metric-learn (lab/benchmarks/peers-fit.txt)."),
    ] = None,
    long: Annotated[bool, typer.Option(help="Also d=27, w=200, n=2000 on two threads.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw growth in n and w into this PNG.")] = None,
) -> None:
    """Learning: CPU time, objective and memory, against metric-learn in one run."""
    rows = compare(peer_python, bench)
    show(rows, bench)
    if long:
        row = run_one("MLAT filter", LONG, threads=2)
        bench.say(
            f"filter, {LONG}: {row['_wall_s']:.0f} s of wall time on two threads, "
            f"{row['CPU_s']:.0f} CPU s, {row['MB']:.0f} MB, {row['it.']} iterations"
        )
        rows.append(row)
    if plot is not None:
        grown = growth(bench)
        plot_growth(grown, plot)
        rows += grown
    bench.keep(rows)


def losses(bench: Bench) -> None:
    """The losses at which the solvers end, side by side, on the two problems."""
    found: dict[str, dict[str, float]] = {}
    for name, size in SIZES.items():
        windows = make_windows(size)
        problem = problem_of(windows)
        precise: dict[str, Any] = {"target_gap": 0, "push_weight": 0.5, "tol": 1e-5}
        precise["max_iter"] = 300
        rows = {"LMNN": LMNN(**precise).fit(windows).loss_}
        admm = MLAT.as_in_paper(rho=1.0, max_iter=300).fit(windows)
        both = to_matrix(admm.blocks_)
        root = np.linalg.cholesky(both + 1e-10 * np.trace(both) / len(both) * np.eye(len(both)))
        rows["admm, M"] = admm.loss_
        rows["admm, exact"] = problem.margin_loss()(problem.flat() @ root)[0]
        for q in (10, 20):
            metric = MLAT(n_taps=q, **precise).fit(windows)
            rows[f"filter, {q} taps"] = metric.loss_
        bench.table(f"{name}: {size}", [{"solver": k, "loss": v} for k, v in rows.items()])
        found[name] = rows
    bench.keep(found)
