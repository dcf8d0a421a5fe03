"""The pictures of the table beyond the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from ...plots.figure import FAINT, INK, bare, save_figure, state_colours
from ..experiments.beyond import AUTO, AUTO_FILTERED
from . import paper
from .beyond_tables import PLAIN, WITH_FILTER, Standing, Summary
from .plots import DPI, draw_critical_differences

TITLES = {PLAIN: "all but the filter", WITH_FILTER: "all"}


def slug(title: str) -> str:
    """The title of a width as a part of a file's name."""
    return title.replace(" ", "-")


def write_plots(summary: Summary, folder: Path) -> Iterator[tuple[str, Path]]:
    """Draw everything into a folder; yields what each picture shows, and its file."""
    for title, width in summary.widths.items():
        standing = width.everyone
        path = folder / f"accuracy-{slug(title)}.png"
        save_figure(draw_dots(standing), path, dpi=DPI)
        yield f"Accuracy with windows of {title}: people, their mean and its 95 % interval", path
        if len(standing.groups) > 1 and standing.footings:
            path = folder / f"critical-difference-{slug(title)}.png"
            footings = {TITLES[name]: footing for name, footing in standing.footings.items()}
            save_figure(draw_critical_differences(footings, len(standing.groups)), path, dpi=DPI)
            yield f"Mean ranks with windows of {title}, with Nemenyi's critical difference", path


def draw_dots(standing: Standing) -> Picture:
    """A panel for each set and a row for each system, so that names are read and not turned."""
    names, sets = list(standing.accuracy), standing.data_sets
    size = (1.6 + 2.1 * len(sets), 0.9 + 0.27 * len(names))
    figure = Picture(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
    for ax, data_set in zip(panels, sets, strict=True):
        _draw_set(ax, standing, data_set)
        ax.set_title(paper.set_title(data_set), fontsize=10, color=INK, loc="left")
        ax.set_xlabel("accuracy, %")
    panels[0].set_yticks(range(len(names)), map(paper.system_title, names))
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _draw_set(ax: Axes, standing: Standing, data_set: str) -> None:
    ours = state_colours(4)[3]
    for y, (name, by) in enumerate(standing.accuracy.items()):
        ax.axhline(y, color=FAINT, linewidth=0.5, zorder=0)
        if data_set not in by:
            continue
        figure = by[data_set]
        colour = ours if name in (AUTO, AUTO_FILTERED) else INK
        people = list(standing.people[name][data_set].values())
        ax.plot(people, [y] * len(people), "o", color=FAINT, markersize=3, zorder=1)
        if figure.low is not None and figure.high is not None:
            ax.plot([figure.low, figure.high], [y, y], color=colour, linewidth=1.5)
        ax.plot(figure.mean, y, "o", color=colour, markersize=5)
    bare(ax, "top", "right", "left")
    ax.tick_params(axis="y", length=0)
