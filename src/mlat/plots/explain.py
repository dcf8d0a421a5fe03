"""Why a step got its state: its window over the nearest references, and the parts of distances.

Of a committee, what each expert says, with which weight.
"""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import GridSpecFromSubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..base.checks import Floats
from ..classifier.classifier import StreamClassifier
from ..explain.experts import expert_of
from ..explain.explanation import Explanation, Opinion, Towards, explain
from ..stream.stream import Stream
from .figure import (
    FAINT,
    INK,
    bare,
    draw_boundaries,
    format_number,
    frame_bars,
    names_width,
    shorten,
    state_colours,
    text_width,
    used_lags,
)

WIDTH = 10.0  # inches of the figure
MAX_CHANNELS = 5  # drawn as lines
MAX_BESIDE = 3  # channels beside what a committee says
MAX_FEATURES = 10  # drawn as bars
MAX_BARS = 40  # lags that are drawn as bars; more are drawn as a line
COMMITTEE_WIDTH = 11.0  # inches of the figure of a committee
MAX_STATES = 8  # columns of its table of states
MAX_MARGINS = 6  # bars of an expert: those in which the two distances differ most
MAX_COLUMNS = 3  # of experts beside each other
TOGETHER = "all together"


def explain_prediction(
    clf: StreamClassifier,
    stream: Stream,
    step: int,
    n_neighbors: int = 3,
    *,
    against: Any = None,
    expert: int | str | None = None,
    max_channels: int = MAX_CHANNELS,
) -> Figure:
    """The window that ends at ``step``, the nearest references of two states, and their distances.

    Of a committee, the windows as its widest expert compares them, and what each expert adds to the
    decision (:func:`~mlat.plots.plot_committee`), unless one of them is named.

    Above, each column shows the window (black) over the nearest references of one state, channel
    by channel. Below are the parts of the squared distance to the nearest reference of each state,
    by feature and by lag.

    Parameters
    ----------
    clf : fitted StreamClassifier
    stream : Stream
    step : int
        A step that ends a complete window.
    n_neighbors : int, default=3
        References drawn of each state.
    against : str or int, optional
        The state to compare the predicted one with. Default: the true state if it was not
        predicted and the model knows it, otherwise the nearest of the other states.
    expert : int or str, optional
        Of a committee: which of ``clf.experts_``, by its place or its name.
    max_channels : int, default=5
        How many channels to draw: those in which the two distances differ most.

    Raises
    ------
    InputError
        If no complete window ends at the step, or a state is not known.
    """
    found = explain(clf, stream, step, n_neighbors=n_neighbors, against=against)
    return draw_explanation(found, clf, stream, expert=expert, max_channels=max_channels)


def draw_explanation(
    found: Explanation,
    clf: StreamClassifier,
    stream: Stream,
    *,
    expert: int | str | None = None,
    max_channels: int = MAX_CHANNELS,
) -> Figure:
    """The picture of an explanation; parameters as for `explain_prediction`."""
    layout = ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.08, hspace=0.02)
    if expert is None and len(found.opinions) > 1:
        return _draw_committee(found, clf, stream, min(max_channels, MAX_BESIDE), layout)
    seen = expert_of(clf, expert)
    opinion = next(one for one in found.opinions if one.name == seen.name)
    order = _most_apart(opinion, clf.n_channels_)[:max_channels]
    n_bars = min(len(opinion.features), MAX_FEATURES)
    heights = [0.8 * len(order) + 0.3, max(2.1, 0.34 * n_bars + 0.5)]
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.5), layout=layout)
    outer = figure.add_gridspec(2, 1, height_ratios=heights)
    _draw_windows(figure, outer[0].subgridspec(len(order), 2), order, found, opinion, clf, stream)
    below = outer[1].subgridspec(1, 2)
    colours = _colours(found)
    pair = [(towards, colours[towards.state]) for towards in (opinion.own, opinion.other)]
    _draw_features(figure.add_subplot(below[0]), opinion, pair)
    _draw_lags(figure.add_subplot(below[1]), pair)
    title = f"{found.headline}; {seen.name}" if seen.name else found.headline
    figure.suptitle(fill(title, 85), fontsize=12, fontweight="bold", color=INK)
    hidden = clf.n_channels_ - len(order)
    if hidden:
        figure.supxlabel(
            f"{len(order)} of {clf.n_channels_} channels are drawn, those in which the two "
            f"distances differ most; {hidden} are not.",
            fontsize=8,
            color=INK,
        )
    return figure


