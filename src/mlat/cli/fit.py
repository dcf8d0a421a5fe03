"""``mlat fit``: learn a committee or a metric, and write it with its references as a model file."""

from __future__ import annotations

import time as clock
import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.held_out import told_by_one_value
from ..explain import Expert, experts_of
from ..explain.confusions import HELD_OUT_LEVEL, Confusions, held_out_confusions
from ..features.lifts import MAPS, RUNNING, Lift
from ..metric.estimators import LMNN, MLAT
from ..stream.stream import Stream
from .as_json import AsJson, model_of, print_json, score_of, stream_of
from .columns import (
    Columns,
    Device,
    Label,
    LabelTable,
    StreamFiles,
    check_labelled,
    labelled_by,
    split_names,
    title_of,
    with_columns,
)
from .output import MODEL, check_can_write
from .screen import (
    console,
    is_plain,
    percent,
    print_accuracy,
    print_committee,
    print_features,
    print_thinned,
    size_of,
    warn_if_guessing,
    working,
)


class Metric(StrEnum):
    auto = "auto"
    mlat = "mlat"
    lmnn = "lmnn"
    euclidean = "euclidean"


class Solver(StrEnum):
    filter = "filter"
    admm = "admm"


# Steps before each labelled run that are kept: features look back at them, and runs stay as far
# apart as matters.
PAST = 1000
GIVES_AWAY = 0.99  # of the steps of each state, that one value of one channel tells
LEARNED = (Metric.mlat, Metric.lmnn)
NAMED = (*LEARNED, Metric.euclidean)
GOES_WITH: dict[str, tuple[Metric, ...]] = {
    "--solver": (Metric.mlat,),
    "--targets": LEARNED,
    "--gap": LEARNED,
    "--shrinkage": LEARNED,
    "--lift": NAMED,
    "--whiten": NAMED,
    "--neighbors": NAMED,
}


