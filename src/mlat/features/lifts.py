"""Lifts: fixed causal maps of single channels, which add features that a distance can use.

A signal that swings around zero, such as EMG, has the same mean whatever the muscle does, but its
magnitude changes. A lift uses the present and the past of one channel, never the future, and treats
all steps in the same way. It starts again where a recording begins and after a gap. Some maps look
back over the last ``reach`` steps, which may be more than a window.

Channels are expected to have mean 0 and variance 1, as :class:`~mlat.StreamClassifier` scales them.

To add a map, add a line to ``_MAPS``: what it takes of a step, and what it makes of that over the
last ``reach`` steps. ``predict``, live sessions, C and ONNX all go by this line. If it makes
something that is not there yet, add that to ``OVERS`` and :func:`_over`, and to ``lift.c`` and
``_over`` of ``onnx_graph.py`` in ``mlat.export``, which refuse by its name what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..base.checks import Floats, Ints, check_whole
from ..base.compiled import jit
from ..base.errors import InputError
from ..stream.stream import Stream

# Added to magnitudes before the logarithm, in units of the channel's deviation.
FLOOR = 1e-3
STEP_FLOOR = 1e-2  # for single steps: their magnitude passes through 0 with every swing
ROUNDING = 1e-15  # relative error of the running sums, per step that they sum
# A value or difference larger than this takes the digits of all others with it when it leaves a
# running sum, which is then computed again.
SPIKE = 1e6

# What a map takes of a step of its channel: the value, its magnitude, or its difference from the
# step before; and what it makes of these over the last ``reach`` steps.
TAKES = ("value", "size", "change")
OVERS = ("now", "mean", "root_mean_square", "deviation")
VALUE, SIZE, CHANGE = range(3)
NOW, MEAN, ROOT_MEAN_SQUARE, DEVIATION = range(4)
# The powers of what is taken whose sums are kept for that from step to step.
_POWERS = {NOW: (), MEAN: (1,), ROOT_MEAN_SQUARE: (2,), DEVIATION: (1, 2)}


@dataclass(frozen=True)
class _Map:
    """A map of one channel.

    Attributes
    ----------
    title : str
        The name of the lifted channel, with {} for the channel's name.
    takes, over : int
        What it takes of a step, and what it makes of that.
    floor : float, optional
        Where given, the map is the logarithm of that plus the floor.
    """

    title: str
    takes: int
    over: int = NOW
    floor: float | None = None

    @property
    def running(self) -> bool:
        """Whether it looks at the last ``reach`` steps, and not at the present step only."""
        return self.over != NOW

    @property
    def sums(self) -> list[tuple[int, int]]:
        """What its sums are of, and to which power."""
        return [(self.takes, power) for power in _POWERS[self.over]]


# New ones go to the end: snapshots of live sessions have the sums in this order.
_MAPS = {
    "identity": _Map("{}", VALUE),
    "rectified": _Map("|{}|", SIZE),
    "log_magnitude": _Map("log |{}|", SIZE, floor=STEP_FLOOR),
    "difference": _Map("difference of {}", CHANGE),
    "low_pass": _Map("mean of {}", VALUE, MEAN),
    "running_deviation": _Map("log deviation of {}", VALUE, DEVIATION, FLOOR),
    "running_magnitude": _Map("log magnitude of {}", SIZE, MEAN, FLOOR),
    "running_difference": _Map("log difference of {}", CHANGE, ROOT_MEAN_SQUARE, FLOOR),
}
_SUMS = list(dict.fromkeys(term for m in _MAPS.values() for term in m.sums))
N_SUMS = 4  # that every state has room for, as those of older snapshots have
MAPS = {name: m.title for name, m in _MAPS.items()}
RUNNING = tuple(name for name, m in _MAPS.items() if m.running)


@dataclass(frozen=True, eq=False)
class LiftState:
    """What a lift keeps of a stream between chunks: the last steps and their sums.

    Attributes
    ----------
    ring : array of shape (reach + 1, d)
        Ring buffer of the last steps; step n is in row ``n % (reach + 1)``.
    sums : array of shape (n_sums, d)
        Over the last ``reach`` steps, in the order of ``_SUMS``; those that no map needs are 0.
    count : int
        Steps since the recording began.
    """

    ring: Floats
    sums: Floats
    count: int


@dataclass(eq=False, repr=False)
class Lift(BaseEstimator):  # type: ignore[misc]
    """One or more maps of all channels, or of some of them.

    Parameters
    ----------
    maps : sequence of str, or mapping of str to channels
        ``"identity"``, ``"rectified"`` (magnitude), ``"log_magnitude"``, ``"difference"`` (from
        the step before), ``"low_pass"`` (mean of the last ``reach`` steps), and the logarithms of
        three running energies over the last ``reach`` steps: ``"running_magnitude"`` (mean
        magnitude), ``"running_deviation"`` (deviation from their mean) and
        ``"running_difference"`` (size of the differences). A mapping gives the channels of each
        map by index; None means all.
    reach : int, default=50
        How many steps the running maps look at; fewer at the beginning of a recording.

    Attributes
    ----------
    memory : int
        How many steps before the present one the result depends on.

    Examples
    --------
    >>> lift = Lift(["identity", "difference"])
    >>> lift.transform([[1.0], [3.0], [2.0]]).tolist()
    [[1.0, 0.0], [3.0, 2.0], [2.0, -1.0]]
    >>> lift.names(["x"])
    ('x', 'difference of x')

    In chunks, with the same result:

    >>> state = lift.start(1)
    >>> state, first = lift.push(state, [[1.0], [3.0]])
    >>> state, rest = lift.push(state, [[2.0]])
    >>> rest.tolist()
    [[2.0, -1.0]]
    """

    maps: Sequence[str] | Mapping[str, Sequence[int] | None] = ("identity",)
    reach: int = 50

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters; there is nothing to learn."""
        values = None if X is None else _as_steps(getattr(X, "values", X), allow_missing=True)
        self._chosen(None if values is None else values.shape[1])
        return self

    @property
    def memory(self) -> int:
        chosen = [_MAPS[name] for name, _ in self._chosen(None)]
        return max((m.takes == CHANGE) + m.running * (self.reach - 1) for m in chosen)

    def transform(self, X: Stream | ArrayLike) -> Floats:
        """The lifted channels, shape (T, d').

        Parameters
        ----------
        X : Stream, or array of shape (T, d)
            An array is one recording without gaps. Each segment of a stream is lifted on its own,
            and a step with a missing value gives NaN.
        """
        if not isinstance(X, Stream):
            values = _as_steps(X)
            return self.push(self.start(values.shape[1]), values)[1]
        out = np.full((len(X), self.n_features(X.n_channels)), np.nan)
        for start, stop, _ in X.segments:
            out[start:stop] = self.transform(X.values[start:stop])
        return out

    def start(self, n_channels: int) -> LiftState:
        """The state before the first step."""
        lift = self.prepared(n_channels)
        ring, sums = np.zeros((lift.size, n_channels)), np.zeros((lift.n_sums, n_channels))
        return LiftState(ring, sums, 0)

    @property
    def memory_size(self) -> int:
        """How many steps the ring buffer of a state holds."""
        return self.reach + 1 if set(self.maps) & set(RUNNING) else 2

    def push(self, state: LiftState, chunk: ArrayLike) -> tuple[LiftState, Floats]:
        """Lift the next steps (t, d). The result does not depend on how a stream is cut."""
        values = _as_steps(chunk)
        n_channels = values.shape[1]
        if state.ring.shape != (self.memory_size, n_channels):
            raise InputError(
                f"the steps have {n_channels} channels, but what is remembered is of "
                f"{state.ring.shape[1]}, or of another lift; begin with start({n_channels})"
            )
        lift, ring, sums = self.prepared(n_channels), state.ring.copy(), state.sums.copy()
        lifted = np.empty((len(values), len(lift.channels)))
        scaling = Scalings.none(n_channels, len(lift.channels))
        _lift_rows(values, ring, sums, state.count, lift, scaling, lifted)
        return LiftState(ring, sums, state.count + len(values)), lifted

    def prepared(self, n_channels: int) -> PreparedLift:
        """This lift for so many channels, with its parameters checked once and for all."""
        chosen = [(_MAPS[name], channels) for name, channels in self._chosen(n_channels)]
        maps = [m for m, channels in chosen for _ in channels]
        rows = [[_SUMS.index(term) for term in m.sums] for m in maps]
        used = sorted({row for own in rows for row in own})
        return PreparedLift(
            np.array([m.takes for m in maps]),
            np.array([m.over for m in maps]),
            np.concatenate([channels for _, channels in chosen]),
            np.array([m.floor or 0.0 for m in maps]),
            np.array([(own[0], own[-1]) if own else (0, 0) for own in rows]),
            np.array([(row, *_SUMS[row]) for row in used], np.int64).reshape(-1, 3),
            max(N_SUMS, *(row + 1 for row in used), 0),
            self.memory_size,
            any(m.running or m.takes == CHANGE for m in maps),
        )

    def n_features(self, n_channels: int) -> int:
        return sum(len(channels) for _, channels in self._chosen(n_channels))

    def channels(self, n_channels: int) -> Ints:
        """The channel that each lifted channel comes from, shape (d',)."""
        return np.concatenate([channels for _, channels in self._chosen(n_channels)])

    def names(self, channels: Sequence[str]) -> tuple[str, ...]:
        """A name for each lifted channel."""
        return tuple(
            MAPS[name].format(channels[i])
            for name, chosen in self._chosen(len(channels))
            for i in chosen
        )

    def _chosen(self, n_channels: int | None) -> list[tuple[str, Ints]]:
        """The maps and their channels, checked; without ``n_channels`` only the maps are."""
        # A set is refused: it has no order, so neither would the lifted channels.
        if not isinstance(self.maps, Mapping | list | tuple) or not len(self.maps):
            raise InputError(f"maps must list some of {', '.join(MAPS)}, not {self.maps!r}")
        for name in self.maps:
            if not isinstance(name, str) or name not in MAPS:
                raise InputError(f"maps must name some of {', '.join(MAPS)}, not {name!r}")
        check_whole(self.reach, "reach")
        chosen = []
        for name in self.maps:
            of = self.maps[name] if isinstance(self.maps, Mapping) else None
            channels = np.arange(n_channels or 0) if of is None else _as_channels(of, name)
            if n_channels is not None and (
                (channels < 0).any() or (channels >= n_channels).any() or not len(channels)
            ):
                raise InputError(
                    f"{name} names channels {channels.tolist()}, but there are {n_channels}, "
                    "counted from 0"
                )
            chosen.append((name, channels))
        return chosen


