"""The pictures of the reports."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from mlat.base.errors import InputError
from mlat.metric.estimators import MLAT
from mlat.plots.figure import FAINT, INK, bare, ink_on, state_colours
from mlat.plots.learned import plot_blocks

from ..experiments.experiment import Experiment
from ..experiments.protocol import split, split_seed
from ..experiments.systems import DEVELOPMENT
from ..rivals.knn import MetricKNN
from .page import Picture
from .paper import TABLE_2, set_title, system_title
from .statistics import Figure, Footing, cliques
from .theorem1 import plot_theorem1

BySet = Mapping[str, Mapping[str, Figure]]  # system, data set
ByPerson = Mapping[str, Mapping[str, Mapping[str, float]]]  # system, data set, person


def draw_bars(footings: Mapping[str, Footing], data_set: str) -> Drawing:
    """Accuracy in one set, a panel for each protocol; the paper's figures as diamonds."""
    most = max(len(footing.ranks) for footing in footings.values())
    width = max(5.2, 0.65 * most)  # names must not run into each other
    figure = Drawing(figsize=(width * len(footings), 3.6), layout="constrained")
    panels = figure.subplots(1, len(footings), sharey=True, squeeze=False)[0]
    for ax, (protocol, footing) in zip(panels, footings.items(), strict=True):
        _draw_bars(ax, footing, data_set)
        ax.set_title(f"{set_title(data_set)}, {protocol}", fontsize=10, color=INK, loc="left")
    panels[0].set_ylabel("accuracy, %")
    return figure


def _draw_bars(ax: Axes, footing: Footing, data_set: str) -> None:
    figures = footing.accuracy[data_set]
    names = list(figures)
    for x, (name, colour) in enumerate(zip(names, state_colours(len(names)), strict=True)):
        figure = figures[name]
        ax.bar(x, figure.mean, color=colour, width=0.7)
        if figure.low is not None and figure.high is not None:
            error = [[figure.mean - figure.low], [figure.high - figure.mean]]
            ax.errorbar(x, figure.mean, yerr=error, color=INK, capsize=3, linewidth=1)
        theirs = TABLE_2.get(data_set, {}).get(name)
        if theirs is not None:
            label = None if x else "the paper"
            ax.plot(x, theirs[0], "D", c="white", mec=INK, markersize=5, label=label)
        text = f"{figure.mean:.1f}"
        ax.text(x, 2, text, ha="center", fontsize=8, color=ink_on(colour))
    ax.set_xticks(range(len(names)), [re.sub(r",? |(?<=-)", "\n", system_title(n)) for n in names])
    ax.tick_params(axis="x", labelsize=8)
    ax.set_ylim(0, 104)
    if data_set in TABLE_2:
        ax.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1))
    bare(ax)


