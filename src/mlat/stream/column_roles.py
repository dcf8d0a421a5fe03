"""Columns that are no channels: time, row numbers, and who or what was recorded.

Such a column tells where in the file a step stands, and states come in long runs: learned as a
sensor it gives away the states of the training stream, and says nothing of another. So a column
with the name of one is never a channel unless the user names it as one. It is used for what it is
where that is clear, and refused where it is not. Whatever its name, a column that only rises or
only falls is refused: nothing tells an odometer from a clock.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats
from ..base.errors import InputError
from .conversion import (
    GAP_FACTOR,
    StepError,
    as_channels,
    as_recordings,
    as_time,
    changes,
    distinct,
    in_seconds,
    stack_columns,
)

Role = Literal["time", "recording", "row"]

_TIME = {"time", "timestamp", "timestamps", "t", "ts", "date", "datetime", "elapsed", "epoch"}
_TIME |= {"seconds", "milliseconds", "millis", "microseconds", "nanoseconds"}
# Words that may stand beside those of time: "Time (s)", "unix_time", "sensorTimestamp".
_BESIDE_TIME = {"s", "sec", "secs", "ms", "us", "ns", "utc", "gmt", "unix", "local", "system"}
_BESIDE_TIME |= {"device", "sensor", "sample", "host", "stamp", "of", "day"}
_NUMBER = "(id|no|nr|num|number|index|idx|count|counter)"
_ROW = re.compile(
    r"index|idx|id|row|rowid|rownum|seq|timestep|unnamed \d+( level \d+)?|index level \d+"
    rf"|(row|line|record|sample|frame|packet|scan|step) {_NUMBER}"
)
_RECORDING = re.compile(
    r"(person|subject|user|participant|patient|volunteer|recording|rec|session|trial|file)"
    rf"( ({_NUMBER}|name|code))?|filename"
)
_UNNAMED = "the column without a name"  # as pandas writes its index

NAME_CHANNELS = "name the columns of the channels (channels)"
MEAN_STRETCH = 5  # steps of a recording; below, rows of several recordings are interleaved
MANY_GAPS = 0.1  # of the steps: such a time is not regular
FEW_STEPS = 20  # fewer show nothing: they may count up by chance, as a ramp does
MANY_BACK = 0.1  # of the steps of an index that go back; parts put together have few
MANY_HOLES = 0.05  # of the steps of an index that leave rows out; blocks put together have few
WHOLE = (
    "give a stream whole and in order (frame.sort_index()), keep missing values as NaN, and split "
    "it into blocks or by recordings, not row by row; if the rows do follow each other, number "
    "them anew (frame.reset_index(drop=True))"
)
MANY_STEPS = 100  # a slow signal may rise over fewer
FEW_RISES = 7  # changes of random direction, so many, agree in one case of 64
STEPS_PER_RESET = 50
LEAST_STRETCHES = 5  # of whole numbers none of which comes back
_HEAD = 512  # steps that show of almost every channel that it goes up and down


def role_by_name(name: Any) -> Role | None:
    """What the name of a column says that it is, if not a channel.

    >>> [role_by_name(name) for name in ("Time (s)", "subject_id", "Unnamed: 0", "ax")]
    ['time', 'recording', 'row', None]
    """
    if name == "T":  # a temperature, rather than the time
        return None
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", str(name)).lower()
    words = re.findall(r"[^\W\d_]+|\d+", spaced)
    if not _TIME.isdisjoint(words) and set(words) <= _TIME | _BESIDE_TIME:
        return "time"
    phrase = " ".join(words)
    if _ROW.fullmatch(phrase):
        return "row"
    return "recording" if _RECORDING.fullmatch(phrase) else None


@dataclass(frozen=True, eq=False)
class OrderColumns:
    """What the recording and the time of each step are; ``notes`` say which columns they are.

    ``breaks`` (T,) are further steps that do not follow the one before.
    """

    recordings: Any
    time: Any
    notes: tuple[str, ...] = ()
    breaks: Bools | None = None

    def of_frame(self, frame: Any, n_steps: int) -> OrderColumns:
        """The same, with what the index of a pandas frame shows: the time (T,), or breaks (T,)."""
        begins = changes(self.recordings, n_steps)
        breaks = breaks_of_index(frame, begins)
        index = index_of(frame)
        if self.time is None and index.dtype.kind in "Mm" and n_steps:
            follows = np.diff(index) > np.timedelta64(0)
            if (follows | begins[1:]).all() and not np.isnat(index).any():
                note = "the index of the frame is taken as the time"
                return replace(self, time=index, notes=(*self.notes, note))
        if breaks is None:
            return self
        note = f"the index of the frame has {int(breaks.sum())} breaks, which no window crosses"
        return replace(self, breaks=breaks, notes=(*self.notes, note))


def order_columns(
    columns: Mapping[Any, Callable[[], Any]],
    roles: Mapping[Any, Role],
    n_steps: int,
    *,
    recordings: Any = None,
    time: Any = None,
    strict: bool = True,
    regular: bool = True,
) -> OrderColumns:
    """Use columns for what their names say, where their entries agree.

    Parameters
    ----------
    columns : mapping of names to callables
        Each gives the entries of a column, shape (T,).
    roles : mapping of names to roles
    n_steps : int
        T.
    recordings, time : arrays of shape (T,), optional
        Those that the user gave; then no column is used instead.
    strict : bool, default=True
        False ignores columns that are unclear: for channels that are known by name.
    regular : bool, default=True
        False takes a time that is not regular, too.

    Raises
    ------
    InputError
        If ``strict`` and it is unclear what a column is.
    """
    notes: list[str] = []
    unused: list[Any] = []
    by_role: dict[Role, dict[Any, Callable[[], Any]]] = {"recording": {}, "time": {}, "row": {}}
    for name, role in roles.items():
        by_role[role][name] = columns[name]

    def take(role: Role, look: Any, *, all_of_them: bool) -> dict[Any, Any]:
        """The columns of a role that are clear, as ``look`` converts them."""
        found, unclear = {}, []
        for name, column in by_role[role].items():
            try:
                found[name] = look(name, column())
            except InputError as error:
                unclear.append((name, error))
        if unclear and strict and (all_of_them or not found):
            raise unclear[0][1]
        unused.extend(name for name, _ in unclear)
        return found

    if recordings is not None:
        unused += by_role["recording"]
    elif parts := take("recording", _as_recordings, all_of_them=True):
        recordings, *more = parts.values()
        if more:  # a recording begins wherever one of several columns changes
            recordings = np.cumsum(np.any([changes(a, n_steps) for a in parts.values()], axis=0))
        notes.append(f"{taken(parts)} as the recording")
    begins = changes(recordings, n_steps)
    if time is not None:
        unused += by_role["time"]
    elif clocks := take("time", lambda n, c: _as_clock(n, c, begins, regular), all_of_them=False):
        if len(clocks) > 1 and strict:
            one, other = list(clocks)[:2]
            raise StepError(
                f"both {_name(one)} and {_name(other)} look like the time; say which one it is "
                f"(time), or {NAME_CHANNELS}"
            )
        (name, time), *_ = clocks.items()
        notes.append(f"{taken([name])} as the time")
    elif by_role["time"] and not strict:
        notes.append(no_clock(by_role["time"]))
    unused += take("row", lambda n, c: _check_counts(n, c, begins), all_of_them=True)
    if unused and strict:
        notes.append(_not_used(unused))
    return OrderColumns(recordings, time, tuple(notes))


def no_clock(names: Any) -> str:
    """What to say of columns that have the name of the time and are not used as it."""
    return (
        f"{' and '.join(map(_name, names))} cannot be the time, which is regular and rises; have "
        "the steps resampled (rate), or say which column is the time (time)"
    )


def nothing_left(roles: Mapping[Any, Role]) -> str:
    """The message where every column has the name of something else than a channel."""
    return (
        f"no column is left for the channels: by the name {taken(roles)} for none; {NAME_CHANNELS}"
    )


def _name(name: Any) -> str:
    return f"column {str(name)!r}" if str(name) else _UNNAMED


def taken(names: Any) -> str:
    """What to say of columns that are taken for something by their names."""
    *others, last = [_name(name) for name in names]
    return f"{', '.join(others)} and {last} are taken" if others else f"{last} is taken"


def _not_used(names: Any) -> str:
    return f"{taken(names)} for no channel, and not used"


def _as_recordings(name: Any, column: Any) -> NDArray[Any]:
    entries = as_recordings(column, len(column))
    check_stretches(name, 1 + int(changes(entries, len(entries)).sum()), len(entries))
    return entries


def check_stretches(name: Any, n_stretches: int, n_steps: int) -> None:
    """Refuse a column of recordings that changes too often to be one.

    Raises
    ------
    InputError
    """
    if n_stretches > max(2, n_steps // MEAN_STRETCH):
        raise StepError(
            f"{_name(name)} has the name of a recording, but changes {n_stretches - 1} times in "
            f"{n_steps} steps; sort the steps by it, say that it is the recording "
            f"(recording), or {NAME_CHANNELS}"
        )


def _as_clock(name: Any, column: Any, begins: Bools, regular: bool) -> NDArray[Any]:
    """A column as time, if it rises within recordings, and mostly by the same amount."""
    try:
        time = as_time(column, len(column))
    except InputError as error:
        raise StepError(
            f"{_name(name)} has the name of the time: {error}; or {NAME_CHANNELS}",
            *getattr(error, "steps", ()),
        ) from None
    elapsed = in_seconds(np.diff(time))
    back = ~begins[1:] & ~((elapsed > 0) if regular else (elapsed >= 0))
    if back.any():
        step = int(np.argmax(back)) + 1
        same = "have the steps resampled (rate), " if time[step] == time[step - 1] else ""
        raise StepError(
            f"{_name(name)} has the name of the time, but does not rise at step {step} "
            f"({time[step]} after {time[step - 1]}); {same}say which recording each step "
            f"belongs to (recording), sort the steps, or {NAME_CHANNELS}",
            step,
        )
    inside = elapsed[~begins[1:]]
    n_gaps = int((inside > GAP_FACTOR * np.median(inside)).sum()) if len(inside) else 0
    if regular and is_irregular(n_gaps, len(inside)):
        raise StepError(
            f"{_name(name)} has the name of the time, but is not regular: "
            f"{n_gaps / len(inside):.0%} of its steps are gaps, longer than {GAP_FACTOR} times the "
            f"median; have the steps resampled (rate={usual_rate(inside)}), say that it is the "
            f"time (time), or {NAME_CHANNELS}"
        )
    return time


def usual_rate(elapsed: Floats) -> str:
    """The rate of most steps, from the times between them, for a message."""
    usual = float(np.median(elapsed[elapsed > 0]))
    return f"{round(1 / usual) if usual < 0.1 else 1 / usual:.4g}"


def is_irregular(n_gaps: int, n_steps: int) -> bool:
    """Whether so many gaps in so many steps are too many for a time that was not named as one."""
    return n_steps >= FEW_STEPS and n_gaps > MANY_GAPS * n_steps


def _check_counts(name: Any, column: Any, begins: Bools) -> None:
    entries = np.asarray(column)
    if entries.dtype.kind in "iuf":
        elapsed = np.diff(entries)
        ok = bool((begins[1:] | (elapsed > 0)).all())
    else:
        texts = entries.tolist()
        ok = len(set(texts)) == len(texts)
    if not ok:
        raise StepError(
            f"{_name(name)} has the name of a row number, but does not count the steps; say that "
            f"it is the recording (recording) or the time (time), or {NAME_CHANNELS}"
        )


def channels_of_frame(
    frame: Any, channels: Sequence[Any] | None, recordings: Any, time: Any
) -> tuple[NDArray[np.floating[Any]], tuple[str, ...], OrderColumns]:
    """The values (T, d) and names of a frame's channels, and what its other columns are.

    ``channels`` are columns of the frame, or new names for all of its columns.

    Raises
    ------
    InputError
        If the frame holds no numbers, or it is unclear whether a column is a channel.
    """
    columns = list(frame.columns)
    if not columns:
        raise InputError("the frame has no columns")
    distinct(columns, "columns of the frame")
    given = [channels] if isinstance(channels, str) else channels
    if given is not None:
        chosen = list(given) if set(given) <= set(columns) else columns
        names = as_channels(given, len(chosen))
        values = stack_columns([frame[column] for column in chosen], names)
        return values, names, OrderColumns(recordings, time).of_frame(frame, len(values))
    roles = {name: role for name in columns if (role := role_by_name(name))}
    chosen = [name for name in columns if name not in roles]
    if not chosen:
        raise StepError(nothing_left(roles))
    names = as_channels(chosen, len(chosen))
    values = stack_columns([frame[name] for name in chosen], names)
    others = {name: partial(frame.__getitem__, name) for name in roles}
    settled = order_columns(others, roles, len(values), recordings=recordings, time=time)
    # A frame is often given whole, with one of its columns as the time.
    same = [_is_same(column, recordings) or _is_same(column, time) for column in values.T]
    if any(same) and not all(same):
        unused = [name for name, is_same in zip(names, same, strict=True) if is_same]
        names = tuple(name for name in names if name not in unused)
        values = values[:, ~np.array(same)]
        settled = replace(settled, notes=(*settled.notes, _not_used(unused)))
    refuse_counters(values, names, settled.recordings)
    return values, names, settled.of_frame(frame, len(values))


def _is_same(column: NDArray[Any], given: Any) -> bool:
    entries = None if given is None else np.asarray(given)
    return entries is not None and entries.dtype.kind in "iuf" and np.array_equal(column, entries)


# ------------------------------------------------------------------ by what is in a column


def refuse_counters(
    values: NDArray[np.floating[Any]], names: Sequence[Any], recordings: Any = None
) -> None:
    """Refuse values (T, d) of which a column only tells the place in the file.

    Raises
    ------
    InputError
    """
    if np.isinf(values).any():  # which is refused in other words
        return
    begins = changes(recordings, len(values))
    for name, column in zip(names, values.T, strict=True):
        with np.errstate(all="ignore"):  # differences of the largest numbers are infinite
            found = counting(column, begins)
        if found is None:
            continue
        if found == "stretches":
            raise StepError(
                f"{_name(name)} keeps a whole number for long stretches and none comes back, as "
                "the number of a person or a recording does, and would be learned as a sensor; "
                f"say that it is the recording (recording), or {NAME_CHANNELS}"
            )
        raise StepError(
            f"{_name(name)} only {found}, as a clock or a row number does, and would be learned "
            f"as a sensor; say that it is the time (time), or {NAME_CHANNELS}, with it if it is "
            "a sensor"
        )


def warn_of_counters(values: NDArray[np.floating[Any]], *, stacklevel: int = 3) -> None:
    """Warn of columns of an array, which have no names, that count in equal steps."""
    begins = np.zeros(len(values), bool)
    with np.errstate(all="ignore"):
        found = [str(i) for i, column in enumerate(values.T) if _counts(column, begins)]
    if found:
        warnings.warn(
            f"column {' and column '.join(found)} of the array: equal steps, as of a clock or a "
            "row number, would be learned as a sensor; leave it out, give it as the time (time), "
            "or name the channels (channels)",
            UserWarning,
            stacklevel=stacklevel,
        )


def counting(
    column: NDArray[np.floating[Any]], begins: Bools
) -> Literal["rises", "falls", "stretches"] | None:
    """How a column tells the place in the file; None if it goes up and down as sensors do.

    Parameters
    ----------
    column : array of shape (T,)
    begins : array of shape (T,)
        True where a recording begins: a clock may start anew there.
    """
    if goes_up_and_down(column):
        return None
    known = ~np.isnan(column)
    recording = np.cumsum(begins)[known]
    values = column[known].astype(np.float64)
    if len(values) < FEW_STEPS:
        return None
    change = np.diff(values)
    if _in_stretches(values, change):
        return "stretches"
    inside = recording[1:] == recording[:-1]
    sign = 1.0 if (change[inside] > 0).sum() >= (change[inside] < 0).sum() else -1.0
    word: Literal["rises", "falls"] = "rises" if sign > 0 else "falls"
    if _counts(column, begins):
        return word
    back = np.flatnonzero(inside & (sign * change < 0))
    # From each reset to the next: a switch goes on and off, and never counts.
    n_rises = int((sign * change[inside] > 0).sum())
    if len(values) < MANY_STEPS or n_rises < FEW_RISES * (len(back) + 1):
        return None
    return word if _are_resets(sign * values, recording, back) else None


def goes_up_and_down(column: NDArray[np.floating[Any]]) -> bool:
    """Whether the first steps of a column (T,) show that it counts nothing."""
    change = np.diff(column[:_HEAD])
    return 10 * min(int((change > 0).sum()), int((change < 0).sum())) > len(change)


def _counts(column: NDArray[np.floating[Any]], begins: Bools) -> bool:
    """Whether nine of ten steps, or more, are the same and not 0."""
    change = np.diff(column.astype(np.float64))[~begins[1:]]
    if len(change) < FEW_STEPS - 1 or np.isnan(change).all():
        return False
    usual = float(np.nanmedian(change))
    # Decimals are rounded, those of large numbers more.
    rounding = 8 * float(np.finfo(column.dtype).eps) * float(np.nanmax(np.abs(column)))
    same = np.abs(change - usual) <= rounding + 1e-6 * abs(usual)
    return abs(usual) > 2 * rounding and bool(same.mean() >= 0.9)


def _in_stretches(values: Floats, change: Floats) -> bool:
    moves = change[change != 0]
    n_stretches = len(moves) + 1
    if n_stretches < 3 or len(values) < max(MANY_STEPS, 2 * MEAN_STRETCH * n_stretches):
        return False
    levels = values[np.concatenate([[True], change != 0])]
    never_back = len(np.unique(levels)) == n_stretches
    counted = bool((moves == 1).all())
    return (
        never_back
        and bool((levels == np.floor(levels)).all())
        and (counted or n_stretches >= LEAST_STRETCHES)
    )


def _are_resets(rising: Floats, recording: NDArray[Any], back: NDArray[Any]) -> bool:
    """Whether values fall only to start anew: to where the stretch before began, or nearly."""
    if not len(back):
        return True
    if STEPS_PER_RESET * len(back) > len(rising):
        return False
    ends = np.flatnonzero(np.diff(recording) != 0)
    starts = np.sort(np.concatenate([[0], back + 1, ends + 1]))
    first = rising[starts[np.searchsorted(starts, back, side="right") - 1]]
    return bool((rising[back + 1] - first <= 0.1 * (rising[back] - first)).all())


def breaks_of_index(frame: Any, begins: Bools) -> Bools | None:
    """Where rows of a pandas frame do not follow each other by its index, shape (T,).

    Parameters
    ----------
    frame : frame
        Of any other kind than pandas' it has no index.
    begins : array of shape (T,)
        True where a recording begins: the index may start anew there.

    Returns
    -------
    breaks : array of shape (T,), or None
        None where there are none, or the index has no order.

    Raises
    ------
    InputError
        If the rows are shuffled, or so many are missing that few windows would be whole.
    """
    index = index_of(frame)
    if index.dtype.kind not in "iufMm" or len(index) < FEW_STEPS:
        return None
    steps = np.diff(index).astype(np.float64)
    inside = ~begins[1:]
    usual = float(np.median(steps[inside])) if inside.any() else 0.0
    back = inside & (steps < 0)
    if back.mean() > MANY_BACK:
        raise StepError(
            f"the index of the frame goes back at {int(back.sum())} of {len(index)} steps: its "
            f"rows are not in the order of time; {WHOLE}"
        )
    holes = inside & (steps > GAP_FACTOR * usual) & (usual > 0)
    if holes.mean() > MANY_HOLES:
        raise StepError(
            f"the index of the frame leaves rows out at {int(holes.sum())} of {len(index)} steps, "
            f"and windows would join steps that do not follow each other; {WHOLE}"
        )
    breaks = np.concatenate([[False], back | holes])
    return breaks if breaks.any() else None


def index_of(frame: Any) -> NDArray[Any]:
    """The index of a pandas frame, shape (T,); of dates with a time zone in UTC."""
    index = getattr(frame, "index", ())
    dtype = getattr(index, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(index, dtype=f"datetime64[{getattr(dtype, 'unit', 'ns')}]")
    return np.asarray(index)
