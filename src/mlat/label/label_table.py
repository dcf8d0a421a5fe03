"""Tables of labelled spans: one row for each part of a recording that is in one state.

The columns are ``start``, ``end`` and ``state``, and ``recording`` where there are several. Steps
are counted from 0 at the beginning of the recording, or of the whole stream where the table names
no recording; a span is half-open: ``end`` is the first step after it. A table may have
``start_time`` and ``end_time`` instead, in the time of the stream.

A state is a text. Where all states of a table are whole numbers, those of the stream are numbers.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.checks import Ints, check_text, is_whole
from ..base.disk import atomic_write, disk_errors
from ..base.errors import InputError
from ..stream.arrow import pa
from ..stream.sources import FileFormat, file_format, reading
from ..stream.stream import Stream
from ..stream.text_table import refuse_bytes, rows_of
from .span_list import IGNORE, runs_of

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)  # a numbered state; 007 is a name
_STEP = re.compile(r"[-+]?\d{1,18}", re.ASCII)
LARGEST = 2**62  # a step beyond it is no step of any recording
SHOWN = 40  # characters of an entry in a message


class Span(NamedTuple):
    """Steps ``start`` to ``end - 1`` of a recording, all in one state.

    ``recording`` is the recording's name as a text; ``""`` counts from the start of the stream.
    """

    start: int
    end: int
    state: str
    recording: str = ""


Where = Callable[[int], str]  # how a message names the span of this index


def check_spans(
    spans: Iterable[Span],
    lengths: Mapping[str, int] | None = None,
    *,
    where: Where = lambda i: f"span {i}",
) -> list[Span]:
    """The spans sorted by recording and step; those of one state that overlap are joined.

    Parameters
    ----------
    spans : iterable of Span
    lengths : mapping of recording to its number of steps, optional
        Default: any recording of any length.
    where : callable
        Names the span of an index, for messages.

    Raises
    ------
    InputError
        If a span is empty, has no state, lies outside its recording, or overlaps one of another
        state.
    """
    given = list(spans)
    for i, span in enumerate(given):
        _check_span(span, lengths, lambda i=i: where(i))  # type: ignore[misc]
    order = sorted(range(len(given)), key=lambda i: (given[i].recording, *given[i][:2]))
    found: list[Span] = []
    last = -1  # the index of the span that reaches furthest
    for i in order:
        span = given[i]
        if found and found[-1].recording == span.recording and span.start < found[-1].end:
            if found[-1].state != span.state:
                raise InputError(
                    f"{where(i)} (steps {span.start} to {span.end}, {_short(span.state)}) overlaps "
                    f"{where(last)} (steps {given[last].start} to {given[last].end}, "
                    f"{_short(given[last].state)}); a step has one state: shorten or delete one"
                )
            if span.end > found[-1].end:
                found[-1], last = found[-1]._replace(end=span.end), i
            continue
        found.append(Span(int(span.start), int(span.end), span.state, span.recording))
        last = i
    return found


def _check_span(span: Span, lengths: Mapping[str, int] | None, where: Callable[[], str]) -> None:
    for name, step in (("start", span.start), ("end", span.end)):
        if not is_whole(step) or not 0 <= step < LARGEST:
            raise InputError(
                f"{where()}: {name} must be the number of a step, from 0 on, not {step!r}"
            )
    if span.end <= span.start:
        raise InputError(
            f"{where()} starts at step {span.start} and ends at {span.end}; the end is the first "
            "step after the span, so it must be larger: correct it, or delete the span"
        )
    if not isinstance(span.state, str) or not span.state:
        raise InputError(f"{where()} has no state; name it, or delete the span")
    try:
        check_text(span.state, "the state")
        check_text(span.recording, "the recording")
    except InputError as error:
        raise InputError(f"{where()}: {error}") from None
    if lengths is None:
        return
    if span.recording not in lengths:
        known = ", ".join(map(_short, list(lengths)[:5])) or "none"
        raise InputError(
            f"{where()} is of the recording {_short(span.recording)}, but there is no such "
            f"recording; there are {known}"
        )
    if span.end > lengths[span.recording]:
        of = f" {_short(span.recording)}" if span.recording else ""
        raise InputError(
            f"{where()} ends at step {span.end}, but the recording{of} has only "
            f"{lengths[span.recording]} steps; was it changed or cut since it was labelled?"
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


# ------------------------------------------------------------------ spans and streams


def steps_of_recordings(stream: Stream, name: str = "") -> dict[str, Ints]:
    """The steps of each recording by its name; all steps under ``""``.

    Parameters
    ----------
    stream : Stream
    name : str
        The name of the file, under which its spans may stand, too.
    """
    steps: dict[str, Ints] = {"": np.arange(len(stream))}
    if stream.recordings is not None:
        names, codes = np.unique(stream.recordings, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
        steps |= {str(one): part for one, part in zip(names.tolist(), parts, strict=True)}
    steps.setdefault(name, steps[""])
    return steps


def with_spans(
    stream: Stream,
    spans: Iterable[Span],
    *,
    name: str = "",
    keep: bool = False,
) -> Stream:
    """The stream with the states of the spans; other steps, and ignored ones, are unlabelled.

    Parameters
    ----------
    stream : Stream
    spans : iterable of Span
    name : str
        The name of the stream's file, which spans may have as their recording.
    keep : bool
        Steps of no span keep the states that they have.

    Raises
    ------
    InputError
        As `check_spans`; if a span is of a recording that is not there; if some states are named
        and others numbered.
    """
    steps = steps_of_recordings(stream, name)
    lengths = {one: len(part) for one, part in steps.items()}
    checked = check_spans(spans, lengths)
    names = sorted({span.state for span in checked} - {IGNORE})
    numbered = bool(names) and all(_NUMBER.fullmatch(state) for state in names)
    if keep and stream.labelled.any():
        numbered = _kept_kind(stream, names, numbered)
    if numbered and "-1" in names:
        raise InputError(
            "the state -1 of a span stands for no state; number the states from 0, or name them"
        )
    # By codes: an array of texts of ten thousand states would be copied for each span.
    codes = np.zeros(len(stream), dtype=np.int64)
    code_of = {state: code for code, state in enumerate([*names, IGNORE], 1)}
    for span in checked:
        at = steps[span.recording][span.start : span.end]
        now, code = codes[at], code_of[span.state]
        if ((now != 0) & (now != code)).any():  # of the whole stream and of one recording
            raise InputError(
                f"the span of steps {span.start} to {span.end} ({_short(span.state)}) overlaps one "
                "of another state that names no recording; shorten or delete one"
            )
        codes[at] = code
    entries: list[Any] = [-1, *map(int, names), -1] if numbered else ["", *names, ""]
    states = np.array(entries)[codes]
    if keep and stream.labelled.any():
        states = np.where(codes > 0, states, stream.states.astype(states.dtype.kind))
    return stream.with_states(states, unlabelled=entries[0])


def _kept_kind(stream: Stream, names: Sequence[str], numbered: bool) -> bool:
    """Whether states are numbers, where those of a column and those of spans come together."""
    if stream.states.dtype.kind == "U" or not names or numbered:
        return stream.states.dtype.kind != "U"
    state = next(state for state in names if not _NUMBER.fullmatch(state))
    raise InputError(
        f"the stream numbers its states ({stream.classes[0]}, …), but a span has the state "
        f"{_short(state)}; number all states or name all"
    )


def spans_of(stream: Stream) -> list[Span]:
    """The labelled steps of a stream as spans, as long as possible inside each recording."""
    spans = []
    names = stream.classes.tolist()
    for recording, part in steps_of_recordings(stream).items():
        if not recording and stream.recordings is not None:
            continue
        codes = stream.codes[part]
        for start, end in zip(*(edges.tolist() for edges in runs_of(codes)), strict=True):
            if codes[start] >= 0:
                spans.append(Span(start, end, str(names[codes[start]]), recording))
    return spans


# ------------------------------------------------------------------ files


def read_spans(
    path: str | os.PathLike[str], stream: Stream | None = None, *, name: str = ""
) -> list[Span]:
    """Read a table of spans: CSV, TSV or Parquet.

    Parameters
    ----------
    path : path
    stream : Stream, optional
        What was labelled: the spans are checked against it. A table of times needs it.
    name : str
        The name of the stream's file, which spans may have as their recording.

    Returns
    -------
    list of Span
        Sorted. Those of recordings that are not in the stream are among them, but for a table of
        times.

    Raises
    ------
    InputError
        If the table is wrong; the message names the file and the line.
    DiskError
        If it cannot be read.
    """
    file = Path(path)
    form = file_format(file)
    columns, where = _read_parquet(file) if form.delimiter is None else _read_text(file, form)
    steps = None if stream is None else steps_of_recordings(stream, name)
    spans, where = _spans_of_columns(columns, where, file, stream, steps)
    if stream is None or steps is None:
        return check_spans(spans, where=where)
    lengths = {one: len(part) for one, part in steps.items()}
    elsewhere = {span.recording for span in spans} - lengths.keys()
    if spans and not ({span.recording for span in spans} & lengths.keys()):
        known = ", ".join(_short(one) for one in list(lengths)[:6] if one) or "without a name"
        raise InputError(
            f"{file} labels the recording {_short(min(elsewhere))}, but those that were read are "
            f"{known}; name the recording that was labelled, or correct the column"
        )
    # Others than those that were read may be labelled in the same table.
    return check_spans(spans, lengths | dict.fromkeys(elsewhere, LARGEST), where=where)


def only_of(spans: Iterable[Span], stream: Stream, *, name: str = "") -> list[Span]:
    """The spans of the recordings that the stream has."""
    there = steps_of_recordings(stream, name)
    return [span for span in spans if span.recording in there]


def write_spans(path: str | os.PathLike[str], spans: Iterable[Span]) -> None:
    """Write a table of spans in steps, whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.csv``, ``.tsv`` (also with ``.gz``) or ``.parquet``.
    spans : iterable of Span

    Raises
    ------
    InputError
        As `check_spans`.
    DiskError
        If it cannot be written.
    """
    form = file_format(Path(path))
    checked = check_spans(spans)
    columns: dict[str, Any] = {
        "start": pa.array([span.start for span in checked], pa.int64()),
        "end": pa.array([span.end for span in checked], pa.int64()),
        "state": pa.array([span.state for span in checked], pa.string()),
    }
    if any(span.recording for span in checked):
        columns["recording"] = pa.array([span.recording for span in checked], pa.string())
    with disk_errors(Path(path)), atomic_write(path) as temporary:
        if form.delimiter is None:
            pa.parquet.write_table(pa.table(columns), temporary)
        else:
            _write_text(columns, temporary, form)


def _after(last: Any, stream: Stream) -> Any:
    """One usual step after a time."""
    assert stream.time is not None
    step = stream.usual_step or 1.0
    if stream.time.dtype.kind in "Mm":
        return last + np.timedelta64(max(1, round(step * 1e9)), "ns").astype(
            f"timedelta64[{np.datetime_data(stream.time.dtype)[0]}]"
        )
    later = last + (max(1, round(step)) if stream.time.dtype.kind == "i" else step)
    return later if later > last else np.nextafter(last, np.inf)


def _write_text(columns: Mapping[str, Any], path: Path, form: FileFormat) -> None:
    opener: Any = gzip.open if form.compression else open
    delimiter = form.delimiter or ","
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        entries = [column.to_pylist() for column in columns.values()]
        for row in (columns, *zip(*entries, strict=True)):
            file.write(delimiter.join(_quoted(str(entry), delimiter) for entry in row) + "\n")


def _quoted(text: str, delimiter: str) -> str:
    """A field, in quotes where it needs them.

    Python's writer forgets a lone carriage return, and Arrow's quotes every header.
    """
    if set(text) & {delimiter, '"', "\r", "\n"}:
        return '"{}"'.format(text.replace('"', '""'))
    return text


def _read_text(path: Path, form: FileFormat) -> tuple[dict[str, Sequence[Any]], Where]:
    every = rows_of(path, form)
    header = [entry.strip() for entry in next(every, (1, []))[1]]
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in every:
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {line} has {len(row)} fields, the header has {len(header)}; "
                f"complete the line, or quote a field that holds {form.delimiter!r}"
            )
        for entry, name in zip(row, header, strict=True):
            refuse_bytes(path, line, entry, f"column {name!r}")
        rows.append(row)
        lines.append(line)
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    _refuse_twice(header, path)
    return dict(zip(header, columns, strict=True)), lambda i: f"{path}, line {lines[i]}"


def _read_parquet(path: Path) -> tuple[dict[str, Sequence[Any]], Where]:
    columns: dict[str, Sequence[Any]] = {}
    with reading(path):
        table = pa.parquet.ParquetFile(path).read()
        _refuse_twice(table.column_names, path)
        for name in (name for name in table.column_names if name in _COLUMNS):
            column = table.column(name)
            is_time = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
            columns[name] = list(column.to_numpy()) if is_time else column.to_pylist()
    return columns, lambda i: f"{path}, row {i}"


_COLUMNS = ("start", "end", "start_time", "end_time", "state", "recording")


def _refuse_twice(names: Sequence[str], path: Path) -> None:
    for name in _COLUMNS:
        if list(names).count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}; rename or delete one")


def _spans_of_columns(
    columns: Mapping[str, Sequence[Any]],
    where: Where,
    path: Path,
    stream: Stream | None,
    steps: Mapping[str, Ints] | None,
) -> tuple[list[Span], Where]:
    """The spans, and how a message names them. Of times, those of unknown recordings are left out:
    their steps are not known."""
    in_steps = {"start", "end"} <= columns.keys()
    in_time = {"start_time", "end_time"} <= columns.keys()
    if "state" not in columns or not (in_steps or in_time):
        there = ", ".join(map(repr, columns)) or "none"
        raise InputError(
            f"{path} is no table of labels: it needs the columns start, end and state (or "
            f"start_time, end_time and state), and has {there}"
        )
    if in_steps and in_time:
        raise InputError(
            f"{path} has start and end as well as start_time and end_time; leave out two"
        )
    rows = list(range(len(columns["state"])))
    given = columns.get("recording") or [""] * len(rows)
    recordings = ["" if entry is None else str(entry) for entry in given]
    if in_time:
        if stream is None or steps is None or stream.time is None:
            raise InputError(
                f"{path} has times, but the recording has none; read its column of time, or write "
                "start and end as numbers of steps"
            )
        to_steps = _TimeToSteps(stream, steps, where)
        rows = [i for i in rows if recordings[i] in steps]
    spans = []
    for i in rows:
        if in_time:
            start, end = to_steps(
                i, recordings[i], columns["start_time"][i], columns["end_time"][i]
            )
        else:
            start = _step(columns["start"][i], "start", where, i)
            end = _step(columns["end"][i], "end", where, i)
        spans.append(Span(start, end, _state(columns["state"][i]), recordings[i]))
    return spans, lambda k: where(rows[k])


def _state(entry: Any) -> str:
    if entry is None or entry != entry:
        return ""
    if isinstance(entry, float) and entry.is_integer():
        entry = int(entry)
    return str(entry)


def _step(entry: Any, column: str, where: Where, i: int) -> int:
    if isinstance(entry, str):
        text = entry.strip()
        if _STEP.fullmatch(text):
            return int(text)
    elif is_whole(entry) or (isinstance(entry, float) and entry.is_integer()):
        return int(entry)
    shown = "nothing" if entry is None or entry == "" else _short(str(entry))
    raise InputError(
        f"{where(i)}: {column} must be the number of a step, such as 120, not {shown}; if these "
        "are times, name the columns start_time and end_time"
    )


class _TimeToSteps:
    """The steps from one time to another: the first at or after each."""

    def __init__(self, stream: Stream, steps: Mapping[str, Ints], where: Where) -> None:
        assert stream.time is not None
        self.stream, self.where = stream, where
        self.kind = stream.time.dtype
        self.times = {recording: stream.time[part] for recording, part in steps.items()}
        nothing = np.zeros(1, np.diff(stream.time[:1]).dtype)
        self.rises = {r: bool((np.diff(time) > nothing).all()) for r, time in self.times.items()}

    def __call__(self, i: int, recording: str, start: Any, end: Any) -> tuple[int, int]:
        time, where = self.times[recording], self.where
        if not self.rises[recording]:
            raise InputError(
                f"{where(i)}: a time does not say the step, for the stream has several recordings; "
                "name the recording of each span (column recording)"
            )
        first = _as_time(start, self.kind, "start_time", where, i)
        after = _as_time(end, self.kind, "end_time", where, i)
        # A span that ends with the recording may end up to two usual steps after its last.
        last = _after(_after(time[-1], self.stream), self.stream) if len(time) else None
        if not len(time) or first < time[0] or first > time[-1] or after > last:
            lasts = f"lasts from {time[0]} to {time[-1]}" if len(time) else "has no steps"
            raise InputError(
                f"{where(i)} is from {first} to {after}, outside the recording, which {lasts}; was "
                "it changed or cut since it was labelled?"
            )
        return int(np.searchsorted(time, first)), int(np.searchsorted(time, after))


def _as_time(entry: Any, kind: np.dtype[Any], column: str, where: Where, i: int) -> Any:
    """An entry as a time like those of the stream."""
    try:
        if kind.kind == "M":
            if isinstance(entry, str):
                text, entry = entry.strip(), datetime.fromisoformat(entry.strip())
                if entry.tzinfo is None:
                    return np.datetime64(text)  # with nanoseconds, which Python has not
            if isinstance(entry, datetime) and entry.tzinfo is not None:
                entry = entry.astimezone(UTC).replace(tzinfo=None)
            if not isinstance(entry, date | np.datetime64) or entry != entry:
                raise ValueError
            return np.datetime64(entry)
        if kind.kind == "m":
            if isinstance(entry, np.timedelta64):
                return entry
            return np.timedelta64(round(float(entry) * 1e9), "ns")
        if isinstance(entry, str) and _STEP.fullmatch(entry.strip()):
            return int(entry)
        number = entry if is_whole(entry) else float(entry)
        if not np.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        like = "a date like 2024-05-31T12:00:00.5" if kind.kind == "M" else "a number"
        shown = "nothing" if entry is None or entry == "" else _short(str(entry))
        raise InputError(
            f"{where(i)}: {column} must be a time as the recording has it, {like}, not {shown}"
        ) from None