def _draw_committee(
    found: Explanation,
    clf: StreamClassifier,
    stream: Stream,
    max_channels: int,
    layout: ConstrainedLayoutEngine,
) -> Figure:
    """The window over the nearest references of the widest expert, and what each expert adds."""
    opinion = max(found.opinions, key=lambda one: one.width)
    order = _most_apart(opinion, clf.n_channels_)[:max_channels]
    heights = [0.8 * len(order) + 0.9, committee_height(found)]
    figure = Figure(figsize=(COMMITTEE_WIDTH, sum(heights) + 0.4), layout=layout)
    parts: Any = figure.subfigures(2, 1, height_ratios=heights)
    above, below = parts
    grid = above.add_gridspec(1, 1)[0].subgridspec(len(order), 2)
    _draw_windows(above, grid, order, found, opinion, clf, stream)
    above.supxlabel(
        f"Black: the signal. Coloured: the nearest references of each state, as {opinion.name} "
        "compares them, in the channels that differ most.",
        fontsize=8,
        color=INK,
    )
    plot_committee(found, figure=below)
    figure.suptitle(fill(found.headline, 95), fontsize=12, fontweight="bold", color=INK)
    return figure


def _most_apart(opinion: Opinion, n_channels: int) -> NDArray[np.intp]:
    """The channels, those first in which the two distances differ most."""
    by_channel = opinion.margin.by_channel(opinion.channels, n_channels)
    return np.argsort(-np.abs(by_channel), kind="stable")


def _colours(found: Explanation) -> dict[Any, Any]:
    states = found.states.tolist()
    return dict(zip(states, state_colours(len(states)), strict=True))


def _draw_windows(
    figure: Figure | SubFigure,
    grid: GridSpecFromSubplotSpec,
    order: NDArray[np.intp],
    found: Explanation,
    opinion: Opinion,
    clf: StreamClassifier,
    stream: Stream,
) -> None:
    """An expert's window over the nearest references of either state, channel by channel."""
    references, end = expert_of(clf, opinion.name or None).references.windows, found.step + 1
    names = [f"nearest {shorten(str(one.state))}" for one in (opinion.own, opinion.other)]
    names[0] += " (predicted)" if found.own.state == found.predicted else ""
    sides = list(zip((opinion.own, opinion.other), names, strict=True))
    colours = _colours(found)
    steps = np.arange(end - references.width, end)
    query = stream.values[end - references.width : end]
    names = [shorten(clf.channels_[channel]) for channel in order]
    room = (WIDTH - 0.8 - names_width(names, 8)) / 2  # inches of a column
    left = []
    for row, channel in enumerate(order):
        first: Axes | None = None
        for column, (towards, text) in enumerate(sides):
            ax = figure.add_subplot(grid[row, column], sharey=first)
            first = first or ax
            for rank in range(len(towards.rows))[::-1]:
                begin = references.start[towards.rows[rank]]
                line = references.values[begin : begin + references.width, channel]
                ax.plot(
                    steps,
                    line,
                    color=colours[towards.state],
                    linewidth=2.2 if rank == 0 else 1.0,
                    alpha=1.0 if rank == 0 else 0.45,
                    marker=_marker(steps),
                )
            ax.plot(steps, query[:, channel], color=INK, linewidth=1.2, marker=_marker(steps))
            draw_boundaries(ax, [switch - 0.5 for switch in found.switches if switch > steps[0]])
            name = names[row] if column == 0 else None
            _frame_window(ax, name, row == len(order) - 1, stream.usual_step)
            if row == 0:
                title = f"{text}: {_distances_text(towards.distances)}"
                if text_width(title, 9) > 72 * room:  # it would run into the one beside it
                    title = title.replace(": ", ":\n")
                ax.set_title(title, fontsize=9, color=INK)
            if column == 0:
                left.append(ax)
    figure.align_ylabels(left)


def _distances_text(distances: Floats) -> str:
    others = ", ".join(format_number(distance) for distance in distances[1:])
    return f"distance {format_number(distances[0])}" + (f" (then {others})" if others else "")


