"""``mlat evaluate``: how well a model predicts the states of a labelled stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..classifier.model_file import load
from ..errors import InputError
from ..explain.confusions import count_confusions
from .as_json import AsJson, print_json, score_of
from .columns import (
    Columns,
    Filtered,
    Label,
    LabelTable,
    ModelFile,
    StreamFile,
    check_labelled,
    title_of,
    with_columns,
)
from .output import check_can_be_folder, make_folder
from .screen import console, print_score, warn_if_guessing, working


@with_columns
def evaluate(
    model: ModelFile,
    stream: StreamFile,
    columns: Columns,
    label: Label = None,
    labels: LabelTable = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Where to write the pictures; default STREAM-evaluation.",
        ),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Write pictures at all.")] = True,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Draw how sure it is, too (takes as long again).")
    ] = False,
    filtered: Filtered = False,
    as_json: AsJson = False,
) -> None:
    """Compare predicted with true states: accuracy, tables, a confusion matrix and a timeline."""
    folder = out or Path(f"{stream.stem}-evaluation")
    if pictures:
        check_can_be_folder(folder)
    check_labelled(label, labels)
    classifier = load(model)
    with working(f"reading {title_of(stream)}"):
        steps = columns.read_for_model(classifier, model, stream, label, labels)
    if not steps.labelled.any():
        where = f"{stream}: column {label!r}" if labels is None else labels
        raise InputError(f"{where} names no state, so there is nothing to judge")
    with working("predicting"):
        predicted = classifier.predict(steps, filtered=filtered)
        sure = None
        if confidence:
            sure = classifier.predict_proba(steps, filtered=filtered).max(axis=1)
    complete = classifier.ends_window(steps)
    found = count_confusions(steps, predicted, known=classifier.classes_, complete=complete)
    if not found.n_judged:
        raise InputError(
            f"{stream}: no labelled step ends a complete window of {classifier.width_} steps, so "
            "there is nothing to judge"
        )
    screen = console()
    if as_json:
        warn_if_guessing(found)
        print_json({"model": str(model), "stream": str(stream), **score_of(found)})
    else:
        print_score(screen, found, classifier.classes_)
    if not pictures:
        return
    from ..plots.confusion import plot_confusion
    from ..plots.figure import save_figure
    from ..plots.timeline import plot_timeline

    make_folder(folder)
    with working("drawing"):
        files = {
            folder / "confusion.png": plot_confusion(found),
            folder / "timeline.png": plot_timeline(steps, predicted, confidence=sure),
        }
        for file, figure in files.items():
            save_figure(figure, file)
    if not as_json:
        screen.print(f"Pictures: {', '.join(map(str, files))}", soft_wrap=True)
