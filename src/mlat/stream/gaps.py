"""The time of each step, and where a step does not follow the one before it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .conversion import StepError, is_absent, one_per_step

# A step later than this many usual steps after the one before it is a gap: one lost sample makes
# the distance 2, ordinary clock jitter stays below 1.5.
GAP_FACTOR = 1.5


def find_gaps(
    boundary: NDArray[np.bool_], stamps: NDArray[Any], max_gap: float | None
) -> tuple[NDArray[np.bool_], float]:
    """Where time jumps, and the largest step that is no jump.

    Parameters
    ----------
    boundary : array of shape (T,)
        True at the first step of each recording, where time may do as it likes.
    stamps : array of shape (T,)
        As ``as_time`` gives it.
    max_gap : float, optional
        Default 1.5 times the median step inside recordings.

    Returns
    -------
    gap_before : array of shape (T,)
        True at each step that comes more than ``max_gap`` after the one before it.
    max_gap : float
        The bound that was used; infinite if there was no step to take the median of.
    """
    elapsed = _seconds(np.diff(stamps))
    inside = ~boundary[1:]
    back = inside & ~(elapsed > 0)
    if back.any():
        step = int(np.argmax(back)) + 1
        raise StepError(
            f"time does not increase at step {step} ({stamps[step]} after {stamps[step - 1]}); "
            "sort the steps, say which recording each belongs to, or leave the time out",
            step,
        )
    if max_gap is None:
        max_gap = GAP_FACTOR * float(np.median(elapsed[inside])) if inside.any() else np.inf
    gap_before = np.zeros(len(stamps), dtype=bool)
    gap_before[1:] = elapsed > max_gap
    return gap_before, max_gap


def as_time(stamps: Any, n_steps: int) -> NDArray[Any]:
    """Time of shape (n_steps,): int64, floats, timedelta64, or datetime64 (UTC if it has a zone).

    None of it is missing.
    """
    zoned = getattr(stamps, "dtype", None)
    if getattr(zoned, "tz", None) is not None:  # as objects, pandas' own way, it would be slow
        stamps = np.asarray(stamps, dtype=f"datetime64[{getattr(zoned, 'unit', 'ns')}]")
    array = one_per_step(stamps, n_steps, "time")
    if array.dtype.kind == "O":
        array = _time_of_objects(array)
    if array.dtype.kind not in "iufMm":
        raise InputError(
            f"time must be numbers or datetimes, not {array.dtype}; "
            "numpy.array(time, dtype='datetime64[ms]') reads texts like 2024-05-31T12:00:00.5"
        )
    absent = np.isnat(array) if array.dtype.kind in "Mm" else ~np.isfinite(array)
    if absent.any():
        raise _missing(int(np.argmax(absent)))
    if array.dtype.kind in "Mm" and np.datetime_data(array.dtype)[0] in ("Y", "M"):
        # Years and months have no fixed length in seconds.
        array = array.astype("datetime64[D]")
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _missing(step: int) -> StepError:
    return StepError(f"time is missing at step {step}; fill it in, or leave the time out", step)


def _time_of_objects(objects: NDArray[Any]) -> NDArray[Any]:
    stamps = objects.tolist()
    if not stamps:
        return np.empty(0)
    absent = [step for step, stamp in enumerate(stamps) if is_absent(stamp)]
    if absent:
        raise _missing(absent[0])
    if all(isinstance(stamp, time) for stamp in stamps):  # the clock without its date
        stamps = [datetime.combine(date.min, stamp) - datetime.min for stamp in stamps]
    if all(isinstance(stamp, timedelta) for stamp in stamps):
        return np.array(stamps, dtype="timedelta64[us]")
    if all(isinstance(stamp, date) for stamp in stamps):
        if len({getattr(stamp, "tzinfo", None) is None for stamp in stamps}) > 1:
            raise InputError("some of the time has a time zone and some has none; choose one")
        return np.array([_in_utc(stamp) for stamp in stamps], dtype="datetime64[us]")
    return np.array(stamps)


def _in_utc(stamp: date) -> date:
    if isinstance(stamp, datetime) and stamp.tzinfo is not None:
        return stamp.astimezone(UTC).replace(tzinfo=None)
    return stamp


def _seconds(elapsed: NDArray[Any]) -> NDArray[np.float64]:
    if elapsed.dtype.kind == "m":
        return elapsed / np.timedelta64(1, "s")
    return elapsed.astype(np.float64)