def draw_critical_differences(footings: Mapping[str, Footing], n_groups: int) -> Drawing:
    """A critical-difference diagram for each footing, below its title."""
    most = max(len(footing.ranks) for footing in footings.values())
    # Names stand in two columns: the more there are, the longer these are.
    height = 1.3 + 0.4 * ((most + 1) // 2)
    figure = Drawing(figsize=(7, height * len(footings)), layout="constrained")
    panels = figure.subplots(len(footings), 1, squeeze=False)[:, 0]
    for ax, (title, footing) in zip(panels, footings.items(), strict=True):
        _draw_critical_difference(ax, footing)
        ax.set_title(f"{title} ({n_groups} groups)", fontsize=10, color=INK, loc="left")
    return figure


def _draw_critical_difference(ax: Axes, footing: Footing) -> None:
    """Names at their mean ranks; a bar joins those that the Nemenyi test cannot tell apart."""
    by_rank = sorted(footing.ranks.items(), key=lambda item: item[1])
    n = len(by_rank)
    half = (n + 1) // 2
    joined = cliques([rank for _, rank in by_rank], footing.critical_difference)
    below = -0.25 - 0.18 * len(joined)
    ax.set_xlim(0.4, n + 0.6)
    ax.set_ylim(below - 0.35 * half, 0.75)
    ax.plot([1, n], [0, 0], color=INK, linewidth=1)
    for tick in range(1, n + 1):
        ax.plot([tick, tick], [0, 0.08], color=INK, linewidth=1)
        ax.text(tick, 0.13, str(tick), ha="center", fontsize=8, color=INK)
    for i, (name, rank) in enumerate(by_rank):
        left = i < half
        y = below - 0.35 * (i if left else n - 1 - i)
        edge = 0.95 if left else n + 0.05
        ax.plot([rank, rank, edge], [0, y, y], color=INK, linewidth=0.8)
        text = f" {system_title(name)}  {rank:.2f} "
        ax.text(edge, y, text, ha="right" if left else "left", va="center", fontsize=8, color=INK)
    for i, (first, last) in enumerate(joined):
        y = -0.16 - 0.18 * i
        ends = by_rank[first][1] - 0.04, by_rank[last][1] + 0.04
        ax.plot(ends, [y, y], color=INK, linewidth=3, solid_capstyle="round")
    end = 1 + footing.critical_difference
    ax.plot([1, end], [0.45, 0.45], color=INK, linewidth=1.5)
    text = f" critical difference {footing.critical_difference:.2f}"
    ax.text(end, 0.45, text, va="center", fontsize=8, color=INK)
    ax.set_axis_off()


def draw_dots(accuracy: ByPerson, figures: BySet, ours: Container[str]) -> Drawing:
    """Everyone's accuracy, with means and intervals: a panel for each set, a row for each system.

    Parameters
    ----------
    accuracy : mapping of system, data set and person to float
    figures : mapping of system and data set to Figure
    ours : container of str
        The systems to highlight.
    """
    names = list(figures)
    sets = list(dict.fromkeys(data_set for by in figures.values() for data_set in by))
    size = (1.6 + 2.1 * len(sets), 0.9 + 0.27 * len(names))
    figure = Drawing(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
    for ax, data_set in zip(panels, sets, strict=True):
        _draw_set(ax, accuracy, figures, ours, data_set)
        ax.set_title(set_title(data_set), fontsize=10, color=INK, loc="left")
        ax.set_xlabel("accuracy, %")
    panels[0].set_yticks(range(len(names)), map(system_title, names))
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _draw_set(
    ax: Axes,
    accuracy: ByPerson,
    figures: BySet,
    ours: Container[str],
    data_set: str,
) -> None:
    for y, (name, by) in enumerate(figures.items()):
        ax.axhline(y, color=FAINT, linewidth=0.5, zorder=0)
        if data_set not in by:
            continue
        figure = by[data_set]
        colour = state_colours(4)[3] if name in ours else INK
        people = list(accuracy[name][data_set].values())
        ax.plot(people, [y] * len(people), "o", color=FAINT, markersize=3, zorder=1)
        if figure.low is not None and figure.high is not None:
            ax.plot([figure.low, figure.high], [y, y], color=colour, linewidth=1.5)
        ax.plot(figure.mean, y, "o", color=colour, markersize=5)
    bare(ax, "top", "right", "left")
    ax.tick_params(axis="y", length=0)


def learned_pictures(experiment: Experiment) -> Iterator[Picture]:
    """The metric of one person, and Theorem 1 on that person's runs."""
    data_set, person = _one_person(experiment)
    people = experiment.people[data_set]
    stream = people.load(person)
    who = f"{set_title(data_set)} {person}"
    train = split(
        stream,
        "holdout",
        split_seed(data_set, person, 0, "holdout"),
        width=experiment.width,
        given=people.given,
        n_few=experiment.n_few,
        n_test=experiment.n_test,
    ).train
    learned = MetricKNN(metric=MLAT()).fit(train.X, train.y, start=train.start, run=train.run)
    title = f"The blocks that our MLAT learned for {who}, holdout, first run"
    yield Picture(title, "blocks.png", plot_blocks(learned.metric_, channels=stream.channels))
    try:
        figure = plot_theorem1(stream, experiment.width)
    except InputError:  # no run is long enough to show it
        return
    title = f"Theorem 1: the residual against the length of the run, {who}"
    yield Picture(title, "theorem-1.png", figure)


def _one_person(experiment: Experiment) -> tuple[str, str]:
    """Somebody the defaults were not chosen on, of the set with readable channels if possible."""
    data_set = "emg" if "emg" in experiment.people else next(iter(experiment.people))
    names = experiment.people[data_set].names
    others = [name for name in names if name not in DEVELOPMENT.get(data_set, ())]
    return data_set, (others or list(names))[0]
