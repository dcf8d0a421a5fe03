"""A synthetic stream whose states differ only in their temporal dependence.

It is like a film of a person who walks forwards or backwards: a single image does not show which,
only the order of images does. A point moves on a circle; its speed and direction are the state. All
channels see a fixed mixture of its two coordinates, with slow drift and noise that are the same in
every state. A single step has the same distribution in every state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base.checks import Floats
from .stream.stream import Stream

# Turns per step. Forwards and backwards differ in sign alone, slow and fast in size alone.
DEMO_STATES = {"forwards": 0.11, "backwards": -0.11, "fast": 0.23, "still": 0.0}


def rotating_states(
    turns: dict[str, float] | None = None,
    *,
    n_channels: int = 8,
    run_length: int = 60,
    runs_per_state: int = 2,
    drift: float = 0.3,
    noise: float = 1.1,
    random_state: int = 0,
    mixture_state: int = 0,
) -> Stream:
    """A stream of rotations with different speed and direction, with drift and noise.

    Parameters
    ----------
    turns : mapping of state to turns per step
        Default ``DEMO_STATES``.
    n_channels, run_length, runs_per_state : int
    drift : float
        Standard deviation of the slow drift (an autoregression, the same in every state),
        against a rotation of radius 1 per mixed coordinate.
    noise : float
        Standard deviation of the white noise.
    random_state : int
        Seed of the course of the stream: angles, drift and noise.
    mixture_state : int
        Seed of how the channels mix rotation and drift. Keep it, and change ``random_state``, for
        another recording of the same sensors.

    Returns
    -------
    Stream
        ``runs_per_state`` runs of each state, in turn, as one recording.
    """
    states = DEMO_STATES if turns is None else turns
    sensors = np.random.default_rng(mixture_state)
    plane = np.linalg.qr(sensors.normal(size=(n_channels, n_channels)))[0][:, :2]
    drift_mixture = np.linalg.qr(sensors.normal(size=(n_channels, n_channels)))[0]
    rng = np.random.default_rng(random_state)
    names: Sequence[str] = list(states) * runs_per_state
    n_steps = run_length * len(names)
    speed = np.repeat([states[name] for name in names], run_length)
    # Each run begins at a random angle; the speed jitters so that a run is not one pure tone.
    jitter = rng.normal(scale=0.02, size=n_steps)
    angle = np.cumsum(speed + jitter) + np.repeat(rng.random(len(names)), run_length)
    circle = np.sqrt(2) * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)], axis=1)
    slow = _autoregression(rng, n_steps, n_channels, memory=0.95)
    values = circle @ plane.T + drift * slow @ drift_mixture.T
    values += noise * rng.normal(size=values.shape)
    return Stream(
        values,
        np.repeat(names, run_length),
        channels=[f"sensor {i + 1}" for i in range(n_channels)],
    )


def _autoregression(
    rng: np.random.Generator, n_steps: int, n_channels: int, memory: float
) -> Floats:
    """Stationary first-order autoregressions of unit variance, (n_steps, n_channels)."""
    from scipy.signal import lfilter

    shocks = rng.normal(size=(n_steps, n_channels)) * np.sqrt(1 - memory**2)
    shocks[0] /= np.sqrt(1 - memory**2)
    result: Floats = lfilter([1.0], [1.0, -memory], shocks, axis=0)
    return result
