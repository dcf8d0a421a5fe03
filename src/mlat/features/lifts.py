"""Lifts: fixed causal maps of a channel, which bring out what a distance would not see.

A signal that swings around zero, as EMG does, has the same mean whatever the muscle does; its
magnitude tells. A lift looks at the present and the past of one channel, never at the future, and
treats every step alike: what was time-invariant stays so. It is reset where a recording begins and
after a gap. Some lifts reach further back than a window does; ``reach`` says how far.

Channels are expected at mean 0 and variance 1, as :class:`~mlat.StreamClassifier` scales them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from ..checks import Floats
from ..errors import InputError
from ..stream.stream import Stream

# Added to magnitudes before the logarithm, in deviations of the channel: what is smaller is rest.
FLOOR = 1e-3
ROUNDING = 1e-15  # of the sums, for each step that they are over
STEP_FLOOR = 1e-2  # for single steps, whose magnitude passes through 0 with every swing

RUNNING = ("low_pass", "running_magnitude", "running_deviation", "running_difference")
MAPS: Mapping[str, str] = {
    "identity": "{}",
    "rectified": "|{}|",
    "log_magnitude": "log |{}|",
    "difference": "difference of {}",
    "low_pass": "mean of {}",
    "running_magnitude": "log magnitude of {}",
    "running_deviation": "log deviation of {}",
    "running_difference": "log difference of {}",
}


@dataclass(frozen=True, eq=False)
class LiftState:
    """All that a lift remembers of a stream: the last steps and their sums.

    Attributes
    ----------
    ring : array of shape (reach + 1, d)
        The last steps; step n lies at place ``n % (reach + 1)``.
    sums : array of shape (4, d)
        Of the last ``reach`` values, their squares, magnitudes and squared differences.
    count : int
        Steps since the recording began.
    """

    ring: Floats
    sums: Floats
    count: int


class Lift(BaseEstimator):  # type: ignore[misc]
    """Some of the maps, of all channels or of some.

    Parameters
    ----------
    maps : sequence of str, or mapping of str to channels
        What to make of the channels: ``"identity"``, ``"rectified"`` (magnitude),
        ``"log_magnitude"``, ``"difference"`` (to the step before), ``"low_pass"`` (mean of the
        last ``reach`` steps), and three running energies over the last ``reach`` steps, as
        logarithms: ``"running_magnitude"`` (mean magnitude), ``"running_deviation"`` (deviation
        from their own mean) and ``"running_difference"`` (size of the differences). A mapping
        names the channels of each map by index; None means all.
    reach : int, default=50
        How many steps back the running maps look. At the beginning of a recording they look at
        the steps there are.

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
        self._chosen(None if X is None else _as_steps(getattr(X, "values", X), True).shape[1])
        return self

    @property
    def memory(self) -> int:
        names = set(self.maps)
        memory = int("difference" in names)
        if names & set(RUNNING):
            # A difference reaches one step beyond the steps it is averaged over.
            memory = max(memory, self.reach - 1 + ("running_difference" in names))
        return memory

    def transform(self, X: Stream | ArrayLike) -> Floats:
        """The lifted channels, shape (T, d').

        Parameters
        ----------
        X : Stream, or array of shape (T, d)
            An array is one unbroken recording. In a stream every stretch without a gap or a
            missing value is lifted for itself, and a step with a missing value gives NaN.
        """
        if not isinstance(X, Stream):
            values = _as_steps(X)
            return self.push(self.start(values.shape[1]), values)[1]
        out = np.full((len(X), self.n_features(X.n_channels)), np.nan)
        for start, stop, _ in X.segments:
            out[start:stop] = self.transform(X.values[start:stop])
        return out

    def start(self, n_channels: int) -> LiftState:
        """What is remembered before the first step."""
        self._chosen(n_channels)
        size = self.memory_size
        return LiftState(np.zeros((size, n_channels)), np.zeros((4, n_channels)), 0)

    @property
    def memory_size(self) -> int:
        return self.reach + 1 if set(self.maps) & set(RUNNING) else 2

    def push(self, state: LiftState, chunk: ArrayLike) -> tuple[LiftState, Floats]:
        """Lift the next steps, shape (t, d); however a stream is cut, the result is the same."""
        values = _as_steps(chunk)
        n_steps, n_channels = values.shape
        if state.ring.shape != (self.memory_size, n_channels):
            raise InputError(
                f"the steps have {n_channels} channels, but what is remembered is of "
                f"{state.ring.shape[1]}, or of another lift; begin with start({n_channels})"
            )
        ring, sums = state.ring.copy(), state.sums.copy()
        stats = np.empty((n_steps, 5, n_channels))
        running_statistics(values, ring, sums, state.count, stats)
        parts = [
            MAP_OF[name](values, stats)[:, channels] for name, channels in self._chosen(n_channels)
        ]
        return LiftState(ring, sums, state.count + n_steps), np.concatenate(parts, axis=1)

    def n_features(self, n_channels: int) -> int:
        return sum(len(channels) for _, channels in self._chosen(n_channels))

    def channels(self, n_channels: int) -> NDArray[np.int64]:
        """Which channel each lifted channel is of, shape (d',)."""
        return np.concatenate([channels for _, channels in self._chosen(n_channels)])

    def names(self, channels: Sequence[str]) -> tuple[str, ...]:
        """A name for each lifted channel."""
        return tuple(
            MAPS[name].format(channels[i])
            for name, chosen in self._chosen(len(channels))
            for i in chosen
        )

    def _chosen(self, n_channels: int | None) -> list[tuple[str, NDArray[np.int64]]]:
        # A set has no order of its own, so neither would the lifted channels.
        if not isinstance(self.maps, Mapping | list | tuple) or not len(self.maps):
            raise InputError(f"maps must list some of {', '.join(MAPS)}, not {self.maps!r}")
        for name in self.maps:
            if not isinstance(name, str) or name not in MAPS:
                raise InputError(f"maps must name some of {', '.join(MAPS)}, not {name!r}")
        whole = isinstance(self.reach, int | np.integer) and not isinstance(self.reach, bool)
        if not whole or self.reach < 1:
            raise InputError(f"reach must be a whole number of at least 1, not {self.reach!r}")
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