class PreparedLift(NamedTuple):
    """A lift for a fixed number of channels, as the loops and exports take it.

    Attributes
    ----------
    takes, overs, channels : arrays of shape (d',)
        What each lifted channel takes of a step, what it makes of that, and of which channel.
    floors : array of shape (d',)
        What is added before the logarithm; 0 where there is none.
    rows : array of shape (d', 2)
        Where its first and its last sum are.
    summed : array of shape (m, 3)
        The sums that are kept: where each is, of what, and to which power.
    n_sums, size : int
        How many sums of a channel, and how many steps of the ring buffer there is room for.
    remembers : bool
        Whether anything but the present value counts.
    """

    takes: Ints
    overs: Ints
    channels: Ints
    floors: Floats
    rows: Ints
    summed: Ints
    n_sums: int
    size: int
    remembers: bool


class Scalings(NamedTuple):
    """``(x - mean) / scale`` of channels, and of lifted channels; ``half`` is 0.5 where a
    difference would overflow, else 1."""

    half: float
    mean: Floats
    scale: Floats
    lifted_half: float
    lifted_mean: Floats
    lifted_scale: Floats

    @classmethod
    def none(cls, n_channels: int, n_lifted: int) -> Scalings:
        each = [(1.0, np.zeros(n), np.ones(n)) for n in (n_channels, n_lifted)]
        return cls(*each[0], *each[1])


