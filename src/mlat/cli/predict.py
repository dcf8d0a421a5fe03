"""``mlat predict``: a state for every step of a stream."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..classifier import StreamClassifier
from ..errors import InputError
from ..files.file_format import file_format
from ..files.model_file import load
from ..files.state_file import write_states
from ..stream import Stream
from . import stream_options as options
from .output import check_can_write
from .show import console, working

MAX_CONFUSION = 12  # states whose confusions still make a readable table

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that mlat fit wrote.", show_default=False)
]


def predict(
    model: ModelFile,
    stream: options.StreamFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="Where to write the states: .csv, .tsv (also .gz) or .parquet; "
            "default CSV on standard output.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of true states, to compare with.")
    ] = None,
    recording: options.Recording = None,
    time: options.Time = None,
    max_gap: options.MaxGap = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,C",
            help="Columns that stand for the model's channels, in its order; default those of "
            "the same names.",
        ),
    ] = None,
    unlabelled: options.Unlabelled = None,
) -> None:
    """Tell the state of every step: that of the window which ends there.

    A step without a complete window gets none. With --label the score goes to standard error.
    """
    to_screen = out is None or str(out) == "-"
    if out is not None and not to_screen:
        file_format(out)
        check_can_write(out)
    classifier = load(model)
    with working(f"reading {stream.name}"):
        steps = options.read(
            stream,
            label=label,
            recording=recording,
            time=time,
            max_gap=max_gap,
            channels=_columns(channels, classifier, model),
            unlabelled=unlabelled,
        )
    if channels:
        steps = _renamed(steps, classifier.channels_)
    _check_states(steps, classifier, stream, label)
    with working("predicting"):
        predicted = classifier.predict(steps)
    if to_screen:
        _write_to_screen(steps, predicted)
    elif out is not None:
        write_states(out, steps, predicted)
    if steps.labelled.any():
        _print_score(console(stderr=True), steps, predicted, classifier)


def _columns(given: list[str] | None, classifier: StreamClassifier, model: Path) -> list[str]:
    names = options.split_names(given)
    if names is None:
        return list(classifier.channels_)
    if len(names) != classifier.n_channels_:
        raise InputError(
            f"--channels names {len(names)} columns, but {model} was learned on "
            f"{classifier.n_channels_} channels: {', '.join(classifier.channels_)}"
        )
    return names


def _renamed(stream: Stream, channels: tuple[str, ...]) -> Stream:
    return Stream(
        stream.values,
        stream.states,
        recordings=stream.recordings,
        time=stream.time,
        channels=channels,
        max_gap=stream.max_gap,
    )


def _check_states(
    stream: Stream, classifier: StreamClassifier, file: Path, label: str | None
) -> None:
    if stream.labelled.any() and stream.no_state != classifier.unknown_:
        kind = "names" if classifier.unknown_ == "" else "numbers"
        raise InputError(
            f"{file}: column {label!r} holds states such as {stream.classes[0]!s}, but the "
            f"model's states are {kind}: {', '.join(str(c) for c in classifier.classes_[:10])}; "
            "write them alike"
        )


def _write_to_screen(stream: Stream, predicted: NDArray[Any]) -> None:
    # By way of a file, so that standard output gets all of it or nothing, in the same form.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "states.csv")
        write_states(file, stream, predicted)
        sys.stdout.flush()
        with file.open("rb") as states:
            shutil.copyfileobj(states, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _print_score(
    screen: Console, stream: Stream, predicted: NDArray[Any], classifier: StreamClassifier
) -> None:
    judged = stream.labelled & (predicted != classifier.unknown_)
    if not judged.any():
        screen.print(
            f"No score: no labelled step ends a complete window of {classifier.width} steps."
        )
        return
    true, told = stream.states[judged], predicted[judged]
    states = np.unique(np.concatenate([true, classifier.classes_]))
    counts = np.zeros((len(states), len(states)), dtype=int)
    np.add.at(counts, (np.searchsorted(states, true), np.searchsorted(states, told)), 1)
    right = int(np.trace(counts))
    screen.print(
        f"Accuracy {right / len(true):.1%}: {right} of the {len(true)} labelled steps that end a "
        "complete window.",
        soft_wrap=True,
    )
    unseen = np.setdiff1d(true, classifier.classes_)
    if len(unseen):
        names = ", ".join(str(state) for state in unseen)
        screen.print(f"The model never saw {names}: these steps are all wrong.", soft_wrap=True)
    screen.print(_recall_table(states, counts))
    if len(states) <= MAX_CONFUSION:
        screen.print(_confusion_table(states, counts))


def _recall_table(states: NDArray[Any], counts: NDArray[np.int_]) -> Table:
    table = Table("state", title="By state", title_justify="left")
    table.add_column("steps", justify="right")
    table.add_column("recognised", justify="right")
    table.add_column("most often taken for")
    for row, state in enumerate(states):
        total = int(counts[row].sum())
        wrong = counts[row].copy()
        wrong[row] = 0
        worst = int(np.argmax(wrong))
        table.add_row(
            str(state),
            str(total),
            f"{counts[row, row] / total:.1%}" if total else "",
            f"{states[worst]!s} ({wrong[worst] / total:.1%})" if wrong[worst] else "",
        )
    return table


def _confusion_table(states: NDArray[Any], counts: NDArray[np.int_]) -> Table:
    table = Table("true ↓, predicted →", title="Confusions, in steps", title_justify="left")
    for state in states:
        table.add_column(str(state), justify="right")
    for state, row in zip(states, counts, strict=True):
        table.add_row(str(state), *(str(count) if count else "·" for count in row))
    return table
