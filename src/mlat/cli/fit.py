"""``mlat fit``: learn a metric and keep it, with its references, as a model file."""

from __future__ import annotations

import time as clock
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..classifier import StreamClassifier
from ..errors import InputError
from ..estimators import LMNN, MLAT
from ..stream import Stream
from . import stream_options as options
from .output import check_can_write
from .show import console, size_of, working


class Metric(StrEnum):
    mlat = "mlat"
    lmnn = "lmnn"
    euclidean = "euclidean"


class Solver(StrEnum):
    filter = "filter"
    admm = "admm"


def fit(
    stream: options.StreamFile,
    label: Annotated[
        str, typer.Option(metavar="COL", help="Column of states.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="MODEL", help="Where to write the model.", show_default=False
        ),
    ],
    width: Annotated[int, typer.Option(min=1, help="Steps per window.")] = 10,
    recording: options.Recording = None,
    time: options.Time = None,
    max_gap: options.MaxGap = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", help="Columns of values; default all that are left."),
    ] = None,
    unlabelled: options.Unlabelled = None,
    metric: Annotated[Metric, typer.Option(help="How to measure distance.")] = Metric.mlat,
    solver: Annotated[Solver, typer.Option(help="For mlat; admm is the paper's.")] = Solver.filter,
    targets: Annotated[
        int, typer.Option(min=1, help="Windows of its state that each window is pulled towards.")
    ] = 3,
    gap: Annotated[
        str,
        typer.Option(
            metavar="run|STEPS",
            help="Targets from another run of the state, or at least so many steps away.",
        ),
    ] = "run",
    shrinkage: Annotated[
        float, typer.Option(min=0, help="Pull towards the Euclidean distance.")
    ] = 0.0,
    neighbors: Annotated[int, typer.Option(min=1, help="Neighbours that vote.")] = 1,
    step: Annotated[int, typer.Option(min=1, help="Keep every so many-th window.")] = 1,
) -> None:
    """Learn from a labelled stream to tell its states apart, and write a model."""
    estimator = _estimator(metric, solver, targets, _parse_gap(gap), shrinkage)
    classifier = StreamClassifier(width, metric=estimator, n_neighbors=neighbors, step=step)
    check_can_write(out)
    with working(f"reading {stream.name}"):
        labelled = options.read(
            stream,
            label=label,
            recording=recording,
            time=time,
            max_gap=max_gap,
            channels=options.split_names(channels),
            unlabelled=unlabelled,
        )
    if not labelled.labelled.any():
        raise InputError(
            f"{stream}: column {label!r} names no state; write one for some of the steps"
        )
    begin = clock.perf_counter()
    with working("learning"):
        classifier.fit(labelled)
    seconds = clock.perf_counter() - begin
    classifier.save(out)
    screen = console()
    _print_stream(screen, labelled, classifier)
    _print_metric(screen, classifier.metric_, seconds)
    screen.print(f"Model: {out} ({size_of(out.stat().st_size)})", soft_wrap=True)


def _parse_gap(gap: str) -> Any:
    if gap == "run":
        return gap
    if not (gap.isascii() and gap.isdigit()):
        raise InputError(f'--gap must be "run" or a whole number of steps, not {gap!r}')
    return int(gap)


def _estimator(
    metric: Metric, solver: Solver, n_targets: int, target_gap: Any, shrinkage: float
) -> Any:
    if metric is Metric.euclidean:
        return "euclidean"
    shared: dict[str, Any] = {
        "n_targets": n_targets,
        "target_gap": target_gap,
        "shrinkage": shrinkage,
    }
    return LMNN(**shared) if metric is Metric.lmnn else MLAT(solver=solver.value, **shared)


def _print_stream(screen: Console, stream: Stream, classifier: StreamClassifier) -> None:
    screen.print(
        f"{len(stream)} steps of {stream.n_channels} channels: {', '.join(stream.channels)}",
        soft_wrap=True,
    )
    table = Table("state")
    for name in ("runs", "steps", "windows"):
        table.add_column(name, justify="right")
    for code, state in enumerate(stream.classes):
        mine = stream.runs.code == code
        steps = int((stream.codes == code).sum())
        windows = int((classifier.windows_.y == state).sum())
        table.add_row(str(state), str(int(mine.sum())), str(steps), str(windows))
    screen.print(table)
    left_out = _left_out(stream, classifier.width)
    if left_out:
        screen.print(f"Left out: {', '.join(left_out)}.", soft_wrap=True)


def _left_out(stream: Stream, width: int) -> list[str]:
    """Which steps no window covers, and why."""
    missing = int((stream.labelled & stream.missing).sum())
    lengths = stream.runs.length
    short = int(lengths[lengths < width].sum())
    why = {
        "without a state": int((~stream.labelled).sum()),
        "with a missing value": missing,
        f"in runs of fewer than {width} steps": short,
    }
    return [f"{n} step{'s' if n > 1 else ''} {reason}" for reason, n in why.items() if n]


def _print_metric(screen: Console, metric: Any, seconds: float) -> None:
    if metric is None:
        screen.print("Euclidean distance: nothing is learned.")
        return
    name = "MLAT" if isinstance(metric, MLAT) else "LMNN"
    how = f", solver {metric.solver}" if isinstance(metric, MLAT) else ""
    fall = f"loss {metric.initial_loss_:.4g} → {metric.loss_:.4g}, "
    screen.print(
        f"{name}{how}: {fall}{metric.n_iter_} iterations in {seconds:.1f} s; {metric.message_}.",
        soft_wrap=True,
    )
