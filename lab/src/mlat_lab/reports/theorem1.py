"""Theorem 1 as a picture: the covariance of a run's windows approaches block Toeplitz."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mlat.base.errors import InputError
from mlat.metric import toeplitz
from mlat.plots.figure import INK, axes_for, bare, shorten, state_colours
from mlat.stream.stream import Stream
from mlat.stream.windows import sliding_windows

LINES = ("-", "--", ":", "-.")


def plot_theorem1(
    stream: Stream, width: int, *, n_lengths: int = 12, ax: Axes | None = None
) -> Figure:
    """How far the covariance of a run's windows is from block Toeplitz, against the run's length.

    Parameters
    ----------
    stream : Stream
        The longest run of each state is used, cut to each length.
    width : int
        Steps per window.
    n_lengths : int, default=12
        Lengths per run, evenly spaced on a logarithmic scale.
    ax : Axes, optional
        Where to draw; default a new figure.

    Raises
    ------
    InputError
        If no run is longer than twice the width.
    """
    runs = stream.runs
    shortest = 2 * width
    lines = []
    for code, state in enumerate(stream.classes):
        mine = np.flatnonzero(runs.code == code)
        if not len(mine):
            continue
        longest = mine[np.argmax(runs.length[mine])]
        start, length = int(runs.start[longest]), int(runs.length[longest])
        if length > shortest:
            lengths = np.unique(np.geomspace(shortest, length, n_lengths).round().astype(int))
            residuals = [_residual(stream[start : start + n], width) for n in lengths]
            lines.append((code, str(state), lengths, residuals))
    if not lines:
        raise InputError(
            f"no run is longer than {shortest} steps, twice the width; choose a smaller width"
        )
    many = len(lines) > 6  # which would hide lines
    figure, ax = axes_for(ax, (9 if many else 6.5, max(4, 0.18 * len(lines) + 0.8)))
    colours = state_colours(len(stream.classes))
    for code, state, lengths, residuals in lines:
        dashes = LINES[code // 8 % len(LINES)]  # there are eight colours that differ
        look = {"color": colours[code], "linestyle": dashes, "label": shorten(state)}
        ax.plot(lengths, residuals, marker="o", markersize=3, **look)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("steps in the run")
    ax.set_ylabel("distance from block Toeplitz")
    ax.set_title(
        f"Theorem 1: covariance of windows of {width} steps", fontsize=10, color=INK, loc="left"
    )
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if many else {}
    ax.legend(frameon=False, fontsize=8, **beside)
    bare(ax)
    return figure


def _residual(run: Stream, width: int) -> float:
    return toeplitz.covariance_residual(sliding_windows(run, width).X)
