"""``mlat fit``: learn a committee or a metric, and write it with its references as a model file."""

from __future__ import annotations

import time as clock
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..base.checks import joined_by_or
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.held_out import told_by_one_value
from ..explain import Expert, experts_of
from ..explain.confusions import HELD_OUT_LEVEL, Confusions, held_out_confusions
from ..features.lifts import MAPS, RUNNING, Lift
from ..metric.estimators import LMNN, MLAT
from ..metric.forest import Forest
from ..stream.read import read_stream
from ..stream.stream import Stream
from ..stream.windows import MOST_WIDTH, fitting_width, width_of_a_second
from .check import hints_on_time
from .columns import (
    COLUMNS,
    Columns,
    LabelTable,
    StreamFiles,
    check_labelled,
    labelled_by,
    title_of,
)
from .options import Label, Options, Seconds, flag_of, with_options
from .output import MODEL, check_can_write
from .screen import (
    AsJson,
    Screen,
    console,
    is_plain,
    model_of,
    percent,
    print_committee,
    print_expected,
    print_features,
    print_json,
    print_thinned,
    score_of,
    size_of,
    stream_of,
    table_of,
    warn_if_guessing,
    working,
)

# Steps before each labelled run that are kept: features look back at them, and runs stay as far
# apart as matters.
PAST = 1000
GIVES_AWAY = 0.99  # of the steps of each state, that one value of one channel tells
LEARNED = ("mlat", "lmnn")
NAMED = (*LEARNED, "euclidean")
GOES_WITH: dict[str, tuple[str, ...]] = {
    "solver": ("mlat",),
    **dict.fromkeys(("n_targets", "target_gap", "shrinkage"), LEARNED),
    **dict.fromkeys(("lift", "whiten", "n_neighbors"), NAMED),
}
ONLY = {name: f"Only with --metric {joined_by_or(metrics)}." for name, metrics in GOES_WITH.items()}
CLASSIFIER = Options(
    StreamClassifier,
    "width metric lift whiten n_neighbors reach stride max_references unknown_rate device",
    metavars={
        **dict.fromkeys(("width", "reach"), "N|TIME"),
        "lift": "A,B,C",
        "max_references": "N|SHARE",
        "device": "NAME",
    },
    several=("lift",),
    timed=("width", "reach"),
    words={
        "width": "Steps per window; default those of a second where a time or --rate says it, at "
        "most a sixth of the usual run, from 10 to 100, else 10.",
        "lift": f"Features to compute from the channels first, of {', '.join(MAPS)}; default none.",
        "reach": "How many steps back features look; default 50 with --lift, and with --metric "
        "auto 100 or two widths, but at most a fifth of a run.",
    },
    notes=ONLY,
)
GROUP = Options(read_stream, "group", metavars={"group": "COL|file"})
METRIC = Options(
    MLAT, "solver n_targets target_gap shrinkage", metavars={"target_gap": "run|N"}, notes=ONLY
)


