"""What becomes of each step: the policies for missing values and dead channels, and its features.

One compiled loop takes raw steps in: extreme values count as missing, missing ones are held or not,
a step is refused, breaks the stream, begins a segment or goes on with one, and what remains is
brought to common units, where a model asks for it, and lifted to features. All that it remembers of
n streams are the arrays of :class:`Memory`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..base.checks import Bools, Floats, Ints
from ..base.compiled import copy_into, jit
from ..features.features import Features, Units
from ..features.lifts import PreparedLift, Scalings, lift_step
from ..neighbours.references import steps_inside
from ..stream.windows import Windows

ABSTAIN, HOLD, REJECT = 0, 1, 2
POLICIES = {"abstain": ABSTAIN, "hold": HOLD, "reject": REJECT}
BREAKS, GOES_ON, BEGINS = 0, 1, 2  # what a step is to the segment of its stream

# Why a state is unknown, as predictions say it; then one for each channel that is dead.
REASONS = ("", "far", "filling", "missing", "gap", "untaught")
KNOWN, FAR, FILLING, MISSING, GAP, UNTAUGHT, DEAD = range(7)

# Rows of `Memory.channels`, of `Memory.counts` and places of `Memory.places`.
HELD, STILL, SUMS = 0, 1, 2
MISSING_FOR, STILL_FOR = 0, 1
REFUSED, LENGTH, WHY, N_PAST = range(4)
MEAN, VARIANCE = 0, 1  # rows of `Memory.units`
LEAST = 1e-4  # of a variance: a channel that stands still is not blown up to be as the others

# What is counted of the steps that are taken in, by the names of a session's counters; after them
# the first step with an extreme value, and its channel.
COUNTED = ("accepted", "missing", "held", "rejected", "infinite", "gaps", "dead", "extreme")
_ACCEPTED, _MISSING, _HELD, _REJECTED, _INFINITE, _GAPS, _DEAD, _EXTREME = range(8)

LONGER = 2  # times the longest constant period in training: a channel is dead
AT_LEAST = 10  # steps
NEVER = np.iinfo(np.int64).max


class Memory(NamedTuple):
    """What n streams remember of their steps.

    Attributes
    ----------
    channels : array of shape (n, 2 + n_sums, d)
        The last value of each channel since the last gap, which may be held; its last value
        whatsoever; the running sums of the lift.
    counts : array of shape (n, 2, d)
        For how many steps in a row each channel has been missing, and constant.
    places : array of shape (n, 4)
        Whether the last step was refused, so that the next follows a gap; the steps since the
        segment began; why there is no complete window at first; how many steps the past has seen.
    ring : array of shape (n, size, d)
        The ring buffer of the lift.
    past : array of shape (n, P, d + 1)
        The last accepted steps, whatever broke the stream in between, as another ring: the channels
        of each, and its age: how many steps its segment had before it, -1 where it breaks it.
    units : array of shape (n, 2, d), or (n, 0, d) where units are not followed
        The mean and the variance of each channel by the steps so far, in the common units.
    """

    channels: Floats
    counts: Ints
    places: Ints
    ring: Floats
    past: Floats
    units: Floats

    @classmethod
    def start(
        cls, n_streams: int, n_channels: int, lift: PreparedLift, n_past: int, follows: bool
    ) -> Self:
        """Before the first step; ``follows`` says whether units are followed."""
        channels = np.zeros((n_streams, SUMS + lift.n_sums, n_channels))
        channels[:, :SUMS] = np.nan
        units = np.zeros((n_streams, 2 if follows else 0, n_channels))
        units[:, VARIANCE:] = 1.0
        places = np.zeros((n_streams, 4), np.int64)
        places[:, WHY] = FILLING
        return cls(
            channels,
            np.zeros((n_streams, 2, n_channels), np.int64),
            places,
            np.zeros((n_streams, lift.size, n_channels)),
            np.zeros((n_streams, n_past, n_channels + 1)),
            units,
        )

    def copy(self) -> Self:
        return self._replace(**{name: array.copy() for name, array in self._asdict().items()})

    def rows(self, most: int) -> Floats:
        """The last steps of the past of the first stream, (m, d + 1), oldest first."""
        count, size = int(self.places[0, N_PAST]), self.past.shape[1]
        m = min(most, count, size)
        return self.past[0, np.arange(count - m, count) % max(size, 1)]

    @property
    def length(self) -> int:
        """The steps since the segment of the first stream began."""
        return int(self.places[0, LENGTH])


class Taken(NamedTuple):
    """The n steps that were accepted of those taken in.

    Attributes
    ----------
    accepted : array of shape (n,)
        Which they are.
    features : array of shape (n, d')
        NaN where a step breaks the stream.
    marks : array of shape (n,)
        What each is to its segment: ``BREAKS``, ``GOES_ON`` or ``BEGINS``.
    why : array of shape (n,)
        Why no complete window ends there; 0 where one does.
    counts : dict
        By the names of ``COUNTED``.
    extreme : (int, int) or None
        The first step with an extreme value, and its channel.
    """

    accepted: Ints
    features: Floats
    marks: Ints
    why: Ints
    counts: dict[str, int]
    extreme: tuple[int, int] | None


class _Rules(NamedTuple):
    """What the loop goes by: policies, and the map from channels to features."""

    policy: int
    hold: int
    width: int
    limits: Floats
    dead_after: Ints
    lift: PreparedLift
    scaling: Scalings
    units: Floats
    rate: float


class Intake:
    """The way of steps to features, for a fixed number of channels.

    Parameters
    ----------
    features : Features
    width : int
        Steps of a complete window.
    policy : "abstain", "hold" or "reject"
        For missing values; see :class:`~mlat.live.core.options.LiveOptions`.
    hold : int
    dead_after : array of shape (d,), optional
        Constant steps after which a channel is dead; default never.
    follow : (Units, float), optional
        The units that channels are brought to from their own, which are followed: those of the last
        so many steps, the first of which are as in these units. Default channels stay as they are.
    """

    def __init__(
        self,
        features: Features,
        width: int,
        policy: str = "abstain",
        hold: int = 0,
        dead_after: Ints | None = None,
        follow: tuple[Units, float] | None = None,
    ) -> None:
        self.n_channels, self.n_features = len(features.channels.mean), features.n_features
        self.lift = lift = features.lift.prepared(self.n_channels)
        never = np.full(self.n_channels, NEVER)
        units = np.empty((0, self.n_channels)) if follow is None else np.stack(follow[0][:2])
        self._rules = _Rules(
            POLICIES[policy],
            int(hold),
            int(width),
            np.stack(features.channels.limits),
            never if dead_after is None else dead_after,
            lift,
            Scalings(*features.channels.factors, *features.lifted.factors),
            units.astype(np.float64),
            0.0 if follow is None else 1.0 / follow[1],
        )

    def start(self, n_streams: int = 1, n_past: int = 0) -> Memory:
        follows = len(self._rules.units) > 0
        return Memory.start(n_streams, self.n_channels, self.lift, n_past, follows)

    def take(
        self, memory: Memory, values: Floats, gap: Bools | None = None, owner: Ints | None = None
    ) -> Taken:
        """Take in steps (t, d) in order, of the streams ``owner`` (t,) or of one.

        The memory changes in place. ``gap`` (t,) says which steps follow one.
        """
        t = len(values)
        gap = np.zeros(t, np.bool_) if gap is None else gap
        owner = np.zeros(t, np.int64) if owner is None else owner
        told = np.empty((3, t), np.int64)
        features = np.empty((t, self.n_features))
        noted = np.zeros(len(COUNTED) + 2, np.int64)
        values = np.ascontiguousarray(values, dtype=np.float64)
        _take_in(values, gap, owner, self._rules, memory, features, told, noted)
        *counts, step, channel = noted.tolist()
        n = counts[_ACCEPTED]
        extreme = (step, channel) if counts[_EXTREME] else None
        accepted, marks, why = told if n == t else told[:, :n]
        return Taken(
            accepted,
            features[:n],
            marks,
            why,
            dict(zip(COUNTED, counts, strict=True)),
            extreme,
        )


def held_values(values: Floats, gap: Bools, hold: int, last: Floats, missing_for: Ints) -> Floats:
    """Steps (t, d) in which a missing value is the last one of its channel, if that is near.

    ``last`` and ``missing_for`` (d,) are the last value of each channel since a gap and for how
    many steps it has been missing; both change in place.
    """
    filled = values.copy()
    for t in range(len(filled)):
        fill_step(filled[t], bool(gap[t]), hold, last, missing_for)
    return filled


@jit()
def fill_step(x, after_gap, hold, last, missing_for):  # type: ignore[no-untyped-def]
    """Fill in a step (d,) what may be held; whether a value is still missing."""
    if after_gap:  # values from before it are too old to be held
        last[:] = np.nan
        missing_for[:] = 0
    lacks = False
    for c in range(len(x)):
        if not np.isnan(x[c]):
            last[c] = x[c]
            missing_for[c] = 0
            continue
        missing_for[c] += 1
        if missing_for[c] <= hold and not np.isnan(last[c]):
            x[c] = last[c]
        else:
            lacks = True
    return lacks


@jit()
def _take_in(values, gap, owner, rules, memory, features, told, noted):  # type: ignore[no-untyped-def]
    n_channels, n_past = values.shape[1], memory.past.shape[1]
    x, scaled = np.empty(n_channels), np.empty((4, n_channels))
    for t in range(len(values)):
        channels, counts = memory.channels[owner[t]], memory.counts[owner[t]]
        places, ring = memory.places[owner[t]], memory.ring[owner[t]]
        lacks, infinite, extreme = False, False, False
        for c in range(n_channels):
            x[c] = values[t, c]
            infinite = infinite or np.isinf(x[c])
            if np.isfinite(x[c]) and not rules.limits[0, c] <= x[c] <= rules.limits[1, c]:
                if not noted[_EXTREME] and not extreme:
                    noted[-2], noted[-1] = t, c
                extreme = True
                x[c] = np.nan
            lacks = lacks or np.isnan(x[c])
        noted[_EXTREME] += extreme
        if infinite or (lacks and rules.policy == REJECT):
            noted[_INFINITE] += infinite
            noted[_REJECTED] += 1
            places[REFUSED] = 1
            continue
        after_gap = gap[t] or places[REFUSED] == 1
        places[REFUSED] = 0
        if rules.policy == HOLD:
            had = not lacks
            lacks = fill_step(x, after_gap, rules.hold, channels[HELD], counts[MISSING_FOR])
            noted[_HELD] += not had and not lacks
        n = noted[_ACCEPTED]
        noted[_ACCEPTED] += 1
        noted[_GAPS] += after_gap
        noted[_MISSING] += lacks
        dead = _first_dead(x, channels[STILL], counts[STILL_FOR], rules.dead_after)
        told[0, n] = t
        age = places[LENGTH]
        if lacks or dead >= 0:
            noted[_DEAD] += not lacks
            told[1, n], told[2, n] = BREAKS, MISSING if lacks else DEAD + dead
            places[WHY] = MISSING if lacks else FILLING
            places[LENGTH] = 0
            ring[:] = 0.0
            channels[SUMS:] = 0.0
            features[n] = np.nan
            x[:] = 0.0
            age = -1
        else:
            told[1, n] = GOES_ON
            if after_gap or age == 0:
                told[1, n] = BEGINS
                if after_gap:
                    places[WHY] = GAP
                age = 0
                ring[:] = 0.0
                channels[SUMS:] = 0.0
            if len(rules.units):
                _in_units(x, memory.units[owner[t]], rules.units, rules.rate)
            lift_step(x, ring, channels[SUMS:], age, rules.lift, rules.scaling, scaled, features[n])
            places[LENGTH] = age + 1
            told[2, n] = places[WHY] if age + 1 < rules.width else KNOWN
        if n_past:
            row = memory.past[owner[t], places[N_PAST] % n_past]
            copy_into(row[:-1], x)
            row[-1] = age
            places[N_PAST] += 1


@jit()
def _in_units(x, own, units, rate):  # type: ignore[no-untyped-def]
    """Count a step (d,) among those that its units are of, and bring it to others, in place."""
    mean, scale = units[0], units[1]
    for c in range(len(x)):
        value = (x[c] - mean[c]) / scale[c]
        away = value - own[MEAN, c]
        own[MEAN, c] += rate * away
        own[VARIANCE, c] = (1.0 - rate) * (own[VARIANCE, c] + rate * away * away)
        value = (value - own[MEAN, c]) / np.sqrt(max(own[VARIANCE, c], LEAST))
        x[c] = value * scale[c] + mean[c]


@jit()
def _first_dead(x, last, steps, dead_after):  # type: ignore[no-untyped-def]
    """The first dead channel at a step (d,), or -1.

    A missing value does not end a constant period, and neither does a gap.
    """
    first = -1
    for c in range(len(x) - 1, -1, -1):
        if x[c] == last[c]:
            steps[c] += 1
        elif not np.isnan(x[c]):
            last[c] = x[c]
            steps[c] = 1
        if steps[c] >= dead_after[c]:
            first = c
    return first


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
