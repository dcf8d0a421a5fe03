"""Conversion of what users pass (values, channels, states, recordings, time) to arrays.

Lists, numpy arrays, pandas and polars columns are taken; neither pandas nor polars is imported.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.checks import Bools, Floats, Ints, check_text, is_real, is_whole
from ..base.errors import InputError

# "No state" marks a step without a state, and one for which no prediction can be made.
# Named states write it as the empty text, numbered states as -1 (scikit-learn's convention).
NO_STATE_NAME = ""
NO_STATE_NUMBER = -1

# A step that comes later than this many usual steps after the one before it follows a gap: one
# lost sample makes the distance 2, ordinary clock jitter stays below 1.5.
GAP_FACTOR = 1.5


class StepError(InputError):
    """Bad input at known steps; for a file, the reader turns steps into line numbers."""

    def __init__(self, message: str, *steps: int) -> None:
        super().__init__(message)
        self.steps = steps


class EntryError(StepError, TypeError):
    """An entry that is of no type of numbers. A ``TypeError``, as scikit-learn wants it."""


def no_state(states: NDArray[Any]) -> Any:
    """The value that stands for "no state" among states of this type."""
    return NO_STATE_NAME if states.dtype.kind == "U" else NO_STATE_NUMBER


def no_states(n_steps: int, *, as_text: bool = True) -> NDArray[Any]:
    """States of shape (n_steps,) in which every step is unlabelled."""
    return np.full(n_steps, NO_STATE_NAME if as_text else NO_STATE_NUMBER)


# ------------------------------------------------------------------ values and channels


def is_frame(values: Any) -> bool:
    """Whether ``values`` is a pandas or polars frame, by its attributes."""
    return (
        hasattr(values, "columns")
        and hasattr(values, "__array__")
        and not hasattr(values, "column_names")  # an Arrow table, whose columns are not names
    )


def as_values(
    values: Any, channels: Sequence[str] | None = None
) -> tuple[NDArray[np.floating[Any]], tuple[str, ...]]:
    """Floats of shape (T, d), and the names of the d channels. An array of floats is not copied."""
    array = as_matrix(values)
    names = as_channels(channels, array.shape[1])
    if array.dtype.kind == "O":
        return stack_columns(list(array.T), names), names
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: values are {array.dtype}; give real numbers")
    if array.dtype.kind not in "iufb":
        raise InputError(f"values must be numbers, not {array.dtype}; give texts as states")
    return (array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)), names


def as_matrix(values: Any) -> NDArray[Any]:
    """Anything as an array of shape (steps, columns), of any type."""
    if hasattr(values, "tocsr"):
        raise InputError("values are a sparse matrix; give them dense (values.toarray())")
    if hasattr(values, "ch_names"):
        kind = type(values).__name__
        raise InputError(f"values are {kind} of MNE; give mlat.read_stream(values)")
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "U" and not hasattr(values, "dtype"):
            array = np.asarray(values, dtype=object)  # keeps numbers apart from texts
    except ValueError:
        raise _ragged_rows(values) from None
    if array.ndim == 1 and array.dtype.kind == "O" and any(map(_is_row, array)):
        raise _ragged_rows(array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"values must have shape (steps, channels), not {array.shape}")
    if array.shape[1] == 0:
        raise InputError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required: give values of "
            "shape (steps, channels)"
        )
    return array


def stack_columns(
    columns: Sequence[Any],
    names: Sequence[Any],
    remedy: str = "correct it, or leave the channel out",
) -> NDArray[np.floating[Any]]:
    """Values of shape (T, d) from d columns: float32 if all of them are, else float64."""
    return np.stack([_as_floats(c, n, remedy) for c, n in zip(columns, names, strict=True)], axis=1)


def _as_floats(column: Any, name: Any, remedy: str) -> NDArray[np.floating[Any]]:
    array = np.asarray(column)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    if array.dtype.kind not in "OUST":
        raise InputError(f"channel {name!r} holds {array.dtype}, not numbers; {remedy}")
    floats = np.empty(len(array))
    for step, value in enumerate(array.tolist()):
        try:
            if isinstance(value, str | bytes):  # float() would accept "1.5"
                raise TypeError
            floats[step] = np.nan if is_absent(value) else float(value)
        except (TypeError, ValueError) as error:
            is_text = isinstance(value, str | bytes)
            raise (StepError if is_text else EntryError)(
                f"channel {name!r} holds {value!r} at step {step}, which is not a number"
                f"{'' if is_text else f' ({error})'}; {remedy}",
                step,
            ) from None
    return floats


def _is_row(entry: Any) -> bool:
    return hasattr(entry, "__len__") and not isinstance(entry, str | bytes)


def _ragged_rows(rows: Any) -> InputError:
    sizes = [len(row) if _is_row(row) else 1 for row in rows]
    step = next((step for step, size in enumerate(sizes) if size != sizes[0]), None)
    if step is None:
        return InputError("values must be numbers in rows of equal length, one row per step")
    return StepError(
        f"values have {sizes[step]} channels at step {step} and {sizes[0]} at step 0; "
        "give every step the same channels, with NaN for a missing value",
        step,
    )


def unnamed_channels(n_channels: int) -> tuple[str, ...]:
    """The names of channels that have none."""
    return tuple(f"x{i}" for i in range(n_channels))


def as_channels(channels: Sequence[Any] | None, n_channels: int) -> tuple[str, ...]:
    """The names of the channels, all different; ``x0``, ``x1``, … where none are given."""
    if channels is None:
        return unnamed_channels(n_channels)
    names = tuple(str(name) for name in ([channels] if isinstance(channels, str) else channels))
    if len(names) != n_channels:
        raise InputError(f"{len(names)} channel names for {n_channels} channels of values")
    distinct(names, "channel names")
    for name in names:
        check_text(name, "the channel name")
    return names


def distinct(names: Sequence[Any], what: str) -> None:
    """Raise InputError if a name occurs twice."""
    first: dict[Any, int] = {}
    for number, name in enumerate(names, 1):
        if first.setdefault(name, number) != number:
            raise InputError(
                f"{what} must differ, but {name!r} is both number {first[name]} and number "
                f"{number}; rename one"
            )


# ------------------------------------------------------------------ states and recordings


def one_per_step(entries: Any, n_steps: int, what: str) -> NDArray[Any]:
    """Any entries as an array of shape (n_steps,)."""
    if isinstance(entries, np.ma.MaskedArray):
        mask, entries = np.ma.getmaskarray(entries), entries.data.astype(object)
        entries[mask] = None
    # From a list numpy would make entries of one type, and of a NaN among texts the text "nan".
    array = np.asarray(entries, dtype=None if hasattr(entries, "dtype") else object)
    if array.shape != (n_steps,):
        raise InputError(f"{what} must have one entry per step ({n_steps}), not {array.shape}")
    return array


def is_absent(entry: Any) -> bool:
    """Whether an entry is None, NaN, NaT or pandas' NA (which cannot be compared)."""
    return entry is None or type(entry).__name__ == "NAType" or bool(entry != entry)


