"""The table beyond the paper's: everyone on the same windows, whoever has results.

Its journals need not be complete. A system that lacks somebody is shown, but has no rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlat import __version__
from mlat.classifier.experts import longest_reach

from ..experiments.experiment import ALL, Experiment, describe
from ..experiments.journal import Result
from ..experiments.systems import AUTO, AUTO_FILTERED, DEVELOPMENT, ONE_SECOND, TEN_STEPS, Decimated
from .comparison import (
    Comparison,
    closing_lines,
    compare,
    headline,
    opening_lines,
    systems_with_results,
)
from .page import (
    COLUMNS,
    NONE,
    Links,
    Picture,
    Report,
    left_out_lines,
    picture_lines,
    table,
    without_development_lines,
)
from .paper import set_title, system_title
from .standing import (
    HARM_POINTS,
    Standing,
    full_table,
    harm_lines,
    in_short_lines,
    interval_table,
    pictures,
    stand,
    test_lines,
)
from .statistics import common_runs, sections_of

PROTOCOL = "holdout"

HEADINGS = {TEN_STEPS: "Windows of ten steps", ONE_SECOND: "Windows of one second"}


# Figures.


@dataclass(frozen=True)
class Width:
    """The figures at one width of windows."""

    n_runs: int  # as many as everyone has of every system that is compared
    n_results: int  # of these runs
    n_more: int  # of further runs, which are not reported
    steps: Mapping[str, int]  # per window, by data set
    reach: Mapping[str, int]  # how much further back MLAT-auto may look
    every: Mapping[str, Mapping[str, int]]  # m of systems that see every m-th step, by data set
    compared: Comparison
    without_development: Standing | None


@dataclass(frozen=True)
class BeyondFigures:
    """Everything in the report."""

    settings: Mapping[str, Any]
    widths: Mapping[str, Width]


def summarise(
    results: Mapping[str, Sequence[Result]], experiments: Mapping[str, Experiment]
) -> BeyondFigures:
    """The figures at every width that has results."""
    there = {name: found for name, found in results.items() if found}
    any_one = next(iter(experiments.values()))
    n_channels = {}
    for name in dict.fromkeys(r["data_set"] for found in there.values() for r in found):
        people = any_one.people[name]
        n_channels[name] = people.load(people.names[0]).n_channels
    settings = {
        "version": __version__,
        "protocol": PROTOCOL,
        "test_windows_per_label": any_one.n_test,
        "channels": n_channels,
        "harm_points": HARM_POINTS,
        "development": {name: list(people) for name, people in DEVELOPMENT.items()},
        "systems": {name: describe(s.make("", ALL)) for name, s in any_one.systems.items()},
    }
    widths = {name: _width(found, experiments[name], n_channels) for name, found in there.items()}
    return BeyondFigures(settings, widths)


def _width(found: Sequence[Result], experiment: Experiment, n_channels: Mapping[str, int]) -> Width:
    results, n_runs = common_runs(found)
    systems = systems_with_results(results, experiment)
    everyone, others = sections_of(results, PROTOCOL, lambda scores: stand(scores, systems))
    steps = {name: experiment.width_of(name) for name in everyone.data_sets}
    every: dict[str, dict[str, int]] = {}
    for name in systems:
        made = experiment.systems[name].make("", ALL)
        if isinstance(made, Decimated):
            every[name] = {one: made.every(w, n_channels[one]) for one, w in steps.items()}
    return Width(
        n_runs,
        len(results),
        len(found) - len(results),
        steps,
        {name: longest_reach(width) for name, width in steps.items()},
        every,
        compare(results, experiment, everyone),
        others,
    )


# The report.


def beyond_report(
    results: Mapping[str, Sequence[Result]], experiments: Mapping[str, Experiment]
) -> Report:
    """The report of the table beyond the paper's.

    Parameters
    ----------
    results : mapping of width to results
        Of as many systems, people and runs as there are.
    experiments : mapping of width to Experiment
        With all systems, also those that were not run.
    """
    figures = summarise(results, experiments)
    return Report(
        [{**result, "windows": name} for name, found in results.items() for result in found],
        figures,
        lambda: _draw(figures),
        lambda links: text(figures, links),
        headline(figures.widths[TEN_STEPS].compared.everyone)
        if TEN_STEPS in figures.widths
        else [],
        ("windows", *COLUMNS, "chosen"),
    )


def _slug(title: str) -> str:
    """The title of a width as a part of a file's name."""
    return title.replace(" ", "-")


def _draw(figures: BeyondFigures) -> Iterator[Picture]:
    for title, width in figures.widths.items():
        yield from pictures(width.compared.everyone, f"with windows of {title}", _slug(title))


