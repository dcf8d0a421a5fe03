"""``mlat predict``: a state for every step of a stream."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..base.disk import atomic_write
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load
from ..explain.confusions import ConfusionCounter
from ..stream.pieces import Pieces
from ..stream.sources import FileFormat, file_format
from ..stream.write import states_table, write_tables
from .as_json import AsJson, print_json, score_of
from .columns import Columns, StreamFile, title_of, with_columns
from .options import Filtered, ModelFile, TrueStates
from .output import STATES, check_can_write
from .predictions import Fill, Predictions
from .screen import Screen, console, print_score, working


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
    label: TrueStates = None,
    filtered: Filtered = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Add how probable each state is, as a column.",
        ),
    ] = False,
    fill: Fill = None,
    as_json: AsJson = False,
) -> None:
    """Predict the state of every step, from the window that ends there.

    A step without a complete window gets none; how many, and why, goes to standard error, and with
    --label the score. The stream may be larger than memory.
    """
    to_screen = out is None or str(out) == "-"
    if as_json and to_screen:
        raise InputError("--json goes with -o OUT: the states would be on standard output, too")
    if out is not None and not to_screen:
        file_format(out)
        check_can_write(out, model, stream, mark=STATES)
    classifier = load(model)
    with contextlib.ExitStack() as stack:
        with working(f"reading {title_of(stream)}"):
            pieces = stack.enter_context(columns.pieces_for_model(classifier, model, stream, label))
        target = stack.enter_context(
            _to_screen() if out is None or to_screen else atomic_write(out)
        )
        form = FileFormat(",") if out is None or to_screen else file_format(out)
        predictions = Predictions(classifier, pieces, filtered=filtered, fill=fill)
        found = _predict(classifier, pieces, predictions, target, form, confidence)
    if as_json:
        score = found.found() if len(pieces.classes) else None
        print_json(
            {
                "model": str(model),
                "stream": str(stream),
                "out": str(out),
                "prediction": predictions.as_dict(),
                "score": score_of(score) if score is not None and score.n_judged else None,
            }
        )
        return
    if words := predictions.words():
        print(f"mlat: {title_of(stream)}: {words}", file=sys.stderr)
    if len(pieces.classes):
        _print_score(console(stderr=True), found, classifier)


def _predict(
    classifier: StreamClassifier,
    pieces: Pieces,
    predictions: Predictions,
    target: Path,
    form: FileFormat,
    confidence: bool,
) -> ConfusionCounter:
    """Predict and write piece by piece; and count what is right."""
    named = [classifier.classes_, pieces.classes]
    named += [] if pieces.recordings is None else [pieces.recordings]
    texts = [text for names in named if names.dtype.kind == "U" for text in names.tolist()]
    counter = ConfusionCounter(classifier.classes_)

    def tables() -> Iterator[Any]:
        first = 0
        for piece, (states, proba, complete, *_) in predictions:
            extra = {}
            if confidence:
                nobody = states == classifier.unknown_
                extra["confidence"] = np.where(nobody, np.nan, proba.max(axis=1))
            counter.add(piece.states, states, complete, piece.recordings)
            with_states = len(pieces.classes) > 0
            yield states_table(piece, states, extra, with_states=with_states, first=first)
            first += len(piece)

    with working("predicting"):
        write_tables(target, form, tables(), texts)
    return counter


def _print_score(screen: Screen, counter: ConfusionCounter, classifier: StreamClassifier) -> None:
    found = counter.found()
    if not found.n_judged:
        screen.print(
            f"No score: no labelled step ends a complete window of {classifier.width_} steps."
        )
        return
    print_score(screen, found, classifier.classes_)


@contextlib.contextmanager
def _to_screen() -> Iterator[Path]:
    """A file whose content goes to standard output, if the block succeeds: all of it or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "states.csv")
        yield file
        sys.stdout.flush()
        with file.open("rb") as states:
            shutil.copyfileobj(states, sys.stdout.buffer)
        sys.stdout.buffer.flush()
