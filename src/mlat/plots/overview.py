"""One picture that explains the method: the stream, the predictions, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import ArrayLike

from ..stream.stream import Stream
from .figure import BLUE, FAINT, INK, bare, shorten, state_colours
from .learned import plot_lags
from .timeline import plot_stream

_BAR = "#b8c4cc"


def plot_overview(
    stream: Stream,
    predicted: Mapping[str, ArrayLike],
    accuracies: Mapping[str, float],
    metric: Any,
    *,
    max_channels: int = 4,
) -> Figure:
    """The stream with true and predicted states; below it single steps, accuracies and lags.

    Parameters
    ----------
    stream : Stream
        A part of a labelled stream, short enough to see its runs.
    predicted : mapping of names to arrays of shape (T,)
        The states that each system predicts for the steps of ``stream``.
    accuracies : mapping of names to numbers from 0 to 1
        One bar each; the last one is highlighted.
    metric : fitted MLAT or LMNN
    max_channels : int, default=4
    """
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08, hspace=0.04, wspace=0.04)
    figure = Figure(figsize=(12, 7.4), layout=layout)
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    above = halves[0].add_subplot()
    plot_stream(stream, predicted=predicted, max_channels=max_channels, ax=above)
    halves[0].suptitle(
        "A sensor stream, its states, and the states that were recognised",
        x=0.01,
        ha="left",
        fontsize=12,
        fontweight="bold",
        color=INK,
    )
    single, accuracy, lags = halves[1].subplots(1, 3, width_ratios=[1, 1.35, 1.35])
    _draw_single_steps(single, stream)
    _draw_accuracies(accuracy, accuracies, 1 / max(len(stream.classes), 1))
    plot_lags(metric, ax=lags, colour=BLUE)
    lags.text(
        0.97,
        0.95,
        "A Euclidean distance has lag 0 only:\nit compares step by step.",
        transform=lags.transAxes,
        ha="right",
        va="top",
        fontsize=9,
        color=INK,
    )
    _title(lags, "What MLAT learned, by lag")
    return figure


def _draw_single_steps(ax: Axes, stream: Stream) -> None:
    """Two channels against each other: where states overlap, single steps cannot separate them."""
    colours = state_colours(len(stream.classes))
    known = np.flatnonzero(stream.labelled & ~stream.missing)
    other = min(1, stream.n_channels - 1)
    x, y = stream.values[known, 0], stream.values[known, other]
    ax.scatter(x, y, s=7, c=colours[stream.codes[known]], alpha=0.7, linewidths=0)
    ax.set_xlabel(shorten(stream.channels[0]))
    ax.set_ylabel(shorten(stream.channels[other]))
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)
    _title(ax, "One step alone tells nothing")


def _draw_accuracies(ax: Axes, accuracies: Mapping[str, float], chance: float) -> None:
    places = np.arange(len(accuracies))[::-1]
    colours = [_BAR] * (len(accuracies) - 1) + [BLUE]
    ax.barh(places, [100 * a for a in accuracies.values()], color=colours, height=0.68)
    for place, (name, value) in zip(places, accuracies.items(), strict=True):
        best = name == list(accuracies)[-1]
        ax.text(
            100 * value + 1.5,
            place,
            f"{100 * value:.0f}%",
            va="center",
            color=INK,
            fontweight="bold" if best else "normal",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )
    ax.axvline(100 * chance, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    ax.text(100 * chance + 1, len(accuracies) - 0.48, "guessing", fontsize=9, color=INK)
    ax.set_yticks(places, list(accuracies))
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 100)
    ax.set_ylim(-0.55, len(accuracies) - 0.1)
    ax.set_xlabel("accuracy (%)")
    ax.xaxis.grid(True, color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    bare(ax, "top", "right", "left")
    _title(ax, "How often it is right")


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK)
