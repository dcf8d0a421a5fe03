"""A stream that is larger than memory: its steps from a file, some at a time.

What a step is depends on all of the file: whether a column is the time, which step is a gap, what
an entry of the label column means. So CSV and Parquet files are read more than once: first the
narrow columns of labels, recordings and time, of which only a few figures are kept, and then all
columns, in pieces. Joined, the pieces are the stream that :func:`mlat.read_stream` gives. Files of
other kinds are read whole, and cut.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints
from ..base.errors import InputError
from .column_roles import check_stretches, is_irregular, no_clock, taken
from .conversion import (
    GAP_FACTOR,
    Entries,
    StepError,
    as_time,
    changes,
    in_seconds,
    is_absent,
    no_state,
    no_states,
    recordings_of,
    states_of,
)
from .read import (
    ArrowTable,
    ColumnPlan,
    Wanted,
    as_numpy,
    encoded,
    plan_columns,
    read_one,
    values_of,
)
from .sources import names_of, sources_in
from .stream import Stream, as_max_gap, goes_back, kind_of_time, refuse_infinity
from .text_table import TextTable

STEPS = 65536  # of a piece
IN_MEMORY = 1 << 25  # bytes of times between steps; more go to a temporary file
_BITS = 16  # of a number that one look at all of them settles


class Pieces(Protocol):
    """A stream in pieces, which can be gone through again and again.

    Attributes
    ----------
    n_steps : int
    channels : tuple of str
    classes : array of shape (S,)
        The states that occur, sorted.
    no_state : "" or -1
    recordings : array or None
        The recordings that occur; None where there are none.
    time : dtype or None
        Of the time of every piece.
    notes : tuple of str
        As for :class:`mlat.Stream`.
    """

    n_steps: int
    channels: tuple[str, ...]
    classes: NDArray[Any]
    no_state: Any
    recordings: NDArray[Any] | None
    time: Any
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Stream]: ...


def read_pieces(
    source: Any, channels: Sequence[str], *, named: bool = False, size: int = STEPS, **options: Any
) -> Pieces:
    """A stream for a model that knows its channels, in pieces of ``size`` steps.

    Options are those of :func:`mlat.stream.read.read_channels`; ``named`` says that the user
    chose the columns of the channels, and then no other column is looked at, as with
    :func:`mlat.read_stream`.

    Raises
    ------
    InputError
        As those; of values in a file while its pieces are read.
    """
    wanted = Wanted(channels, others=not named, **options)

    def one(source: Any) -> Pieces:
        plan = plan_columns(source, wanted)
        if isinstance(plan.table, TextTable | ArrowTable) and wanted.rate is None:
            try:
                return _FilePieces(plan, wanted.unlabelled, wanted.max_gap, size)
            except StepError as error:
                raise InputError(f"{plan.table.where(error.steps)}{error}") from None
        return StreamPieces(read_one(wanted, source), size)

    sources = sources_in(source)
    if sources is None:
        return one(source)
    return _Joined([one(each) for each in sources], names_of(sources))


class StreamPieces:
    """A stream in memory, in pieces of ``size`` steps."""

    def __init__(self, stream: Stream, size: int = STEPS) -> None:
        self._stream, self._size = stream, size
        self.n_steps, self.channels, self.notes = len(stream), stream.channels, stream.notes
        self.classes, self.no_state = stream.classes, stream.no_state
        self.recordings = None if stream.recordings is None else np.unique(stream.recordings)
        self.time = None if stream.time is None else stream.time.dtype

    def __iter__(self) -> Iterator[Stream]:
        for begin in range(0, self.n_steps, self._size):
            yield self._stream[begin : begin + self._size]


class _Joined:
    """Several recordings one after the other, as :meth:`mlat.Stream.join` joins them."""

    def __init__(self, parts: Sequence[Pieces], names: Sequence[str]) -> None:
        if not parts:
            raise InputError("no recordings to read: the list is empty")
        self._parts = [
            (part, name) for part, name in zip(parts, names, strict=True) if part.n_steps
        ]
        there = [part for part, _ in self._parts] or [parts[0]]
        self.n_steps, self.channels = sum(part.n_steps for part in there), parts[0].channels
        with_states = [part for part in there if len(part.classes)]
        kinds = {part.no_state for part in with_states or there}
        if with_states and len(kinds) > 1:
            raise InputError("some streams name their states and others number them; choose one")
        self.no_state = "" if "" in kinds else -1
        self.classes = np.unique(
            np.concatenate([part.classes for part in with_states or there[:1]])
        )
        times = [part.time for part in there]
        timed = all(t is not None for t in times) and len({kind_of_time(t) for t in times}) == 1
        self.time = np.result_type(*times) if timed else None
        self._numbered = any(part.recordings is not None for part in parts)
        self.recordings: NDArray[Any] | None = np.arange(1) if self._numbered else np.array(names)
        self.notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))

    def __iter__(self) -> Iterator[Stream]:
        number = 0
        for part, name in self._parts:
            before: Any = None
            for piece in part:
                begins = changes(piece.recordings, len(piece))
                if before is not None and piece.recordings is not None:
                    begins[0] = bool(piece.recordings[0] != before[0])
                numbers = number + np.cumsum(begins)
                gap_before = piece.gap_before.copy()
                gap_before[:1] |= before is None
                before = [None] if piece.recordings is None else piece.recordings[-1:]
                number = int(numbers[-1])
                states = piece.states
                if (states.dtype.kind == "U") != (self.no_state == ""):
                    states = no_states(len(piece), as_text=self.no_state == "")
                timed = piece.time is not None and self.time is not None
                yield Stream._of_checked(
                    values=piece.values,
                    states=states,
                    recordings=numbers if self._numbered else np.full(len(piece), name),
                    time=piece.time.astype(self.time) if timed and piece.time is not None else None,
                    channels=piece.channels,
                    max_gap=piece.max_gap,
                    gap_before=gap_before,
                    notes=self.notes,
                )
            number += 1


class _FilePieces:
    """The steps of a text or Parquet file; see :class:`Pieces`."""

    def __init__(self, plan: ColumnPlan, unlabelled: Any, max_gap: float | None, size: int) -> None:
        self._plan, self._size = plan, size
        self._table: Any = plan.table
        self.channels = tuple(map(str, plan.channels))
        given = {role: column for column, role in plan.roles.items()}
        self._label = given.get("label")
        named = [column for column, role in plan.by_name.items() if role == "recording"]
        asked = [given["recording"]] if "recording" in given else named
        seen = self._look_at(asked)
        notes = []
        self._states: NDArray[Any] | None = None
        if self._label is not None:
            self._states = states_of(seen[self._label].entries(), unlabelled)
        self.n_steps = next(iter(seen.values())).n_steps if seen else self._count()
        self._recording: dict[Any, NDArray[Any]] = {}
        for column in asked:
            try:
                table = recordings_of(seen[column].entries())
                if "recording" not in given:
                    check_stretches(column, 1 + seen[column].n_changes, self.n_steps)
                self._recording[column] = table
            except InputError:
                if "recording" in given:
                    raise
        if self._recording and "recording" not in given:
            notes.append(f"{taken(self._recording)} as the recording")
        self._codes = {column: seen[column].codes for column in seen}
        clocks = [column for column, role in plan.by_name.items() if role == "time"]
        self._time, clock = self._find_time(given.get("time"), clocks)
        if self._time is not None and "time" not in given:
            notes.append(f"{taken([self._time])} as the time")
        max_gap = as_max_gap(max_gap, timed=clock is not None)
        if clock is not None and max_gap is None:
            usual = clock.usual
            max_gap = np.inf if usual is None else GAP_FACTOR * usual
        self._max_gap, self.time = max_gap, None if clock is None else clock.dtype
        if clock is None and clocks:
            notes.append(no_clock(clocks))
        self.notes = (*notes, *getattr(plan.table, "notes", ()), *plan.ignored)
        states = no_states(1) if self._states is None else self._states
        self.no_state = no_state(states)
        self.classes = np.unique(states[states != self.no_state])
        many = len(self._recording) > 1
        tables = list(self._recording.values())
        self.recordings = (np.arange(1) if many else np.unique(tables[0])) if tables else None

    def _look_at(self, recordings: Sequence[Any]) -> dict[Any, _Seen]:
        """What the columns of labels and recordings hold."""
        columns = [*([] if self._label is None else [self._label]), *recordings]
        seen = {column: _Seen(self._plan.is_text) for column in dict.fromkeys(columns)}
        roles = {c: "label" if c == self._label else "recording" for c in seen}
        if seen:
            for piece in self._table.pieces([], roles, self._size):
                for column, one in seen.items():
                    one.add(piece[column])
        return seen

    def _count(self) -> int:
        first = self._plan.channels[:1]
        return sum(len(p[first[0]]) for p in self._table.pieces(first, {}, self._size))

    def _find_time(self, given: Any, clocks: Sequence[Any]) -> tuple[Any, _Clock | None]:
        """The column of time, and what is known of it."""
        if given is not None:
            return given, self._run_clock(given, named=True)
        for column in clocks:
            try:
                return column, self._run_clock(column, named=False)
            except InputError:
                continue
        return None, None

    def _run_clock(self, column: Any, *, named: bool) -> _Clock:
        """Look at a column of time. Raises InputError if it is none."""
        self._type = {column: self._table.type_of(column)}
        clock = _Clock()
        # Only a table that is asked for time explains why a column is none.
        for piece, _, begins in self._pieces([], {column: "time" if named else "row"}, self._type):
            clock.add(as_numpy(piece[column]), begins)
        if not named and is_irregular(clock.n_gaps(), clock.n_inside):
            raise StepError(f"column {column!r} is not regular")
        return clock

    def _pieces(
        self, channels: Sequence[Any], roles: dict[Any, str], types: dict[Any, Any]
    ) -> Iterator[tuple[dict[Any, Any], NDArray[Any] | None, Bools]]:
        """The pieces of the table, the recording (T,) of each step, and where one begins."""
        roles = roles | dict.fromkeys(self._recording, "recording")
        last: dict[Any, int] = {}
        number = 0
        for piece in self._table.pieces(channels, roles, self._size, types):
            begins = np.zeros(len(next(iter(piece.values()))), dtype=bool)
            of = None
            for column, table in self._recording.items():
                codes = self._codes[column](piece[column])
                begins |= np.diff(codes, prepend=last.get(column, codes[0])) != 0
                last[column], of = int(codes[-1]), table[codes]
            if len(self._recording) > 1:  # one begins wherever one of several columns changes
                of = number + np.cumsum(begins)
                number = int(of[-1])
            yield piece, of, begins

    def __iter__(self) -> Iterator[Stream]:
        roles = {} if self._label is None else {self._label: "label"}
        roles |= {} if self._time is None else {self._time: "row"}
        types = {} if self._time is None else self._type
        first, last = 0, None
        for piece, of, begins in self._pieces(self._plan.channels, roles, types):
            try:
                stream = self._stream(piece, of, begins, first, last)
            except StepError as error:
                raise InputError(f"{self._table.where(error.steps)}{error}") from None
            first += len(stream)
            last = None if stream.time is None else stream.time[-1:]
            yield stream

    def _stream(
        self,
        piece: dict[Any, Any],
        of: NDArray[Any] | None,
        gap_before: Bools,
        first: int,
        last: NDArray[Any] | None,
    ) -> Stream:
        """The stream of one piece; ``last`` is the time of the step before it."""
        values = values_of(piece, self._plan.channels)
        refuse_infinity(values, self.channels, first)
        states = no_states(len(values))
        if self._states is not None:
            states = self._states[self._codes[self._label](piece[self._label])]
        time = None
        if self._time is not None:
            time = as_time(as_numpy(piece[self._time]), len(values), first).astype(self.time)
            before = time[:1] if last is None else last
            elapsed = in_seconds(np.diff(np.concatenate([before, time])))
            gap_before |= elapsed > cast(float, self._max_gap)
        return Stream._of_checked(
            values=values,
            states=states,
            recordings=of,
            time=time,
            channels=self.channels,
            max_gap=self._max_gap,
            gap_before=gap_before,
            notes=self.notes,
        )


@dataclass(eq=False)
class _Seen:
    """The distinct entries of a column, from piece to piece."""

    is_text: bool
    n_steps: int = 0
    n_changes: int = 0
    _index: dict[Any, int] = field(default_factory=dict)
    _first: list[int] = field(default_factory=list)
    _count: list[int] = field(default_factory=list)
    _last: int = -1

    def add(self, column: Any) -> None:
        """Look at the next steps."""
        values, codes = encoded(column, self.is_text)
        of = Entries.of(values, codes)
        for value, first, count in zip(values, of.first, of.count, strict=True):
            if not count:
                continue
            place = self._index.setdefault(_key(value), len(self._first))
            if place == len(self._first):
                self._first.append(self.n_steps + first)
                self._count.append(0)
            self._count[place] += count
        found = self._codes_of(values, codes)
        self.n_changes += int((np.diff(found) != 0).sum()) + (0 <= self._last != found[0])
        self._last = int(found[-1])
        self.n_steps += len(found)

    def codes(self, column: Any) -> Ints:
        """The number of each step's entry among :meth:`entries`, (T,)."""
        return self._codes_of(*encoded(column, self.is_text))

    def entries(self) -> Entries:
        """The entries of all steps so far."""
        entries = [entry for _, entry in self._index]
        return Entries(entries, self._first, self._count, self.n_steps)

    def _codes_of(self, values: Sequence[Any], codes: Ints) -> Ints:
        return np.array([self._index.get(_key(value), -1) for value in values])[codes]


