"""``mlat demo``: the method on a synthetic stream whose states differ only in temporal order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ..base.errors import MissingPackageError
from ..classifier.classifier import StreamClassifier
from ..explain import learned
from ..explain.confusions import Confusions, count_confusions
from ..metric.estimators import LMNN, MLAT
from ..stream.stream import Stream
from ..synthetic import rotating_states
from .output import make_folder
from .screen import console, table_of, working

WIDTH = 16
# Rotations under a drift nearly as large: what tells the states apart is small in each step.
# Chosen to show the effect; docs/command-line/index.md says how, and what other seeds and more
# runs give.
SENSORS: dict[str, Any] = {"n_channels": 8, "drift": 0.7, "noise": 0.3}
TRAIN: dict[str, Any] = {"run_length": 55, "runs_per_state": 2}
TEST: dict[str, Any] = {"run_length": 100, "runs_per_state": 5}
SHOWN = 800  # steps of the test recording in the pictures: two runs of each state
# The recordings were chosen with these, so they stay whatever the defaults are.
N_TARGETS = 3


@dataclass(frozen=True)
class System:
    """A way to measure distance, its name on the screen and, shorter, in pictures."""

    name: str
    short: str
    width: int
    metric: Any


SYSTEMS = (
    System("single step, Euclidean", "one step", 1, "euclidean"),
    System(f"{WIDTH} steps, Euclidean", "Euclidean", WIDTH, "euclidean"),
    System(f"{WIDTH} steps, LMNN", "LMNN", WIDTH, LMNN(n_targets=N_TARGETS)),
    System(
        f"{WIDTH} steps, MLAT by ADMM",
        "MLAT, ADMM",
        WIDTH,
        MLAT(solver="admm", n_targets=N_TARGETS),
    ),
    System(
        f"{WIDTH} steps, MLAT by filters", "MLAT", WIDTH, MLAT(n_targets=N_TARGETS, n_taps=WIDTH)
    ),
)
# The default of StreamClassifier; not a single distance, so not in the pictures.
AUTO = System(f"{WIDTH} steps, committee (the default)", "committee", WIDTH, "auto")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A system after learning, and how it did on the other recording."""

    classifier: StreamClassifier
    seconds: float
    predicted: NDArray[Any]
    found: Confusions


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write the pictures.")
    ] = Path("demo"),
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Another seed, another recording.")
    ] = 0,
) -> None:
    """Learn and classify a synthetic stream, and write pictures that explain what was learned."""
    screen = console()
    folder = make_folder(out)
    train = rotating_states(**SENSORS, **TRAIN, random_state=2 * seed)
    test = rotating_states(**SENSORS, **TEST, random_state=2 * seed + 1)
    screen.print(
        f"A synthetic stream of {train.n_channels} sensors in {len(train.classes)} states: "
        f"{', '.join(train.classes)}. In every state a single step looks the same; only the order "
        f"in time differs. Learned from {len(train)} labelled steps, tested on {len(test)} others."
    )
    with working("demo"):
        outcomes = dict(_learn(train, test))
    screen.print(_table(outcomes))
    screen.print(_in_words(outcomes, len(train.classes)))
    try:
        with working("drawing"):
            files = _draw(folder, test, outcomes)
        screen.print(f"Pictures: {files[0]} explains it all; {', '.join(map(str, files[1:]))}.")
    except MissingPackageError as error:  # which nothing else needs
        screen.say(f"No pictures: {error}.")


def _learn(train: Stream, test: Stream) -> Iterator[tuple[str, Outcome]]:
    # So small a problem gains nothing from several threads, and on a busy machine they wait for
    # each other.
    with threadpool_limits(1):
        for system in (*SYSTEMS, AUTO):
            classifier = StreamClassifier(system.width, metric=system.metric)
            if not isinstance(system.metric, str):  # compile, so that it does not count as learning
                clone(classifier).set_params(metric__max_iter=1).fit(train)
            begin = time.perf_counter()
            classifier.fit(train)
            seconds = time.perf_counter() - begin
            predicted = classifier.predict(test)
            found = count_confusions(test, predicted, complete=classifier.ends_window(test))
            yield system.short, Outcome(classifier, seconds, predicted, found)


def _table(outcomes: dict[str, Outcome]) -> Table:
    one_step = outcomes[SYSTEMS[0].short].found
    states = [str(state) for state in one_step.states]
    table = table_of("distance", "accuracy", "balanced", *states, "learned in")
    for system in (*SYSTEMS, AUTO):
        outcome = outcomes[system.short]
        found = outcome.found
        learning = system.metric != "euclidean"
        table.add_row(
            system.name,
            f"{found.accuracy:.1%}",
            f"{found.balanced_accuracy:.1%}",
            *(f"{recall:.0%}" for recall in found.recall),
            f"{outcome.seconds:.2f} s" if learning else "",
            style="bold" if system is SYSTEMS[-1] else None,
        )
    _, frequent = one_step.most_frequent
    table.add_row("guessing", f"{frequent:.1%}", f"{one_step.guessing:.1%}")
    table.caption = "Balanced: the mean of the recall of each state, which stands beside it."
    table.caption_justify = "left"
    return table


def _in_words(outcomes: dict[str, Outcome], n_states: int) -> str:
    blocks = outcomes["MLAT"].classifier.metric_.blocks_
    beyond = 1 - learned.lag_fractions(blocks)[0]
    strongest = 1 + int(np.argmax(learned.lag_norms(blocks)[1:]))
    apart = "1 step" if strongest == 1 else f"{strongest} steps"
    committee = outcomes[AUTO.short].classifier.committee_
    return (
        f"One step on its own is right {outcomes['one step'].found.accuracy:.0%} of the time, and "
        f"guessing {1 / n_states:.0%}. MLAT learned to compare how a step relates to those before "
        f"it, the same at every place in the window: {beyond:.0%} of its metric is between "
        f"different moments, most of all {apart} apart. The committee weighs its experts by how "
        f"well each predicts runs that it did not learn from: {committee}."
    )


def _draw(folder: Path, test: Stream, outcomes: dict[str, Outcome]) -> list[Path]:
    from ..plots.figure import save_figure
    from ..plots.learned import plot_blocks, plot_history
    from ..plots.overview import plot_overview
    from ..plots.timeline import plot_stream

    shown = slice(0, SHOWN)
    accuracies = {system.short: outcomes[system.short].found.accuracy for system in SYSTEMS}
    predicted = {
        name: outcomes[name].predicted[shown] for name in ("one step", "Euclidean", "MLAT")
    }
    metric = outcomes["MLAT"].classifier.metric_
    figures = {
        "overview.png": plot_overview(test[shown], predicted, accuracies, metric),
        "stream.png": plot_stream(test[shown]),
        "blocks.png": plot_blocks(metric, channels=test.channels),
        "history.png": plot_history(outcomes["MLAT, ADMM"].classifier.metric_),
    }
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    return [folder / name for name in figures]
