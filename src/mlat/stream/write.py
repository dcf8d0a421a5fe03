"""Predicted states, and streams with their states, to files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
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
    table = _table(stream, predicted, extra or {}, with_states=bool(stream.labelled.any()))
    texts = [c.unique().to_pylist() for c in table.columns if pa.types.is_string(c.type)]
    with atomic_write(path) as temporary, StatesFile(temporary, file_format(Path(path))) as file:
        file.texts = {text for column in texts for text in column if text is not None}
        file.write(table)


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
    table = pa.table({name: _arrow(column) for name, column in columns.items()})
    texts = [c.unique().to_pylist() for c in table.columns if pa.types.is_string(c.type)]
    with (
        disk_errors(Path(path)),
        atomic_write(path) as temporary,
        StatesFile(temporary, form) as file,
    ):
        file.texts = {text for column in texts for text in column if text is not None}
        file.write(table)


def _with_all_gaps(stream: Stream) -> NDArray[Any] | None:
    """The recordings; numbered anew where the stream has gaps that its file would not show."""
    again = Stream(
        stream.values,
        recordings=stream.recordings,
        time=stream.time,
        channels=stream.channels,
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


class StatesFile:
    """A file of predicted states that is written piece by piece.

    The content does not depend on the pieces.

    Parameters
    ----------
    path : Path
    form : FileFormat
    with_states : bool, default=False
        Whether some step of the stream has a state, so that the column ``state`` is written.
    texts : iterable of str
        All texts that may be written: the states and the recordings. If one needs quotes, all are
        quoted.
    """

    def __init__(
        self,
        path: Path,
        form: FileFormat,
        *,
        with_states: bool = False,
        texts: Iterable[str] = (),
    ) -> None:
        self._path, self._form, self._with_states = path, form, with_states
        self.texts = set(texts)
        self._first = self._n_held = 0
        self._held: list[Any] = []
        self._writer: Any = None
        self._sink: Any = None

    def add(
        self, stream: Stream, predicted: ArrayLike, extra: Mapping[str, ArrayLike] | None = None
    ) -> None:
        """Write the next piece of the stream, as :func:`write_states` writes all of it."""
        table = _table(
            stream, predicted, extra or {}, with_states=self._with_states, first=self._first
        )
        self._first += len(stream)
        self.write(table)

    def write(self, table: Any) -> None:
        """Write some rows."""
        if self._writer is None:
            self._open(table.schema)
        self._held.append(table)
        self._n_held += len(table)
        while self._n_held >= ROWS:
            self._write_rows(ROWS)

    def __enter__(self) -> StatesFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is None:
            return
        if error == (None, None, None) and self._n_held:
            self._write_rows(self._n_held)
        self._writer.close()
        if self._sink is not None:
            self._sink.close()

    def _open(self, schema: Any) -> None:
        if self._form.delimiter is None:
            self._writer = pa.parquet.ParquetWriter(self._path, schema)
            return
        # By default Arrow quotes every text. Without quoting it refuses texts that need quotes.
        special = {self._form.delimiter, '"', "\n", "\r"}
        quoted = any(not special.isdisjoint(text) for text in self.texts)
        options = pa.csv.WriteOptions(
            delimiter=self._form.delimiter, quoting_style="needed" if quoted else "none"
        )
        self._sink = pa.output_stream(str(self._path), compression=self._form.compression)
        self._writer = pa.csv.CSVWriter(self._sink, schema, write_options=options)

    def _write_rows(self, n: int) -> None:
        rows = pa.concat_tables(self._held).combine_chunks()
        self._writer.write_table(rows.slice(0, n))
        self._held, self._n_held = [rows.slice(n)], len(rows) - n


def _table(
    stream: Stream,
    predicted: ArrayLike,
    extra: Mapping[str, ArrayLike],
    *,
    with_states: bool,
    first: int = 0,
) -> Any:
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
    return pa.table({name: _arrow(column) for name, column in columns.items()})


def _null_for_no_state(states: NDArray[Any]) -> Any:
    return pa.array(states, mask=states == no_state(states))


def _arrow(column: Any) -> Any:
    return pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
