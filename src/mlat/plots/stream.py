"""A stream over time, with its states as coloured ribbons."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..base.checks import Floats
from ..stream.conversion import as_states, changes
from ..stream.stream import Stream
from .figure import (
    INK,
    axes_below_legend,
    bare,
    draw_boundaries,
    shorten,
    state_legend,
    states_in,
    step_axis,
)
from .timeline import Ribbon, draw_ribbon

RIBBON = 0.9  # height of a ribbon; a channel has 1


def plot_stream(
    stream: Stream,
    *,
    predicted: Mapping[str, ArrayLike] | None = None,
    max_channels: int = 12,
    ax: Axes | None = None,
) -> Figure:
    """The channels, and below them the state of every step as a coloured ribbon.

    Parameters
    ----------
    stream : Stream
        Each channel has its own scale. A missing value is a gap in the line.
    predicted : mapping of names to arrays of shape (T,), optional
        Further ribbons: predicted states, one per step.
    max_channels : int, default=12
        How many channels to draw, the first ones.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    ribbons = {"state": stream.states} if stream.labelled.any() else {}
    for name, states in (predicted or {}).items():
        ribbons[name] = as_states(states, len(stream), ours=True)
    shown = stream.channels[:max_channels]
    classes = states_in(ribbons.values())
    height = 1.0 + 0.38 * (len(shown) + len(ribbons))
    figure, ax, width = axes_below_legend(ax, height, classes)
    heights = np.arange(len(shown))[::-1].astype(float)
    for channel, height in enumerate(heights):
        line = _to_unit_range(stream.values[:, channel])
        ax.plot(np.arange(len(stream)) + 0.5, line + height, color=INK, linewidth=0.6)
    ticks = dict(zip(heights, map(shorten, shown), strict=True))
    for i, (name, states) in enumerate(ribbons.items()):
        bottom = -0.75 - 1.05 * i - RIBBON
        ribbon = Ribbon(len(stream))
        ribbon.add(states)
        draw_ribbon(
            ax, *ribbon.intervals(), classes, len(stream), bottom, width=width, height=RIBBON
        )
        ticks[bottom + RIBBON / 2] = shorten(name)
    draw_boundaries(ax, np.flatnonzero(changes(stream.recordings, len(stream))))
    step_axis(ax, len(stream), stream.usual_step, bool(stream.gap_before[1:].any()))
    ax.set_ylim(-0.9 - 1.05 * len(ribbons), len(shown) - 0.3)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.tick_params(axis="y", length=0)
    bare(ax, "top", "right", "left")
    if len(shown) < stream.n_channels:
        ax.set_ylabel(f"{len(shown)} of {stream.n_channels} channels", color=INK)
    state_legend(ax, classes, width)
    return figure


def _to_unit_range(values: NDArray[np.floating]) -> Floats:
    """Scale values so that 99% of them lie in a range of length 1, and clip the others."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), np.nan)
    low, middle, high = np.quantile(known.astype(float), [0.005, 0.5, 0.995])
    spread = high - low
    return np.clip((values - middle) / (spread or 1.0), -0.7, 0.7)
