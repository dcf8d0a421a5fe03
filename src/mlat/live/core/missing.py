"""Policies for missing values, and the segments of complete steps that remain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...base.checks import Bools, Floats, Ints
from ...base.compiled import jit
from .options import LiveOptions
from .steps import Counters

ABSTAIN, HOLD, REJECT = 0, 1, 2
CODES = {"abstain": ABSTAIN, "hold": HOLD, "reject": REJECT}
ACCEPTED, HELD, MISSING, REFUSED, INFINITE = 0, 1, 2, 3, 4  # what happens to a step


@dataclass(slots=True)
class Held:
    """The state of the policy.

    Attributes
    ----------
    last : array of shape (d,)
        The last value of each channel since the last gap; NaN for none.
    missing_for : array of shape (d,)
        For how many steps in a row each channel has been missing.
    refused : bool
        Whether the last step was refused, so that the next follows a gap.
    """

    last: Floats
    missing_for: Ints
    refused: bool = False

    @classmethod
    def start(cls, n_channels: int) -> Held:
        return cls(np.full(n_channels, np.nan), np.zeros(n_channels, np.int64))

    def copy(self) -> Held:
        return Held(self.last.copy(), self.missing_for.copy(), self.refused)


@dataclass(frozen=True, eq=False, slots=True)
class FilledSteps:
    """Steps after the policy.

    Attributes
    ----------
    accepted : array of shape (t,)
        Which of the steps are accepted, n of them. The other arrays are about these.
    values : array of shape (n, d)
        Held values are filled in; NaN where one is still missing.
    missing : array of shape (n,)
        Which of them miss a value.
    gap : array of shape (n,)
        Which of them follow a gap; a refused step makes one.
    unbroken : bool
        Whether none misses a value and none follows a gap.
    """

    accepted: Bools
    values: Floats
    missing: Bools
    gap: Bools
    unbroken: bool


def fill_missing(
    held: Held, values: Floats, gap: Bools, options: LiveOptions, counters: Counters
) -> FilledSteps:
    """Apply the policy to the next steps (t, d); ``held`` and ``counters`` change."""
    n, n_gaps = len(values), int(np.count_nonzero(gap))
    if options.missing != "hold" and not held.refused and np.isfinite(values).all():
        counters["gaps"] += n_gaps
        return FilledSteps(np.ones(n, bool), values, np.zeros(n, bool), gap, not n_gaps)
    values, gap = values.copy(), gap.copy()
    fate = np.empty(len(values), np.int8)
    held.refused = bool(
        _settle(
            values,
            gap,
            CODES[options.missing],
            options.hold,
            held.last,
            held.missing_for,
            held.refused,
            fate,
        )
    )
    accepted = fate < REFUSED
    missing = (fate == MISSING)[accepted]
    gap = gap[accepted]
    counters["missing"] += int(missing.sum())
    counters["held"] += int((fate == HELD).sum())
    counters["rejected"] += int((~accepted).sum())
    counters["infinite"] += int((fate == INFINITE).sum())
    counters["gaps"] += int(gap.sum())
    unbroken = not (missing.any() or gap.any())
    return FilledSteps(accepted, values[accepted], missing, gap, unbroken)


def pieces(
    anew: bool, settled: FilledSteps, dead: Ints | None
) -> Iterator[tuple[int, int, bool, bool]]:
    """Cut accepted steps into parts of one segment each: begin, end, starts, broken.

    ``starts`` says that a segment begins there. A ``broken`` part is a single step that misses a
    value or has a dead channel; it belongs to no segment.

    Parameters
    ----------
    anew : bool
        Whether there is no segment that the first step could continue.
    settled : FilledSteps
    dead : array of shape (n,), optional
        A dead channel at each step, or -1.
    """
    n = len(settled.values)
    if dead is None and settled.unbroken:
        yield 0, n, anew, False
        return
    broken = settled.missing.copy()
    if dead is not None:
        broken |= dead >= 0
    starts = settled.gap.copy()
    starts[0] |= anew
    starts[1:] |= broken[:-1]
    edges = np.flatnonzero(starts | broken)
    edges = edges if len(edges) and edges[0] == 0 else np.append(0, edges)
    for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), n], strict=True):
        yield begin, end, bool(starts[begin] and not broken[begin]), bool(broken[begin])


@jit()
def _settle(values, gap, policy, hold, last, missing_for, refused, fate):  # type: ignore[no-untyped-def]
    n_steps, n_channels = values.shape
    for t in range(n_steps):
        lacks, infinite = False, False
        for c in range(n_channels):
            lacks = lacks or np.isnan(values[t, c])
            infinite = infinite or np.isinf(values[t, c])
        if infinite or (lacks and policy == REJECT):
            fate[t] = INFINITE if infinite else REFUSED
            refused = True
            continue
        gap[t] = gap[t] or refused
        refused = False
        fate[t] = MISSING if lacks else ACCEPTED
        if policy != HOLD:
            continue
        if gap[t]:  # values from before it are too old to be held
            last[:] = np.nan
            missing_for[:] = 0
        if lacks:
            fate[t] = HELD
        for c in range(n_channels):
            if not np.isnan(values[t, c]):
                last[c] = values[t, c]
                missing_for[c] = 0
                continue
            missing_for[c] += 1
            if missing_for[c] <= hold and not np.isnan(last[c]):
                values[t, c] = last[c]
            else:
                fate[t] = MISSING
    return refused
