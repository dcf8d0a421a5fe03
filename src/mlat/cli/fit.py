"""``mlat fit``: learn a metric and keep it, with its references, as a model file."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..features.lifts import MAPS
from ..metric.estimators import MLAT
from ..stream.stream import Stream
from . import stream_options as options
from .chosen import is_plain, print_features, print_selection
from .fit_options import Asked, Metric, Solver
from .output import check_can_write
from .show import console, size_of, working


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
    width: Annotated[
        int, typer.Option(min=1, help="Steps per window; for auto the most it may choose.")
    ] = 10,
    recording: options.Recording = None,
    time: options.Time = None,
    max_gap: options.MaxGap = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", help="Columns of values; default all that are left."),
    ] = None,
    unlabelled: options.Unlabelled = None,
    metric: Annotated[
        Metric, typer.Option(help="How to measure distance; auto chooses, features included.")
    ] = Metric.auto,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="For auto: how long to try, such as 90, 60s (default) or 2m."
        ),
    ] = None,
    lift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,C", help=f"Not for auto: maps of the channels, of {', '.join(MAPS)}."
        ),
    ] = None,
    whiten: Annotated[
        bool,
        typer.Option("--whiten", help="Not for auto: weigh features by how they vary in states."),
    ] = False,
    reach: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many steps back running maps look; default 50, for auto by the runs.",
        ),
    ] = None,
    solver: Annotated[
        Solver | None, typer.Option(help="For mlat; default filter, admm is the paper's.")
    ] = None,
    targets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For mlat and lmnn: windows of its state that each is pulled towards; default 3 "
            "to 10, by how many there are.",
        ),
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="run|STEPS",
            help="For mlat and lmnn: targets from another run of the state (default), or at least "
            "so many steps away.",
        ),
    ] = None,
    shrinkage: Annotated[
        float | None,
        typer.Option(
            min=0, help="For mlat and lmnn: pull towards the Euclidean distance; default 0."
        ),
    ] = None,
    neighbors: Annotated[
        int | None, typer.Option(min=1, help="Neighbours that vote; default 1, or what auto finds.")
    ] = None,
    step: Annotated[int, typer.Option(min=1, help="Keep every so many-th window.")] = 1,
    unknown_rate: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Tell no state where a window is farther from all references "
            "than this share of windows like them would be.",
        ),
    ] = 0.0,
) -> None:
    """Learn from a labelled stream to tell its states apart, and write a model."""
    asked = Asked(
        metric=metric,
        solver=solver,
        targets=targets,
        gap=gap,
        shrinkage=shrinkage,
        lift=lift,
        whiten=whiten,
        reach=reach,
        budget=budget,
        unknown_rate=unknown_rate,
    )
    classifier = asked.classifier(width=width, n_neighbors=neighbors, step=step)
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
    with working("learning", budget=classifier.budget):
        classifier.fit(labelled)
    seconds = clock.perf_counter() - begin
    if classifier.selection_ is not None:
        seconds -= classifier.selection_.seconds
    classifier.save(out)
    screen = console()
    _print_stream(screen, labelled, classifier)
    print_selection(screen, classifier)
    if not is_plain(classifier):
        print_features(screen, classifier)
    _print_metric(screen, classifier, seconds)
    screen.print(f"Model: {out} ({size_of(out.stat().st_size)})", soft_wrap=True)


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
    left_out = _left_out(stream, classifier.width_)
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


def _print_metric(screen: Console, classifier: StreamClassifier, seconds: float) -> None:
    metric = classifier.metric_
    if metric is None:
        whitened = classifier.features_.mixing is not None
        learned = "of whitened features" if whitened else "nothing is learned"
        screen.print(f"Euclidean distance: {learned}.")
        return
    name = "MLAT" if isinstance(metric, MLAT) else "LMNN"
    how = f", solver {metric.solver}" if isinstance(metric, MLAT) else ""
    fall = f"loss {metric.initial_loss_:.4g} → {metric.loss_:.4g}, "
    screen.print(
        f"{name}{how}: {fall}{metric.n_iter_} iterations in {seconds:.1f} s; {metric.message_}.",
        soft_wrap=True,
    )
