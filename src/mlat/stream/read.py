"""Streams from files, frames and arrays.

Whatever is given becomes a :class:`Table`, which reads columns by name. :func:`read_stream` decides
what each column is for, reads the columns that are needed and makes a stream of them.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Ints, Limits, check_text
from ..base.errors import InputError, NamesError
from .array_files import ColumnsTable, read_mat, read_npy, read_npz
from .arrow import pa
from .column_roles import (
    OrderColumns,
    Role,
    goes_up_and_down,
    nothing_left,
    order_columns,
    refuse_counters,
    role_by_name,
    warn_of_counters,
)
from .conversion import (
    GAP_FACTOR,
    Padded,
    StepError,
    as_matrix,
    as_recordings,
    changes,
    decode_recordings,
    decode_states,
    distinct,
    encode,
    is_frame,
    no_state,
    one_per_step,
    stack_columns,
)
from .mne_raw import SUFFIXES as RAW_SUFFIXES
from .mne_raw import read_raw, table_of
from .resampling import Between, check_rate, resample
from .sources import (
    EACH_FILE,
    PARQUET,
    TEXTS,
    FileFormat,
    file_format,
    read_each,
    reading,
    refuse_growth,
)
from .stream import Stream, as_max_gap, refuse_infinity
from .text_table import NAME_COLUMNS, TextTable, in_pieces
from .windows import counts_inside
from .xdf import read_xdf

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?", re.ASCII)
IPC = (".feather", ".arrow", ".ipc")
KNOWN = (*TEXTS[:-1], ".csv.gz", ".tsv.gz", *PARQUET, *IPC, ".npy", ".npz", ".mat", ".xdf")
KNOWN += RAW_SUFFIXES
BATCH = 65536  # steps that Arrow reads at a time, at most
BUFFER = 1 << 20  # bytes of a column that Parquet reads at a time
# Arrow converts these to objects, not to floats.
_NEED_CAST = (pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


def read_stream(
    source: Any,
    *,
    label: Any = None,
    recording: Any = None,
    group: Any = None,
    time: Any = None,
    channels: Sequence[Any] | None = None,
    unlabelled: Any = None,
    max_gap: float | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    past: int | None = None,
    rate: Annotated[float, Limits(0)] | None = None,
    between: Between = "linear",
) -> Stream:
    """Read a stream from a file, a frame or an array, or from several.

    Parameters
    ----------
    source : path, frame or array, or a list of them
        A file (see Notes), a folder, a pattern such as ``"walks/*.csv"``, a pandas or polars
        frame, a pyarrow table, a ``Raw`` or ``Epochs`` of MNE, a ``DataArray`` (steps, channels) or
        a ``Dataset`` of xarray, or an array of shape (T, columns).
        One row per step. Of a list, a folder or a pattern each file is a recording.
    label : column name, optional
        The column of states. Whole numbers make numbered states, anything else named ones. An
        empty field leaves its step unlabelled. Without ``label`` no step has a state.
    recording : column name, optional
        The column that says which recording a step belongs to. Default: the columns that have the
        name of one, such as ``subject`` or ``trial``.
    group : column name, optional
        The column that says who or what a step is of (a person, a machine, a day), where the model
        is for one that it has not seen. ``"file"`` where each of several files is of one.
    time : column name, optional
        The column of time: numbers or dates. Default: the column that has the name of one, such
        as ``timestamp``.
    channels : sequence of column names, optional
        The columns of values; all others that have no role are then ignored. Default: all other
        columns, which must then hold numbers, but for those with the name of a time, a recording
        or a row number. These are used for what they are where that is clear (see
        ``Stream.notes``).
    unlabelled : value or list of values, optional
        Entries of the label column that mean "no state". Without it an empty field does, and the
        number -1 with a warning; where -1 seems to be a state it is refused.
    max_gap : number, optional
        The longest time between two steps that is not a gap, in seconds for dates; default 1.5
        times the median. See `Stream`.
    sep : str, optional
        What separates the fields of a text file; default by its name, or what its first line has
        instead. With it a text file may have any name.
    decimal : "." or ",", optional
        What decimals in a text file are written with; default by its first lines.
    past : int, optional
        To learn from a file that is larger than memory: keep only the labelled steps, and so many
        before each run of them. The parts are then separated by gaps, and ``Stream.n_left_out``
        counts the other steps. For text and Parquet files; others are kept whole.
    rate : number, optional
        Make so many equal steps a second of a time that is not regular (see
        :mod:`mlat.stream.resampling`); gaps longer than ``max_gap`` stay gaps, by default five
        usual steps. A source without time has so many steps a second.
    between : "linear" or "previous", default="linear"
        What ``rate`` puts between two values.

    Returns
    -------
    Stream
        An empty field, ``nan`` or ``NA`` in a channel is NaN.

    Raises
    ------
    InputError
        The message names the place: file, line and column, or step and channel. Without
        ``channels``, also if it is unclear whether a column is one: a column that only rises or
        only falls, or that has the name of a time and does not rise.
    DiskError
        If the file cannot be opened or read.

    Notes
    -----
    The columns of an array are named by their numbers; -1 is the last. Of a column that counts in
    equal steps an array gives only a warning.

    The columns of a file are known by name, but for those of an ``.npy`` array:

    - ``.csv``, ``.tsv`` (also with ``.gz``): by the header line; without one by their numbers.
    - ``.parquet``, ``.feather``, ``.arrow``, ``.ipc``. A folder in which files lie as
      ``subject=3/part.parquet``, or whose name ends in ``.parquet``, is one table.
    - ``.npy``: numbers, or the names of its fields.
    - ``.npz``, ``.mat``: a vector has its name, the columns of a matrix are ``X0``, ``X1``, ….
    - ``.edf``, ``.bdf``, ``.fif`` and others that MNE reads: channels, ``time``, ``annotation``.
    - ``.xdf`` (needs pyxdf): channels, ``time`` and ``marker``.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.1, 9.0, 1], [0.2, 9.1, 1], [3.0, 4.0, 2]])
    >>> read_stream(rows, label=2)
    Stream(3 steps, 2 channels, 2 labelled runs, states: 1, 2)
    """
    of_files = group == EACH_FILE
    form = {"label": label, "recording": recording, "time": time, "sep": sep, "decimal": decimal}
    form |= {"unlabelled": unlabelled, "max_gap": max_gap, "rate": rate, "past": past}
    form |= {"between": between, "group": None if of_files else group}
    wanted = Wanted(channels, others=channels is None, **form)
    return read_each(source, partial(read_one, wanted), groups=of_files)


def read_channels(source: Any, channels: Sequence[Any], **options: Any) -> Stream:
    """As :func:`read_stream`, for channels that a model knows: other columns are no danger.

    They are used as the time and the recordings where that is clear, and ignored where it is not;
    ``Stream.notes`` names those that are ignored.
    """
    return read_each(source, partial(read_one, Wanted(channels, others=True, **options)))


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is wanted of a source, as the parameters of :func:`read_stream` say it.

    ``others`` says whether columns without a role may be the time or the recordings.
    """

    channels: Sequence[Any] | None
    others: bool
    label: Any = None
    recording: Any = None
    group: Any = None
    time: Any = None
    unlabelled: Any = None
    max_gap: float | None = None
    sep: str | None = None
    decimal: str | None = None
    rate: float | None = None
    between: Between = "linear"
    past: int | None = None

    @property
    def by_role(self) -> dict[str, Any]:
        """The columns that are named for something."""
        named = {"label": self.label, "recording": self.recording, "time": self.time}
        return named | ({} if self.group is None else {"group": self.group})


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """What each column of a table is for.

    Attributes
    ----------
    table : Table
    channels : list of names
        The columns of values.
    roles : mapping of names to roles
        The columns of the label, the recording, the group and the time that were named.
    by_name : mapping of names to roles
        Further columns that have the name of a time, a recording or a row number.
    ignored : list of str
        A note on columns that are not used, if any.
    """

    table: Table
    channels: list[Any]
    roles: dict[Any, str]
    by_name: dict[Any, Role]
    ignored: list[str]

    @property
    def is_text(self) -> bool:
        return isinstance(self.table, TextTable)


