"""What the commands print of a model and of its accuracy: as text, with progress bars, and as JSON.

JSON is for programs: one object on standard output. Its numbers are as they are, fractions from 0
to 1; what is not known is null.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..base.checks import Floats
from ..base.work import Report, listen
from ..classifier.classifier import StreamClassifier
from ..classifier.held_out import ADAPTED, GROUP, RECORDING, RUN
from ..explain import Expert, experts_of, learned
from ..explain.confusions import LEVEL, NOT_BETTER, TOO_FEW_RUNS, Confusions
from ..metric.embedding import unmix_blocks
from ..metric.forest import Forest
from ..stream.stream import Stream

PIPE_WIDTH = 160  # columns where no terminal says how many it has
MAX_CONFUSION = 12  # states whose confusions still make a readable table
MOST_RECORDINGS = 20  # rows of a table

AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]


class Screen(Console):
    """A console that knows sentences."""

    def say(self, text: str) -> None:
        """Print a text whose lines only the terminal breaks."""
        self.print(text, soft_wrap=True)


def console(*, stderr: bool = False) -> Screen:
    """A console that prints text as it is: names from files are not markup."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    return Screen(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        width=None if terminal else PIPE_WIDTH,
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr that ``what`` is running, with a bar once the work reports its steps.

    Work that cannot say how many steps there are gets a count.
    Nothing is shown where a bar cannot be drawn over: in a file, a pipe or a dumb terminal.
    """
    screen = console(stderr=True)
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=screen, transient=True) as bar:
        waiting = bar.add_task(what, total=None, count="", figures="")
        tasks: dict[str, TaskID] = {}

        def show(report: Report) -> None:
            bar.update(waiting, visible=False)
            total = report.total or None  # 0 means that nobody knows
            if report.task not in tasks:
                tasks[report.task] = bar.add_task(
                    f"{what}, {report.task}", total=total, count="", figures=""
                )
            bar.update(
                tasks[report.task],
                completed=report.step,
                total=total,
                count=f"{report.step} tried" if total is None else f"{report.step}/{total}",
                figures=_figures(report, time.monotonic() - began),
            )

        with listen(show):
            yield


def _figures(report: Report, elapsed: float) -> str:
    loss = report.figures.get("objective")
    if loss is not None:
        return f"loss {loss:.4g}"
    if report.task == "steps" and report.total:  # of a stream: each takes about as long
        return time_left(elapsed * (report.total - report.step) / report.step)
    return ""


def time_left(seconds: float) -> str:
    """How long something still takes, for people."""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def size_of(n_bytes: int) -> str:
    """A number of bytes for people."""
    for unit, bytes_per_unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= bytes_per_unit:
            return f"{n_bytes / bytes_per_unit:.1f} {unit}"
    return f"{n_bytes} bytes"


def table_of(first: str, *figures: str, title: str | None = None) -> Table:
    """A table of names and of figures for each."""
    table = Table(first, title=title, title_justify="left")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_committee(screen: Screen, classifier: StreamClassifier) -> None:
    """Who is in a committee of several, what each sees, its weight, how good it is, and why."""
    committee = classifier.committee_
    if len(committee.members) == 1:
        return
    table = Table("expert", "features", title="The committee", title_justify="left")
    whole = committee.expected is not None or np.isnan(committee.accuracy)
    for name in ("steps", "weight", f"alone, {'held out' if whole else 'within runs'}"):
        table.add_column(name, justify="right")
    seen = {expert.name: expert for expert in experts_of(classifier)}
    for member in committee.members:
        expert = seen.get(member.name)
        sees = ["", ""] if expert is None else [_seen(expert), str(expert.width)]
        weight = "left out" if expert is None else f"{member.weight:.0%}"
        table.add_row(member.name, *sees, weight, percent(member.accuracy))
    table.add_row("all together", "", "", "", percent(committee.accuracy), style="bold")
    table.caption = (
        "Held out: the mean recall of states in runs that were not learned from. What is expected "
        "(above) is of a model that has learned from all of them."
        if whole
        else "Within runs: the mean recall of states in parts that were held out, of runs whose "
        "other parts were learned from. It says nothing of another run."
    )
    table.caption_justify = "left"
    screen.print(table)
    why = committee.why or f"weights from {_count_of(committee.n_runs, 'held-out run')}"
    screen.say(f"{why[0].upper()}{why[1:]}.")


OF = {
    GROUP: "another group (person, machine, day)",
    RECORDING: "another recording",
    RUN: "this recording",
    ADAPTED: "the one that it is adapted to",
}


def print_expected(screen: Screen, classifier: StreamClassifier) -> None:
    """The accuracy to expect, of what, and how sure that is."""
    expected = classifier.committee_.expected
    if expected is None:
        screen.say(
            "Expected accuracy: unknown. Only whole runs or recordings that were left out can "
            "tell: label a second run of each state, far from the first, or use mlat evaluate on "
            "another recording."
        )
        return
    of, unknown = OF[expected.of], " Of another recording: unknown." if expected.of == RUN else ""
    screen.say(
        f"Expected of {of}: balanced accuracy {expected.accuracy:.0%}, nine times in ten from "
        f"{expected.low:.0%} to {expected.high:.0%}; guessing: {1 / len(classifier.classes_):.0%}."
        f"{unknown}"
    )
    if classifier.units_ is not None and not classifier.units_.adapted:
        screen.say(
            "Groups are compared in units of their own, for groups left out were predicted better "
            "so. For a new one: mlat enrol MODEL RECORDING -o NEW, which needs no labels."
        )


def _seen(expert: Expert) -> str:
    whitened = [] if expert.mixing is None else ["whitened"]
    maps = [name.replace("identity", "channels").replace("_", " ") for name in expert.maps]
    return ", ".join(maps + whitened)


def print_features(screen: Screen, classifier: StreamClassifier) -> None:
    """The features of a distance, and how far back a state looks."""
    features = classifier.features_
    whitened = "" if _mixing(classifier) is None else ", whitened within states"
    maps = ", ".join(features.lift.maps)
    screen.say(
        f"Features: {features.n_features} at each step ({maps}{whitened}). A state depends on "
        f"the last {classifier.width_ + features.lift.memory} steps."
    )


def print_thinned(screen: Screen, classifier: StreamClassifier) -> None:
    """How many references were kept, where it is not all of them."""
    thinned = classifier.thinned_
    if thinned is not None:
        screen.say(
            f"Kept {len(classifier.references_):,} of {thinned.n_all:,} references; "
            f"{thinned.agreement:.1%} of the decisions stay the same, on training windows that had "
            "no part in choosing them."
        )


def is_plain(classifier: StreamClassifier) -> bool:
    """Whether the features are the channels as they are."""
    features = classifier.features_
    return tuple(features.lift.maps) == ("identity",) and _mixing(classifier) is None


def _mixing(classifier: StreamClassifier) -> Floats | None:
    """The whitening of the only expert; the table of a committee has those of several."""
    return classifier.references_.view.mixing if len(classifier.experts_) == 1 else None


def print_score(screen: Screen, found: Confusions, known: NDArray[Any]) -> None:
    """Accuracies, what guessing gives, and tables by state; ``known`` are the model's states."""
    print_accuracy(screen, found)
    unseen = np.setdiff1d(found.states[found.n_steps > 0], known)
    if len(unseen):
        names = ", ".join(str(state) for state in unseen)
        screen.say(f"The model never saw {names}: these steps are all wrong.")
    if found.by_recording:
        screen.print(_recording_table(found))
    screen.print(_state_table(found))
    if len(found.states) <= MAX_CONFUSION:
        screen.print(_confusion_table(found))


