"""``mlat evaluate``: how well a model predicts the states of a labelled stream."""

from __future__ import annotations

import contextlib
import warnings
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError
from ..classifier.model_file import load
from ..explain.confusions import ConfusionCounter
from ..stream.signs import count_seen
from ..stream.stream import Stream
from .columns import Columns, LabelTable, StreamFile, check_labelled, title_of, with_columns
from .options import Filtered, Label, ModelFile
from .output import check_can_be_folder, check_can_write, make_folder
from .predict import Fill, Predictions
from .screen import AsJson, console, print_json, print_score, score_of, warn_if_guessing, working


@with_columns
def evaluate(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
    label: Label = None,
    labels: LabelTable = None,
    out: Path | None = None,
    pictures: bool = True,
    html: Path | None = None,
    confidence: bool = False,
    filtered: Filtered = False,
    fill: Fill = None,
    as_json: AsJson = False,
) -> None:
    """Compare predicted with true states: accuracy, tables, a confusion matrix and a timeline.

    The stream may be larger than memory.

    Parameters
    ----------
    out : DIR
        Where to write the pictures; default STREAM-evaluation.
    pictures
        Write pictures at all.
    html : FILE
        Write a report, one file to send on: all of this, and the longest mistakes with their signal
        and what it resembled. The stream is then held in memory.
    confidence
        Draw the confidence, too.
    """
    folder = out or Path(f"{stream.stem}-evaluation")
    if pictures:
        check_can_be_folder(folder)
    if html is not None:
        check_can_write(html, model, stream, labels, mark=b"<!doctype html>")
    check_labelled(label, labels)
    classifier = load(model)
    counter, n_seen = ConfusionCounter(classifier.classes_), 0
    with contextlib.ExitStack() as stack:
        with working(f"reading {title_of(stream)}"):
            pieces = stack.enter_context(
                columns.pieces_for_model(classifier, model, stream, label, labels)
            )
        if not len(pieces.classes):
            where = f"{stream}: column {label!r}" if labels is None else labels
            raise InputError(f"{where} names no state, so there is nothing to judge")
        timeline = None
        if pictures or html is not None:
            from ..plots.timeline import Timeline

            timeline = Timeline(pieces.n_steps)
        predictions = Predictions(classifier, pieces, filtered=filtered, fill=fill)
        kept: list[tuple[Stream, NDArray[Any]]] = []
        with working("predicting"):
            for piece, (states, proba, complete, *_) in predictions:
                counter.add(piece.states, states, complete, piece.recordings)
                if html is not None:
                    kept.append((piece.with_channels(classifier.channels_), states))
                n_seen += count_seen(classifier.windows_.values, piece, classifier.width_)
                if timeline is not None:
                    timeline.usual_step = piece.usual_step
                    confident = proba.max(axis=1) if confidence else None
                    recordings = piece.recordings
                    timeline.add(piece.states, states, confidence=confident, recordings=recordings)
    found = counter.found()
    if not found.n_judged:
        raise InputError(
            f"{stream}: no labelled step ends a complete window of {classifier.width_} steps, so "
            f"there is nothing to judge; {predictions.words()}"
        )
    if n_seen:
        warnings.warn(
            f"{stream}: {n_seen} of {pieces.n_steps} steps are among those that the model was "
            "learned from: of these the accuracy says nothing; judge by another recording",
            UserWarning,
            stacklevel=2,
        )
    screen, words = console(), predictions.words()
    if as_json:
        warn_if_guessing(found)
        told = {"model": str(model), "stream": str(stream), **score_of(found)}
        print_json({**told, "prediction": predictions.as_dict()})
    else:
        print_score(screen, found, classifier.classes_)
        if words:
            screen.say(f"{words[0].upper()}{words[1:]}.")
    if timeline is None:
        return
    from ..plots.confusion import plot_confusion
    from ..plots.figure import save_figure

    with working("drawing"):
        drawn = {"Confusions": plot_confusion(found), "Timeline": timeline.draw()}
        if pictures:
            make_folder(folder)
            files = [folder / "confusion.png", folder / "timeline.png"]
            for file, figure in zip(files, drawn.values(), strict=True):
                save_figure(figure, file)
        if html is not None:
            from .report import write_report

            write_report(
                html,
                classifier,
                reduce(Stream.followed_by, [piece for piece, _ in kept]),
                np.concatenate([states for _, states in kept]),
                found,
                title=(model.name, title_of(stream)),
                notes=[f"{words[0].upper()}{words[1:]}."] if words else [],
                pictures=drawn,
            )
    if pictures and not as_json:
        screen.say(f"Pictures: {', '.join(map(str, files))}")
    if html is not None and not as_json:
        screen.say(f"Report: {html}")