def _key(entry: Any) -> tuple[Any, Any]:
    """An entry with its type, for 1, 1.0 and True are equal; all that is absent is None."""
    return (None, None) if is_absent(entry) else (type(entry), entry)


class _Clock:
    """The time of a stream, from piece to piece: whether it rises, and its usual step."""

    def __init__(self) -> None:
        self.dtype: Any = None
        self.n_inside = 0
        self._elapsed = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - it ends with the clock
        self._last: NDArray[Any] | None = None
        self._n_steps = 0

    def add(self, column: Any, begins: Bools) -> None:
        """Look at the next steps; ``begins`` (T,) is True where a recording begins."""
        time = as_time(column, len(column), self._n_steps)
        before = time[:1] if self._last is None else self._last
        elapsed = in_seconds(np.diff(np.concatenate([before, time])))
        inside = ~begins
        inside[0] &= self._last is not None
        back = inside & ~(elapsed > 0)
        if back.any():
            step = int(np.argmax(back))
            earlier = time[step - 1] if step else before[0]
            raise goes_back(self._n_steps + step, time[step], earlier)
        self._elapsed.write(elapsed[inside].tobytes())
        self.n_inside += int(inside.sum())
        self.dtype = time.dtype if self.dtype is None else np.result_type(self.dtype, time.dtype)
        self._last = time[-1:]
        self._n_steps += len(time)

    @property
    def usual(self) -> float | None:
        """The median time between steps inside recordings, in seconds for dates; None of none."""
        if not self.n_inside:
            return None
        low = self._ranked((self.n_inside - 1) // 2)
        high = low if self.n_inside % 2 else self._ranked(self.n_inside // 2)
        return float(np.mean([low, high]))

    def n_gaps(self) -> int:
        """How many steps come later than the usual one, by more than a clock is inaccurate."""
        usual = self.usual
        if usual is None:
            return 0
        return sum(int((part > GAP_FACTOR * usual).sum()) for part in self._parts())

    def _ranked(self, rank: int) -> float:
        """The number of this rank, found by its leading bits, then the next, and so on.

        Positive floats are in the order of their bits.
        """
        known = 0
        for shift in range(64 - _BITS, -1, -_BITS):
            counts = np.zeros(1 << _BITS, np.int64)
            for part in self._parts():
                bits = part.view(np.uint64) >> np.uint64(shift)
                mine = (bits >> np.uint64(_BITS)) == np.uint64(known)
                last = (bits[mine] & np.uint64((1 << _BITS) - 1)).astype(np.int64)
                counts += np.bincount(last, minlength=1 << _BITS)
            digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
            rank -= int(counts[:digit].sum())
            known = (known << _BITS) | digit
        return float(np.array([known], np.uint64).view(np.float64)[0])

    def _parts(self) -> Iterator[Floats]:
        self._elapsed.seek(0)
        while content := self._elapsed.read(1 << 20):
            yield np.frombuffer(content, np.float64)
