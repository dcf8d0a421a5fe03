"""The order of steps: a bounded reorder buffer, gaps, and a check of the unit of time.

Ordered by number, a step waits while one before it is missing. Ordered by time, it waits while the
step before it is more than a gap away; where no gap is known it always waits for ``reorder`` later
ones, since nothing shows that none is missing. The very first step is where the stream begins: by
number, and by time where a gap is known, it does not wait.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...base.checks import Bools, Floats
from ...base.errors import InputError
from ...stream.conversion import GAP_FACTOR
from .options import LiveOptions
from .steps import Counters, Steps

# Ranges of numbers given up that are kept, to distinguish a late step from a repeated one.
REMEMBERED = 64
N_DIFFERENCES = 20  # times between steps from which the unit of time is judged
OFF = 50  # the unit is wrong if they are this many times longer or shorter than the rate says
UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}


@dataclass(frozen=True, eq=False, slots=True)
class Waiting:
    """One step in the reorder buffer; ``key`` is its number or its time."""

    key: float
    seq: int | None
    time: float | None
    values: Floats


@dataclass(slots=True)
class Order:
    """The reorder buffer, and where the stream is.

    Attributes
    ----------
    waiting : list of Waiting
        Sorted, at most ``reorder`` of them between chunks.
    first, reached : float or None
        The number or time of the first and of the last step that was released.
    given_up : list of (int, int)
        Ranges ``[from, to)`` of numbers that are no longer waited for.
    last_seq, last_time : int, float or None
        Of the last released step, whatever gives the order.
    behind, most_behind : int
        Late or repeated steps in a row, now and at most.
    """

    waiting: list[Waiting] = field(default_factory=list)
    first: float | None = None
    reached: float | None = None
    given_up: list[tuple[int, int]] = field(default_factory=list)
    last_seq: int | None = None
    last_time: float | None = None
    behind: int = 0
    most_behind: int = 0

    def copy(self) -> Order:
        return replace(self, waiting=[*self.waiting], given_up=[*self.given_up])


def check_order(steps: Steps, options: LiveOptions) -> None:
    """Refuse steps without the number or time that gives their order, if anything does."""
    if len(steps) and getattr(steps, options.order_by) is None:
        raise InputError(
            f"the steps have no {options.order_by}, which order_by asks for; give it, or leave "
            "order_by out"
        )


def arrange(order: Order, steps: Steps, options: LiveOptions, counters: Counters) -> Steps:
    """The steps to release, in their order; the others wait, or are dropped and counted."""
    if not len(steps) or _in_order(order, steps, options):
        return steps
    released: list[Waiting] = []
    for i in range(len(steps)):
        seq = None if steps.seq is None else int(steps.seq[i])
        time = None if steps.time is None else float(steps.time[i])
        key = seq if options.order_by == "seq" else time
        assert key is not None
        if order.reached is not None and key <= order.reached:
            counters["late" if _is_late(order, key, options) else "duplicate"] += 1
            order.behind += 1
            order.most_behind = max(order.most_behind, order.behind)
            continue
        order.behind = 0
        place = bisect_left(order.waiting, key, key=lambda step: step.key)
        if place < len(order.waiting) and order.waiting[place].key == key:
            counters["duplicate"] += 1
            continue
        order.waiting.insert(place, Waiting(key, seq, time, steps.values[i].copy()))
        while order.waiting and (
            len(order.waiting) > options.reorder or _follows(order, order.waiting[0], options)
        ):
            released.append(_release_first(order, options))
    return _stack(released, steps.values.shape[1])


def release(order: Order, options: LiveOptions, n_channels: int) -> Steps:
    """All waiting steps, in their order."""
    released = [_release_first(order, options) for _ in range(len(order.waiting))]
    return _stack(released, n_channels)


def find_gaps(order: Order, steps: Steps, longest: float | Floats) -> Bools:
    """Which of the released steps (t,), one at least, follow a gap.

    ``longest`` is the time between steps beyond which there is a gap, for all of them or for each
    (t,); infinite where time shows none.
    """
    gap = np.zeros(len(steps), bool)
    if steps.seq is not None:
        gap[1:] = np.diff(steps.seq) != 1
        gap[0] = order.last_seq not in (None, int(steps.seq[0]) - 1)
    if steps.time is not None and np.isfinite(longest).all():
        since = steps.time[0] if order.last_time is None else order.last_time
        elapsed = np.diff(steps.time, prepend=since)
        # A clock that was set back is a gap, too; two steps at the same time are not.
        gap |= (elapsed > longest) | (elapsed < 0)
    order.last_seq = None if steps.seq is None else int(steps.seq[-1])
    order.last_time = None if steps.time is None else float(steps.time[-1])
    return gap


def longest_step(
    times: list[float], steps: Steps, options: LiveOptions, usual_step: float | None
) -> tuple[float | Floats, Unexpected | None]:
    """The time between steps beyond which there is a gap, for all of the steps or for each (t,).

    Without a rate it follows from the usual step of the model. Where the stream's own usual step,
    known after its first steps, is another, it follows from that from then on, as in ``predict``.

    Parameters
    ----------
    times : list of float
        The times of the first steps seen so far; it is extended.
    steps : Steps
    options : LiveOptions
    usual_step : float or None
        That of the model, in seconds.

    Returns
    -------
    longest : float or array of shape (t,)
        Infinite where time shows no gaps.
    unexpected : Unexpected or None
        What is to be said, once, of a stream whose steps are not as far apart as they should be.
    """
    longest = np.inf if options.gap_seconds is None else options.gap_seconds
    if steps.time is None or (options.rate is None and usual_step is None):
        return longest, None
    unexpected = None
    n_first = min(max(N_DIFFERENCES + 1 - len(times), 0), len(steps))
    if n_first:
        times += steps.time[:n_first].tolist()
        unexpected = _unexpected(times, options.rate, usual_step)
    if options.gap_seconds is not None or usual_step is None:
        return longest, unexpected
    own = _own_step(times)
    if own is None or _similar(own, usual_step):
        return GAP_FACTOR * usual_step, unexpected
    each = np.full(len(steps), GAP_FACTOR * own)
    each[:n_first] = GAP_FACTOR * usual_step
    return each, unexpected


class Unexpected(NamedTuple):
    """A warning about the times of a stream, and whether they are in another unit."""

    warning: str
    wrong_unit: bool


def _unexpected(
    times: list[float], rate: float | None, usual_step: float | None
) -> Unexpected | None:
    own = _own_step(times)
    expected = usual_step if rate is None else 1 / rate
    if own is None or expected is None:
        return None
    off = own / expected
    wrong_unit = not 1 / OFF <= off <= OFF
    likely = [name for factor, name in UNITS.items() if 1 / OFF <= off / factor <= OFF]
    guess = f"; it looks like {likely[0]}" if wrong_unit and likely else ""
    if rate is not None and wrong_unit:
        return Unexpected(
            f"the first steps are {own:g} apart in time, at {rate:g} a second that would be "
            f"{expected:g} s{guess}: give time in seconds, or the right rate",
            wrong_unit,
        )
    if usual_step is None or _similar(own, usual_step):
        return None
    return Unexpected(
        f"the first steps are {own:g} s apart, those that the model was learned from were "
        f"{usual_step:g} s apart{guess}: its windows span another time; give steps at the model's "
        "rate, or fit a model at this one",
        wrong_unit,
    )


def _own_step(times: list[float]) -> float | None:
    """The median time between the first steps of a stream; None before there are enough."""
    if len(times) <= N_DIFFERENCES:
        return None
    own = statistics.median(b - a for a, b in pairwise(times))
    return own if own > 0 else None


def _similar(own: float, usual_step: float) -> bool:
    """Whether steps that follow each other at one of them would not be gaps at the other."""
    return own <= GAP_FACTOR * usual_step and usual_step <= GAP_FACTOR * own


def _in_order(order: Order, steps: Steps, options: LiveOptions) -> bool:
    """Whether every step follows the one before it, so that none waits; if so, move on."""
    keys = steps.seq if options.order_by == "seq" else steps.time
    assert keys is not None
    if order.waiting:
        return False
    elapsed = np.diff(keys) if order.reached is None else np.diff(keys, prepend=order.reached)
    if options.order_by == "seq":
        follows = bool((elapsed == 1).all())
    else:
        gap = options.gap_seconds
        if gap is None:
            # Where no gap is known no step is known to follow; but without a buffer none waits.
            if options.reorder:
                return False
            gap = np.inf
        follows = bool(((elapsed > 0) & (elapsed <= gap)).all())
    if follows:
        order.behind = 0
        order.reached = keys[-1].item()
        order.first = keys[0].item() if order.first is None else order.first
    return follows


def _follows(order: Order, step: Waiting, options: LiveOptions) -> bool:
    if options.order_by == "seq":
        return order.reached is None or step.key == order.reached + 1
    if options.gap_seconds is None:
        return False
    return order.reached is None or step.key - order.reached <= options.gap_seconds


def _is_late(order: Order, key: float, options: LiveOptions) -> bool:
    """Whether a step before the last released one is new; else it is a repeated one."""
    assert order.first is not None
    if key < order.first:
        return True
    if options.order_by == "seq":
        return any(begin <= key < end for begin, end in order.given_up)
    return key != order.reached


def _release_first(order: Order, options: LiveOptions) -> Waiting:
    step = order.waiting.pop(0)
    if order.reached is None:
        order.first = step.key
    elif options.order_by == "seq" and step.key > order.reached + 1:
        order.given_up.append((int(order.reached) + 1, int(step.key)))
        del order.given_up[:-REMEMBERED]
    order.reached = step.key
    return step


def _stack(released: list[Waiting], n_channels: int) -> Steps:
    if not released:
        return Steps(np.empty((0, n_channels)))
    seq = [step.seq for step in released]
    time = [step.time for step in released]
    # A stream of which only some steps have a number or a time has none.
    return Steps(
        np.stack([step.values for step in released]),
        None if None in seq else np.array(seq, np.int64),
        None if None in time else np.array(time, np.float64),
    )