@with_columns
def fit(
    stream: StreamFiles,
    columns: Columns,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="MODEL", help="Where to write the model.", show_default=False
        ),
    ],
    label: Label = None,
    labels: LabelTable = None,
    width: Annotated[
        int, typer.Option(min=1, help="Steps per window; for auto those of its widest expert.")
    ] = 10,
    metric: Annotated[
        Metric,
        typer.Option(
            help="How to measure distance; auto is a committee of experts, each with features and "
            "a metric of its own."
        ),
    ] = Metric.auto,
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
            help="How many steps back running maps look; default 50, for auto at most a fifth of "
            "a run.",
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
        int | None,
        typer.Option(min=1, help="Not for auto: neighbours that vote; default 1."),
    ] = None,
    stride: Annotated[int, typer.Option(min=1, help="Keep every so many-th window.")] = 1,
    max_references: Annotated[
        float | None,
        typer.Option(
            metavar="N|SHARE",
            help="Keep at most so many references; or as few as leave this share of decisions the "
            "same, such as 0.99.",
        ),
    ] = None,
    unknown_rate: Annotated[
        float,
        typer.Option(
            metavar="FRACTION",
            help="Predict the unknown state where a window is farther from all references than "
            "all but this fraction of similar windows.",
        ),
    ] = 0.0,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Learn to classify the states of a labelled stream, and write a model."""
    options = FitOptions(
        metric=metric,
        solver=solver,
        targets=targets,
        gap=gap,
        shrinkage=shrinkage,
        lift=lift,
        whiten=whiten,
        reach=reach,
        neighbors=neighbors,
        unknown_rate=unknown_rate,
    )
    if max_references is not None and max_references.is_integer():
        max_references = int(max_references)
    classifier = options.classifier(
        width=width, stride=stride, max_references=max_references, device=device
    )
    check_labelled(label, labels)
    check_can_write(out, *stream, labels, mark=MODEL)
    # Of steps without a state only the last before a run are needed; spans name any of them.
    past = PAST + 10 * width + 4 * (reach or 0) if labels is None else None
    with working(f"reading {title_of(stream)}"):
        labelled = labelled_by(columns.read(stream, label, past=past), stream, labels)
    if not labelled.labelled.any():
        raise InputError(
            f"{labels} labels no span; label some of the steps"
            if labels is not None
            else f"{title_of(stream)}: column {label!r} names no state; write one for some of the "
            "steps"
        )
    begin = clock.perf_counter()
    with working("learning"):
        classifier.fit(labelled)
    seconds = clock.perf_counter() - begin
    classifier.save(out)
    found = held_out_confusions(classifier)
    _warn_of_giveaways(labelled, classifier.width_)
    if as_json:
        told = {"stream": stream_of(labelled), **model_of(classifier, out), "seconds": seconds}
        if found is not None:
            warn_if_guessing(found, HELD_OUT_LEVEL)
        held_out = None if found is None else score_of(found, HELD_OUT_LEVEL)
        print_json({**told, "held_out": held_out})
        return
    screen = console()
    _print_stream(screen, labelled, classifier, found)
    print_committee(screen, classifier)
    if not is_plain(classifier):
        print_features(screen, classifier)
    for expert in experts_of(classifier):
        _print_metric(screen, expert, len(classifier.experts_) > 1)
    print_thinned(screen, classifier)
    screen.print(f"Learned in {seconds:.1f} s.")
    if found is None:
        screen.print(
            "Not judged: fewer than two states have windows far enough apart to learn from some "
            "and judge by others. Use mlat evaluate on another recording.",
            soft_wrap=True,
        )
    else:
        screen.print("Held out, runs of the stream predicted from others:")
        print_accuracy(screen, found, HELD_OUT_LEVEL)
    screen.print(f"Model: {out} ({size_of(out.stat().st_size)})", soft_wrap=True)


def _warn_of_giveaways(stream: Stream, width: int) -> None:
    """Warn of a channel by which alone all states are known, where others need more."""
    told = told_by_one_value(stream, width)
    gives_away = told > GIVES_AWAY
    for channel in np.flatnonzero(gives_away if 2 * gives_away.sum() <= len(told) else []):
        warnings.warn(
            f"channel {stream.channels[channel]!r} alone tells the states, {told[channel]:.1%} of "
            "held-out steps by a single value of it; if it is no sensor but a trigger, a set point "
            "or a label, name the others (--channels)",
            UserWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class FitOptions:
    """The options about the metric; None or False for those that were not given."""

    metric: Metric
    solver: Solver | None = None
    targets: int | None = None
    gap: str | None = None
    shrinkage: float | None = None
    lift: list[str] | None = None
    whiten: bool = False
    reach: int | None = None
    neighbors: int | None = None
    unknown_rate: float = 0.0

    def classifier(self, **shared: Any) -> StreamClassifier:
        """The classifier of these options, not fitted yet."""
        self._check_together()
        if not 0 <= self.unknown_rate < 1:
            raise InputError(
                f"--unknown-rate must be from 0 to less than 1, not {self.unknown_rate:g}"
            )
        shared["unknown_rate"] = self.unknown_rate
        if self.metric is Metric.auto:
            return StreamClassifier(metric="auto", reach=self.reach, **shared)
        return StreamClassifier(
            metric=self._estimator(),
            lift=self._lift(),
            whiten=self.whiten,
            n_neighbors=self.neighbors,
            **shared,
        )

    def _check_together(self) -> None:
        """Refuse an option that would have no effect."""
        for option, metrics in GOES_WITH.items():
            value = getattr(self, option.removeprefix("--"))
            if value is not None and value is not False and self.metric not in metrics:
                raise InputError(
                    f"{option} goes with --metric {_either(metrics)}, not with {self.metric}; "
                    f"add that, or leave {option} out"
                )
        if self.reach is not None and self.metric is not Metric.auto:
            running = set(split_names(self.lift, "--lift") or ()) & set(RUNNING)
            if not running:
                raise InputError(
                    f"--reach goes with --metric auto, or with a --lift that looks back "
                    f"({', '.join(RUNNING)}); leave it out"
                )

    def _estimator(self) -> Any:
        if self.metric is Metric.euclidean:
            return "euclidean"
        given: dict[str, Any] = {
            "n_targets": self.targets,
            "target_gap": None if self.gap is None else parse_gap(self.gap),
            "shrinkage": self.shrinkage,
            "solver": None if self.solver is None else self.solver.value,
        }
        make = LMNN if self.metric is Metric.lmnn else MLAT
        return make(**{name: value for name, value in given.items() if value is not None})

    def _lift(self) -> Lift | None:
        names = split_names(self.lift, "--lift")
        if names is None:
            return None
        for name in names:
            if name not in MAPS:
                raise InputError(f"--lift knows no map {name!r}; there are {', '.join(MAPS)}")
        return Lift(names) if self.reach is None else Lift(names, self.reach)


def parse_gap(gap: str) -> Any:
    """ "run", or a number of steps."""
    if gap == "run":
        return gap
    if not (gap.isascii() and gap.isdigit()):
        raise InputError(f'--gap must be "run" or a whole number of steps, not {gap!r}')
    return int(gap)


def _either(metrics: tuple[Metric, ...]) -> str:
    *others, last = metrics
    return f"{', '.join(others)} or {last}" if others else str(last)


def _print_stream(
    screen: Console, stream: Stream, classifier: StreamClassifier, found: Confusions | None
) -> None:
    n_steps = len(stream) + stream.n_left_out
    screen.print(
        f"{n_steps} steps of {stream.n_channels} channels: {', '.join(stream.channels)}",
        soft_wrap=True,
    )
    table = Table("state")
    for name in ("runs", "steps", "windows", "recall, held out"):
        table.add_column(name, justify="right", no_wrap=True)
    recall = {} if found is None else dict(zip(found.states, found.recall, strict=True))
    for code, state in enumerate(stream.classes):
        mine = stream.runs.code == code
        steps = int((stream.codes == code).sum())
        windows = int((classifier.windows_.y == state).sum())
        table.add_row(
            str(state),
            str(int(mine.sum())),
            str(steps),
            str(windows),
            percent(recall.get(state, np.nan)),
        )
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
        "without a state": int((~stream.labelled).sum()) + stream.n_left_out,
        "with a missing value": missing,
        f"in runs of fewer than {width} steps": short,
    }
    return [f"{n} step{'s' if n > 1 else ''} {reason}" for reason, n in why.items() if n]


def _print_metric(screen: Console, expert: Expert, named: bool) -> None:
    metric, whose = expert.references.metric, f"{expert.name}: " if named else ""
    if metric is None:
        learned = "nothing is learned" if expert.mixing is None else "of whitened features"
        screen.print(f"{whose}Euclidean distance: {learned}.", soft_wrap=True)
        return
    name = "MLAT" if isinstance(metric, MLAT) else "LMNN"
    how = f", solver {metric.solver}" if isinstance(metric, MLAT) else ""
    fall = f"loss {metric.initial_loss_:.4g} → {metric.loss_:.4g}, "
    screen.print(
        f"{whose}{name}{how}: {fall}{metric.n_iter_} iterations; {metric.message_}.",
        soft_wrap=True,
    )
    if metric.n_windows_used_ is not None:
        screen.print(
            f"{whose}learned from {metric.n_windows_used_} windows that stand for all; the loss is "
            f"at most {metric.loss_bound_:.1%} above that of learning from all.",
            soft_wrap=True,
        )
