"""What people pass as values, states and recordings, made into the arrays a stream holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

# A step without a state, and a prediction that cannot be made, are the same thing: no state.
# Named states write it as the empty text, numbered states as -1 (scikit-learn's convention).
NO_STATE_NAME = ""
NO_STATE_NUMBER = -1


class StepError(InputError):
    """Bad input at known steps, which the reader of a file turns into lines of that file."""

    def __init__(self, message: str, *steps: int) -> None:
        super().__init__(message)
        self.steps = steps


def no_state(states: NDArray[Any]) -> Any:
    """The value that stands for "no state" among states of this type."""
    return NO_STATE_NAME if states.dtype.kind == "U" else NO_STATE_NUMBER


def no_states(n_steps: int, *, as_text: bool = True) -> NDArray[Any]:
    """States of shape (n_steps,) that leave every step unlabelled."""
    return np.full(n_steps, NO_STATE_NAME if as_text else NO_STATE_NUMBER)


def is_frame(values: Any) -> bool:
    """Whether ``values`` is a pandas or polars frame, told by its looks: neither is imported."""
    return (
        hasattr(values, "columns")
        and hasattr(values, "__array__")
        and not hasattr(values, "column_names")  # an Arrow table, whose columns are not names
    )


def as_values(
    values: Any, channels: Sequence[str] | None = None
) -> tuple[NDArray[np.floating[Any]], tuple[str, ...]]:
    """Floats of shape (T, d), not copied where they already are, and the names of the d channels.

    A frame names its own channels unless ``channels`` does.
    """
    if is_frame(values):
        columns = list(values.columns)
        if not columns:
            raise InputError("the frame has no columns")
        distinct(columns, "columns of the frame")
        names = as_channels(columns if channels is None else channels, len(columns))
        return stack_columns([values[column] for column in columns], names), names
    array = as_matrix(values)
    names = as_channels(channels, array.shape[1])
    if array.dtype.kind == "O":
        return stack_columns(list(array.T), names), names
    if array.dtype.kind not in "iufb":
        raise InputError(f"values must be numbers, not {array.dtype}; give texts as `states`")
    return (array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)), names


def as_matrix(values: Any) -> NDArray[Any]:
    """Anything as an array of shape (steps, columns), of whatever type it is."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "U" and not hasattr(values, "dtype"):
            array = np.asarray(values, dtype=object)  # to tell the text among the numbers
    except ValueError:
        raise _uneven_rows(values) from None
    if array.ndim == 1 and array.dtype.kind == "O" and any(map(_is_row, array)):
        raise _uneven_rows(array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"values must have shape (steps, channels), not {array.shape}")
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
            if isinstance(value, str | bytes):  # float() would read "1.5"
                raise TypeError
            floats[step] = np.nan if is_absent(value) else float(value)
        except (TypeError, ValueError):
            raise StepError(
                f"channel {name!r} holds {value!r} at step {step}, which is not a number; {remedy}",
                step,
            ) from None
    return floats


def _is_row(entry: Any) -> bool:
    return hasattr(entry, "__len__") and not isinstance(entry, str | bytes)


def _uneven_rows(rows: Any) -> InputError:
    sizes = [len(row) if _is_row(row) else 1 for row in rows]
    step = next((step for step, size in enumerate(sizes) if size != sizes[0]), None)
    if step is None:
        return InputError("values must be numbers in rows of equal length, one row per step")
    return StepError(
        f"values have {sizes[step]} channels at step {step} and {sizes[0]} at step 0; "
        "give every step the same channels, with NaN for a missing value",
        step,
    )


def as_channels(channels: Sequence[Any] | None, n_channels: int) -> tuple[str, ...]:
    """The names of the channels, all different; ``x0``, ``x1``, … where none are given."""
    if channels is None:
        return tuple(f"x{i}" for i in range(n_channels))
    names = tuple(str(name) for name in ([channels] if isinstance(channels, str) else channels))
    if len(names) != n_channels:
        raise InputError(f"{len(names)} channel names for {n_channels} channels of values")
    distinct(names, "channel names")
    return names


def distinct(names: Sequence[Any], what: str) -> None:
    """Raise InputError if a name occurs twice."""
    for position, name in enumerate(names):
        if name in names[:position]:
            raise InputError(
                f"{what} must differ, but {name!r} is both number {names.index(name) + 1} and "
                f"number {position + 1}; rename one"
            )