@with_options(columns=COLUMNS, given=CLASSIFIER, of_metric=METRIC, of_group=GROUP)
def fit(
    stream: StreamFiles,
    columns: Columns,
    given: dict[str, Any],
    of_metric: dict[str, Any],
    of_group: dict[str, Any],
    out: Path,
    label: Label = None,
    labels: LabelTable = None,
    as_json: AsJson = False,
) -> None:
    """Learn to classify the states of a labelled stream, and write a model.

    Parameters
    ----------
    out : MODEL
        Where to write the model.
    """
    timed = {name: value for name, value in given.items() if isinstance(value, Seconds)}
    classifier = classifier_of(given | dict.fromkeys(timed, 10), of_metric)
    check_labelled(label, labels)
    check_can_write(out, *stream, labels, mark=MODEL)
    # Of steps without a state only the last before a run are needed; spans name any of them, and
    # all tell how the channels of a group are.
    past = PAST + 10 * (given.get("width") or MOST_WIDTH) + 4 * (given.get("reach") or 0)
    whole = labels is not None or bool(timed) or bool(of_group)
    with working(f"reading {title_of(stream)}"):
        read = columns.read(stream, label, past=None if whole else int(past), **of_group)
        labelled = labelled_by(read, stream, labels)
    in_steps = {n: value.steps(labelled.usual_step, flag_of(n)) for n, value in timed.items()}
    if "width" not in given:
        in_steps["width"] = fitting_width(width_of_a_second(labelled.usual_step), labelled)
    classifier = classifier_of(given | in_steps, of_metric)
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
    print_expected(screen, classifier)
    # The ends of a run say nothing of another one.
    _print_stream(screen, labelled, classifier, found if classifier.committee_.expected else None)
    print_committee(screen, classifier)
    if not is_plain(classifier):
        print_features(screen, classifier)
    for expert in experts_of(classifier):
        _print_metric(screen, expert, len(classifier.experts_) > 1)
        if 1 < expert.width < classifier.width:
            screen.say(
                f"{expert.name}: windows of {expert.width} steps, for those of {classifier.width} "
                "have more values than it can learn from."
            )
    print_thinned(screen, classifier)
    screen.print(f"Learned in {seconds:.1f} s.")
    if found is not None:
        warn_if_guessing(found, HELD_OUT_LEVEL)
    screen.say(f"Model: {out} ({size_of(out.stat().st_size)})")


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


def classifier_of(given: dict[str, Any], of_metric: dict[str, Any]) -> StreamClassifier:
    """The classifier of what was given for it and for its metric, not fitted yet."""
    given = dict(given)
    metric, maps = given.get("metric", "auto"), given.get("lift")
    for name in (*given, *of_metric):
        metrics = GOES_WITH.get(name, (metric,))
        if metric not in metrics:
            raise InputError(
                f"{flag_of(name)} goes with --metric {joined_by_or(metrics)}, not with {metric}; "
                f"add that, or leave {flag_of(name)} out"
            )
    if metric == "auto":
        return StreamClassifier(**given)
    if "reach" in given and not set(maps or ()) & set(RUNNING):
        raise InputError(
            "--reach goes with --metric auto, or with a --lift that looks back "
            f"({', '.join(RUNNING)}); leave it out"
        )
    if maps:
        for name in maps:
            if name not in MAPS:
                raise InputError(f"--lift knows no map {name!r}; there are {', '.join(MAPS)}")
        reach = given.pop("reach", None)
        given["lift"] = Lift(maps) if reach is None else Lift(maps, reach)
    if metric in LEARNED:
        given["metric"] = {"mlat": MLAT, "lmnn": LMNN}[metric](**of_metric)
    return StreamClassifier(**given)


def _print_stream(
    screen: Screen, stream: Stream, classifier: StreamClassifier, found: Confusions | None
) -> None:
    n_steps = len(stream) + stream.n_left_out
    screen.say(f"{n_steps} steps of {stream.n_channels} channels: {', '.join(stream.channels)}")
    table = table_of("state", "runs", "steps", "windows", "recall, held out")
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
        screen.say(f"Left out: {', '.join(left_out)}.")
    for hint in [] if stream.n_left_out else hints_on_time(stream):
        screen.say(hint)


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


def _print_metric(screen: Screen, expert: Expert, named: bool) -> None:
    metric, whose = expert.references.metric, f"{expert.name}: " if named else ""
    if metric is None:
        learned = "nothing is learned" if expert.mixing is None else "of whitened features"
        screen.say(f"{whose}Euclidean distance: {learned}.")
        return
    if isinstance(metric, Forest):
        screen.say(f"{whose}{len(metric.roots_)} trees.")
        return
    name = "MLAT" if isinstance(metric, MLAT) else "LMNN"
    how = f", solver {metric.solver}" if isinstance(metric, MLAT) else ""
    fall = f"loss {metric.initial_loss_:.4g} → {metric.loss_:.4g}, "
    screen.say(f"{whose}{name}{how}: {fall}{metric.n_iter_} iterations; {metric.message_}.")
    if metric.n_windows_used_ is not None:
        screen.say(
            f"{whose}learned from {metric.n_windows_used_} windows that stand for all; the loss is "
            f"at most {metric.loss_bound_:.1%} above that of learning from all."
        )
