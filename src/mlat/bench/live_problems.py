"""Models and streams for the benchmark of live classification."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..classifier import StreamClassifier
from ..datasets.synthetic import rotating_states
from ..estimators import MLAT
from ..stream import Stream

N_STATES = 5
PER_STATE = 501  # windows; 2,505 references in all
CHANNELS = 27


def recording(
    n_steps: int, channels: int = CHANNELS, n_states: int = N_STATES, seed: int = 1
) -> Stream:
    """One run of ``n_steps`` for each of some states that turn at speeds of their own."""
    speeds = np.linspace(-0.3, 0.3, n_states)
    return rotating_states(
        {f"state {i}": speed for i, speed in enumerate(speeds)},
        n_channels=channels,
        run_length=n_steps,
        runs_per_state=1,
        drift=1.5,
        noise=0.5,
        random_state=seed,
    )


def model(
    width: int,
    n_taps: int | None,
    *,
    channels: int = CHANNELS,
    n_states: int = N_STATES,
    per_state: int = PER_STATE,
) -> StreamClassifier:
    """A classifier with so many references, its metric learned just far enough to be a full one."""
    metric = MLAT(n_taps=n_taps, n_targets=1, max_iter=1)
    training = recording(per_state + width - 1, channels, n_states)
    return StreamClassifier(width=width, metric=metric).fit(training)


def live_values(n_steps: int, channels: int = CHANNELS, seed: int = 2) -> NDArray[np.float64]:
    """Steps of the same sensors at another time."""
    values = recording(-(-n_steps // N_STATES), channels, seed=seed).values[:n_steps]
    return values.astype(np.float64)
