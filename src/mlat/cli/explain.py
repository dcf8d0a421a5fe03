"""``mlat explain``: why a step got its state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load
from ..explain import Explanation, Opinion, experts_of
from ..explain.explanation import check_step, explain
from ..stream.conversion import changes
from ..stream.stream import Stream
from .columns import Columns, StreamFile, title_of, with_columns
from .options import Filtered, ModelFile, TrueStates
from .output import check_can_write
from .screen import Screen, console, table_of, working

MAX_FEATURES = 8
FEW_FEATURES = 4  # of each of several experts
MAX_LAGS = 8
FORMATS = (".png", ".svg", ".pdf")


@with_columns
def explain_step(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
    step: int | None = None,
    out: Path | None = None,
    picture: bool = True,
    n_neighbors: Annotated[
        int, typer.Option(min=1, metavar="N", help="References to draw of each state.")
    ] = 3,
    against: str | None = None,
    expert: str | None = None,
    label: TrueStates = None,
    filtered: Filtered = False,
) -> None:
    """Show why a step got its state: what each expert says, and what distances consist of.

    Parameters
    ----------
    step : N
        The step, counted from 0 (from the end if negative); default the first mistake away from a
        switch if there is a --label, otherwise the last step.
    out : PNG
        Where to draw it (.png, .svg or .pdf); default STREAM-step-N.png.
    picture
        Draw a picture at all.
    against : STATE
        The state to compare the predicted one with; default the true one of a mistake, otherwise
        the nearest other.
    expert : NAME
        Of a committee: the expert to show alone, with its nearest windows.
    """
    if out is not None:
        if out.suffix.lower() not in FORMATS:
            raise InputError(f"{out} is of no known kind; let it end in {', '.join(FORMATS)}")
        check_can_write(out, model, stream)
    classifier = load(model)
    alone = _expert(expert, classifier)
    with working(f"reading {title_of(stream)}"):
        steps = columns.read_for_model(classifier, model, stream, label)
    screen = console()
    with working("predicting"):
        if step is None:
            step, why = _choose(classifier, steps, filtered)
            screen.say(why)
        predicted = None
        if filtered:
            past = steps[: check_step(classifier, steps, step) + 1]
            predicted = classifier.predict(past, filtered=True)[-1]
        found = explain(
            classifier,
            steps,
            step,
            n_neighbors=n_neighbors,
            against=_state(against, classifier),
            predicted=predicted,
        )
    _print_facts(screen, found, alone)
    if not picture:
        return
    from ..plots.explain import draw_explanation
    from ..plots.figure import save_figure

    file = out or Path(f"{stream.stem}-step-{found.step}.png")
    check_can_write(file, model, stream)
    with working("drawing"):
        save_figure(draw_explanation(found, classifier, steps, expert=alone), file)
    screen.say(f"Picture: {file}")


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
    return here - np.maximum.accumulate(np.where(changes(stream.codes, len(stream)), here, 0))


def _state(given: str | None, classifier: StreamClassifier) -> Any:
    if given is None:
        return None
    for state in classifier.classes_.tolist():
        if str(state) == given:
            return state
    names = ", ".join(str(state) for state in classifier.classes_)
    raise InputError(f"--against {given} is no state of the model; these are {names}")


def _expert(given: str | None, classifier: StreamClassifier) -> str | None:
    if given is None:
        return None
    names = [expert.name for expert in experts_of(classifier) if expert.name]
    if not names:
        raise InputError("the model has a single expert; leave --expert out")
    for name in names:
        if name.casefold() == given.casefold():
            return name
    raise InputError(f"--expert {given} is not in the committee; these are {', '.join(names)}")


def _print_facts(screen: Screen, found: Explanation, alone: str | None) -> None:
    screen.say(f"{found.headline}. Window: steps {found.start} to {found.step}.")
    for switch in found.switches:
        screen.print(f"The true state changes within the window, at step {switch}.")
    several = len(found.opinions) > 1
    if several:
        screen.print(_opinions(found))
        screen.say(found.in_words)
    if found.predicted is None:
        screen.print("No state: the window is farther from every reference than the model allows.")
    elif found.log_odds < 0:
        screen.say(f"One of {found.other.state} is nearer: more than the nearest window decided.")
    for one in found.opinions:
        if several and one.name != (alone or one.name):
            continue
        if several:
            screen.rule(f"{one.name}, weight {one.weight:.0%}", align="left")
        for towards in (one.own, one.other):
            distances = ", ".join(f"{distance:.4g}" for distance in towards.distances)
            screen.say(f"Nearest {towards.state}: at distance {distances}.")
        most = MAX_FEATURES if alone or not several else FEW_FEATURES
        screen.print(_table(one, "feature", list(one.features), most))
        if alone or not several:
            lags = [str(lag) for lag in range(one.width)]
            screen.print(_table(one, "lag", lags, MAX_LAGS))


def _opinions(found: Explanation) -> Table:
    """Who says what, with which weight, and what that adds up to."""
    table = Table("expert", title="What the experts say", title_justify="left")
    own, other = found.own.state, found.other.state
    table.add_column("weight", justify="right")
    table.add_column("says")
    for text in (f"distance to {own}", f"to {other}", f"log-odds of {own}"):
        table.add_column(text, justify="right")
    for one in found.opinions:
        distances = [f"{towards.distances[0]:.4g}" for towards in (one.own, one.other)]
        says = str(one.state) if one.agrees else f"{one.state} (disagrees)"
        table.add_row(one.name, f"{one.weight:.0%}", says, *distances, f"{one.log_odds:+.2f}")
    nearest = dict(zip(found.states.tolist(), found.nearest, strict=True))
    table.add_row(
        "all together",
        f"{found.agreement:.0%} agree",
        str(found.states[int(found.nearest.argmin())]),
        f"{nearest[own]:.4g}",
        f"{nearest[other]:.4g}",
        f"{found.log_odds:+.2f}",
        style="bold",
    )
    return table


def _table(found: Opinion, what: str, names: list[str], most: int) -> Table:
    """The parts towards both states: of the features or lags that differ most."""
    sides = [getattr(towards.parts, f"by_{what}") for towards in (found.own, found.other)]
    order = np.argsort(-np.abs(sides[1] - sides[0]), kind="stable")
    shown = np.sort(order[:most]) if what == "lag" else order[:most]
    largest = max(abs(side).max() for side in sides) or 1.0
    digits = max(0, 2 - int(np.floor(np.log10(largest))))
    columns = f"to {found.own.state}", f"to {found.other.state}", "difference"
    table = table_of(what, *columns, title=f"Squared distance by {what}")

    def add(name: str, own: float, other: float, style: str | None = None) -> None:
        parts = (f"{own:.{digits}f}", f"{other:.{digits}f}", f"{other - own:+.{digits}f}")
        table.add_row(name, *parts, style=style)

    for i in shown:
        add(names[i], sides[0][i], sides[1][i])
    rest = order[most:]
    if len(rest):
        add(f"{len(rest)} others", sides[0][rest].sum(), sides[1][rest].sum())
    add("all", sides[0].sum(), sides[1].sum(), "bold")
    table.caption = f"A negative difference speaks for {found.other.state}."
    if min(side[shown].min() for side in sides) < 0:
        table.caption += " A negative part makes a distance smaller: it takes back what others add."
    table.caption_justify = "left"
    return table
