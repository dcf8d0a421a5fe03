"""``mlat predict``: a state for every step of a stream."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load
from ..explain.confusions import count_confusions
from ..stream.file_format import file_format
from ..stream.stream import Stream
from ..stream.write import write_states
from .columns import Columns, Filtered, ModelFile, StreamFile, title_of, with_columns
from .output import check_can_write
from .screen import console, print_score, working


@with_columns
def predict(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
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
    filtered: Filtered = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Add how probable each state is, as a column (takes twice as long).",
        ),
    ] = False,
) -> None:
    """Predict the state of every step, from the window that ends there.

    A step without a complete window gets none. With --label the score goes to standard error.
    """
    to_screen = out is None or str(out) == "-"
    if out is not None and not to_screen:
        file_format(out)
        check_can_write(out, model, stream)
    classifier = load(model)
    with working(f"reading {title_of(stream)}"):
        steps = columns.read_for_model(classifier, model, stream, label)
    with working("predicting"):
        predicted = classifier.predict(steps, filtered=filtered)
        extra = {}
        if confidence:
            extra["confidence"] = _confidence(classifier, steps, predicted, filtered)
    if to_screen:
        _write_to_screen(steps, predicted, extra)
    elif out is not None:
        write_states(out, steps, predicted, extra=extra)
    if steps.labelled.any():
        _print_score(console(stderr=True), steps, predicted, classifier)


def _confidence(
    classifier: StreamClassifier, steps: Stream, predicted: NDArray[Any], filtered: bool
) -> NDArray[np.float64]:
    """The probability of the predicted state; NaN where there is none."""
    probable = classifier.predict_proba(steps, filtered=filtered).max(axis=1)
    return np.where(predicted == classifier.unknown_, np.nan, probable)


def _print_score(
    screen: Console, stream: Stream, predicted: NDArray[Any], classifier: StreamClassifier
) -> None:
    complete = classifier.ends_window(stream)
    found = count_confusions(stream, predicted, known=classifier.classes_, complete=complete)
    if not found.n_judged:
        screen.print(
            f"No score: no labelled step ends a complete window of {classifier.width_} steps."
        )
        return
    print_score(screen, found, classifier.classes_)


def _write_to_screen(
    stream: Stream, predicted: NDArray[Any], extra: Mapping[str, NDArray[Any]]
) -> None:
    # Through a file, so that standard output gets all of it or nothing.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "states.csv")
        write_states(file, stream, predicted, extra=extra)
        sys.stdout.flush()
        with file.open("rb") as states:
            shutil.copyfileobj(states, sys.stdout.buffer)
        sys.stdout.buffer.flush()
