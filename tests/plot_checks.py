"""Streams to draw, and what to look at in a picture."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

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
    windows = mlat.sliding_windows(rotating_states(n_channels=3), width, stride=3)
    return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)


def many_channels(seed):
    rng = np.random.default_rng(seed)
    states = np.repeat([1, 2] * 2, 90)
    values = rng.normal(size=(360, 60))
    values[:, 7] += 5 * (states == 1)
    names = [f"accelerometer of the left upper leg, axis {i}" for i in range(60)]
    return mlat.Stream(values, states, channels=names)


def spans(ax):
    """The intervals of a ribbon as (bottom, first step, last step, colour), in order."""
    found = []
    for ribbon in ax.collections:
        for path in ribbon.get_paths():
            (x0, y0), (x1, _) = path.get_extents().get_points()
            found.append((y0, x0, x1, tuple(ribbon.get_facecolor()[0][:3])))
    return sorted(found, key=lambda span: (-span[0], span[1]))


def faults(figure):
    """What is wrong with where things are in a figure: texts that are cut, or on one another.

    Only texts that are drawn count: a figure keeps labels of ticks that are not.
    """
    drawn = []

    def draw(text, renderer, *args, **kwargs):
        drawn.append(text)
        return original(text, renderer, *args, **kwargs)

    original = Text.draw
    canvas = FigureCanvasAgg(figure)
    with patch.object(Text, "draw", draw):
        canvas.draw()
    whole = figure.bbox
    boxes, found = {}, []
    for text in drawn:
        if not text.get_text().strip():
            continue
        box = text.get_window_extent()
        if text.get_rotation() % 90 == 0:  # the box of a slanted text covers more than the text
            boxes[text] = box
        inside = whole.padded(1)
        if not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1)):
            found.append(f"outside: {text.get_text()!r}")
    for one, other in combinations(boxes, 2):
        a, b = boxes[one], boxes[other]
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        if wide > 1 and high > 2:  # pixels: lines of text may touch
            found.append(f"{one.get_text()!r} is over {other.get_text()!r}")
    if len(figure.axes) == 1:
        share = figure.axes[0].get_window_extent().width / whole.width
        if share < 0.35:
            found.append(f"squeezed: the axes have {share:.0%} of the width")
    return found
