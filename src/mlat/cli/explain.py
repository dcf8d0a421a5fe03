"""``mlat explain``: why a step got its state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load
from ..errors import InputError
from ..explain.explanation import Explanation, check_step, explain
from ..stream.stream import Stream
from .columns import Columns, Filtered, ModelFile, StreamFile, with_columns
from .output import check_can_write
from .screen import console, working

MAX_FEATURES = 8
MAX_LAGS = 8
FORMATS = (".png", ".svg", ".pdf")


@with_columns
def explain_step(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
    step: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The step, counted from 0 (from the end if negative); default the first mistake "
            "away from a switch if there is a --label, otherwise the last step.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="PNG",
            help="Where to draw it (.png, .svg or .pdf); default STREAM-step-N.png.",
        ),
    ] = None,
    picture: Annotated[bool, typer.Option(help="Draw a picture at all.")] = True,
    neighbors: Annotated[
        int, typer.Option(min=1, metavar="N", help="References to draw of each state.")
    ] = 3,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="The state to compare the predicted one with; default the true one of a "
            "mistake, otherwise the nearest other.",
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COL", help="Column of true states.")] = None,
    filtered: Filtered = False,
) -> None:
    """Show why a step got its state: the nearest windows, and what their distance consists of."""
    if out is not None:
        if out.suffix.lower() not in FORMATS:
            raise InputError(f"{out} is of no known kind; let it end in {', '.join(FORMATS)}")
        check_can_write(out, model, stream)
    classifier = load(model)
    with working(f"reading {stream.name}"):
        steps = columns.read_for_model(classifier, model, stream, label)
    screen = console()
    with working("predicting"):
        if step is None:
            step, why = _choose(classifier, steps, filtered)
            screen.print(why, soft_wrap=True)
        predicted = None
        if filtered:
            past = steps[: check_step(classifier, steps, step) + 1]
            predicted = classifier.predict(past, filtered=True)[-1]
        found = explain(
            classifier,
            steps,
            step,
            n_neighbors=neighbors,
            against=_state(against, classifier),
            predicted=predicted,
        )
    _print_facts(screen, found)
    if not picture:
        return
    from ..plots.explain import draw_explanation
    from ..plots.figure import save_figure

    file = out or Path(f"{stream.stem}-step-{found.step}.png")
    with working("drawing"):
        save_figure(draw_explanation(found, classifier, steps), file)
    screen.print(f"Picture: {file}", soft_wrap=True)


def _choose(classifier: StreamClassifier, stream: Stream, filtered: bool) -> tuple[int, str]:
    """The step to explain if none is named, and why this one."""
    segments = stream.segments
    full = segments.length >= classifier.width_
    if not full.any():
        check_step(classifier, stream, -1)  # says what is wrong
    last = int(segments.stop[full][-1]) - 1
    if not stream.labelled.any():
        return last, f"Step {last} is the last that ends a complete window."
    predicted = classifier.predict(stream, filtered=filtered)
    wrong = np.flatnonzero(
        stream.labelled & (predicted != classifier.unknown_) & (predicted != stream.states)
    )
    if not len(wrong):
        return last, f"There is no mistake; step {last} is the last that ends a complete window."
    steady = wrong[_since_switch(stream)[wrong] >= classifier.width_ - 1]
    if len(steady):
        return int(steady[0]), f"Step {steady[0]} is the first mistake away from a switch."
    return int(wrong[0]), f"Step {wrong[0]} is the first mistake; all are near a switch."


def _since_switch(stream: Stream) -> NDArray[np.int64]:
    """For each step how many before it, without a break, are in the same state."""
    here = np.arange(len(stream))
    begins = np.append(True, np.diff(stream.codes) != 0)[: len(stream)]
    return here - np.maximum.accumulate(np.where(begins, here, 0))


def _state(given: str | None, classifier: StreamClassifier) -> Any:
    if given is None:
        return None
    for state in classifier.classes_.tolist():
        if str(state) == given:
            return state
    names = ", ".join(str(state) for state in classifier.classes_)
    raise InputError(f"--against {given} is no state of the model; these are {names}")


def _print_facts(screen: Console, found: Explanation) -> None:
    own, other = found.own, found.other
    screen.print(f"{found.headline}. Window: steps {found.start} to {found.step}.", soft_wrap=True)
    for switch in found.switches:
        screen.print(f"The true state changes within the window, at step {switch}.")
    for towards in (own, other):
        distances = ", ".join(f"{distance:.4g}" for distance in towards.distances)
        screen.print(f"Nearest {towards.state}: at distance {distances}.", soft_wrap=True)
    if found.predicted is None:
        screen.print("No state: the window is farther from every reference than the model allows.")
    elif other.distances[0] < own.distances[0]:
        screen.print(
            f"One of {other.state} is nearer: more than the nearest window decided.",
            soft_wrap=True,
        )
    screen.print(_table(found, "feature", list(found.features), MAX_FEATURES))
    lags = [str(lag) for lag in range(found.width)]
    screen.print(_table(found, "lag", lags, MAX_LAGS))


def _table(found: Explanation, what: str, names: list[str], most: int) -> Table:
    """The parts towards both states: of the features or lags that differ most."""
    sides = [getattr(towards.parts, f"by_{what}") for towards in (found.own, found.other)]
    order = np.argsort(-np.abs(sides[1] - sides[0]), kind="stable")
    shown = np.sort(order[:most]) if what == "lag" else order[:most]
    largest = max(abs(side).max() for side in sides) or 1.0
    digits = max(0, 2 - int(np.floor(np.log10(largest))))
    table = Table(what, title=f"Squared distance by {what}", title_justify="left")
    for text in (f"to {found.own.state}", f"to {found.other.state}", "difference"):
        table.add_column(text, justify="right", no_wrap=True)

    def add(name: str, own: float, other: float, style: str | None = None) -> None:
        parts = (f"{own:.{digits}f}", f"{other:.{digits}f}", f"{other - own:+.{digits}f}")
        table.add_row(name, *parts, style=style)

    for i in shown:
        add(names[i], sides[0][i], sides[1][i])
    rest = order[most:]
    if len(rest):
        add(f"{len(rest)} others", sides[0][rest].sum(), sides[1][rest].sum())
    add("all", sides[0].sum(), sides[1].sum(), "bold")
    return table
