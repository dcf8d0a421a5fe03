"""How late predicted states are at a switch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlat.base.checks import Bools, Ints
from mlat.base.errors import InputError


@dataclass(frozen=True)
class SwitchDelay:
    """The delay of predictions at a switch of states, in steps; NaN without a switch.

    Attributes
    ----------
    n_switches : int
    first_median, first_90 : float
        Until the new state is predicted for the first time: the median and the 90 % quantile over
        switches. Infinite where too many runs end before it.
    settled_median, settled_90 : float
        Until it is predicted at every later step of the run.
    missed : float
        The fraction of runs whose state is never predicted.
    """

    n_switches: int
    first_median: float
    first_90: float
    settled_median: float
    settled_90: float
    missed: float


def switch_delay(states: Ints, predicted: Ints, starts: Bools) -> SwitchDelay:
    """Measure the delay at every switch from one state to another within a recording.

    Parameters
    ----------
    states, predicted : arrays of shape (T,)
        True and predicted states as codes; -1 for none.
    starts : array of shape (T,)
        True where a recording begins or time jumps.

    Examples
    --------
    >>> states = np.array([0, 0, 0, 1, 1, 1, 1])
    >>> delay = switch_delay(states, np.array([0, 0, 0, 0, 1, 0, 1]), np.zeros(7, bool))
    >>> delay.first_median, delay.settled_median
    (1.0, 3.0)
    """
    states, predicted = np.asarray(states), np.asarray(predicted)
    starts = np.asarray(starts, dtype=bool)
    if not states.shape == predicted.shape == starts.shape:
        raise InputError(
            f"states, predictions and starts must have one length, not {len(states)}, "
            f"{len(predicted)} and {len(starts)}"
        )
    changes = np.flatnonzero(starts[1:] | (states[1:] != states[:-1])) + 1
    ends = np.append(changes[1:], len(states))
    first, settled = [], []
    for begin, end in zip(changes, ends, strict=False):
        if starts[begin] or states[begin] < 0 or states[begin - 1] < 0:
            continue
        right = predicted[begin:end] == states[begin]
        wrong = np.flatnonzero(~right)
        first.append(float(np.argmax(right)) if right.any() else np.inf)
        settled.append(np.inf if not right[-1] else wrong[-1] + 1.0 if len(wrong) else 0.0)
    if not first:
        return SwitchDelay(0, np.nan, np.nan, np.nan, np.nan, np.nan)
    missed = float(np.isinf(first).mean())
    return SwitchDelay(len(first), *_quantiles(first), *_quantiles(settled), missed)


def _quantiles(delays: list[float]) -> tuple[float, float]:
    # Values that were observed: between a number and infinity there is nothing.
    median, ninety = np.quantile(delays, [0.5, 0.9], method="inverted_cdf")
    return float(median), float(ninety)
