"""What a model learned, and how.

The blocks of a metric by lag, the history of its solver, and which features and lags separate the
states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..explain.experts import expert_of
from ..explain.learned import blocks_of, lag_norms
from ..explain.usage import Usage, measure_usage
from .figure import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MAX_LETTERS,
    ORANGE,
    axes_for,
    bare,
    frame_bars,
    names_width,
    shorten,
    used_lags,
)

MAX_NAMES = 64  # features whose names fit beside a heatmap; of more every second, third, … has one
MAX_FEATURES = 20
_FOR, _AGAINST = "#b2182b", "#2166ac"  # the ends of the colour map


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
    root_and_back = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x))
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


def plot_usage(
    clf: StreamClassifier, *, expert: int | str | None = None, max_features: int = MAX_FEATURES
) -> Figure:
    """Which features at which lags separate the states, and the sums by feature and by lag.

    The numbers are those of :func:`mlat.explain.usage.measure_usage`. The squared distance to the
    nearest reference of another state minus that to the nearest of the own state is divided among
    features and lags, as fractions of the former. Red adds to the difference, blue subtracts.

    Parameters
    ----------
    clf : fitted StreamClassifier
    expert : int or str, optional
        Of a committee: which of ``clf.experts_``, by its place or its name.
    max_features : int, default=20
        How many features to draw, the most used ones.
    """
    used = measure_usage(clf, expert=expert)
    parts = used.fractions.by_lag_and_feature.T
    n_lags = used_lags(parts.T)
    order = np.argsort(-np.abs(used.fractions.by_feature), kind="stable")
    shown = order[:max_features]
    names = [shorten(used.features[i], MAX_LETTERS) for i in shown]
    whose = expert_of(clf, expert).name
    about = f"What tells the states apart{f' to {shorten(whose)}' if whose else ''}, by feature"
    note = _note(used, len(order) - len(shown))
    if used_lags(parts.T, least=1) == 1:
        return _draw_one_lag(used, shown, names, f"{about}: lag 0 alone counts", note)
    height = 0.28 * len(shown) + 0.4
    size = (8.5 + names_width(names, 8), height + 2.9)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[2.6, 1], height_ratios=[height, 1.3])
    ax = figure.add_subplot(grid[0, 0])
    limit = float(np.abs(parts[shown]).max()) or 1.0
    image = ax.imshow(parts[shown, :n_lags], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    ax.set_yticks(range(len(shown)), names, fontsize=8)
    ax.tick_params(axis="both", length=0)
    bare(ax, "top", "right", "bottom", "left")
    bar = figure.colorbar(image, ax=ax, location="top", shrink=0.5, aspect=40, pad=0.02)
    bar.ax.xaxis.set_major_locator(MaxNLocator(nbins=5, symmetric=True))
    bar.ax.xaxis.set_major_formatter(FuncFormatter(_percent))
    bar.ax.tick_params(labelsize=7, color=FAINT, labelcolor=INK)
    bar.outline.set_visible(False)
    below = figure.add_subplot(grid[1, 0], sharex=ax)
    _draw_lags(below, used.fractions.by_lag[:n_lags])
    ax.tick_params(labelbottom=False)
    below.set_xlim(-0.5, n_lags - 0.5)
    beside = figure.add_subplot(grid[0, 1], sharey=ax)
    _draw_features(beside, used, shown)
    beside.tick_params(axis="y", length=0, labelleft=False)
    corner = figure.add_subplot(grid[1, 1])
    corner.set_axis_off()
    corner.text(0, 1, "\n".join(note), va="top", fontsize=8, color=INK, linespacing=1.5)
    figure.suptitle(f"{about} and lag", fontsize=12, fontweight="bold", color=INK)
    return figure


def _draw_one_lag(
    used: Usage, shown: Ints, names: list[str], title: str, note: list[str]
) -> Figure:
    """Bars by feature; by lag there would be one column of colour and nothing beside it."""
    size = (5.5 + names_width(names, 8), 0.28 * len(shown) + 2.0)
    figure = Figure(figsize=size, layout="constrained")
    ax = figure.add_subplot()
    _draw_features(ax, used, shown)
    ax.set_yticks(range(len(shown)), names, fontsize=8)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel("\n".join(note), fontsize=8, linespacing=1.5, loc="left")
    figure.suptitle(title.replace(", by", ",\nby"), fontsize=12, fontweight="bold", color=INK)
    return figure


def _draw_lags(ax: Axes, fractions: Floats) -> None:
    ax.bar(np.arange(len(fractions)), fractions, width=0.7, color=_colours(fractions))
    ax.set_xlabel("lag (steps between two moments)", fontsize=9)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=3))
    ax.yaxis.set_major_formatter(FuncFormatter(_percent))
    frame_bars(ax, "all features together", horizontal=False)


def _draw_features(ax: Axes, used: Usage, shown: Ints) -> None:
    fractions = used.fractions.by_feature[shown]
    ax.barh(np.arange(len(shown)), fractions, height=0.7, color=_colours(fractions))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
    ax.xaxis.set_major_formatter(FuncFormatter(_percent))
    ax.tick_params(axis="y", length=0)
    frame_bars(ax, "all lags together", horizontal=True)


def _colours(fractions: Floats) -> list[str]:
    return [_FOR if fraction > 0 else _AGAINST for fraction in fractions]


def _percent(fraction: float, _: int) -> str:
    return f"{100 * fraction:.3g}%"


def _note(used: Usage, hidden: int) -> list[str]:
    total = used.fractions.total
    compared = f"{abs(total):.0%} {'nearer' if total >= 0 else 'farther'}"
    lines = [
        "In squared distance, the nearest window of",
        f"the own state is {compared} than the nearest",
        "of another. The figures say what each adds",
        f"to that; mean over {used.n_judged} references.",
    ]
    if hidden:
        lines.append(f"{hidden} less used features are not shown.")
    return lines