def print_accuracy(screen: Screen, found: Confusions) -> None:
    """Accuracy and balanced accuracy, each beside what guessing gives; a warning if no better."""
    frequent, share = found.most_frequent
    unjudged = f"; {found.n_unjudged} more are not judged" if found.n_unjudged else ""
    screen.say(
        f"Balanced accuracy {found.balanced_accuracy:.1%}: the mean of the recall of each state; "
        f"{interval_of(found)} Guessing: {found.guessing:.1%}."
    )
    screen.say(
        f"Accuracy {found.accuracy:.1%}: {found.n_right} of {found.n_judged} labelled steps"
        f"{unjudged}. Always {frequent!s}: {share:.1%}."
    )
    warn_if_guessing(found)
    if found.verdict() == TOO_FEW_RUNS:
        runs = _count_of(found.n_runs, "run")
        states = _count_of(int((found.n_steps > 0).sum()), "state")
        screen.say(
            f"{runs} of {states} are too few to tell this from guessing; label more runs of each "
            "state."
        )


def interval_of(found: Confusions) -> str:
    """How sure a balanced accuracy is, in words."""
    if found.interval is None:
        return "how sure that is, one recording with one run of a state cannot tell."
    low, high = found.interval
    if found.by_recording:
        return f"of another recording nine times in ten from {low:.0%} to {high:.0%}."
    return (
        f"of other runs like these nine times in ten from {low:.0%} to {high:.0%}, of another "
        "recording unknown."
    )


