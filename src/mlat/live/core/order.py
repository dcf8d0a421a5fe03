"""Steps into their order: a bounded buffer, in which steps wait for an earlier one.

By number a step waits while one before it is missing. By time it waits while the step before it is
more than a gap away; where no gap is known, always for ``reorder`` later ones, since nothing tells
that none is missing. The first step of all is where the stream begins: by number, and by time where
a gap is known, it waits for none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...errors import InputError
from .options import LiveOptions
from .steps import Counters, Steps

# Places given up that are remembered, to tell a late step from one that comes a second time.
REMEMBERED = 64


@dataclass(frozen=True, eq=False, slots=True)
class Waiting:
    """One step that has come before its turn; ``key`` is its number or its time."""

    key: float
    seq: int | None
    time: float | None
    values: Floats


@dataclass(slots=True)
class Order:
    """How far the stream has come.

    Attributes
    ----------
    waiting : list of Waiting
        In their order, at most ``reorder`` of them between chunks.
    first, reached : float or None
        The number or time of the first and of the last step that was let through.
    given_up : list of (int, int)
        Numbers ``[from, to)`` that are waited for no more.
    last_seq, last_time : int, float or None
        Of the last step let through, whatever tells the order.
    behind, most_behind : int
        Steps in a row that came too late or again, now and at most.
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
        return Order(
            [*self.waiting],
            self.first,
            self.reached,
            [*self.given_up],
            self.last_seq,
            self.last_time,
            self.behind,
            self.most_behind,
        )


def check_order(steps: Steps, options: LiveOptions) -> None:
    """Refuse steps without that which is to tell their order."""
    if len(steps) and options.order_by != "none" and getattr(steps, options.order_by) is None:
        raise InputError(
            f"the steps have no {options.order_by}, which order_by asks for; give it, or leave "
            "order_by out"
        )


def arrange(order: Order, steps: Steps, options: LiveOptions, counters: Counters) -> Steps:
    """The steps whose turn it is, in their order; the others wait, or are dropped and counted."""
    if options.order_by == "none" or not len(steps) or _in_order(order, steps, options):
        return steps
    through: list[Waiting] = []
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
            through.append(_let_through(order, options))
    return _together(through, steps)


def release(order: Order, options: LiveOptions, n_channels: int) -> Steps:
    """All that wait, in their order."""
    through = [_let_through(order, options) for _ in range(len(order.waiting))]
    return _together(through, Steps(np.empty((0, n_channels))))


def find_gaps(order: Order, steps: Steps, options: LiveOptions) -> NDArray[np.bool_]:
    """Which of the steps let through do not follow the one before them."""
    gap = np.zeros(len(steps), bool)
    if not len(steps):
        return gap
    if steps.seq is not None:
        before = steps.seq[0] - 1 if order.last_seq is None else order.last_seq
        gap |= np.diff(steps.seq, prepend=before) != 1
    if steps.time is not None and options.gap_seconds is not None:
        since = steps.time[0] if order.last_time is None else order.last_time
        elapsed = np.diff(steps.time, prepend=since)
        # A clock that was set back is a break, too; two steps at one time are not.
        gap |= (elapsed > options.gap_seconds) | (elapsed < 0)
    order.last_seq = None if steps.seq is None else int(steps.seq[-1])
    order.last_time = None if steps.time is None else float(steps.time[-1])
    return gap


def _in_order(order: Order, steps: Steps, options: LiveOptions) -> bool:
    """Whether every step follows the one before it, so that none waits; then it is noted."""
    keys = steps.seq if options.order_by == "seq" else steps.time
    assert keys is not None
    if order.waiting:
        return False
    elapsed = np.diff(keys) if order.reached is None else np.diff(keys, prepend=order.reached)
    if options.order_by == "seq":
        follows = bool((elapsed == 1).all())
    else:
        gap = 0.0 if options.gap_seconds is None else options.gap_seconds
        # Where no gap is known nothing follows for certain; but with no buffer nothing waits.
        if options.reorder == 0 and options.gap_seconds is None:
            gap = np.inf
        elif options.gap_seconds is None:
            return False
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
    """Whether a step behind what was reached has not been there; else it comes again."""
    assert order.first is not None
    if key < order.first:
        return True
    if options.order_by == "seq":
        return any(begin <= key < end for begin, end in order.given_up)
    return key != order.reached


def _let_through(order: Order, options: LiveOptions) -> Waiting:
    step = order.waiting.pop(0)
    if order.reached is None:
        order.first = step.key
    elif options.order_by == "seq" and step.key > order.reached + 1:
        order.given_up.append((int(order.reached) + 1, int(step.key)))
        del order.given_up[:-REMEMBERED]
    order.reached = step.key
    return step


def _together(through: list[Waiting], like: Steps) -> Steps:
    if not through:
        return Steps(np.empty((0, like.values.shape[1])))
    seq = [step.seq for step in through]
    time = [step.time for step in through]
    # A stream of which only some steps have a number or a time has none.
    return Steps(
        np.stack([step.values for step in through]),
        None if None in seq else np.array(seq, np.int64),
        None if None in time else np.array(time, np.float64),
    )