def plan_columns(source: Any, wanted: Wanted) -> ColumnPlan:
    """Decide which column of a source is what, before the columns are read.

    Raises
    ------
    InputError
        If there is no such column, or one cannot be what it is named for.
    """
    by_role, channels, others = wanted.by_role, wanted.channels, wanted.others
    if wanted.label is None and wanted.unlabelled is not None:
        raise InputError(
            "unlabelled names entries of the label column; say which column that is (label)"
        )
    table = open_table(source, Text(wanted.sep, wanted.decimal), channels)
    if isinstance(table, ArrayTable):
        by_role = {role: _count_from_start(column, table) for role, column in by_role.items()}
        channels = None if channels is None else [_count_from_start(c, table) for c in channels]
    for role, column in by_role.items():
        if column is not None:
            _check_column(column, role, table)
    _refuse_two_roles(by_role, table)
    roles = {column: role for role, column in by_role.items() if column is not None}
    by_name = _roles_by_name(table, {*roles, *(channels or ())}) if others else {}
    names = _value_columns(channels, {**roles, **by_name}, table)
    ignored = _ignored(table, {*names, *roles, *by_name}) if others and channels else []
    left, used = _left_out(table, {*names, *roles}), _left_out(table, {*table.columns} - {*names})
    if channels is None and left:
        ignored = [f"{', '.join(left)}: left out; to use them, {NAME_COLUMNS}"]
    elif used:
        ignored.append(f"{', '.join(used)}: used, since they are named")
    return ColumnPlan(table, names, roles, by_name, ignored)


