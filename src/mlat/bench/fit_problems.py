"""Seeded problems for the benchmark of learning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..datasets.synthetic import rotating_states
from ..stream import Stream
from ..windows import Windows, sliding_windows


@dataclass(frozen=True)
class Size:
    """``n_per_state`` windows of each state, d channels, w steps."""

    n_states: int
    n_per_state: int
    channels: int
    width: int

    @property
    def n(self) -> int:
        return self.n_states * self.n_per_state

    def __str__(self) -> str:
        return f"n={self.n}, d={self.channels}, w={self.width}, {self.n_states} states"


# The sizes of the paper's accelerometer (A) and motion-capture (C) sets.
SIZES = {"A": Size(7, 500, 3, 10), "C": Size(5, 500, 27, 10)}
LONG = Size(5, 400, 27, 200)


def make_windows(size: Size, seed: int = 1) -> Windows:
    """One run per state of a rotation at a speed of its own, scaled to unit variance."""
    speeds = np.linspace(-0.3, 0.3, size.n_states)
    stream = rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=size.channels,
        run_length=size.n_per_state + size.width - 1,
        runs_per_state=1,
        drift=1.5,
        noise=0.5,
        random_state=seed,
    )
    values = (stream.values - stream.values.mean(axis=0)) / stream.values.std(axis=0)
    return sliding_windows(Stream(values, stream.states), size.width)


def save_windows(windows: Windows, path: Path) -> None:
    """The windows as plain arrays, for programs that know nothing of streams."""
    np.savez(
        path,
        X=windows.X.reshape(len(windows), -1),
        y=np.unique(windows.y, return_inverse=True)[1],
        start=windows.start,
        run=windows.run,
        width=windows.width,
    )
