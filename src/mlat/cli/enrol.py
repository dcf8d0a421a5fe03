"""``mlat enrol``: what a model learned, with the references of a new person, placement or day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from ..base.errors import InputError
from ..classifier.model_file import load
from .as_json import AsJson, model_of, print_json, stream_of
from .columns import Columns, LabelTable, StreamFiles, check_labelled, title_of, with_columns
from .options import Label, ModelFile
from .output import MODEL, check_can_write
from .screen import console, size_of, working


@with_columns
def enrol(
    model: ModelFile,
    stream: StreamFiles,
    columns: Columns,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="NEW", help="Where to write the new model.", show_default=False
        ),
    ],
    label: Label = None,
    labels: LabelTable = None,
    as_json: AsJson = False,
) -> None:
    """Keep what a model learned, and take the references of a new person, placement or day."""
    check_labelled(label, labels)
    check_can_write(out, model, *stream, labels, mark=MODEL)
    classifier = load(model)
    with working(f"reading {title_of(stream)}"):
        steps = columns.read_for_model(classifier, model, stream, label, labels)
    if not steps.labelled.any():
        where = f"{title_of(stream)}: column {label!r}" if labels is None else labels
        raise InputError(f"{where} names no state; label a few seconds of each")
    new = classifier.enrol(steps)
    new.save(out)
    if as_json:
        print_json({"stream": stream_of(steps), **model_of(new, out)})
        return
    screen = console()
    screen.print(
        "Expected accuracy: unknown, for nothing was left out; use mlat evaluate on another "
        "recording.",
        soft_wrap=True,
    )
    table = Table("state")
    for name in ("runs", "references"):
        table.add_column(name, justify="right", no_wrap=True)
    for state in new.classes_:
        own = new.windows_.y == state
        runs = len(np.unique(new.windows_.run[own]))
        table.add_row(str(state), str(runs), str(int(own.sum())))
    screen.print(table)
    screen.print(f"Model: {out} ({size_of(out.stat().st_size)})", soft_wrap=True)
