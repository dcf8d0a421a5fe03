"""How the experts of a committee come to a decision: who says what, with which weight."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle

from ..base.checks import Floats
from ..explain.explanation import Explanation, Opinion
from .figure import (
    FAINT,
    INK,
    bare,
    format_number,
    frame_bars,
    names_width,
    shorten,
    state_colours,
)

MAX_STATES = 8  # columns of the table of states
MAX_FEATURES = 6  # bars of an expert: those in which the two distances differ most
MAX_COLUMNS = 3  # of experts beside each other
WIDTH = 11.0  # inches of the figure
TOGETHER = "all together"


def plot_committee(
    found: Explanation,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Who said what of one window, with which weight, and how that adds up to the decision.

    Above left is what each expert adds to the logarithm of the odds of the explained state against
    the other, one after the other up to their sum. Above right is how far each state is to each
    expert, in units of the nearest to it, whose cell is framed. Below are the features that make
    the other state farther away than the explained one, for each expert.

    Parameters
    ----------
    found : Explanation
        By :func:`mlat.explain.explain`.
    figure : Figure or SubFigure, optional
        Where to draw, without a title; default a new figure.
    """
    experts = found.opinions
    heights = _heights(found)
    if figure is None:
        size = WIDTH, committee_height(found)
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(fill(found.headline, 95), fontsize=12, fontweight="bold", color=INK)
    outer = figure.add_gridspec(2, 1, height_ratios=heights)
    above = outer[0].subgridspec(1, 2, width_ratios=[1.25, 1])
    order = _shown_states(found)
    sums = figure.add_subplot(above[0])
    _draw_sums(sums, found)
    _draw_states(figure.add_subplot(above[1], sharey=sums), found, order)
    n_rows = _n_rows(found)
    n_columns = -(-len(experts) // n_rows)
    below = outer[1].subgridspec(n_rows, n_columns)
    for place, one in enumerate(experts):
        ax = figure.add_subplot(below[place])
        _draw_features(ax, one, _colours(found), WIDTH / n_columns)
    figure.supxlabel(fill(found.in_words, 150), fontsize=9, color=INK)
    return figure


def committee_height(found: Explanation) -> float:
    """How high the picture is, in inches."""
    return sum(_heights(found)) + 1.4


def _heights(found: Explanation) -> list[float]:
    n_bars = max(min(len(one.features), MAX_FEATURES) for one in found.opinions)
    return [0.5 * len(found.opinions) + 1.6, _n_rows(found) * (0.26 * n_bars + 0.9) - 0.2]


def _n_rows(found: Explanation) -> int:
    """Rows of experts beside each other."""
    return -(-len(found.opinions) // MAX_COLUMNS)


def _colours(found: Explanation) -> dict[object, Floats]:
    states = found.states.tolist()
    return dict(zip(states, state_colours(len(states)), strict=True))


def _shown_states(found: Explanation) -> list[int]:
    """The nearest states to all together, the two that are compared among them; sorted."""
    states = found.states.tolist()
    compared = [states.index(found.own.state), states.index(found.other.state)]
    nearest = np.argsort(found.nearest, kind="stable").tolist()
    return sorted(list(dict.fromkeys(compared + nearest))[:MAX_STATES])


def _draw_sums(ax: Axes, found: Explanation) -> None:
    """What each expert adds, from where the one before it ended, and the sum."""
    colours = _colours(found)
    own, other = found.own.state, found.other.state
    reached = 0.0
    n = len(found.opinions)
    for row, one in enumerate(found.opinions):
        favoured = own if one.log_odds >= 0 else other
        ax.barh(row, one.log_odds, left=reached, height=0.6, color=colours[favoured])
        before, reached = reached, reached + one.log_odds
        ax.plot([reached, reached], [row - 0.3, row + 1.3], color=INK, linewidth=0.7)
        _write(ax, max(before, reached), row, f"{one.log_odds:+.2f}")
    ax.barh(n, reached, height=0.6, color=colours[own if reached >= 0 else other])
    odds = math.exp(min(abs(reached), 700.0))
    _write(ax, max(reached, 0.0), n, f"{reached:+.2f} ({format_number(odds)} to 1)")
    names = [f"{shorten(one.name)}\nweight {one.weight:.0%}" for one in found.opinions]
    ax.set_yticks(range(n + 1), [*names, TOGETHER], fontsize=8)
    ax.set_ylim(n + 0.6, -0.6)
    low, high = ax.get_xlim()
    ax.set_xlim(low - 0.12 * (high - low), high + 0.3 * (high - low))
    frame_bars(ax, "what each adds to the log-odds", horizontal=True)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"← for {shorten(str(other))}      for {shorten(str(own))} →", fontsize=8)


def _write(ax: Axes, x: float, row: int, text: str) -> None:
    ax.annotate(
        text, (x, row), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK
    )


def _draw_states(ax: Axes, found: Explanation, order: list[int]) -> None:
    """How many times as far as the nearest each state is, to each expert and all together."""
    rows = [*(one.nearest for one in found.opinions), found.nearest]
    colours = state_colours(len(found.states))
    for row, distances in enumerate(rows):
        least = float(distances.min())
        for column, code in enumerate(order):
            times = float(distances[code]) / least if least > 0 else math.inf
            is_nearest = code == int(distances.argmin())
            # The nearer, the more of the state's colour.
            strength = 1.0 if is_nearest else 0.75 / times**2 if math.isfinite(times) else 0.0
            cell = Rectangle(
                (column - 0.47, row - 0.4),
                0.94,
                0.8,
                facecolor=(*colours[code], 0.15 + 0.5 * strength),
                edgecolor=INK if is_nearest else FAINT,
                linewidth=2.0 if is_nearest else 0.5,
            )
            ax.add_patch(cell)
            text = "nearest" if is_nearest else f"× {format_number(times)}"
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color=INK)
    names = [shorten(str(found.states[code]), 20) for code in order]
    # Names wider than their column would run into each other.
    is_long = names_width(names, 8) * len(order) > 3.5
    slant: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(order)), names, fontsize=8, **(slant if is_long else {}))
    ax.set_xlim(-0.6, len(order) - 0.4)
    ax.tick_params(length=0, labelleft=False)
    ax.set_title("how far each state is to each", fontsize=9, color=INK, loc="left")
    bare(ax, "top", "right", "bottom", "left")
    hidden = len(found.states) - len(order)
    if hidden:
        ax.set_xlabel(f"{hidden} states that are farther away are not shown", fontsize=8)


def _draw_features(ax: Axes, one: Opinion, colours: dict[object, Floats], width: float) -> None:
    margin = one.margin.by_feature
    shown = np.argsort(-np.abs(margin), kind="stable")[:MAX_FEATURES]
    places = np.arange(len(shown))
    states = [one.own.state if margin[i] >= 0 else one.other.state for i in shown]
    ax.barh(places, margin[shown], height=0.7, color=[colours[state] for state in states])
    names = [shorten(one.features[i], 30) for i in shown]
    ax.set_yticks(places, names, fontsize=7)
    # A title is as wide as the bars, beside which the names are.
    letters = max(int((width - names_width(names, 7) - 0.3) / 0.08), 17)
    ax.set_ylim(max(len(shown), 3) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    title = f"{shorten(one.name, letters)}:\nsays {shorten(str(one.state), letters - 5)}"
    frame_bars(ax, title, horizontal=True)
    ax.tick_params(labelsize=7)
    hidden = len(margin) - len(shown)
    text = f"how much farther {shorten(str(one.other.state), letters - 5)} is\n(squared distance"
    ax.set_xlabel(f"{text}; {hidden} features not shown)" if hidden else f"{text})", fontsize=7)