def encode(entries: NDArray[Any]) -> tuple[list[Any], Ints]:
    """The distinct entries, and for each step the index of its entry among them.

    Entries can then be checked and converted once for each distinct one.
    """
    if entries.dtype.kind in "iufb":
        values, codes = np.unique(entries, return_inverse=True)
        return values.tolist(), codes
    objects = entries.tolist()
    try:
        index = {entry: code for code, entry in enumerate(dict.fromkeys(objects))}
    except TypeError as error:
        raise InputError(f"states must be texts or whole numbers ({error})") from None
    return list(index), np.fromiter(map(index.__getitem__, objects), np.int64, len(objects))


@dataclass(frozen=True)
class Entries:
    """The distinct entries of a column of ``n_steps`` steps.

    ``first`` is the step at which each occurs first, ``n_steps`` for one that does not, and
    ``count`` how often it occurs.
    """

    entries: Sequence[Any]
    first: Sequence[int]
    count: Sequence[int]
    n_steps: int

    @classmethod
    def of(cls, entries: Sequence[Any], codes: Ints) -> Entries:
        """From the index of each step's entry."""
        first = np.full(len(entries), len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last that is written stays
        count = np.bincount(codes, minlength=len(entries))
        return cls(entries, first.tolist(), count.tolist(), len(codes))

    def first_of(self, which: Iterable[int]) -> int:
        """The first step with one of these entries."""
        return min((self.first[i] for i in which), default=self.n_steps)


class Padded(str):
    """A whole number with zeros before it, such as 007, as a text file has it."""

    __slots__ = ()


def _unpadded(seen: Entries) -> tuple[list[Any], tuple[int, int] | None]:
    """The entries, with numbers for padded ones; and two of them that are one number, if any."""
    entries = [int(entry) if isinstance(entry, Padded) else entry for entry in seen.entries]
    written: dict[Any, int] = {}
    for i, entry in enumerate(entries):
        other = written.setdefault(entry, i) if is_real(entry) else i
        if other != i and Padded in (type(seen.entries[i]), type(seen.entries[other])):
            return entries, (other, i)
    return entries, None


def as_states(
    states: ArrayLike, n_steps: int, unlabelled: Any = None, *, ours: bool = False
) -> NDArray[Any]:
    """States of shape (n_steps,): texts, or int64.

    Parameters
    ----------
    states : array of shape (n_steps,)
    n_steps : int
    unlabelled : value or list of values, optional
        Entries that mean "no state".
    ours : bool, default=False
        The states are as we write them: -1 is "no state", and nothing is said about it.
    """
    array = one_per_step(states, n_steps, "states")
    no_state_entries = [] if unlabelled is None else _listed(unlabelled)
    if array.dtype.kind == "U":
        texts = [str(entry) for entry in no_state_entries if entry != NO_STATE_NAME]
        array = np.where(np.isin(array, texts), NO_STATE_NAME, array) if texts else array
        return _writable(array, "state")
    if array.dtype.kind in "ib":
        if array.dtype.kind == "b" and not ours:
            said = "states that are booleans become 0 and 1, as a step without a state is -1"
            keep = "mlat.model_selection.EveryStep predicts booleans"
            warnings.warn(f"{said}; {keep}", UserWarning, stacklevel=4)
        numbers = array.astype(np.int64)
        absent = [int(entry) for entry in map(_as_number, no_state_entries) if is_whole(entry)]
        if ours or NO_STATE_NUMBER in absent or (numbers != NO_STATE_NUMBER).all():
            numbers[np.isin(numbers, absent)] = NO_STATE_NUMBER
            return numbers
    elif array.dtype.kind not in "ufOT":
        remedy = "; decode them with states.astype(str)" if array.dtype.kind == "S" else ""
        raise InputError(f"states must be texts or whole numbers, not {array.dtype}{remedy}")
    return decode_states(*encode(array), unlabelled, ours=ours)


def _as_number(entry: Any) -> Any:
    """The whole number that an entry is or that a text writes; anything else unchanged."""
    if isinstance(entry, str) and re.fullmatch(r"[-+]?\d+", entry.strip(), re.ASCII):
        return int(entry)
    return int(entry) if is_real(entry) and float(entry).is_integer() else entry


def _writable(texts: NDArray[Any], what: str, first: Sequence[int] | None = None) -> NDArray[Any]:
    """The texts (T,), if all can be written as UTF-8.

    ``first`` are the steps of texts that are those of distinct entries.

    Raises
    ------
    InputError
        If one holds half of a surrogate pair.
    """
    if not texts.nbytes:  # no steps, or no letters
        return texts
    # numpy holds texts as UTF-32; surrogates are 0xD800 to 0xDFFF.
    native = np.ascontiguousarray(texts, dtype=texts.dtype.newbyteorder("="))
    characters = native.view(np.uint32).reshape(len(texts), -1)
    bad = np.flatnonzero(((characters & 0xFFFFF800) == 0xD800).any(axis=1)).tolist()
    if bad:
        worst = min(bad, key=lambda i: i if first is None else first[i])
        step = worst if first is None else first[worst]
        check_text(str(texts[worst]), f"the {what} at step {step},")
    return texts


def decode_states(
    entries: Sequence[Any], codes: Ints, unlabelled: Any = None, *, ours: bool = False
) -> NDArray[Any]:
    """States of shape (T,) from the distinct entries and each step's index among them."""
    return states_of(Entries.of(entries, codes), unlabelled, ours=ours)[codes]


def states_of(seen: Entries, unlabelled: Any = None, *, ours: bool = False) -> NDArray[Any]:
    """The state that each of the distinct entries of a column means."""
    entries, two = _unpadded(seen)
    if unlabelled is not None:
        values = _listed(unlabelled)
        texts_of = {str(value) for value in values}
        both = zip(entries, seen.entries, strict=True)
        entries = [None if e in values or texts_of & {str(e), str(raw)} else e for e, raw in both]
    if two is not None and not any(is_absent(entries[i]) for i in two):
        (step, one), (later, other) = sorted((seen.first[i], seen.entries[i]) for i in two)
        raise StepError(
            f"states {one} at step {step} and {other} at step {later} are the same number; write "
            "it in one way, or put a letter before it if they are two states",
            step,
            later,
        )
    used = [i for i, e in enumerate(entries) if not is_absent(e) and e != NO_STATE_NAME]
    texts = [i for i in used if isinstance(entries[i], str)]
    others = [i for i in used if not isinstance(entries[i], str)]
    strange = [i for i in others if not isinstance(entries[i], int | float | np.number | np.bool_)]

    def first(which: list[int]) -> tuple[int, Any]:
        place = min(which, key=lambda i: seen.first[i])
        return seen.first[place], entries[place]

    if strange:
        step, entry = first(strange)
        raise StepError(
            f"state {entry!r} at step {step} is neither text nor a whole number; "
            "name the states, or number them 0, 1, 2, …",
            step,
        )
    if texts and others:
        (step, entry), (later, other) = sorted(
            (first(texts), first(others)), key=lambda found: found[0]
        )
        raise StepError(
            f"states mix texts and numbers: {entry!r} at step {step}, {other!r} at step {later}; "
            "write them all as texts or all as whole numbers",
            step,
            later,
        )
    if not others:
        named = set(texts)
        names = [e if i in named else NO_STATE_NAME for i, e in enumerate(entries)]
        return _writable(np.array(names or [NO_STATE_NAME], dtype="U"), "state", seen.first)
    broken = [i for i in others if not float(entries[i]).is_integer() or abs(entries[i]) >= 2**63]
    if broken:
        step, entry = first(broken)
        raise StepError(
            f"state {entry} at step {step} is not a whole number (of 64 bits) but continuous; "
            "name the states, or number them 0, 1, 2, …",
            step,
        )
    numbered = set(others)
    marks = [i for i in others if entries[i] == NO_STATE_NUMBER and seen.count[i]]
    if marks and not ours:
        states = sorted({int(entries[i]) for i in others} - {NO_STATE_NUMBER})
        _check_minus_one(seen, marks, states, unlabelled)
    table = [int(e) if i in numbered else NO_STATE_NUMBER for i, e in enumerate(entries)]
    return np.array(table, dtype=np.int64)


def _listed(unlabelled: Any) -> list[Any]:
    is_list = not isinstance(unlabelled, str) and np.ndim(unlabelled) > 0
    return list(unlabelled) if is_list else [unlabelled]


def _check_minus_one(
    seen: Entries, marks: Sequence[int], others: Sequence[int], unlabelled: Any
) -> None:
    """Warn that -1, the entries ``marks``, is taken for "no state", or refuse it.

    It must be a state where ``unlabelled``, the user's word, names other entries, and where the
    only other state is 1, or others are below 0, too.
    """
    count = f"{sum(seen.count[i] for i in marks)} of {seen.n_steps} steps"
    if unlabelled is not None or others == [1] or (others and others[0] < 0):
        say = ", or say that it means no state (unlabelled=-1)" if unlabelled is None else ""
        if others == [1]:
            say += "; mlat.model_selection.EveryStep takes -1 and 1 as scikit-learn does"
        raise StepError(
            f"the state of {count} is -1, which stands for no state, and with the states "
            f"{', '.join(map(str, others[:5])) or 'none'} it seems to be one; number the states "
            f"from 0, or name them{say}",
            seen.first_of(marks),
        )
    if others:
        warnings.warn(
            f"the state of {count} is -1, and they are taken as unlabelled; if that is right say "
            "so (unlabelled=-1), and if -1 is a state number the states from 0, or name them",
            UserWarning,
            stacklevel=6,
        )


def as_recordings(recordings: ArrayLike, n_steps: int, one: str = "recording") -> NDArray[Any]:
    """Recordings, or groups (``one`` is a "group"), of shape (n_steps,), none of them missing."""
    array = one_per_step(recordings, n_steps, f"{one}s")
    if array.dtype.kind in "OT":
        return decode_recordings(*encode(array), one)
    absent = array != array
    if absent.any():
        raise _none_named(int(np.argmax(absent)), one)
    return _writable(array, one) if array.dtype.kind == "U" else array


def decode_recordings(entries: Sequence[Any], codes: Ints, one: str = "recording") -> NDArray[Any]:
    """Recordings of shape (T,) from the distinct entries and each step's index among them."""
    return recordings_of(Entries.of(entries, codes), one)[codes]


def recordings_of(seen: Entries, one: str = "recording") -> NDArray[Any]:
    """The recording that each of the distinct entries of a column names."""
    absent = [i for i, entry in enumerate(seen.entries) if is_absent(entry)]
    step = seen.first_of(absent)
    if step < seen.n_steps:
        raise _none_named(step, one)
    entries, two = _unpadded(seen)
    present = [entry for entry in entries if not is_absent(entry)]
    if present and two is None and all(isinstance(entry, int) for entry in present):
        return np.array([0 if is_absent(entry) else entry for entry in entries])
    spelt = entries if two is None else seen.entries
    names = ["" if is_absent(entry) else str(entry) for entry in spelt]
    return _writable(np.array(names or [""], dtype="U"), one, seen.first)


def _none_named(step: int, one: str) -> StepError:
    return StepError(f"the {one} is missing at step {step}; name it for every step", step)


# ------------------------------------------------------------------ time


def as_time(times: Any, n_steps: int, first: int = 0) -> NDArray[Any]:
    """Time of shape (n_steps,), none of it missing; ``first`` is the number of its first step.

    Numbers become int64 or floats, durations timedelta64, dates datetime64 (UTC if they have a
    time zone).
    """
    dtype = getattr(times, "dtype", None)
    if getattr(dtype, "tz", None) is not None:  # pandas would convert it to objects, which is slow
        times = np.asarray(times, dtype=f"datetime64[{getattr(dtype, 'unit', 'ns')}]")
    array = one_per_step(times, n_steps, "time")
    if array.dtype.kind == "O":
        array = _time_from_objects(array, first)
    if array.dtype.kind not in "iufMm":
        raise InputError(
            f"time must be numbers or datetimes, not {array.dtype}; "
            "numpy.array(time, dtype='datetime64[ms]') reads texts like 2024-05-31T12:00:00.5"
        )
    absent = np.isnat(array) if array.dtype.kind in "Mm" else ~np.isfinite(array)
    if absent.any():
        raise _no_time(first + int(np.argmax(absent)))
    if array.dtype.kind in "Mm" and np.datetime_data(array.dtype)[0] in ("Y", "M"):
        # Years and months have no fixed length in seconds.
        array = array.astype("datetime64[D]")
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _no_time(step: int) -> StepError:
    return StepError(f"time is missing at step {step}; fill it in, or leave the time out", step)


def _time_from_objects(objects: NDArray[Any], first: int) -> NDArray[Any]:
    times = objects.tolist()
    if not times:
        return np.empty(0)
    absent = [step for step, stamp in enumerate(times) if is_absent(stamp)]
    if absent:
        raise _no_time(first + absent[0])
    if all(isinstance(stamp, time) for stamp in times):  # of the day, without a date
        times = [datetime.combine(date.min, stamp) - datetime.min for stamp in times]
    if all(isinstance(stamp, timedelta) for stamp in times):
        return np.array(times, dtype="timedelta64[us]")
    if all(isinstance(stamp, date) for stamp in times):
        has_zone = {getattr(stamp, "tzinfo", None) is not None for stamp in times}
        if len(has_zone) > 1:
            raise InputError("some of the time has a time zone and some has none; choose one")
        if has_zone == {True}:
            times = [stamp.astimezone(UTC).replace(tzinfo=None) for stamp in times]
        return np.array(times, dtype="datetime64[us]")
    return np.array(times)


def in_seconds(elapsed: NDArray[Any]) -> Floats:
    """Differences of times as floats: durations in seconds, numbers as they are."""
    if elapsed.dtype.kind == "m":
        return elapsed / np.timedelta64(1, "s")
    return elapsed.astype(np.float64)


def changes(entries: Any, n_steps: int, *, first: bool = False) -> Bools:
    """True at each step whose entry differs from that of the step before; ``first`` at step 0."""
    found = np.zeros(n_steps, dtype=bool)
    found[:1] = first
    if entries is not None:
        entries = np.asarray(entries)
        found[1:] = entries[1:] != entries[:-1]
    return found