def text(figures: BeyondFigures, links: Links) -> list[str]:
    """The lines of the page."""
    sections = {HEADINGS[name]: width.compared.everyone for name, width in figures.widths.items()}
    lines = [*_opening(figures), *in_short_lines(sections)]
    for title, width in figures.widths.items():
        own = [(shows, path) for shows, path in links if path.endswith(f"-{_slug(title)}.png")]
        lines += _width_lines(title, width, own)
    for title in [title for title in HEADINGS if title not in figures.widths]:
        lines += [f"## {HEADINGS[title]}", "", "Not run.", ""]
    lines += ["## Labels left out", ""]
    for title, width in figures.widths.items():
        lines += [
            f"With windows of {title}:",
            "",
            *left_out_lines(width.compared.left_out, width.n_runs),
        ]
    return lines


def _opening(figures: BeyondFigures) -> list[str]:
    settings, widths = figures.settings, figures.widths
    runs = " and ".join(
        f"{width.n_runs} run{'s' if width.n_runs > 1 else ''} of "
        f"{len(width.compared.everyone.groups)} people or groups with windows of {title}"
        for title, width in widths.items()
    )
    auto, filtered = system_title(AUTO), system_title(AUTO_FILTERED)
    lines = [
        "# Beyond the paper's tables: everyone on the same windows",
        "",
        f"Written by `mlat-lab reproduce --table beyond` (mlat {settings['version']}): {runs}. "
        "Everyone learns from the same given steps and is judged on the same test windows under "
        "`holdout` (`docs/evidence/experiments.md`): of the same person, from other steps, more "
        "than a window away from the given ones. With windows of a second more steps are given, "
        "so that there are as many windows. Figures are percent of the test windows: the mean over "
        "people of the mean over runs; ± is the standard deviation over the runs of a person (root "
        "mean square over people).",
        "",
        "## What each system sees",
        "",
        f"All but {auto} see windows, all of those of the given steps, and classify a test window "
        f"from its own steps alone. {auto}, which is `StreamClassifier` as it is, with nothing set "
        "but the width, learns from the given steps as a stream. Some features of its experts "
        "reach further back than the window: at most *reach* steps before its first one. They look "
        "at the past only, and never at a given step: each segment of test steps is a recording of "
        "its own, more than a window away from all given steps. "
        f"{filtered} is the same model with its causal filter over the states: it looks at "
        "all of the test segment up to the window's end. That helps where a state lasts, and no "
        "other system here has it, so there are ranks with it and ranks without it.",
        "",
        *_windows_table(widths, settings["channels"]),
    ]
    if any(m > 1 for w in widths.values() for by in w.every.values() for m in by.values()):
        lines += [
            "Where windows are long, those with an *m* above 1 see every m-th step of them, the "
            "last step among these: dynamic time warping grows with the square of the steps, and "
            "the learning of a metric over windows with the cube of their values, to hours for one "
            "fit. All others see every step.",
            "",
        ]
    return lines


def _width_lines(title: str, width: Width, links: Links) -> list[str]:
    section = width.compared.everyone
    lines = [f"## {HEADINGS[title]}", "", *opening_lines(width.compared)]
    if width.n_more:
        lines += [
            f"{width.n_more} results are not in these figures: they are of further runs, which not "
            "everyone has.",
            "",
        ]
    lines += [*interval_table(section), *picture_lines(links), *test_lines(section, "###")]
    if section.harm is not None:
        lines += ["### No harm?", "", *harm_lines(section.harm)]
    if width.without_development is not None:
        others = width.without_development
        lines += [*without_development_lines(len(others.groups)), *full_table(others)]
        lines += test_lines(others, "####")
        if others.harm is not None:
            lines += harm_lines(others.harm)
    return [*lines, *closing_lines(width.compared, "people and runs")]


def _windows_table(widths: Mapping[str, Width], n_channels: Mapping[str, int]) -> list[str]:
    """By set: channels, steps per window, reach, and m of those who see every m-th step only."""
    rows = [["channels", *map(str, n_channels.values())]]
    for title, width in widths.items():
        steps = [str(width.steps.get(one, NONE)) for one in n_channels]
        rows.append([f"{title}: steps per window", *steps])
        reach = [str(width.reach.get(one, NONE)) for one in n_channels]
        rows.append([f"{title}: reach of {system_title(AUTO)}", *reach])
        by_m: dict[tuple[int, ...], list[str]] = {}
        for name, every in width.every.items():
            by_m.setdefault(tuple(every.get(one, 1) for one in n_channels), []).append(name)
        for ms, names in by_m.items():
            if max(ms) > 1:
                who = ", ".join(map(system_title, names))
                rows.append([f"{title}: m of {who}", *map(str, ms)])
    return table(["", *map(set_title, n_channels)], rows)
