"""A stream over time, with its states as coloured ribbons."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..stream.conversion import as_states, no_state
from ..stream.stream import Stream
from .figure import FAINT, INK, axes_for, bare, state_colours

RIBBON = 0.9  # height of a ribbon; a channel has 1
MAX_LEGEND = 20  # more names than this say nothing any more


def plot_stream(
    stream: Stream,
    *,
    predicted: Mapping[str, ArrayLike] | None = None,
    max_channels: int = 12,
    ax: Axes | None = None,
) -> Figure:
    """Channels one above the other, and beneath them the state of every step as a ribbon.

    Parameters
    ----------
    stream : Stream
        Each channel is drawn to its own scale; a missing value is a gap in its line.
    predicted : mapping of names to arrays of shape (T,), optional
        Further ribbons: predicted states, one per step.
    max_channels : int, default=12
        Draw the first so many.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    ribbons = {"state": stream.states} if stream.labelled.any() else {}
    for name, states in (predicted or {}).items():
        ribbons[name] = as_states(states, len(stream))
    shown = stream.channels[:max_channels]
    figure, ax = axes_for(ax, (11, 1.2 + 0.38 * (len(shown) + len(ribbons))))
    heights = np.arange(len(shown))[::-1].astype(float)
    for channel, height in enumerate(heights):
        line = _to_unit_range(stream.values[:, channel])
        ax.plot(np.arange(len(stream)) + 0.5, line + height, color=INK, linewidth=0.6)
    ticks = dict(zip(heights, shown, strict=True))
    classes = _classes(ribbons)
    for i, (name, states) in enumerate(ribbons.items()):
        bottom = -0.75 - 1.05 * i - RIBBON
        _ribbon(ax, states, classes, bottom)
        ticks[bottom + RIBBON / 2] = name
    for boundary in _recording_starts(stream):
        ax.axvline(boundary, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
    ax.set_xlim(0, max(len(stream), 1))
    ax.set_ylim(-0.9 - 1.05 * len(ribbons), len(shown) - 0.3)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("step")
    bare(ax, "top", "right", "left")
    if len(shown) < stream.n_channels:
        ax.set_ylabel(f"{len(shown)} of {stream.n_channels} channels", color=INK)
    state_legend(ax, classes)
    return figure


def _to_unit_range(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Centred, with all but the rarest values within ±0.5."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), np.nan)
    low, middle, high = np.quantile(known.astype(float), [0.005, 0.5, 0.995])
    spread = high - low
    return np.clip((values - middle) / (spread or 1.0), -0.7, 0.7)


def _classes(ribbons: Mapping[str, NDArray[np.generic]]) -> NDArray[np.generic]:
    kinds = {states.dtype.kind for states in ribbons.values()}
    if len(kinds) > 1:
        raise InputError("some states are names and others numbers; predict with the same kind")
    if not ribbons:
        return np.array([])
    every = np.unique(np.concatenate(list(ribbons.values())))
    return every[every != no_state(every)]


def _ribbon(
    ax: Axes, states: NDArray[np.generic], classes: NDArray[np.generic], bottom: float
) -> None:
    # One picture of a row of pixels: a shape for each run is slow where runs are many.
    known = states != no_state(states)
    row = np.tile(np.array(to_rgb(FAINT)), (len(states), 1))
    if len(classes):
        row[known] = state_colours(len(classes))[np.searchsorted(classes, states[known])]
    ax.imshow(
        (255 * row[None]).astype(np.uint8),
        extent=(0, len(states), bottom, bottom + RIBBON),
        aspect="auto",
        interpolation="nearest",
    )


def _recording_starts(stream: Stream) -> NDArray[np.int64]:
    if stream.recordings is None:
        return np.array([], np.int64)
    return np.flatnonzero(stream.recordings[1:] != stream.recordings[:-1]) + 1


def state_legend(ax: Axes, classes: NDArray[np.generic]) -> None:
    """The colour of each state, above the axes."""
    if not 0 < len(classes) <= MAX_LEGEND:
        return
    colours = state_colours(len(classes))
    patches = [Patch(color=c, label=str(s)) for c, s in zip(colours, classes, strict=True)]
    ax.legend(
        handles=patches,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(classes), 8),
        frameon=False,
        handlelength=1,
        borderaxespad=0.2,
    )