def read_one(wanted: Wanted, source: Any) -> Stream:
    """Read a stream from a single source."""
    plan = plan_columns(source, wanted)
    strict, rate, max_gap, past = wanted.channels is None, wanted.rate, wanted.max_gap, wanted.past
    table, names, roles, by_name = plan.table, plan.channels, plan.roles, plan.by_name
    is_array, is_text = isinstance(table, ArrayTable), plan.is_text
    is_file = isinstance(table, TextTable | ArrowTable)
    if rate is not None:
        check_rate(rate, wanted.between)
    in_parts = past is not None and is_file and wanted.label is not None and rate is None
    try:
        # Only a table that is asked for time explains why a column is none.
        lenient = {name: "row" if role == "time" else role for name, role in by_name.items()}
        all_roles = {**roles, **(by_name if strict else lenient)}
        columns = _read_narrow(table, all_roles) if in_parts else table.read(names, all_roles)
        # In parts the values come last, when it is known which of them are kept.
        n_steps = len(next(iter(columns.values())))
        values = np.zeros((n_steps, 1), np.float32) if in_parts else values_of(columns, names)
        given = {role: columns[column] for column, role in roles.items()}
        settled = order_columns(
            {
                name: (
                    partial(_recordings, columns[name], is_text)
                    if role == "recording"
                    else partial(as_numpy, columns[name])
                )
                for name, role in by_name.items()
            },
            by_name,
            len(values),
            recordings=_recordings(given["recording"], is_text) if "recording" in given else None,
            time=as_numpy(given["time"]) if "time" in given else None,
            strict=strict,
            regular=rate is None,
        )
        if is_frame(source):
            settled = settled.of_frame(source, len(values))
        if strict and not is_array and not in_parts:
            refuse_counters(values, names, settled.recordings)
        states = None
        if "label" in given:
            states = decode_states(*encoded(given["label"], is_text), wanted.unlabelled)
        groups = None
        if "group" in given:
            groups = as_recordings(_recordings(given["group"], is_text), n_steps, "group")
            if settled.recordings is None:
                settled = replace(settled, recordings=groups)
        if rate is not None:
            values, source_of, settled = _at_rate(values, settled, rate, max_gap, wanted.between)
            states = None if states is None else states[source_of]
            groups = None if groups is None else groups[source_of]
            max_gap = GAP_FACTOR / rate
        stream = Stream(
            values,
            states,
            recordings=settled.recordings,
            groups=groups,
            time=settled.time,
            channels=["unread"] if in_parts else [f"x{n}" for n in names] if is_array else names,
            unlabelled=None if states is None else no_state(states),
            max_gap=max_gap,
        )
        if strict and is_array:
            warn_of_counters(values, stacklevel=4)
        stream.notes = (*settled.notes, *getattr(table, "notes", ()), *plan.ignored)
        if settled.breaks is not None:
            stream.gap_before |= settled.breaks
        if in_parts and past is not None:
            return _with_labelled_values(stream, plan, past, strict=strict)
        return stream
    except StepError as error:
        raise InputError(f"{table.where(error.steps)}{error}") from None


