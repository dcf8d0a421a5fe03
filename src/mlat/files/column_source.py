"""Where columns come from: a Parquet file, an Arrow table, a pandas or polars frame, an array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ..errors import InputError
from ..stream_arrays import as_matrix, distinct, is_frame
from .file_format import file_format
from .text_table import TextTable


class ColumnSource(Protocol):
    """Columns by name, which are read only when it is known what for."""

    @property
    def columns(self) -> Sequence[Any]:
        """The names, in order."""

    def read(self, channels: Any, label: Any, recording: Any, time: Any) -> dict[Any, Any]:
        """The named columns, as Arrow columns or as whatever numpy makes an array of."""

    def where(self, steps: Sequence[int]) -> str:
        """The place of some steps, to begin an error with."""


def column_source(source: Any) -> ColumnSource:
    """The source that fits what was given."""
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source))
    if isinstance(source, pa.Table):
        return ArrowTable(source, "the table")
    if hasattr(source, "collect") and not hasattr(source, "__array__"):
        raise InputError("a lazy frame has no values yet; give frame.collect()")
    if is_frame(source):
        return Frame(source)
    if isinstance(source, np.ndarray | Sequence):
        return Array(source)
    raise InputError(
        f"a stream cannot be read from {type(source).__name__}; give the path of a CSV, TSV or "
        "Parquet file, a pandas or polars frame, or an array"
    )


def _open_file(path: Path) -> ColumnSource:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    if not path.exists():
        raise InputError(f"{path} is not there; check the name and the folder ({path.parent})")
    form = file_format(path)
    if form.delimiter is not None:
        return TextTable(path, form)
    try:
        return ArrowTable(pyarrow.parquet.ParquetFile(path), str(path))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}); "
            "if it is text, name it .csv or .tsv"
        ) from None


class ArrowTable:
    """A Parquet file, or a table in memory."""

    def __init__(self, table: Any, name: str) -> None:
        self._table = table
        self._name = name
        schema = (
            table.schema_arrow if isinstance(table, pyarrow.parquet.ParquetFile) else table.schema
        )
        self._types = {field.name: field.type for field in schema}
        self.columns = list(schema.names)
        distinct(self.columns, f"columns of {name}")

    def read(self, channels: Any, label: Any, recording: Any, time: Any) -> dict[Any, Any]:
        for name in channels:
            kind = self._types[name]
            if not (_is_number(kind) or pa.types.is_null(kind)):
                raise InputError(
                    f"{self._name}, column {name!r} holds {kind}, not numbers; "
                    "exclude the column with channels=[…]"
                )
        wanted = [name for name in (*channels, label, recording, time) if name is not None]
        table = self._table
        if isinstance(table, pyarrow.parquet.ParquetFile):
            table = table.read(columns=wanted)
        if not table.num_rows:
            raise InputError(f"{self._name} has columns but no steps")
        return {name: table.column(name) for name in wanted}

    def where(self, steps: Sequence[int]) -> str:
        return f"{self._name}: "


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


class Frame:
    """A pandas or polars frame. pandas' index is not a column."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = list(frame.columns)
        distinct(self.columns, "columns of the frame")

    def read(self, channels: Any, label: Any, recording: Any, time: Any) -> dict[Any, Any]:
        wanted = [name for name in (*channels, label, recording, time) if name is not None]
        return {name: self._frame[name] for name in wanted}

    def where(self, steps: Sequence[int]) -> str:
        return ""


class Array:
    """An array of shape (T, columns), whose columns are named by their numbers."""

    def __init__(self, rows: Any) -> None:
        self._array = as_matrix(rows)
        self.columns = range(self._array.shape[1])

    def read(self, channels: Any, label: Any, recording: Any, time: Any) -> dict[Any, Any]:
        wanted = [name for name in (*channels, label, recording, time) if name is not None]
        return {name: self._array[:, name] for name in wanted}

    def where(self, steps: Sequence[int]) -> str:
        return ""
