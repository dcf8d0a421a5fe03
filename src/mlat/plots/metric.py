"""What a metric learned, and how: its blocks by lag, and the history of its solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..base.errors import InputError
from ..explain.learned import blocks_of, lag_norms
from .figure import BLUE, GREEN, INK, MAX_LETTERS, ORANGE, axes_for, bare, names_width, shorten

MAX_NAMES = 64  # features whose names fit beside a heatmap; of more every second, third, … has one


def plot_blocks(
    metric: Any, *, channels: Sequence[str] | None = None, max_blocks: int = 6
) -> Figure:
    """The blocks by lag as heatmaps on one scale, and below them the size of each block.

    Parameters
    ----------
    metric : fitted MLAT or LMNN, or blocks of shape (w, d, d)
        For LMNN, whose metric has no blocks, those of the nearest block-Toeplitz metric.
    channels : sequence of d names, optional
    max_blocks : int, default=6
        How many heatmaps to draw, of lags from 0 to w - 1.

    Raises
    ------
    InputError
        If the number of names is not d.
    """
    blocks = blocks_of(metric)
    width, d, _ = blocks.shape
    if channels is not None and len(channels) != d:
        raise InputError(f"{len(channels)} names for {d} channels; give one name per channel")
    lags = np.unique(np.linspace(0, width - 1, min(width, max_blocks)).round().astype(int))
    names = [shorten(name, MAX_LETTERS) for name in channels or ()]
    # A row must be as high as its name; few rows are about square.
    height = max(1.9, 0.125 * min(d, MAX_NAMES))
    width = max(6.4, 1.2 + 1.9 * len(lags)) + names_width(names, 7)
    figure = Figure(figsize=(width, height + 3.2), layout="constrained")
    grid = figure.add_gridspec(2, len(lags), height_ratios=[height, 2.0])
    limit = float(np.abs(blocks[lags]).max()) or 1.0
    # Lag 0 is always the largest; on a linear scale all others would look white.
    root_and_back = (
        lambda x: np.sign(x) * np.sqrt(np.abs(x)),
        lambda x: np.sign(x) * np.square(x),
    )
    scale = FuncNorm(root_and_back, vmin=-limit, vmax=limit)
    maps = []
    for column, lag in enumerate(lags):
        ax = figure.add_subplot(grid[0, column])
        image = ax.imshow(blocks[lag], cmap="RdBu_r", norm=scale, aspect="auto")
        ax.set_title(f"lag {lag}", fontsize=10, color=INK)
        _name_rows(ax, names if column == 0 else [])
        maps.append(ax)
    bar = figure.colorbar(image, ax=maps, shrink=0.8, aspect=14, pad=0.01)
    ticks = [level * limit for level in (-1.0, -0.25, 0.0, 0.25, 1.0)]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8)
    bar.set_label("weight (square-root scale)", fontsize=8, color=INK)
    bar.outline.set_visible(False)
    below = figure.add_subplot(grid[1, :])
    plot_lags(blocks, ax=below)
    for lag in lags:
        below.axvline(lag, color=INK, linewidth=0.5, alpha=0.25, zorder=0)
    figure.suptitle(
        "The metric by lag:\nhow much a difference now and one some steps earlier count together",
        fontsize=11,
        color=INK,
    )
    return figure


def plot_lags(metric: Any, *, ax: Axes | None = None, colour: str = BLUE) -> Figure:
    """The size of each lag's block, ``‖A(m)‖``, against the lag m.

    Parameters
    ----------
    metric : fitted MLAT or LMNN, or blocks of shape (w, d, d)
    ax : Axes, optional
    colour : str
    """
    norms = lag_norms(blocks_of(metric))
    figure, ax = axes_for(ax, (6, 3))
    lags = np.arange(len(norms))
    ax.fill_between(lags, norms, color=colour, alpha=0.15, linewidth=0)
    ax.plot(lags, norms, color=colour, marker="o" if len(lags) <= 40 else "", markersize=4)
    ax.set_xlabel("lag (steps)")
    ax.set_ylabel("size of the block")
    ax.set_ylim(0, (float(norms.max()) or 1.0) * 1.08)
    ax.set_xlim(-0.3, max(len(norms) - 0.7, 0.3))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    bare(ax)
    return figure


def _name_rows(ax: Axes, names: list[str]) -> None:
    every = -(-len(names) // MAX_NAMES) or 1
    ax.set_xticks([])
    ax.set_yticks(range(0, len(names), every), names[::every])
    ax.tick_params(length=0, labelsize=7)
    bare(ax, "top", "right", "bottom", "left")
    if names:
        ax.set_xlabel("columns as rows", fontsize=7, color=INK)
    if every > 1:
        ax.set_ylabel(f"one of {every} features is named", fontsize=8, color=INK)


def plot_history(metric: Any) -> Figure:
    """The loss by iteration, and beside it the stopping criterion of the solver.

    For the solver ``admm`` these are the primal and the dual residual with their tolerances
    (dashed), for the others the norm of the gradient.

    Parameters
    ----------
    metric : fitted MLAT or LMNN

    Raises
    ------
    InputError
        If the metric is not fitted.
    """
    history = getattr(metric, "history_", None)
    if history is None:
        raise InputError("the metric has no history; fit it first")
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    if not history:
        for ax in (left, right):
            ax.set_axis_off()
        left.text(0.5, 0.5, f"No iteration: {metric.message_}.", ha="center", color=INK)
        return figure
    series = {name: np.array([record[name] for record in history]) for name in history[0]}
    iteration = series["iteration"]
    left.plot(iteration, series["objective"], color=BLUE)
    left.set_ylim(0, None)
    _label(left, "loss by iteration")
    if "primal" in series:
        for name, colour in (("primal", ORANGE), ("dual", GREEN)):
            line, tolerance = series[name], series[f"{name}_tolerance"]
            _log(right, iteration, line, colour, f"{name} residual")
            _log(right, iteration, tolerance, colour, f"{name} tolerance", linestyle="--")
        right.legend(frameon=False, fontsize=8)
        _label(right, "residuals and their tolerances")
    else:
        _log(right, iteration, series["gradient"], ORANGE, "gradient")
        _label(right, "norm of the gradient")
    solver = getattr(metric, "solver", "")
    name = type(metric).__name__ + (f", solver {solver}" if solver else "")
    figure.suptitle(f"{name}: {len(history)} iterations, {metric.message_}", fontsize=11, color=INK)
    return figure


def _log(ax: Axes, x: Any, y: Any, colour: str, name: str, linestyle: str = "-") -> None:
    # A residual of exactly 0 has no logarithm and is not drawn.
    ax.plot(x, np.where(y > 0, y, np.nan), color=colour, label=name, linestyle=linestyle)
    if (y > 0).any():
        ax.set_yscale("log")


def _label(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10, color=INK, loc="left")
    ax.set_xlabel("iteration")
    bare(ax)
