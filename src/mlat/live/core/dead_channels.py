"""Dead channels: those that are constant for far longer than they ever were in training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.checks import Floats, Ints
from ...base.compiled import jit
from ...neighbours.references import steps_inside
from ...stream.windows import Windows

LONGER = 2  # times the longest in training
AT_LEAST = 10  # steps
NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Still:
    """The last value (d,) of each channel, and for how many steps (d,) it has been constant."""

    last: Floats
    steps: Ints

    @classmethod
    def start(cls, n_channels: int) -> Still:
        return cls(np.full(n_channels, np.nan), np.zeros(n_channels, np.int64))

    def copy(self) -> Still:
        return Still(self.last.copy(), self.steps.copy())

    def dead(self, values: Floats, dead_after: Ints) -> Ints | None:
        """The first dead channel at each of the next steps (t, d), shape (t,); -1 for none.

        None where no channel is dead at any of them. A missing value does not end a constant
        period, and neither does a gap.
        """
        first = np.empty(len(values), np.int64)
        values = np.ascontiguousarray(values)
        some = _dead(values, self.last, self.steps, dead_after, first)
        return first if some else None


def longest_constant(windows: Windows) -> Ints:
    """For how many steps each channel is constant at most within a run, shape (d,)."""
    longest = np.ones(windows.values.shape[1], np.int64)
    for _, rows in windows.by_run():
        start = np.sort(windows.start[rows])
        # Steps that lie in no window are not in a model file: a run ends at them.
        apart = np.flatnonzero(np.diff(start) >= windows.width) + 1
        for part in np.split(start, apart):
            run = windows.values[part[0] : part[-1] + windows.width]
            _longest(np.ascontiguousarray(run, dtype=np.float64), longest)
    return longest


def dead_after(windows: Windows) -> Ints:
    """After how many constant steps each channel is dead, shape (d,).

    Twice its longest constant period in training, but at least a window and ten steps. A channel
    that is constant in all of training is never dead.
    """
    least = max(windows.width, AT_LEAST)
    after = np.maximum(LONGER * longest_constant(windows), least)
    steps = windows.values[steps_inside(windows, between=False)]
    constant = (steps == steps[:1]).all(axis=0)
    return np.where(constant, NEVER, after)


@jit()
def _longest(values, longest):  # type: ignore[no-untyped-def]
    for c in range(values.shape[1]):
        steps = 1
        for t in range(1, len(values)):
            steps = steps + 1 if values[t, c] == values[t - 1, c] else 1
            longest[c] = max(longest[c], steps)


@jit()
def _dead(values, last, steps, dead_after, first):  # type: ignore[no-untyped-def]
    n_channels = values.shape[1]
    some = False
    for t in range(len(values)):
        first[t] = -1
        for c in range(n_channels - 1, -1, -1):
            value = values[t, c]
            if value == last[c]:
                steps[c] += 1
            elif not np.isnan(value):
                last[c] = value
                steps[c] = 1
            if steps[c] >= dead_after[c]:
                first[t] = c
                some = True
    return some
