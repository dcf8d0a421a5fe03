"""Predicted states, and streams with their states, to files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.disk import atomic_write, disk_errors
from ..base.errors import InputError
from .arrow import pa
from .conversion import as_states, changes, no_state, one_per_step
from .sources import FileFormat, file_format
from .stream import Stream
from .text_table import in_pieces

LOST = frozenset(pa.csv.ConvertOptions().null_values)  # texts that are read as "no state"
ROWS = 1 << 17  # written at a time: a part of a Parquet file (a row group)


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
    table = states_table(stream, predicted, extra or {}, with_states=bool(stream.labelled.any()))
    write_whole(path, file_format(Path(path)), table)


def write_stream(path: str | os.PathLike[str], stream: Stream, *, label: str = "state") -> None:
    """Write a stream with its states, as ``read_stream(path, label=label)`` reads it.

    The columns are ``recording`` and ``time`` where the stream has them, the channels, and the
    states; a stream without any state is written without that column, as ``read_stream(path)``
    reads it. The file is written completely or not at all.

    Parameters
    ----------
    path : path
        Its suffix gives the format: ``.csv``, ``.tsv``, ``.csv.gz``, ``.tsv.gz`` or ``.parquet``.
    stream : Stream
    label : str
        The name of the column of states.

    Raises
    ------
    InputError
        If a channel has the name of another column, or a text file cannot hold a state so that it
        is read as it is.
    DiskError
        If the file cannot be written.
    """
    form = file_format(Path(path))
    columns: dict[str, Any] = {}
    recordings = _with_all_gaps(stream)
    if recordings is not None:
        columns["recording"] = recordings
    if stream.time is not None:
        columns["time"] = stream.time
    for name in stream.channels:
        if name in (*columns, label):
            raise InputError(
                f"the channel {name!r} has the name of another column of the file; rename it"
            )
    columns |= dict(zip(stream.channels, stream.values.T, strict=True))
    if form.delimiter is not None and stream.states.dtype.kind == "U":
        _refuse_lost_states(stream.classes.tolist())
    if len(stream.classes):  # an empty column would be read as one more channel
        columns[label] = _null_for_no_state(stream.states)
    write_whole(path, form, _arrow_table(columns))


def _with_all_gaps(stream: Stream) -> NDArray[Any] | None:
    """The recordings; numbered anew where the stream has gaps that its file would not show."""
    again = Stream(
        stream.values, recordings=stream.recordings, time=stream.time, channels=stream.channels
    )
    if not (stream.gap_before & ~again.gap_before)[1:].any():
        return stream.recordings
    return np.cumsum(stream.gap_before | changes(stream.recordings, len(stream)))


def _refuse_lost_states(states: list[str]) -> None:
    for state in states:
        is_number = re.fullmatch(r"[-+]?\d+(\.\d*)?", state, re.ASCII)
        if is_number or state != state.strip() or {"\n", "\r"} & set(state) or state in LOST:
            raise InputError(
                f"the state {state!r} would be read from a text file as another, or as none; "
                "rename it, or write the stream as .parquet"
            )


def write_tables(path: Path, form: FileFormat, tables: Iterable[Any], texts: Iterable[str]) -> None:
    """Write tables one after the other; the file does not depend on how they are cut.

    Parameters
    ----------
    path : Path
    form : FileFormat
    tables : iterable of Arrow tables
    texts : iterable of str
        All texts that may be written: the states and the recordings. If one needs quotes, all are
        quoted.
    """
    batches = (
        batch
        for table in tables
        for batch in (table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)])
    )
    first = next(batches)
    with ExitStack() as stack:
        if form.delimiter is None:
            writer = stack.enter_context(pa.parquet.ParquetWriter(path, first.schema))
        else:
            # By default Arrow quotes every text. Without quoting it refuses texts that need quotes.
            special = {form.delimiter, '"', "\n", "\r"}
            quoted = any(not special.isdisjoint(text) for text in texts)
            options = pa.csv.WriteOptions(
                delimiter=form.delimiter, quoting_style="needed" if quoted else "none"
            )
            sink = stack.enter_context(pa.output_stream(str(path), compression=form.compression))
            writer = stack.enter_context(
                pa.csv.CSVWriter(sink, first.schema, write_options=options)
            )
        for rows in in_pieces(chain([first], batches), ROWS):
            writer.write_table(rows.combine_chunks())


def write_whole(path: str | os.PathLike[str], form: FileFormat, table: Any) -> None:
    """Write a table of Arrow to a file, which appears whole or not at all."""
    of_columns = [c.unique().to_pylist() for c in table.columns if pa.types.is_string(c.type)]
    texts = {text for column in of_columns for text in column if text is not None}
    with disk_errors(Path(path)), atomic_write(path) as temporary:
        write_tables(temporary, form, [table], texts)


def states_table(
    stream: Stream,
    predicted: ArrayLike,
    extra: Mapping[str, ArrayLike],
    *,
    with_states: bool,
    first: int = 0,
) -> Any:
    """The rows that :func:`write_states` writes of a stream, or of a piece from step ``first`` on.

    ``with_states`` says whether some step of the whole stream has a state.
    """
    n_steps = len(stream)
    columns: dict[str, Any] = {"step": np.arange(first, first + n_steps)}
    if stream.recordings is not None:
        columns["recording"] = stream.recordings
    if stream.time is not None:
        columns["time"] = stream.time
    if with_states:
        columns["state"] = _null_for_no_state(stream.states)
    columns["predicted"] = _null_for_no_state(as_states(predicted, n_steps, ours=True))
    for name, column in extra.items():
        if name in columns:
            raise InputError(f"the extra column {name!r} has the name of another; rename it")
        columns[name] = one_per_step(column, n_steps, f"the extra column {name!r}")
    return _arrow_table(columns)


def _null_for_no_state(states: NDArray[Any]) -> Any:
    return pa.array(states, mask=states == no_state(states))


def _arrow_table(columns: Mapping[str, Any]) -> Any:
    return pa.table(
        {
            name: pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
    )