def _at_rate(
    values: NDArray[np.floating[Any]],
    settled: OrderColumns,
    rate: float,
    max_gap: float | None,
    between: Between,
) -> tuple[NDArray[np.floating[Any]], Ints, OrderColumns]:
    """The steps at a rate, and which step each is made of.

    Those of a source without time are as they are, with the time that the rate gives them.
    """
    if settled.time is None:
        as_max_gap(max_gap, timed=False)
        return values, np.arange(len(values)), replace(settled, time=np.arange(len(values)) / rate)
    begins = changes(settled.recordings, len(values))
    if settled.breaks is not None:
        begins |= settled.breaks
    as_max_gap(max_gap, timed=True)
    new, time, source = resample(values, settled.time, begins, rate, max_gap, between)
    number = np.cumsum(begins)[source]
    recordings = settled.recordings
    note = f"resampled to {rate:g} steps a second: {len(new)} steps of {len(values)}"
    return (
        new,
        source,
        replace(
            settled,
            recordings=None if recordings is None else np.asarray(recordings)[source],
            time=time,
            breaks=None if settled.breaks is None else np.diff(number, prepend=number[:1]) > 0,
            notes=(*settled.notes, note),
        ),
    )


def values_of(columns: Mapping[Any, Any], names: Sequence[Any]) -> NDArray[np.floating[Any]]:
    """The values (T, d) of some columns."""
    remedy = f"correct it, or {NAME_COLUMNS}"
    return stack_columns([as_numpy(columns[name]) for name in names], names, remedy=remedy)


def _read_narrow(table: Any, roles: Mapping[Any, str]) -> dict[Any, Any]:
    """The columns with roles, without the memory that reading a whole file at once takes."""
    inferred = [name for name, role in roles.items() if role in ("time", "row")]
    types = {name: table.type_of(name) for name in inferred}
    parts = list(table.pieces([], roles, BATCH, types))
    return {
        name: pa.chunked_array([chunk for part in parts for chunk in part[name].chunks])
        for name in roles
    }


def _with_labelled_values(steps: Stream, plan: ColumnPlan, past: int, *, strict: bool) -> Stream:
    """The labelled steps of a stream without values, and those just before, with their values.

    ``strict`` refuses a channel that only tells the place in the file.
    """
    table: Any = plan.table
    names = tuple(map(str, plan.channels))
    runs = np.flatnonzero(np.diff(steps.labelled, prepend=False, append=False))
    kept = counts_inside(np.maximum(runs[::2] - past, 0), runs[1::2], len(steps)) > 0
    parts, first = [], 0
    label = {column: role for column, role in plan.roles.items() if role == "label"}
    for piece in table.pieces(plan.channels, label, BATCH):
        values = values_of(piece, plan.channels)
        if strict and not first:
            for name, column in zip(plan.channels, values.T, strict=True):
                if not goes_up_and_down(column):  # so all of it must be seen
                    whole = values_of(table.read([name], {}), [name])
                    refuse_counters(whole, [name], steps.recordings)
        refuse_infinity(values, names, first)
        parts.append(values[kept[first : first + len(values)]])
        first += len(values)
    stream = steps[np.flatnonzero(kept)].with_values(np.concatenate(parts)).with_channels(names)
    stream.usual_step, stream.n_left_out = steps.usual_step, len(steps) - len(stream)
    pa.default_memory_pool().release_unused()  # which learning needs
    return stream


# ------------------------------------------------------------------ which column is what


def _count_from_start(column: Any, table: Table) -> Any:
    n = len(table.columns)
    if isinstance(column, str) and re.fullmatch(r"-?\d+|x\d+", column, re.ASCII):
        column = int(column.removeprefix("x"))  # as a command writes it, or a model knows it
    return column + n if isinstance(column, int | np.integer) and -n <= column < 0 else column


def _check_column(column: Any, role: str, table: Table) -> None:
    """Raise InputError if the table has no such column."""
    if not isinstance(column, tuple) and np.ndim(column):
        raise InputError(f"{role} must be the name of a column, not a {type(column).__name__}")
    if column in table.columns:
        return
    if isinstance(table.columns, range):
        raise InputError(
            f"{role}={column!r}: the array has columns 0 to {len(table.columns) - 1}; give a number"
        )
    names = [str(name) for name in table.columns]
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(column).lower(), lower, n=1)
    hint = f"did you mean {lower[close[0]]!r}? " if close else ""
    raise InputError(
        f"{table.where([])}no column {column!r} ({role}); {hint}the columns are "
        f"{_listed(names, 20)}"
    )


