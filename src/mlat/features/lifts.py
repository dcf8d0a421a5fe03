"""Lifts: fixed causal maps of single channels, which add features that a distance can use.

A signal that swings around zero, such as EMG, has the same mean whatever the muscle does, but its
magnitude changes. A lift uses the present and the past of one channel, never the future, and treats
all steps in the same way. It starts again where a recording begins and after a gap. Some maps look
back over the last ``reach`` steps, which may be more than a window.

Channels are expected to have mean 0 and variance 1, as :class:`~mlat.StreamClassifier` scales them.

To add a map, add a line to ``_MAPS``: what it takes of the channel, and whether it is a logarithm.
If it needs a running statistic that is not there yet, add that to :func:`running_statistics`.
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

# What a map takes of a channel: a running statistic, in the order of
# :func:`running_statistics`, or the present value itself.
_MEAN, _MAGNITUDE, _DEVIATION, _DIFFERENCES, _DIFFERENCE, _VALUE, _RECTIFIED = range(7)
_N_STATISTICS = 5


@dataclass(frozen=True)
class _Map:
    """A map of one channel.

    Attributes
    ----------
    title : str
        The name of the lifted channel, with {} for the channel's name.
    source : int
        What it takes of the channel.
    floor : float, optional
        Where given, the map is the logarithm of that plus the floor.
    running : bool
        Whether it looks at the last ``reach`` steps, and not at the present step only.
    before : int
        How many steps it needs before those that it looks at.
    """

    title: str
    source: int
    floor: float | None = None
    running: bool = False
    before: int = 0


_MAPS = {
    "identity": _Map("{}", _VALUE),
    "rectified": _Map("|{}|", _RECTIFIED),
    "log_magnitude": _Map("log |{}|", _RECTIFIED, STEP_FLOOR),
    "difference": _Map("difference of {}", _DIFFERENCE, before=1),
    "low_pass": _Map("mean of {}", _MEAN, running=True),
    "running_magnitude": _Map("log magnitude of {}", _MAGNITUDE, FLOOR, running=True),
    "running_deviation": _Map("log deviation of {}", _DEVIATION, FLOOR, running=True),
    "running_difference": _Map("log difference of {}", _DIFFERENCES, FLOOR, running=True, before=1),
}
MAPS = {name: m.title for name, m in _MAPS.items()}
RUNNING = tuple(name for name, m in _MAPS.items() if m.running)


@dataclass(frozen=True, eq=False)
class LiftState:
    """What a lift keeps of a stream between chunks: the last steps and their sums.

    Attributes
    ----------
    ring : array of shape (reach + 1, d)
        Ring buffer of the last steps; step n is in row ``n % (reach + 1)``.
    sums : array of shape (4, d)
        Of the last ``reach`` values, their squares, magnitudes and squared differences.
    count : int
        Steps since the recording began.
    """

    ring: Floats
    sums: Floats
    count: int


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

    def __init__(
        self,
        maps: Sequence[str] | Mapping[str, Sequence[int] | None] = ("identity",),
        reach: int = 50,
    ) -> None:
        self.maps = maps
        self.reach = reach

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters; there is nothing to learn."""
        values = None if X is None else _as_steps(getattr(X, "values", X), allow_missing=True)
        self._chosen(None if values is None else values.shape[1])
        return self

    @property
    def memory(self) -> int:
        chosen = [_MAPS[name] for name, _ in self._chosen(None)]
        return max(m.before + (self.reach - 1 if m.running else 0) for m in chosen)

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
        self._chosen(n_channels)
        return LiftState(np.zeros((self.memory_size, n_channels)), np.zeros((4, n_channels)), 0)

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
        lifted = np.empty((len(values), len(lift.sources)))
        scaling = Scalings.none(n_channels, len(lift.sources))
        _lift_rows(
            *(values, ring, sums, state.count, lift.remembers, scaling),
            *(lift.sources, lift.channels, lift.floors, lifted),
        )
        return LiftState(ring, sums, state.count + len(values)), lifted

    def prepared(self, n_channels: int) -> PreparedLift:
        """This lift for so many channels, with its parameters checked once and for all."""
        chosen = [(_MAPS[name], channels) for name, channels in self._chosen(n_channels)]
        size = [len(channels) for _, channels in chosen]
        floors = [np.nan if m.floor is None else m.floor for m, _ in chosen]
        return PreparedLift(
            np.repeat([m.source for m, _ in chosen], size),
            np.concatenate([channels for _, channels in chosen]),
            np.repeat(floors, size),
            self.memory_size,
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


class PreparedLift:
    """A lift for a fixed number of channels, as the loops take it.

    Parameters
    ----------
    sources, channels : arrays of shape (d',)
        What each lifted channel takes, and of which channel.
    floors : array of shape (d',)
        What is added before the logarithm; NaN where there is none.
    size : int
        How many steps the ring buffer holds.
    """

    def __init__(self, sources: Ints, channels: Ints, floors: Floats, size: int) -> None:
        self.sources, self.channels, self.size = sources, channels, size
        self.floors = np.nan_to_num(floors)
        # Maps of the present value remember nothing.
        self.remembers = bool((sources < _N_STATISTICS).any())


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
def _lift_rows(  # type: ignore[no-untyped-def]
    values, ring, sums, count, remembers, scaling, sources, channels, floors, lifted
):
    """A step is lifted the same whatever comes with it."""
    stats = np.empty((1, _N_STATISTICS, values.shape[1]))
    x = np.empty((1, values.shape[1]))
    for t in range(len(values)):
        lift_step(
            *(values[t], ring, sums, count + t, remembers, scaling, sources),
            *(channels, floors, x, stats, lifted[t]),
        )


@jit()
def lift_step(  # type: ignore[no-untyped-def]
    values, ring, sums, count, remembers, scaling, sources, channels, floors, x, stats, lifted
):
    """The features of one step after ``count`` others; ``x`` and ``stats`` are room to work in."""
    half, mean, scale, after_half, after_mean, after_scale = scaling
    for c in range(len(values)):
        x[0, c] = (values[c] * half - mean[c] * half) / (scale[c] * half)
    if remembers:
        running_statistics(x, ring, sums, count, stats)
    for f in range(len(sources)):
        if sources[f] < _N_STATISTICS:
            value = stats[0, sources[f], channels[f]]
        else:
            value = x[0, channels[f]]
            if sources[f] == _RECTIFIED:
                value = abs(value)
        if floors[f] > 0.0:
            value = np.log(value + floors[f])
        lifted[f] = (value * after_half - after_mean[f] * after_half) / (
            after_scale[f] * after_half
        )


@jit()
def running_statistics(values, ring, sums, count, stats):  # type: ignore[no-untyped-def]
    """Running mean, mean magnitude, deviation, size of differences, and the last difference.

    Parameters
    ----------
    values : array of shape (t, d)
        The next steps.
    ring, sums, count
        As in :class:`LiftState`; ``ring`` and ``sums`` are updated.
    stats : array of shape (t, 5, d)
        Filled with the statistics after each step.
    """
    size = len(ring)
    reach = size - 1
    for t in range(len(values)):
        n = count + t
        place = n % size
        if place == 0 and n > 0:
            _anchor(ring, sums)
        steps = min(n + 1, reach)
        for j in range(values.shape[1]):
            new = values[t, j]
            step = new - ring[(n - 1) % size, j] if n > 0 else 0.0
            sums[0, j] += new
            sums[1, j] += new * new
            sums[2, j] += abs(new)
            sums[3, j] += step * step
            spike = False
            if n >= reach:
                old = ring[(n - reach) % size, j]
                spike = abs(old) > SPIKE or reach == 1  # one value has no sum to update
                sums[0, j] -= old
                sums[1, j] -= old * old
                sums[2, j] -= abs(old)
                if n > reach:
                    # The value before the one that leaves is the one about to be overwritten.
                    gone = old - ring[place, j]
                    sums[3, j] -= gone * gone
                    spike = spike or abs(gone) > SPIKE
            ring[place, j] = new
            if spike:
                _sum_again(ring, sums, n, j)
            mean = sums[0, j] / steps
            stats[t, 0, j] = mean
            stats[t, 1, j] = max(sums[2, j] / steps, 0.0)
            square = sums[1, j] / steps
            variance = square - mean * mean
            # Below the rounding error of the sums the channel is constant: its deviation is 0.
            still = variance <= ROUNDING * size * square
            stats[t, 2, j] = 0.0 if still else np.sqrt(variance)
            stats[t, 3, j] = np.sqrt(max(sums[3, j] / steps, 0.0))
            stats[t, 4, j] = step


@jit()
def _sum_again(ring, sums, n, j):  # type: ignore[no-untyped-def]
    """Compute the sums of channel j again from the last steps, of which the newest is step n."""
    size = len(ring)
    sums[:, j] = 0.0
    for i in range(n - size + 2, n + 1):
        value = ring[i % size, j]
        step = value - ring[(i - 1) % size, j]
        sums[0, j] += value
        sums[1, j] += value * value
        sums[2, j] += abs(value)
        sums[3, j] += step * step


@jit()
def _anchor(ring, sums):  # type: ignore[no-untyped-def]
    """Compute the sums again from the last steps: rounding errors of updates would add up."""
    sums[:] = 0.0
    for place in range(1, len(ring)):
        for j in range(ring.shape[1]):
            value = ring[place, j]
            step = value - ring[place - 1, j]
            sums[0, j] += value
            sums[1, j] += value * value
            sums[2, j] += abs(value)
            sums[3, j] += step * step