def _as_steps(values: Any, missing: bool = False) -> Floats:
    steps = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 2:
        raise InputError(f"steps must have shape (t, d), not {np.shape(values)}")
    if not missing and np.isnan(steps).any():
        raise InputError("steps miss values, which a Stream allows; or start anew after them")
    return steps


def _as_channels(given: Any, name: str) -> NDArray[np.int64]:
    channels = np.asarray(given)
    if channels.ndim != 1 or (len(channels) and channels.dtype.kind not in "iu"):
        raise InputError(f"{name} must name its channels by index, as [0, 2], not {given!r}")
    return channels.astype(np.int64)


MAP_OF: Mapping[str, Any] = {
    "identity": lambda values, stats: values,
    "rectified": lambda values, stats: np.abs(values),
    "log_magnitude": lambda values, stats: np.log(np.abs(values) + STEP_FLOOR),
    "difference": lambda values, stats: stats[:, 4],
    "low_pass": lambda values, stats: stats[:, 0],
    "running_magnitude": lambda values, stats: np.log(stats[:, 1] + FLOOR),
    "running_deviation": lambda values, stats: np.log(stats[:, 2] + FLOOR),
    "running_difference": lambda values, stats: np.log(stats[:, 3] + FLOOR),
}


@njit(cache=True, nogil=True)
def running_statistics(values, ring, sums, count, stats):  # type: ignore[no-untyped-def]
    """Running mean, mean magnitude, deviation, size of differences, and the last difference."""
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
            if n >= reach:
                old = ring[(n - reach) % size, j]
                sums[0, j] -= old
                sums[1, j] -= old * old
                sums[2, j] -= abs(old)
                if n > reach:
                    # The value before the one that leaves is the one about to be overwritten.
                    gone = old - ring[place, j]
                    sums[3, j] -= gone * gone
            ring[place, j] = new
            mean = sums[0, j] / steps
            stats[t, 0, j] = mean
            stats[t, 1, j] = max(sums[2, j] / steps, 0.0)
            square = sums[1, j] / steps
            variance = square - mean * mean
            # Less than the sums can be wrong by: a channel that stands still deviates by nothing.
            still = variance <= ROUNDING * size * square
            stats[t, 2, j] = 0.0 if still else np.sqrt(variance)
            stats[t, 3, j] = np.sqrt(max(sums[3, j] / steps, 0.0))
            stats[t, 4, j] = step


@njit(cache=True, nogil=True)
def _anchor(ring, sums):  # type: ignore[no-untyped-def]
    """The sums anew, from the last steps: what is added and taken away for ever drifts."""
    sums[:] = 0.0
    for place in range(1, len(ring)):
        for j in range(ring.shape[1]):
            value = ring[place, j]
            step = value - ring[place - 1, j]
            sums[0, j] += value
            sums[1, j] += value * value
            sums[2, j] += abs(value)
            sums[3, j] += step * step
