"""The table beyond the paper's: everyone with the same past, and on windows; whoever has results.

Its journals need not be complete. A system that lacks somebody is shown, but has no rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..experiments.experiment import ALL, Experiment, Sees
from ..experiments.journal import Result
from ..experiments.systems import (
    AUTO,
    AUTO_FILTERED,
    DEVELOPMENT,
    FOREST,
    LINEAR,
    ONE_SECOND,
    TEN_STEPS,
    Decimated,
)
from .comparison import (
    Compared,
    compare,
    comparison_page,
    headline,
    past_rows,
    slug,
    systems_with_results,
)
from .page import (
    COLUMNS,
    NONE,
    Links,
    Picture,
    Report,
    left_out_lines,
    table,
)
from .paper import set_title, system_title
from .standing import HARM_POINTS, pictures, stand
from .statistics import (
    EVERYONE,
    WITHOUT_DEVELOPMENT,
    Summary,
    common_runs,
    sections_of,
    summarise,
)

PROTOCOL = "holdout"

HEADINGS = {TEN_STEPS: "Windows of ten steps", ONE_SECOND: "Windows of one second"}


# Figures.


@dataclass(frozen=True)
class Width(Compared):
    """The figures at one width of windows."""

    n_results: int  # of the runs that everyone has
    n_more: int  # of further runs, which are not reported
    steps: Mapping[str, int]  # per window, by data set
    every: Mapping[str, Mapping[str, int]]  # m of systems that see every m-th step, by data set


def _width(_: str, found: Sequence[Result], experiment: Experiment) -> Width:
    results, n_runs = common_runs(found)
    systems = systems_with_results(results, experiment)
    everyone, others = sections_of(results, PROTOCOL, lambda scores: stand(scores, systems))
    sections = {EVERYONE: everyone, WITHOUT_DEVELOPMENT: others}
    steps = {name: experiment.width_of(name) for name in everyone.data_sets}
    told = compare(results, experiment, sections, n_runs)
    # Of the same past the longest of a set.
    past = {one: max(told["past"].get(one, [width])) for one, width in steps.items()}
    every: dict[str, dict[str, int]] = {}
    for name in systems:
        made, sees = experiment.systems[name].make("", ALL), experiment.systems[name].sees
        if isinstance(made, Decimated):
            of = _channels(experiment, steps)
            seen = past if sees is Sees.PAST else steps
            every[name] = {one: made.every(w, of[one]) for one, w in seen.items()}
    return Width(
        **told,
        n_results=len(results),
        n_more=len(found) - len(results),
        steps=steps,
        every=every,
    )


def _channels(experiment: Experiment, sets: Iterable[str]) -> dict[str, int]:
    people = {name: experiment.people[name] for name in sets}
    return {name: of.load(of.names[0]).n_channels for name, of in people.items()}


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
    sets = dict.fromkeys(r["data_set"] for found in results.values() for r in found)
    figures = summarise(
        results,
        experiments,
        _width,
        protocol=PROTOCOL,
        channels=_channels(next(iter(experiments.values())), sets),
        harm_points=HARM_POINTS,
        development={name: list(people) for name, people in DEVELOPMENT.items()},
    )
    return Report(
        [{**result, "windows": name} for name, found in results.items() for result in found],
        figures,
        lambda: _draw(figures),
        lambda links: _text(figures, links),
        headline(figures.parts[TEN_STEPS].everyone) if TEN_STEPS in figures.parts else [],
        ("windows", *COLUMNS, "past", "chosen"),
    )


def _draw(figures: Summary[Width]) -> Iterator[Picture]:
    for title, width in figures.parts.items():
        yield from pictures(width.everyone, f"with windows of {title}", slug(title))


def _text(figures: Summary[Width], links: Links) -> list[str]:
    sections = {HEADINGS[name]: width.everyone for name, width in figures.parts.items()}
    lines = comparison_page(figures, HEADINGS, _opening(figures), sections, _further_runs, links)
    lines += ["## Labels left out", ""]
    for title, width in figures.parts.items():
        lines += [f"With windows of {title}:", "", *left_out_lines(width.left_out, width.n_runs)]
    return lines


def _further_runs(width: Width) -> tuple[list[str], list[str]]:
    note = (
        f"{width.n_more} results are not in these figures: they are of further runs, which not "
        "everyone has."
    )
    return [note, ""] if width.n_more else [], []


def _opening(figures: Summary[Width]) -> list[str]:
    settings, widths = figures.settings, figures.parts
    runs = " and ".join(
        f"{width.n_runs} run{'s' if width.n_runs > 1 else ''} of "
        f"{len(width.everyone.groups)} people or groups with windows of {title}"
        for title, width in widths.items()
    )
    auto, filtered = system_title(AUTO), system_title(AUTO_FILTERED)
    lines = [
        "# Beyond the paper's tables: everyone with the same past",
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
        f"{auto} is `StreamClassifier` as it is, with nothing set but the width. It learns from "
        "the given steps as a stream, and its features reach further back than the window. They "
        "look at the past only, and never at a given step: each segment of test steps is a "
        "recording of its own, more than a window away from all given steps. What a system may "
        "see decides how good it can be, so every rival stands here twice. With the *same past* it "
        "learns from and predicts by windows that are as long as all that the default may look at; "
        "at the beginning of a segment, or of a given run, what lacks is mirrored. Below stand "
        f"those that see the window alone, and fewer steps than {auto}. Everyone learns at the "
        "same steps and is judged at the same steps.",
        "",
        f"{system_title(FOREST)} (extremely randomised trees) and {system_title(LINEAR)} (logistic "
        f"regression) learn from the features of {auto} at the window's last step, with balanced "
        "classes: what somebody would try who has these features.",
        "",
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


def _windows_table(widths: Mapping[str, Width], n_channels: Mapping[str, int]) -> list[str]:
    """By set: channels, steps that are seen, and m of those who see every m-th step only."""
    rows = [["channels", *map(str, n_channels.values())]]
    for title, width in widths.items():
        steps = [str(width.steps.get(one, NONE)) for one in n_channels]
        rows.append([f"{title}: steps per window", *steps])
        rows += [[f"{title}: {what}", *cells] for what, *cells in past_rows(width, n_channels)]
        by_m: dict[tuple[int, ...], list[str]] = {}
        for name, every in width.every.items():
            by_m.setdefault(tuple(every.get(one, 1) for one in n_channels), []).append(name)
        for ms, names in by_m.items():
            if max(ms) > 1:
                who = ", ".join(map(system_title, names))
                rows.append([f"{title}: m of {who}", *map(str, ms)])
    return table(["", *map(set_title, n_channels)], rows)