def _as_steps(values: Any, *, allow_missing: bool = False) -> Floats:
    steps = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 2:
        raise InputError(f"steps must have shape (t, d), not {np.shape(values)}")
    if not allow_missing and np.isnan(steps).any():
        raise InputError("steps miss values, which only a Stream may; or start again after them")
    return steps


def _as_channels(given: Any, name: str) -> Ints:
    channels = np.asarray(given)
    if channels.ndim != 1 or (len(channels) and channels.dtype.kind not in "iu"):
        raise InputError(f"{name} must name its channels by index, as [0, 2], not {given!r}")
    return channels.astype(np.int64)


@jit()
def _lift_rows(values, ring, sums, count, lift, scaling, lifted):  # type: ignore[no-untyped-def]
    """A step is lifted the same whatever comes with it."""
    x = np.empty((4, values.shape[1]))
    for t in range(len(values)):
        lift_step(values[t], ring, sums, count + t, lift, scaling, x, lifted[t])


@jit()
def lift_step(values, ring, sums, count, lift, scaling, x, lifted):  # type: ignore[no-untyped-def]
    """The features of one step after ``count`` others; ``x`` (4, d) is room to work in.

    ``ring`` and ``sums`` are as in :class:`LiftState`, and change in place.
    """
    half, mean, scale, after_half, after_mean, after_scale = scaling
    for c in range(len(values)):
        x[0, c] = (values[c] * half - mean[c] * half) / (scale[c] * half)
    if lift.remembers:
        _remember(x, ring, sums, count, lift.summed)
    steps = min(count + 1, len(ring) - 1)
    for f in range(len(lift.channels)):
        c, takes, over = lift.channels[f], lift.takes[f], lift.overs[f]
        if over == NOW:
            value = _term(takes, 1, x[0, c], x[1, c])
        else:
            first, last = sums[lift.rows[f, 0], c], sums[lift.rows[f, 1], c]
            value = _over(over, first, last, steps, len(ring))
            if takes == SIZE:
                value = max(value, 0.0)
        if lift.floors[f] > 0.0:
            value = np.log(value + lift.floors[f])
        lifted[f] = (value * after_half - after_mean[f] * after_half) / (
            after_scale[f] * after_half
        )