def most_often(found: Confusions, row: int) -> str:
    """What a state is most often taken for, and how often."""
    wrong = found.counts[row].copy()
    wrong[row] = 0
    worst = int(np.argmax(wrong))
    share = wrong[worst] / max(found.n_steps[row], 1)
    return f"{found.states[worst]!s} ({share:.1%})" if wrong[worst] else ""


def warn_if_guessing(found: Confusions, level: float = LEVEL) -> None:
    """Warn if the predictions are no better than guessing."""
    if found.verdict(level) == NOT_BETTER:
        warnings.warn(
            f"no better than guessing, as far as {_count_of(found.n_runs, 'run')} can tell: "
            f"balanced accuracy {found.balanced_accuracy:.1%}, guessing {found.guessing:.1%}; "
            "check the labels and the channels, or label more runs of each state",
            UserWarning,
            stacklevel=2,
        )


def _count_of(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _recording_table(found: Confusions) -> Table:
    table = table_of(
        "recording", "steps", "balanced accuracy", title="By recording, the worst first"
    )
    own = sorted(found.by_recording.items(), key=lambda one: one[1].balanced_accuracy)
    for name, one in own[:MOST_RECORDINGS]:
        table.add_row(str(name), str(one.n_judged), percent(one.balanced_accuracy))
    if len(own) > MOST_RECORDINGS:
        table.caption = f"and {len(own) - MOST_RECORDINGS} better ones"
    return table


def _state_table(found: Confusions) -> Table:
    table = table_of("state", "steps", "recall", "precision", title="By state")
    table.add_column("most often taken for")
    for row, state in enumerate(found.states):
        table.add_row(
            str(state),
            str(int(found.n_steps[row])),
            percent(found.recall[row]),
            percent(found.precision[row]),
            most_often(found, row),
        )
    return table


def percent(fraction: float) -> str:
    """A fraction for people; nothing where there is none."""
    return "" if np.isnan(fraction) else f"{fraction:.1%}"


def _confusion_table(found: Confusions) -> Table:
    columns, counts = [str(state) for state in found.states], found.counts
    if found.unknown.any():
        columns.append("unknown")
        counts = np.column_stack([counts, found.unknown])
    table = table_of("", *columns, title="Confusions, in steps: true ↓, predicted →")
    for state, row in zip(found.states, counts, strict=True):
        table.add_row(str(state), *(str(count) if count else "·" for count in row))
    return table


# ------------------------------------------------------------------ as JSON


def print_json(content: Any) -> None:
    """Print an object of plain values and arrays; NaN and infinity are null."""
    typer.echo(json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, indent=1))