def _listed(names: Sequence[str], most: int) -> str:
    """Some names, on one line whatever they hold, and how many more there are."""
    shown = [name if name.isprintable() else repr(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def _refuse_two_roles(by_role: Mapping[str, Any], table: Table) -> None:
    taken: dict[Any, str] = {}
    for role, column in by_role.items():
        if column is not None and column in taken:
            raise InputError(
                f"{table.where([])}column {column!r} cannot be both {taken[column]} and {role}"
            )
        taken[column] = role


def _roles_by_name(table: Table, taken: Collection[Any]) -> dict[Any, Role]:
    """The columns that are no channels by their names; numbers are no names."""
    if isinstance(table, ArrayTable):
        return {}
    free = [column for column in table.columns if column not in taken]
    roles = {column: role for column in free if (role := role_by_name(column)) is not None}
    # pandas writes its index as a first column without a name.
    if table.columns[0] == "" and list(table.columns).count("") == 1 and "" in free:
        roles[""] = "row"
    return roles


def _ignored(table: Table, used: Collection[Any]) -> list[str]:
    """A note on the columns that are not used, if any."""
    left = [str(column) for column in table.columns if column not in used]
    if not left:
        return []
    kind = "column is" if len(left) == 1 else "columns are"
    return [f"{len(left)} {kind} ignored: {_listed(left, 5)}"]


def _left_out(table: Table, others: Collection[Any]) -> list[str]:
    """The columns but for some others that are no sensors by the source itself, with the reason."""
    left = getattr(table, "left_out", {}).items()
    shown = [f"{name} ({why})" for name, why in left if name not in others]
    return shown if len(shown) < 9 else [*shown[:8], f"{len(shown) - 8} more"]


def _value_columns(
    channels: Sequence[Any] | None, roles: Mapping[Any, str], table: Table
) -> list[Any]:
    """The columns of values; a column with another role cannot be one of them."""
    if channels is None:
        never = {*roles, *getattr(table, "states", ()), *getattr(table, "left_out", ())}
        rest = [column for column in table.columns if column not in never]
        if not rest:
            named = {c: r for c in roles if (r := role_by_name(c)) is not None}
            why = nothing_left(named) if named else "no column is left for the values"
            if left := _left_out(table, roles):
                why = f"no channel is a sensor: {', '.join(left)}; {NAME_COLUMNS}"
            raise InputError(f"{table.where([])}{why}")
        if "" in rest:
            unnamed = list(table.columns).index("") + 1
            raise InputError(
                f"{table.where([])}column {unnamed} has no name; give it one, or {NAME_COLUMNS}"
            )
        return rest
    chosen = [channels] if isinstance(channels, str) else list(channels)
    if not chosen:
        raise InputError("channels is empty; name at least one column of values")
    seen: set[Any] = set()
    for column in chosen:
        _check_column(column, "channels", table)
        if column in roles:
            raise InputError(f"column {column!r} is the {roles[column]} and cannot be a channel")
        if column in seen:
            raise InputError(f"column {column!r} is named twice in channels")
        seen.add(column)
    return chosen


# ------------------------------------------------------------------ what is in the columns


def as_numpy(column: Any) -> Any:
    """An Arrow column as an array, with NaN or NaT for null; anything else as it is."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_time(column.type):  # of the day; numpy has durations only
        ticks = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        return ticks.cast(pa.int64()).cast(pa.duration(column.type.unit)).to_numpy()
    if any(is_kind(column.type) for is_kind in _NEED_CAST):
        column = column.cast(pa.float64())
    return column.to_numpy()


def encoded(column: Any, is_text: bool) -> tuple[list[Any], Ints]:
    """The distinct entries of a column, None for null, and each step's index among them.

    ``is_text`` means that numbers were read as texts, too.
    """
    if not isinstance(column, pa.ChunkedArray):
        return encode(one_per_step(column, len(column), "label"))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunk = column.unify_dictionaries().combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):  # some versions do not combine an empty or single chunk
        chunk = chunk.chunk(0)
    entries = chunk.dictionary.to_pylist()
    if is_text:
        entries = [_as_number(entry.strip()) for entry in entries]
    codes = chunk.indices.fill_null(len(entries)).to_numpy(zero_copy_only=False)
    return [*entries, None], codes.astype(np.int64)


def _recordings(column: Any, is_text: bool) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return decode_recordings(*encoded(column, is_text))


def _as_number(text: str) -> int | float | str:
    """The number that a text is; other texts unchanged, and numbers that begin with zeros."""
    if not _NUMBER.fullmatch(text):
        return text
    if re.fullmatch(r"[-+]?0\d+", text, re.ASCII):
        return Padded(text)
    return float(text) if "." in text else int(text)


# ------------------------------------------------------------------ tables


class Table(Protocol):
    """Columns by name, read only when it is known what they are for."""

    @property
    def columns(self) -> Sequence[Any]:
        """The names, in order."""

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        """The columns of channels and with roles, as Arrow columns or as numpy can convert them.

        Roles are ``label``, ``recording``, ``time`` and ``row``, by the name of the column.
        """

    def where(self, steps: Sequence[int]) -> str:
        """The place of some steps, as the beginning of an error message."""


@dataclass(frozen=True)
class Text:
    """How a text file is written, where its name does not say it."""

    sep: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '\r\n"'):
            raise InputError(f"sep must be one character, not {self.sep!r}")
        if self.decimal not in (None, ".", ","):
            raise InputError(f'decimal must be "." or ",", not {self.decimal!r}')
        if self.sep is not None and self.sep == self.decimal:
            raise InputError(f"sep and decimal are both {self.sep!r}; they must differ")

    def form(self, path: Path) -> FileFormat | None:
        """The format of a text file; None for a file of another kind."""
        if self.sep is not None:
            return FileFormat(self.sep, "gzip" if path.suffix.lower() == ".gz" else None)
        return file_format(path) if path.suffix.lower() in TEXTS else None


def open_table(
    source: Any, text: Text | None = None, channels: Sequence[Any] | None = None
) -> Table:
    """The table of a file, a frame or an array.

    Parameters
    ----------
    source : path, frame or array
    text : Text, optional
        How a text file is written.
    channels : sequence of names, optional
        They choose among several streams of one file.

    Raises
    ------
    InputError
        If it is not there, or of no known kind.
    """
    if isinstance(source, str | os.PathLike):
        with reading(Path(source)):
            return _open_file(Path(source), text or Text(), channels)
    if isinstance(source, pa.Table):
        return ArrowTable(source, "the table")
    if hasattr(source, "dims") and hasattr(source, "to_dataframe"):
        source = _frame_of_xarray(source)
    if hasattr(source, "collect") and not hasattr(source, "__array__"):
        raise InputError("a lazy frame has no values yet; give frame.collect()")
    if (table := table_of(source)) is not None:
        return table
    if is_frame(source):
        distinct(list(source.columns), "columns of the frame")
        return ColumnsTable("", {name: source[name] for name in source.columns})
    if isinstance(source, np.ndarray | Sequence):
        return ArrayTable(source)
    raise InputError(
        f"a stream cannot be read from {type(source).__name__}; give the path of a CSV, TSV or "
        "Parquet file, a pandas or polars frame, or an array"
    )


def _frame_of_xarray(source: Any) -> Any:
    """A pandas frame of a DataArray (steps, channels) or of a Dataset along one dimension."""
    is_array = hasattr(source, "to_series")
    if len(source.dims) != (2 if is_array else 1):
        raise InputError(
            f"{type(source).__name__} of xarray has the dimensions {', '.join(source.dims)}; give "
            "an array of steps and channels, or a set of variables along the steps alone "
            "(choose the others with .isel)"
        )
    frame = source.to_pandas() if is_array else source.to_dataframe()
    steps = frame.index.name
    return frame.reset_index() if steps in source.coords else frame


def _open_file(path: Path, text: Text, channels: Sequence[Any] | None) -> Table:
    if not path.exists():
        raise InputError(f"{path} is not there; check the name and the folder ({path.parent})")
    check_text(str(path), "the name of the recording")
    suffix = path.suffix.lower()
    if suffix == ".gz" and path.stat().st_size > 4:
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)  # where gzip keeps the length of what it packed
            refuse_growth(path, int.from_bytes(file.read(), "little"))
    if (form := text.form(path)) is not None and not path.is_dir():
        return TextTable(path, form, text.decimal, sep_given=text.sep is not None)
    if suffix == ".npy":
        array = read_npy(path)
        return array if isinstance(array, ColumnsTable) else ArrayTable(array)
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".mat":
        return read_mat(path)
    if suffix == ".xdf":
        return read_xdf(path, channels)
    if suffix in RAW_SUFFIXES or path.name.lower().endswith(".fif.gz"):
        return read_raw(path)
    if suffix in IPC or suffix in PARQUET or path.is_dir():
        return ArrowTable(_open_arrow(path), str(path))
    raise InputError(f"{path} is of no known kind; its name must end in {', '.join(KNOWN)}")


def _open_arrow(path: Path) -> Any:
    """A Parquet file, the table of an Arrow file, or a folder of Parquet files."""
    if path.is_dir():
        from pyarrow.dataset import dataset

        return dataset(path, format="parquet", partitioning="hive")
    if path.suffix.lower() in PARQUET:
        # In buffers: a part of a file (a row group) may hold all of its steps.
        return pa.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    from pyarrow.feather import read_table

    with path.open("rb") as file:
        magic = file.read(4)
    if magic in (b"ARRO", b"FEA1"):  # else it has no footer: the format for sending
        return read_table(path, memory_map=False)
    with pa.OSFile(str(path)) as steps, pa.ipc.open_stream(steps) as reader:
        return reader.read_all()


class ArrowTable:
    """A Parquet file, a folder of such files, or an Arrow table in memory."""

    def __init__(self, table: Any, name: str) -> None:
        self._table = table
        self._name = name
        is_file = isinstance(table, pa.parquet.ParquetFile)
        schema = table.schema_arrow if is_file else table.schema
        self._types = {field.name: field.type for field in schema}
        self.columns: Sequence[Any] = list(schema.names)
        distinct(self.columns, f"columns of {name}")

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        wanted = self._wanted(channels, roles)
        with reading(self._name):
            if isinstance(self._table, pa.parquet.ParquetFile):
                table = self._table.read(columns=wanted)
            elif isinstance(self._table, pa.Table):
                table = self._table.select(wanted)
            else:
                table = self._table.to_table(columns=wanted)
        if not table.num_rows:
            raise InputError(f"{self._name} has columns but no steps")
        return self._checked(table)

    def pieces(
        self,
        channels: Sequence[Any],
        roles: Mapping[Any, str],
        size: int,
        types: Mapping[Any, Any] | None = None,
    ) -> Iterator[dict[Any, Any]]:
        """The same columns, some steps at a time; types are those of the file."""
        wanted = self._wanted(channels, roles)
        if isinstance(self._table, pa.parquet.ParquetFile):
            batches = self._table.iter_batches(min(size, BATCH), columns=wanted)
        elif isinstance(self._table, pa.Table):
            batches = self._table.select(wanted).to_batches(max_chunksize=size)
        else:
            batches = self._table.to_batches(
                columns=wanted, batch_size=BATCH, batch_readahead=1, fragment_readahead=1
            )
        pieces = in_pieces(batches, size)
        with reading(self._name):
            first = next(pieces, None)
            if first is None:
                raise InputError(f"{self._name} has columns but no steps")
            for table in chain([first], pieces):
                yield self._checked(table)

    def _checked(self, table: Any) -> dict[Any, Any]:
        with reading(self._name):
            table.validate(full=True)  # no reader looks whether texts are where it says, and UTF-8
        return dict(zip(table.column_names, table.columns, strict=True))

    def type_of(self, column: Any) -> Any:
        """The Arrow type of a column."""
        return self._types[column]

    def _wanted(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> list[Any]:
        for name in channels:
            kind = self._types[name]
            if not (_is_number(kind) or pa.types.is_null(kind)):
                error = NamesError(
                    f"{self._name}, column {name!r} holds {kind}, not numbers; {NAME_COLUMNS}"
                )
                error.column = name
                raise error
        return [*channels, *roles]

    def where(self, steps: Sequence[int]) -> str:
        return f"{self._name}: "


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


class ArrayTable(ColumnsTable):
    """An array of shape (T, columns), whose columns are named by their numbers."""

    def __init__(self, rows: Any) -> None:
        array = as_matrix(rows)
        super().__init__("", dict(enumerate(array.T)))
        self.columns = range(array.shape[1])
