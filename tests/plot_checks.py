"""Streams to draw, and what to look at in a picture."""

from __future__ import annotations

import numpy as np

import mlat
from mlat.plots import save_figure
from mlat.synthetic import rotating_states

WIDTH = 6
SENSORS = {"n_channels": 3, "drift": 0.3, "noise": 0.3}
train = rotating_states(**SENSORS)
test = rotating_states(**SENSORS, random_state=1)


def axes_titled(figure, words):
    (found,) = [
        ax for ax in figure.axes if words in ax.get_title() or words in ax.get_title(loc="left")
    ]
    return found


def texts(labels):
    return [label.get_text() for label in labels]


def draws(figure, tmp_path):
    """Whether it can be written, which is when a layout fails."""
    save_figure(figure, tmp_path / "drawn.png")
    return (tmp_path / "drawn.png").stat().st_size > 1000


def fitted(metric, width=4):
    windows = mlat.sliding_windows(rotating_states(n_channels=3), width, step=3)
    return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)


def many_channels(seed):
    rng = np.random.default_rng(seed)
    states = np.repeat([1, 2] * 2, 90)
    values = rng.normal(size=(360, 60))
    values[:, 7] += 5 * (states == 1)
    names = [f"accelerometer of the left upper leg, axis {i}" for i in range(60)]
    return mlat.Stream(values, states, channels=names)