@jit()
def _term(takes, power, value, change):  # type: ignore[no-untyped-def]
    taken = change if takes == CHANGE else abs(value) if takes == SIZE else value
    return taken * taken if power == 2 else taken


@jit()
def _over(over, first, last, steps, size):  # type: ignore[no-untyped-def]
    """What a running map makes of its first and its last sum, over so many steps."""
    if over == MEAN:
        return first / steps
    if over == ROOT_MEAN_SQUARE:
        return np.sqrt(max(last / steps, 0.0))
    mean, square = first / steps, last / steps
    variance = square - mean * mean
    # Below the rounding error of the sums the channel is constant: its deviation is 0.
    return 0.0 if variance <= ROUNDING * size * square else np.sqrt(variance)


@jit()
def _remember(x, ring, sums, n, summed):  # type: ignore[no-untyped-def]
    """Take in the values ``x[0]`` of step n; ``x[1]`` are their differences from the step before.

    The other rows of ``x`` (4, d) take the values that leave the sums, and their differences.
    """
    size, n_channels = len(ring), x.shape[1]
    place = n % size
    before, leaves = (
        ring[place - 1 if place else size - 1],
        ring[place + 1 if place + 1 < size else 0],
    )
    for c in range(n_channels):
        if place == 0 and n > 0:  # rounding errors of updates would add up
            _sum_again(ring, sums, n - 1, c, summed)
        x[1, c] = x[0, c] - before[c] if n > 0 else 0.0
        x[2, c] = leaves[c] if n >= size - 1 else 0.0
        # The value before the one that leaves is the one about to be overwritten.
        x[3, c] = leaves[c] - ring[place, c] if n >= size else 0.0
    for i in range(len(summed)):
        row, takes, power = summed[i]
        for c in range(n_channels):
            entered = sums[row, c] + _term(takes, power, x[0, c], x[1, c])
            sums[row, c] = entered - _term(takes, power, x[2, c], x[3, c])
    ring[place] = x[0]
    for c in range(n_channels):
        # One value has no sum to update.
        if abs(x[2, c]) > SPIKE or abs(x[3, c]) > SPIKE or (size == 2 and n > 0):
            _sum_again(ring, sums, n, c, summed)


@jit()
def _sum_again(ring, sums, n, c, summed):  # type: ignore[no-untyped-def]
    """Compute the sums of a channel again from the last steps, of which the newest is step n."""
    size = len(ring)
    for i in range(len(summed)):
        row, takes, power = summed[i]
        sums[row, c] = 0.0
        for t in range(n - size + 2, n + 1):
            value = ring[t % size, c]
            change = value - ring[(t - 1) % size, c]
            sums[row, c] += _term(takes, power, value, change)
