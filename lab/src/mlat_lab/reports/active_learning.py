"""The report of simulated labelling: how much less has to be labelled where spans are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing

from mlat import __version__
from mlat.plots.figure import INK, bare, state_colours

from ..experiments.active_learning import (
    CHECKED,
    GOAL,
    GRID,
    MOST_ANSWERED,
    N_SPANS,
    OURS,
    RANDOM,
    SEEDS,
    STRATEGIES,
    UNCERTAINTY,
    UNIFORM,
)
from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from .page import COLUMNS, NONE, Links, Picture, Report, picture_lines, table
from .paper import set_title
from .statistics import grouped

BySet = Mapping[str, Sequence[Result]]
OTHERS = tuple(strategy for strategy in STRATEGIES if strategy != RANDOM)


def needed(results: Sequence[Result], strategy: str, unit: str) -> float:
    """The mean over recordings of the seconds, or the spans, until the goal."""
    return float(np.mean([result["strategies"][strategy][unit] for result in results]))


def share(results: Sequence[Result], strategy: str, unit: str) -> float:
    """How much is needed, as a share of what random spans need: the mean over recordings."""
    of_random = [result["strategies"][RANDOM][unit] for result in results]
    own = [result["strategies"][strategy][unit] for result in results]
    return float(np.mean(np.divide(own, of_random)))


def active_learning_report(results: Sequence[Result], experiment: Experiment) -> Report:
    sets = grouped(results, "data_set")
    content: dict[str, Any] = {
        "settings": {"version": __version__, "goal": GOAL, "seeds": dict(SEEDS)},
        "sets": {
            name: {
                strategy: {
                    "seconds": needed(found, strategy, "seconds"),
                    "spans": needed(found, strategy, "spans"),
                    "share of random": share(found, strategy, "seconds"),
                }
                for strategy in STRATEGIES
            }
            for name, found in sets.items()
        },
        "mean share of random": {
            strategy: float(np.mean([share(found, strategy, "seconds") for found in sets.values()]))
            for strategy in STRATEGIES
        },
    }
    return Report(
        results,
        content,
        lambda: (
            Picture(
                "Balanced accuracy on the rest against how much is labelled; dashed: 95 % of the "
                "accuracy of all labels",
                "seconds.png",
                draw(sets, "by_share", GRID, "labelled, % of the recording"),
            ),
            Picture(
                "The same against the number of spans",
                "spans.png",
                draw(sets, "by_spans", N_SPANS, "spans"),
            ),
        ),
        lambda links: _text(results, sets, links),
        _table(sets),
        (*COLUMNS, "span", "length"),
    )


def _text(results: Sequence[Result], sets: BySet, links: Links) -> list[str]:
    mean = float(np.mean([share(found, OURS, "seconds") for found in sets.values()]))
    short = [name for name, found in sets.items() if share(found, OURS, "seconds") > 0.7]
    verdict = (
        f"In the mean over the {len(sets)} sets ours needs {1 - mean:.0%} fewer labelled seconds "
        "than random spans."
        if mean <= 1
        else f"In the mean over the {len(sets)} sets ours needs {mean - 1:.0%} more labelled "
        "seconds than random spans."
    )
    if short:
        verdict += f" By less than 30 % fewer, or more: {', '.join(map(set_title, short))}."
    return [
        "# Active learning: the span that helps most",
        "",
        f"Written by `mlat-lab reproduce --table active-learning` (mlat {__version__}): "
        f"{len(results)} "
        "recordings of development people. Nothing is labelled at first. One span after the other "
        "is asked for, all strategies among the same spans, and a perfect annotator answers: the "
        "state of every step of it, cut where it changes, and that it has none where it has none, "
        "which counts as labelled time, too. After each answer the rest of the recording is "
        "judged, by the nearest labelled window under features that need no label. The goal is "
        f"{GOAL:.0%} of the balanced accuracy of all labels: of a window when all of the recording "
        "is labelled but a span on either side of it. Who has not reached it when "
        f"{MOST_ANSWERED:.0%} is answered is said to need all.",
        "",
        f"*{OURS}*: `mlat.label.next_span`, the mean over a span of uncertainty · √(novelty · "
        "density). "
        f"*{RANDOM}*: any span that is not labelled, the mean of {SEEDS[RANDOM]} runs. "
        f"*{UNIFORM}*: evenly over the recording. *{UNCERTAINTY}*: the span that is most between "
        f"two states, at random until there are two, the mean of {SEEDS[UNCERTAINTY]} runs.",
        "",
        "## Seconds until the goal",
        "",
        *_table(sets),
        verdict,
        "",
        "## Spans until the goal",
        "",
        *_table(sets, "spans"),
        "## With the default classifier",
        "",
        "The judge above sees the same features as the one who asks. So for the first recording of "
        f"each set the default classifier learns from what is labelled when {CHECKED:.0%} of the "
        "steps are answered, and is judged on the rest: balanced accuracy in per cent.",
        "",
        *_checks(sets),
        "## Curves",
        "",
        *picture_lines(links),
        *TRIED,
    ]


def _table(sets: BySet, unit: str = "seconds") -> list[str]:
    digits = 0 if unit == "seconds" else 1
    rows = []
    for name, found in sets.items():
        row = [set_title(name), str(len(found))]
        row.append(f"{np.mean([r['length'] for r in found]):.0f}")
        row.append(f"{np.mean([r['accuracy'] for r in found]):.1f}")
        row += [f"{needed(found, strategy, unit):.{digits}f}" for strategy in STRATEGIES]
        row += [
            f"{share(found, strategy, unit):.2f}" for strategy in STRATEGIES if strategy != RANDOM
        ]
        rows.append(row)
    means = [
        f"{np.mean([share(found, strategy, unit) for found in sets.values()]):.2f}"
        for strategy in OTHERS
    ]
    rows.append(["mean of sets", *[""] * (3 + len(STRATEGIES)), *means])
    head = ["", "recordings", "length, s", "all labels, %", *STRATEGIES]
    head += [f"{strategy} / {RANDOM}" for strategy in OTHERS]
    return table(head, rows)


def _checks(sets: BySet) -> list[str]:
    rows = []
    for name, found in sets.items():
        checked = [r for r in found if "default" in r["strategies"][OURS]]
        for result in checked:
            values = [result["strategies"][strategy]["default"] for strategy in (OURS, RANDOM)]
            cells = [NONE if value is None else f"{value:.1f}" for value in values]
            rows.append([f"{set_title(name)} {result['person']}", *cells])
    return table(["", OURS, RANDOM], rows)


def draw(sets: BySet, curve: str, grid: Sequence[int], label: str) -> Drawing:
    """The mean curve of each strategy, a panel for each set."""
    columns = min(3, len(sets))
    n_rows = -(-len(sets) // columns)
    figure = Drawing(figsize=(3.6 * columns, 2.6 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, columns, squeeze=False).ravel()
    colours = state_colours(len(STRATEGIES))
    for ax, (name, found) in zip(panels, sets.items(), strict=False):
        for strategy, colour in zip(STRATEGIES, colours, strict=True):
            curves = np.array([r["strategies"][strategy][curve] for r in found], dtype=np.float64)
            there = ~np.isnan(curves).any(axis=0)
            mean = curves[:, there].mean(axis=0)
            ax.plot(np.array(grid)[there], mean, color=colour, label=strategy, linewidth=1.4)
        goal = GOAL * float(np.mean([r["accuracy"] for r in found]))
        ax.axhline(goal, color=INK, linewidth=0.8, linestyle="--")
        ax.set_title(set_title(name), fontsize=10, color=INK, loc="left")
        ax.set_ylim(0, 100)
        bare(ax)
    for ax in panels[len(sets) :]:
        ax.set_visible(False)
    for ax in panels[max(0, len(sets) - columns) : len(sets)]:
        ax.set_xlabel(label)
    panels[0].set_ylabel("balanced accuracy, %")
    panels[0].legend(fontsize=8, frameon=False, loc="lower right")
    return figure


# As a share of what random spans need; two development people of each set, three runs with a random
# first span; measured once.
_TRIED = (
    ("uncertainty · √(novelty · density)", "0.49", "0.35", "0.41", "1.42", "0.19"),
    ("uncertainty · novelty · density", "0.52", "0.39", "0.40", "1.37", "0.25"),
    ("uncertainty · novelty · √density", "0.92", "0.42", "0.39", "1.05", "0.16"),
    ("novelty · √density", "0.93", "0.33", "0.42", "1.16", "0.22"),
    ("uncertainty · √density", "0.61", "0.60", "0.49", "1.95", "0.19"),
    ("uncertainty alone", "0.76", "0.50", "0.63", "1.47", "0.26"),
    ("coverage (facility location)", "1.36", "0.42", "0.31", "1.68", "0.22"),
    ("coverage of what is uncertain", "1.13", "0.32", "0.28", "1.89", "0.18"),
    (
        "coverage, distances scaled locally, of what is uncertain",
        "0.69",
        "0.36",
        "0.32",
        "1.53",
        "0.24",
    ),
    ("the same, predicted states weighed more equally", "0.75", "0.36", "0.35", "1.37", "0.16"),
    ("uniform", "0.86", "1.06", "0.46", "1.63", "0.68"),
)
TRIED: Sequence[str] = (
    "## What was tried",
    "",
    "Seconds until the goal as a share of what random spans need, on two recordings of each of "
    "five sets (of the room there is one), with a random first span for everyone. *Coverage* asks "
    "for the span that brings all windows nearest to a labelled one, as k-medoids do.",
    "",
    *table(["", "EMG gestures", "phone, watch", "WISDM watch", "gesture phase", "room"], _TRIED),
    "The first was chosen, for its mean and for being simple: it looks at each window by itself. "
    "Gesture phase says little: all labels give hardly more than guessing there. With energies in "
    "place of their logarithms, coverage and novelty spent themselves on the strongest gestures.",
    "",
)
