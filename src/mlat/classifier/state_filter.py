"""The state filter: a hidden Markov filter over successive predictions.

The forward recursion of a hidden Markov model: the belief of the step before, moved by the
transition matrix, times the probabilities of the window. Successive windows share all but one step,
so most of the evidence of a window is that of the one before: its probabilities count to the power
of ``tempering``. The first window after a gap shares no step with an earlier one, and counts in
full.

A switch is believed late. Where runs last, that is little beside the mistakes that the filter
corrects. Where they are short, it only loses: there it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..base.checks import Bools, Floats, Ints, ShortRepr
from ..base.compiled import jit
from ..base.errors import InputError

# The median run from which on the filter acts, in steps. On the development sets whose runs are
# longer it gained four points in the mean, on those with runs of 15 to 70 steps it lost up to ten.
LONG = 200
# The evidence of `overlap` successive windows counts as that of this many. One would be right if
# windows only shared steps; but after a switch the filter then waits for two windows and more.
EVIDENCE = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class StateFilter(ShortRepr):
    """How states follow each other.

    Attributes
    ----------
    transition : array of shape (S, S)
        From the state of a row to that of a column, in one step; rows sum to 1.
    tempering : float
        The power to which a window's probabilities count when it follows another.
    """

    transition: Floats
    tempering: float

    @cached_property
    def stationary(self) -> Floats:
        """The stationary distribution of the states, shape (S,): the belief before any window."""
        n = len(self.transition)
        stationary: Floats = np.linalg.solve(
            (np.eye(n) - self.transition + 1.0).T, np.ones(n)
        ).astype(np.float64)
        return stationary


@dataclass(frozen=True, eq=False, repr=False)
class Belief(ShortRepr):
    """What is carried from one step to the next.

    ``proba`` (S,) is the probability of each state. ``fresh`` is True where the step before had no
    window, so that the next shares no step with an earlier one.
    """

    proba: Floats
    fresh: bool = True


def learn_state_filter(codes: Ints, starts: Bools, n_classes: int, overlap: int) -> StateFilter:
    """Learn from the runs of a labelled stream how long states last and which follows which.

    A step ends a run with probability ``1 / median length``, the same for every state. The next
    state is as frequent as it was in the stream, each counted once more; in a stream without
    switches, such as one run per state, all are equally frequent. The end of a recording counts as
    the end of a run, although the run may have been longer: a filter that is too quick does less
    harm than one that is too slow.

    Parameters
    ----------
    codes : array of shape (T,)
        The state of each step; -1 for none.
    starts : array of shape (T,)
        True where a recording begins or time jumps.
    n_classes : int
    overlap : int
        How many successive windows share a step: the width and the memory of the lift.

    Returns
    -------
    state_filter : StateFilter
        One that changes nothing where runs are shorter than ``LONG`` steps.
    """
    codes, starts = np.asarray(codes), np.asarray(starts, dtype=bool)
    if codes.shape != starts.shape:
        raise InputError(f"there are {len(codes)} states and {len(starts)} starts")
    if overlap < 1:
        raise InputError(f"overlap must be at least 1, not {overlap}")
    changes = starts[1:] | (codes[1:] != codes[:-1])
    begins = np.append(0, np.flatnonzero(changes) + 1)
    lengths = np.diff(np.append(begins, len(codes)))[codes[begins[: len(codes)]] >= 0]
    if n_classes == 1 or not len(lengths) or np.median(lengths) < LONG:
        return no_filter(n_classes)
    followed = np.ones((n_classes, n_classes))
    switch = np.flatnonzero(changes & ~starts[1:] & (codes[1:] >= 0) & (codes[:-1] >= 0))
    np.add.at(followed, (codes[switch], codes[switch + 1]), 1.0)
    return lasting_filter(float(np.median(lengths)), followed, overlap)


def lasting_filter(length: float, followed: Floats, overlap: int) -> StateFilter:
    """A filter of states that last ``length`` steps, from how often each (S, S) follows another."""
    end, transition = 1.0 / length, np.array(followed, dtype=np.float64)
    np.fill_diagonal(transition, 0.0)
    transition *= end / transition.sum(axis=1, keepdims=True)
    np.fill_diagonal(transition, 1.0 - end)
    return StateFilter(transition, min(1.0, EVIDENCE / overlap))


def no_filter(n_classes: int) -> StateFilter:
    """A filter that changes nothing: each window decides for itself."""
    return StateFilter(np.full((n_classes, n_classes), 1.0 / n_classes), 1.0)


def extended_filter(learned: StateFilter, n_new: int) -> StateFilter:
    """The transitions with new states, of which nothing is known.

    A run of a new state ends as often as one of the others on average, and each state follows it
    equally often. After another state each new one is as probable as any other would be.
    """
    n_old = len(learned.transition)
    if not n_new or not n_old:  # without references nothing is filtered
        return learned
    n = n_old + n_new
    end = 1.0 - float(np.diagonal(learned.transition).mean())
    transition = np.full((n, n), end / (n - 1))
    transition[:n_old, :n_old] = learned.transition * (n_old - 1) / (n - 1)
    np.fill_diagonal(transition, 0.0)
    np.fill_diagonal(transition, 1.0 - transition.sum(axis=1))
    return StateFilter(transition, learned.tempering)


def filter_proba(
    proba: Floats, starts: Bools, state_filter: StateFilter, belief: Belief | None = None
) -> tuple[Floats, Belief]:
    """The probability of each state given all windows up to each step.

    Parameters
    ----------
    proba : array of shape (T, S)
        The probabilities by each window alone; NaN rows where there is none.
    starts : array of shape (T,)
        True where a recording begins or time jumps: the belief starts anew.
    state_filter : StateFilter
    belief : Belief, optional
        What the call for the steps before returned; default the stationary one.

    Returns
    -------
    filtered : array of shape (T, S)
        NaN where ``proba`` is. The most probable state is more often right where runs are long.
        The probabilities themselves are too extreme, for the errors of windows are correlated.
    belief : Belief
        For the next call. In chunks the result is bitwise that of one call.
    """
    proba = np.ascontiguousarray(proba, dtype=np.float64)
    transition = np.ascontiguousarray(state_filter.transition, dtype=np.float64)
    if proba.ndim != 2 or proba.shape[1] != len(transition):
        raise InputError(f"proba must have shape (T, {len(transition)}), not {proba.shape}")
    starts = np.ascontiguousarray(starts, dtype=bool)
    if starts.shape != proba.shape[:1]:
        raise InputError(f"there are {len(proba)} steps and {len(starts)} starts")
    belief = belief or Belief(state_filter.stationary)
    current = np.array(belief.proba, dtype=np.float64)
    filtered = np.empty_like(proba)
    fresh = _filter(
        proba,
        starts,
        transition,
        state_filter.stationary,
        float(state_filter.tempering),
        belief.fresh,
        current,
        filtered,
    )
    return filtered, Belief(current, bool(fresh))


def smoothed_proba(proba: Floats, starts: Bools, state_filter: StateFilter) -> Floats:
    """The probability of each state given all windows, also those to come; shaped as ``proba``.

    The filter meets that of time reversed: each has the window of the step, which counts once.
    """
    usual, transition = state_filter.stationary, state_filter.transition
    reverse = StateFilter((transition * usual[:, None]).T / usual[:, None], state_filter.tempering)
    past, _ = filter_proba(proba, starts, state_filter)
    ends = np.append(starts[1:], True)
    to_come, _ = filter_proba(proba[::-1], ends[::-1], reverse)
    once = np.maximum(proba, np.finfo(np.float64).tiny) ** state_filter.tempering
    both = past * to_come[::-1] / (usual * once)
    smoothed: Floats = both / both.sum(axis=1, keepdims=True)
    return smoothed


@jit()
def _filter(proba, starts, transition, stationary, tempering, fresh, current, filtered):  # type: ignore[no-untyped-def]
    after = np.empty_like(current)
    for t in range(len(proba)):
        if starts[t]:
            current[:] = stationary
            fresh = True
        seen = _step(current, proba[t], transition, 1.0 if fresh else tempering, after)
        current[:] = after
        fresh = not seen
        if seen:
            filtered[t] = current
        else:
            filtered[t] = np.nan
    return fresh


@jit()
def _step(current, proba, transition, power, after):  # type: ignore[no-untyped-def]
    n = len(current)
    seen = True
    for c in range(n):
        after[c] = 0.0
        for b in range(n):
            after[c] += current[b] * transition[b, c]
        seen = seen and not np.isnan(proba[c])
    total = 0.0
    if seen:
        for c in range(n):
            total += after[c] * proba[c] ** power
    # A window that contradicts the belief entirely (the product is 0) is skipped.
    if total > 0.0:
        for c in range(n):
            after[c] *= proba[c] ** power
    else:
        for c in range(n):
            total += after[c]
    # Without a window too: rounding must not add up over a long gap.
    for c in range(n):
        after[c] /= total
    return seen