def _marker(steps: NDArray[Any]) -> str:
    """A line of a single point needs a marker to be visible."""
    return "o" if len(steps) == 1 else ""


def _frame_window(ax: Axes, name: str | None, is_last: bool, usual_step: float | None) -> None:
    """``name`` is that of the channel, in the first column."""
    bare(ax)
    ax.tick_params(labelsize=7, labelbottom=is_last, labelleft=name is not None)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=2))
    ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    if name is not None:  # horizontal, beside the axes: many names are longer than a row is high
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8, color=INK)
    if is_last and usual_step:
        ax.xaxis.set_major_formatter(lambda step, _: f"{step * usual_step:.2f}")
    if is_last:
        ax.set_xlabel("seconds" if usual_step else "step", fontsize=8)


def _draw_features(ax: Axes, found: Opinion, pair: list[tuple[Towards, Any]]) -> None:
    order = np.argsort(-np.abs(found.margin.by_feature), kind="stable")
    shown = order[:MAX_FEATURES]
    places = np.arange(len(shown))[::-1].astype(float)
    for (towards, colour), shift in zip(pair, (0.19, -0.19), strict=True):
        ax.barh(places + shift, towards.parts.by_feature[shown], height=0.36, color=colour)
    ax.set_yticks(places, [shorten(found.features[i], 34) for i in shown], fontsize=8)
    ax.tick_params(axis="y", length=0)
    frame_bars(ax, "which features carry the squared distance", horizontal=True)
    text = "part of the squared distance"
    rest = order[MAX_FEATURES:]
    if len(rest):
        # As text: a bar for many features together would dwarf those of single ones.
        sums = " and ".join(format_number(t.parts.by_feature[rest].sum()) for t, _ in pair)
        text += f"\n{len(rest)} others, which differ less, have {sums} together"
    ax.set_xlabel(text, fontsize=8)


def _draw_lags(ax: Axes, pair: list[tuple[Towards, Any]]) -> None:
    n_lags = max(used_lags(towards.parts.by_lag) for towards, _ in pair)
    for (towards, colour), shift in zip(pair, (-0.19, 0.19), strict=True):
        parts = towards.parts.by_lag[:n_lags]
        lags = np.arange(len(parts))
        if len(lags) <= MAX_BARS:
            ax.bar(lags + shift, parts, width=0.36, color=colour, label=_total_text(towards))
        else:
            ax.plot(lags, parts, color=colour, label=_total_text(towards))
    ax.set_xlim(-0.6, max(n_lags, 4) - 0.4)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    frame_bars(ax, "which lags carry it", horizontal=False)
    ax.set_xlabel("lag (steps between two moments)", fontsize=8)
    # Above the axes, where there is no bar, and beneath the title.
    ax.set_title(ax.get_title(loc="left"), loc="left", fontsize=9, color=INK, pad=32)
    ax.legend(
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=1,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0,
    )


def _total_text(towards: Towards) -> str:
    return (
        f"to the nearest {shorten(str(towards.state))}, {format_number(towards.parts.total)} in all"
    )


# ------------------------------------------------------------------ committees


def plot_committee(
    found: Explanation, *, figure: Figure | SubFigure | None = None
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
        size = COMMITTEE_WIDTH, committee_height(found)
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
        _draw_margins(ax, one, _colours(found), COMMITTEE_WIDTH / n_columns)
    figure.supxlabel(fill(found.in_words, 150), fontsize=9, color=INK)
    return figure


def committee_height(found: Explanation) -> float:
    """How high the picture is, in inches."""
    return sum(_heights(found)) + 1.4


def _heights(found: Explanation) -> list[float]:
    n_bars = max(min(len(one.features), MAX_MARGINS) for one in found.opinions)
    return [0.5 * len(found.opinions) + 1.6, _n_rows(found) * (0.26 * n_bars + 0.9) - 0.2]


def _n_rows(found: Explanation) -> int:
    """Rows of experts beside each other."""
    return -(-len(found.opinions) // MAX_COLUMNS)


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


def _draw_margins(ax: Axes, one: Opinion, colours: dict[object, Floats], width: float) -> None:
    margin = one.margin.by_feature
    shown = np.argsort(-np.abs(margin), kind="stable")[:MAX_MARGINS]
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