def one_per_step(entries: Any, n_steps: int, what: str) -> NDArray[Any]:
    """Any entries as an array of shape (n_steps,)."""
    if isinstance(entries, np.ma.MaskedArray):
        mask, entries = np.ma.getmaskarray(entries), entries.data.astype(object)
        entries[mask] = None
    # From a list numpy would make one type of all, and the text "nan" of a NaN among texts.
    array = np.asarray(entries, dtype=None if hasattr(entries, "dtype") else object)
    if array.shape != (n_steps,):
        raise InputError(f"{what} must have one entry per step ({n_steps}), not {array.shape}")
    return array


def is_absent(entry: Any) -> bool:
    """Whether an entry is None, NaN, NaT or pandas' NA (which refuses to be compared)."""
    return entry is None or type(entry).__name__ == "NAType" or bool(entry != entry)


def encode(entries: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct entries, and for each step the index of its own among them.

    Whatever is decided about entries is then decided once for each distinct one.
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


def as_states(states: ArrayLike, n_steps: int) -> NDArray[Any]:
    """States of shape (n_steps,): texts, or int64."""
    array = one_per_step(states, n_steps, "states")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "ib":
        return array.astype(np.int64)
    if array.dtype.kind not in "ufOT":
        remedy = "; decode them with states.astype(str)" if array.dtype.kind == "S" else ""
        raise InputError(f"states must be texts or whole numbers, not {array.dtype}{remedy}")
    return decode_states(*encode(array))


def decode_states(entries: Sequence[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
    """States of shape (T,) from the distinct entries and each step's index among them."""

    def first_step(which: list[int]) -> int:
        return int(np.flatnonzero(np.isin(codes, which))[0])

    used = [i for i, e in enumerate(entries) if not is_absent(e) and e != NO_STATE_NAME]
    texts = [i for i in used if isinstance(entries[i], str)]
    others = [i for i in used if not isinstance(entries[i], str)]
    strange = [i for i in others if not isinstance(entries[i], int | float | np.number | np.bool_)]
    if strange:
        step = first_step(strange)
        raise StepError(
            f"state {entries[codes[step]]!r} at step {step} is neither text nor a whole number; "
            "name the states, or number them 0, 1, 2, …",
            step,
        )
    if texts and others:
        early, late = sorted((first_step(texts), first_step(others)))
        raise StepError(
            f"states mix texts and numbers: {entries[codes[early]]!r} at step {early}, "
            f"{entries[codes[late]]!r} at step {late}; "
            "write them all as texts or all as whole numbers",
            early,
            late,
        )
    if not others:
        named = set(texts)
        names = [e if i in named else NO_STATE_NAME for i, e in enumerate(entries)]
        return np.array(names or [NO_STATE_NAME], dtype="U")[codes]
    uneven = [i for i in others if not float(entries[i]).is_integer() or abs(entries[i]) >= 2**63]
    if uneven:
        step = first_step(uneven)
        raise StepError(
            f"state {entries[codes[step]]} at step {step} is not a whole number (of 64 bits); "
            "name the states, or number them 0, 1, 2, …",
            step,
        )
    numbered = set(others)
    numbers = [int(e) if i in numbered else NO_STATE_NUMBER for i, e in enumerate(entries)]
    return np.array(numbers, dtype=np.int64)[codes]


def as_recordings(recordings: ArrayLike, n_steps: int) -> NDArray[Any]:
    """Recordings of shape (n_steps,), none of them missing."""
    array = one_per_step(recordings, n_steps, "recordings")
    if array.dtype.kind in "OT":
        return decode_recordings(*encode(array))
    absent = array != array
    if absent.any():
        raise _no_recording(int(np.argmax(absent)))
    return array


def decode_recordings(entries: Sequence[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
    """Recordings of shape (T,) from the distinct entries and each step's index among them."""
    absent = np.isin(codes, [i for i, entry in enumerate(entries) if is_absent(entry)])
    if absent.any():
        raise _no_recording(int(np.argmax(absent)))
    present = [entry for entry in entries if not is_absent(entry)]
    if present and all(isinstance(entry, int) for entry in present):
        return np.array([0 if is_absent(entry) else entry for entry in entries])[codes]
    return np.array([str(entry) for entry in entries] or [""], dtype="U")[codes]


def _no_recording(step: int) -> StepError:
    return StepError(f"the recording is missing at step {step}; name it for every step", step)
