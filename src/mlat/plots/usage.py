"""Which features and lags separate the states in a model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..base.checks import Floats, Ints
from ..classifier.classifier import StreamClassifier
from ..explain.experts import expert_of
from ..explain.usage import Usage, measure_usage
from .figure import FAINT, INK, MAX_LETTERS, bare, frame_bars, names_width, shorten, used_lags

MAX_FEATURES = 20
_FOR, _AGAINST = "#b2182b", "#2166ac"  # the ends of the colour map


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
