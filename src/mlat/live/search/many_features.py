"""From the channels of many streams to what a metric sees, one step of each at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...features import Features
from ...lifts import _MAP_OF, _run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class LiftStates:
    """What lifts remember of n streams: :class:`~mlat.lifts.LiftState`, one after the other."""

    ring: Floats  # (n, size, d)
    sums: Floats  # (n, 4, d)
    count: Ints  # (n,)


class ManyFeatures:
    """The map of :class:`~mlat.features.Features`, for a step of each of many streams.

    Each stream's features are what they would be if it were alone, bit by bit.
    """

    def __init__(self, features: Features, n_channels: int) -> None:
        self._features, self.n_channels = features, n_channels
        self._chosen = features.lift._chosen(n_channels)
        # Maps of the present step alone remember nothing.
        self._plain = {name for name, _ in self._chosen} <= {
            "identity",
            "rectified",
            "log_magnitude",
        }

    def start(self, n_streams: int) -> LiftStates:
        size = 0 if self._plain else self._features.lift.memory_size
        d = 0 if self._plain else self.n_channels
        return LiftStates(
            np.zeros((n_streams, size, d)),
            np.zeros((n_streams, 4, d)),
            np.zeros(n_streams, np.int64),
        )

    def push(self, states: LiftStates, values: Floats, owner: Ints) -> Floats:
        """Features (m, d') of steps (m, d) of the streams ``owner``, each named once at most."""
        scaled = np.ascontiguousarray(self._features.channels(values))
        stats = np.empty((len(values), 5, 0 if self._plain else values.shape[1]))
        if not self._plain:
            _lift(scaled, owner, states.ring, states.sums, states.count, stats)
        parts = [_MAP_OF[name](scaled, stats)[:, channels] for name, channels in self._chosen]
        lifted = self._features.lifted(np.concatenate(parts, axis=1))
        return self._features.mix(lifted)


@njit(cache=True, nogil=True)
def _lift(values, owner, ring, sums, counts, stats):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        o = owner[i]
        _run(values[i : i + 1], ring[o], sums[o], counts[o], stats[i : i + 1])
        counts[o] += 1
