"""Irregular time: the values between steps, at a rate of one's own.

Clocks jitter, samples are dropped, and sensors of one file have rates of their own. Windows compare
step with step, so steps must be as far apart as those that were learned from.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints, is_real
from ..base.errors import InputError
from .conversion import StepError, as_time, in_seconds
from .stream import goes_back

Between = Literal["linear", "previous"]
GAP_STEPS = 5  # without a value, usual ones, that are still filled by default
MOST_STEPS = 100  # for each that there was: more, and the time is of another unit


class Resampled(NamedTuple):
    """New steps: ``source`` (n,) is the last step that there was, at the time of each."""

    values: Floats
    time: NDArray[Any]
    source: Ints


def check_rate(rate: Any, between: Any) -> None:
    """Refuse a rate that is none, and an unknown way to fill."""
    if not is_real(rate) or not 0 < rate < np.inf:
        raise InputError(f"rate must be steps per second, such as 50, not {rate!r}")
    if between not in ("linear", "previous"):
        raise InputError(f'between must be "linear" or "previous", not {between!r}')


def resample(
    values: NDArray[np.floating[Any]],
    time: Any,
    begins: Bools,
    rate: float,
    max_gap: float | None = None,
    between: Between = "linear",
) -> Resampled:
    """Values (T, d) at equal steps of time; where no channel has one there is no step.

    Parameters
    ----------
    values : array of shape (T, d)
        NaN where a channel has no value, as where sensors have rates of their own.
    time : array of shape (T,)
        It does not fall inside recordings.
    begins : array of shape (T,)
        True where a recording begins.
    rate : float
        Steps per second for dates, else per unit of the time. Values are not averaged: of one that
        is much lower than that of the steps most are left out.
    max_gap : float, optional
        The longest time between two values of a channel that is filled; default five usual ones.
    between : "linear" or "previous", default="linear"
        What lies between two values: the straight line, or the former.

    Raises
    ------
    InputError
        If time goes back, or the rate is of another unit of time.
    """
    time = as_time(time, len(values))
    clock = in_seconds(time - time[:1])
    back = ~begins[1:] & (np.diff(clock) < 0)
    if back.any():
        step = int(np.argmax(back)) + 1
        raise goes_back(step, time[step], time[step - 1])
    first = np.concatenate([[0], np.flatnonzero(begins[1:]) + 1, [len(values)]])
    parts, sources, clocks = [], [], []
    for start, stop in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        own = _spread(clock[start:stop])
        n = int((own[-1] - own[0]) * rate + 1e-6) + 1
        if n > MOST_STEPS * max(len(own), 10):
            raise StepError(
                f"at rate {rate:g} the {len(own)} steps from step {start} on would be {n}: is the "
                "time in milliseconds? give the rate per unit of the time",
                start,
            )
        grid = own[0] + np.arange(n) / rate
        columns = [
            _at(grid, clock[start:stop], c, rate, max_gap, between) for c in values[start:stop].T
        ]
        new = np.stack(columns, axis=1)
        kept = ~np.isnan(new).all(axis=1)
        parts.append(new[kept])
        clocks.append(grid[kept])
        sources.append(start + np.searchsorted(own, grid[kept] + 1e-6 / rate, side="right") - 1)
    grid = np.concatenate(clocks)
    if time.dtype.kind in "Mm":
        new_time = time[:1].astype(f"{time.dtype.kind}8[ns]") + np.round(grid * 1e9).astype(
            "m8[ns]"
        )
    else:
        new_time = time[:1] + grid
    return Resampled(np.concatenate(parts), new_time, np.concatenate(sources))


def _spread(time: Floats) -> Floats:
    """Times with those that are the same, as of a clock of whole seconds, in equal steps."""
    start = np.flatnonzero(np.diff(time, prepend=-np.inf) > 0)
    if len(start) in (0, len(time)):
        return time
    elapsed = np.diff(time[start])
    usual = float(np.median(elapsed)) if len(elapsed) else 0.0
    count = np.diff(start, append=len(time))
    step = np.minimum(np.append(elapsed, usual), usual) / count
    return time + (np.arange(len(time)) - np.repeat(start, count)) * np.repeat(step, count)


def _at(
    grid: Floats, time: Floats, column: Any, rate: float, max_gap: float | None, between: Between
) -> Floats:
    """A channel's values (n,) at the times ``grid``, from those it has; NaN in longer gaps."""
    there = ~np.isnan(column)
    time, column = _spread(time[there]), column[there].astype(np.float64)
    if not len(time):
        return np.full(len(grid), np.nan)
    if max_gap is None:
        steps = np.diff(time)
        max_gap = GAP_STEPS * max(1 / rate, float(np.median(steps)) if len(steps) else 0.0)
    near = 1e-6 / rate  # times are rounded
    before = np.searchsorted(time, grid + near, side="right") - 1
    after = np.searchsorted(time, grid - near, side="left")
    last = len(time) - 1
    if between == "previous":
        new = column[np.maximum(before, 0)]
        gone = (before < 0) | (grid - time[np.maximum(before, 0)] > max_gap + near)
    else:
        new = np.interp(grid, time, column)
        width = time[np.minimum(after, last)] - time[np.maximum(before, 0)]
        gone = (before < 0) | (after > last) | (width > max_gap + near)
    return np.where(gone, np.nan, new)
