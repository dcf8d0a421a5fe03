"""``mlat enrol``: what a model learned, with the references of a new person, placement or day."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..base.errors import InputError
from ..classifier.model_file import load
from .columns import Columns, LabelTable, StreamFiles, title_of, with_columns
from .options import Label, ModelFile
from .output import MODEL, check_can_write
from .screen import (
    AsJson,
    console,
    model_of,
    print_expected,
    print_json,
    size_of,
    stream_of,
    table_of,
    working,
)


@with_columns
def enrol(
    model: ModelFile,
    stream: StreamFiles,
    columns: Columns,
    out: Path,
    label: Label = None,
    labels: LabelTable = None,
    as_json: AsJson = False,
) -> None:
    """Keep what a model learned for a new person, placement or day: labelled steps join the others.

    Without --label and --labels what the model is surest of in the recording joins its references.
    Before, the new one's levels and scales take the place of the others', where the model was
    learned from groups that were predicted better so.

    Parameters
    ----------
    out : NEW
        Where to write the new model.
    """
    check_can_write(out, model, *stream, labels, mark=MODEL)
    classifier = load(model)
    adapts = label is None and labels is None
    with working(f"reading {title_of(stream)}"):
        steps = columns.read_for_model(classifier, model, stream, label, labels)
    if not adapts and not steps.labelled.any():
        where = f"{title_of(stream)}: column {label!r}" if labels is None else labels
        raise InputError(f"{where} names no state; label a few seconds of each")
    new = classifier.adapt(steps) if adapts else classifier.enrol(steps)
    new.save(out)
    if as_json:
        print_json({"stream": stream_of(steps), **model_of(new, out)})
        return
    screen = console()
    if new.committee_.expected is None:
        screen.say(
            "Expected accuracy: unknown, for nothing was left out; use mlat evaluate on another "
            "recording."
        )
    else:
        print_expected(screen, new)
    table = table_of("state", "runs", "references")
    for state in new.classes_:
        own = new.windows_.y == state
        runs = len(np.unique(new.windows_.run[own]))
        table.add_row(str(state), str(runs), str(int(own.sum())))
    screen.print(table)
    screen.say(f"Model: {out} ({size_of(out.stat().st_size)})")