def score_of(found: Confusions, level: float = LEVEL) -> dict[str, Any]:
    """Accuracies, what guessing gives, and the figures of each state."""
    frequent, share = found.most_frequent
    rows = zip(found.states, found.n_steps, found.recall, found.precision, strict=True)
    return {
        "accuracy": found.accuracy,
        "most_frequent": {"state": frequent, "accuracy": share},
        "balanced_accuracy": found.balanced_accuracy,
        "interval": found.interval,
        "interval_of": RECORDING if found.by_recording else RUN,
        "recordings": [
            {"recording": name, "steps": one.n_judged, "balanced_accuracy": one.balanced_accuracy}
            for name, one in found.by_recording.items()
        ],
        "guessing": found.guessing,
        "verdict": found.verdict(level),
        "p_value": found.p_value,
        "n_judged": found.n_judged,
        "n_unjudged": found.n_unjudged,
        "n_runs": found.n_runs,
        "states": [
            {"state": state, "steps": steps, "recall": recall, "precision": precision}
            for state, steps, recall, precision in rows
        ],
        "confusions": {"states": found.states, "counts": found.counts, "unknown": found.unknown},
    }


def stream_of(stream: Stream) -> dict[str, Any]:
    """What a stream has to learn from, by state."""
    runs = stream.runs
    return {
        "steps": len(stream) + stream.n_left_out,
        "channels": stream.channels,
        "notes": stream.notes,
        "states": [
            {
                "state": state,
                "runs": (runs.code == code).sum(),
                "steps": (stream.codes == code).sum(),
            }
            for code, state in enumerate(stream.classes)
        ],
    }


def model_of(classifier: StreamClassifier, file: Path) -> dict[str, Any]:
    """What a model is: its states, features, committee and experts."""
    features, threshold = classifier.features_, classifier.confidence_.threshold
    committee = classifier.committee_
    return {
        "model": str(file),
        "bytes": file.stat().st_size,
        "width": classifier.width_,
        "n_neighbors": classifier.n_neighbors_,
        "channels": classifier.channels_,
        "depends_on_steps": classifier.width_ + features.lift.memory,
        "features": {"maps": features.lift.maps, "count": features.n_features},
        "unknown": {"rate": classifier.unknown_rate, "distance": threshold},
        "states": [
            {"state": state, "references": (classifier.windows_.y == state).sum()}
            for state in classifier.classes_
        ],
        "thinned": None if classifier.thinned_ is None else classifier.thinned_._asdict(),
        "committee": {
            "balanced_accuracy_held_out": committee.accuracy,
            "n_runs": committee.n_runs,
            "why": committee.why,
            "expected": None if committee.expected is None else committee.expected._asdict(),
            "members": [
                {
                    "name": member.name,
                    "weight": member.weight,
                    "balanced_accuracy_held_out": member.accuracy,
                }
                for member in committee.members
            ],
        },
        "experts": [_expert_of(expert) for expert in experts_of(classifier)],
    }


def _expert_of(expert: Expert) -> dict[str, Any]:
    metric = expert.references.metric
    told: dict[str, Any] = {
        "name": expert.name,
        "width": expert.width,
        "weight": expert.weight,
        "features": expert.features,
        "whitened": expert.mixing is not None,
        "metric": "euclidean" if metric is None else type(metric).__name__.lower(),
    }
    if metric is None:
        return told
    if isinstance(metric, Forest):
        n_leaves = int((metric.feature_ < 0).sum())
        return told | {"trees": len(metric.roots_), "leaves": n_leaves}
    blocks = unmix_blocks(learned.blocks_of(metric), expert.mixing)
    spectrum = learned.spectrum(metric)
    return told | {
        "solver": getattr(metric, "solver", None),
        "initial_loss": metric.initial_loss_,
        "loss": metric.loss_,
        "iterations": metric.n_iter_,
        "converged": metric.converged_,
        "message": metric.message_,
        "size_by_lag": learned.lag_norms(blocks),
        "weight_by_feature": learned.channel_fractions(blocks),
        "eigenvalues": None if spectrum is None else spectrum.eigenvalues,
        "effective_rank": None if spectrum is None else spectrum.effective_rank,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
