"""Predicted states to files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import ArrayLike, NDArray

from ..disk import atomic_write
from ..errors import InputError
from .conversion import as_states, no_state, one_per_step
from .file_format import FileFormat, file_format
from .stream import Stream


def write_states(
    path: str | os.PathLike[str],
    stream: Stream,
    predicted: ArrayLike,
    *,
    extra: Mapping[str, ArrayLike] | None = None,
) -> None:
    """Write the predicted state of each step as CSV, TSV or Parquet.

    The columns are ``step``, ``recording``, ``time`` and ``state`` where the stream has them,
    ``predicted``, and the extra ones. "No state" and NaN are empty fields (nulls in Parquet). The
    file is written completely or not at all.

    Parameters
    ----------
    path : path
        Its suffix gives the format: ``.csv``, ``.tsv``, ``.csv.gz``, ``.tsv.gz`` or ``.parquet``.
    stream : Stream
        Of T steps.
    predicted : array of shape (T,)
        One state per step, written like the stream's own states.
    extra : mapping of names to arrays of shape (T,), optional
        Further columns, such as the distance to the nearest neighbour.

    Raises
    ------
    InputError
        If lengths or column names do not fit, or the format is not known.
    DiskError
        If the file cannot be written.
    """
    form = file_format(Path(path))
    table = _table(stream, predicted, extra or {})
    with atomic_write(path) as temporary:
        if form.delimiter is None:
            pyarrow.parquet.write_table(table, temporary)
        else:
            _write_text(table, temporary, form)


def _table(stream: Stream, predicted: ArrayLike, extra: Mapping[str, ArrayLike]) -> Any:
    n_steps = len(stream)
    columns: dict[str, Any] = {"step": np.arange(n_steps)}
    if stream.recordings is not None:
        columns["recording"] = stream.recordings
    if stream.time is not None:
        columns["time"] = stream.time
    if stream.labelled.any():
        columns["state"] = _null_for_no_state(stream.states)
    columns["predicted"] = _null_for_no_state(as_states(predicted, n_steps, ours=True))
    for name, column in extra.items():
        if name in columns:
            raise InputError(f"the extra column {name!r} has the name of another; rename it")
        columns[name] = one_per_step(column, n_steps, f"the extra column {name!r}")
    return pa.table({name: _arrow(column) for name, column in columns.items()})


def _null_for_no_state(states: NDArray[Any]) -> Any:
    return pa.array(states, mask=states == no_state(states))


def _arrow(column: Any) -> Any:
    return pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column


def _write_text(table: Any, path: Path, form: FileFormat) -> None:
    # By default Arrow quotes every text. Without quoting it refuses texts that need quotes.
    for quoting in ("none", "needed"):
        options = pyarrow.csv.WriteOptions(delimiter=form.delimiter, quoting_style=quoting)
        try:
            with pa.output_stream(str(path), compression=form.compression) as sink:
                pyarrow.csv.write_csv(table, sink, options)
            return
        except pa.ArrowInvalid:
            if quoting == "needed":
                raise
