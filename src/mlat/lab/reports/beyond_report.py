"""The report of the table beyond the paper's, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...disk import atomic_write
from ..experiments.beyond import AUTO, AUTO_FILTERED, ONE_SECOND, TEN_STEPS
from ..experiments.journal import Result
from ..experiments.runner import Experiment
from . import beyond_markdown as bm
from . import markdown as md
from . import paper
from .beyond_plots import slug, write_plots
from .beyond_tables import PLAIN, WITH_FILTER, Standing, Summary, Width, summarise
from .pages import COLUMNS, Pictures, write_csv, write_json, write_pages

HEADLINE = "headline.md"
HEADINGS = {TEN_STEPS: "Windows of ten steps", ONE_SECOND: "Windows of one second"}


def write_reports(
    results: Mapping[str, Sequence[Result]],
    experiments: Mapping[str, Experiment],
    folder: Path,
    report: Path | None = None,
) -> Iterator[Path]:
    """Write everything; yields each file as it is there.

    Parameters
    ----------
    results : mapping of width to results
        Of as many systems, people and runs as there are.
    experiments : mapping of width to Experiment
        With all systems, also those that were not run.
    folder : path
        For ``results.csv``, ``summary.json``, ``headline.md``, ``report.md`` and its plots.
    report : path, optional
        Another place for the report; its plots go into a folder of the same name beside it.
    """
    path = folder / "results.csv"
    rows = ({**result, "windows": name} for name, found in results.items() for result in found)
    write_csv(rows, path, ("windows", *COLUMNS, "chosen"))
    yield path
    summary = summarise(results, experiments)
    path = folder / "summary.json"
    write_json(summary.as_json(), path)
    yield path
    if TEN_STEPS in summary.widths:
        path = folder / HEADLINE
        with atomic_write(path) as temporary:
            temporary.write_text("\n".join(headline(summary.widths[TEN_STEPS])), encoding="utf-8")
        yield path
    yield from write_pages(
        folder,
        report,
        lambda pictures: write_plots(summary, pictures),
        lambda pictures: write_markdown(summary, pictures),
    )


def headline(width: Width) -> list[str]:
    """The table of a width, for those who read one."""
    return [*bm.headline(width.everyone), *bm.lacking_list(width.everyone)]


def write_markdown(summary: Summary, pictures: Pictures) -> str:
    """The report, as text."""
    lines = [*_opening(summary), *_in_short(summary)]
    for title, width in summary.widths.items():
        of_width = [(what, path) for what, path in pictures if slug(title) in Path(path).name]
        lines += _width(title, width, summary.settings["harm_points"], of_width)
    for title in [title for title in HEADINGS if title not in summary.widths]:
        lines += [f"## {HEADINGS[title]}", "", "Not run.", ""]
    lines += ["## Labels left out", ""]
    for title, width in summary.widths.items():
        lines += [f"With windows of {title}:", "", *md.left_out_list(width.left_out, width.n_runs)]
    return "\n".join(lines)


def _opening(summary: Summary) -> list[str]:
    settings = summary.settings
    runs = " and ".join(
        f"{width.n_runs} run{'s' if width.n_runs > 1 else ''} of {len(width.everyone.groups)} "
        f"people or groups with windows of {title}"
        for title, width in summary.widths.items()
    )
    auto, filtered = paper.system_title(AUTO), paper.system_title(AUTO_FILTERED)
    return [
        "# Beyond the paper's tables: everyone on the same windows",
        "",
        f"Written by `mlat reproduce --table beyond` (mlat {settings['version']}): {runs}. "
        "Everyone learns from the same given steps and is judged on the same test windows under "
        "`holdout` (`docs/experiments.md`): of the same person, from other steps, more than a "
        "window away from the given ones. With windows of a second more steps are given, so that "
        "there are as many windows. Figures are percent of the test windows: the mean over people "
        "of the mean over runs; ± is the standard deviation over the runs of a person (root mean "
        "square over people).",
        "",
        "## What each system sees",
        "",
        f"All but {auto} see windows, all of those of the given steps, and tell a test window from "
        f"its own steps alone. {auto}, which is `StreamClassifier` as it is, with nothing set but "
        "the width, learns from the given steps as a stream. It chooses its features by the given "
        "steps alone, and some of them reach further back than the window: at most *reach* steps "
        "before its first one. They look at the past only, and never at a given step: each stretch "
        "of test steps is a recording of its own, more than a window away from all given steps. "
        f"{filtered} is the same model with its causal filter over the states: it looks at all of "
        "the test stretch up to the window's end. That helps where a state lasts, and no other "
        "system here has it, so there are ranks with it and ranks without it.",
        "",
        *bm.windows_table(summary.widths, settings["channels"]),
        *_thinned(summary),
    ]


def _thinned(summary: Summary) -> list[str]:
    if not any(
        m > 1 for w in summary.widths.values() for by in w.every.values() for m in by.values()
    ):
        return []
    return [
        "Where windows are long, those with an *m* above 1 see every m-th step of them, the last "
        "step among these: dynamic time warping grows with the square of the steps, and the "
        "learning of a metric over windows with the cube of their values, to hours for one fit. "
        "All others see every step.",
        "",
    ]


def _in_short(summary: Summary) -> list[str]:
    lines = []
    for title, width in summary.widths.items():
        footings = width.everyone.footings
        for name, footing in ((AUTO, PLAIN), (AUTO_FILTERED, WITH_FILTER)):
            if footing in footings and footings[footing].tests:
                text = bm.in_short(name, footings[footing])
                lines.append(f"- {HEADINGS[title]}: {text}")
    if not lines:
        return []
    return [
        "## In short",
        "",
        "Significant is what has p < 0.05 after Holm's correction; points are in brackets.",
        "",
        *lines,
        "",
    ]


def _width(title: str, width: Width, harm_points: float, pictures: Pictures) -> list[str]:
    standing = width.everyone
    lines = [f"## {HEADINGS[title]}", "", *bm.accuracy_table(standing)]
    lines += bm.lacking_list(standing)
    if standing.lacking:
        lines += [
            f"Who lacks results of somebody has no rank and no test; a figure with {bm.PARTLY} is "
            "over some of the people of the set and stands beside nobody's.",
            "",
        ]
    if width.not_run:
        lines += [f"Not run: {'; '.join(map(paper.system_title, width.not_run))}.", ""]
    if width.nobody:
        lines += [f"No system was run on {bm.people_list(width.nobody, width.sizes)}.", ""]
    if width.n_more:
        lines += [
            f"{width.n_more} results are not in these figures: they are of further runs, which not "
            "everyone has.",
            "",
        ]
    lines += bm.interval_table(standing)
    lines += md.pictures(pictures)
    lines += _tests(standing, "###")
    if standing.harm is not None:
        lines += ["### No harm?", "", *bm.harm_lines(standing.harm, harm_points)]
    if width.without_development is not None:
        lines += _without(width.without_development, harm_points)
    lines += ["### Time", "", "The median over people and runs, on one thread.", ""]
    lines += bm.seconds_table(width)
    if width.chosen:
        lines += [f"### What {paper.system_title(AUTO)} chose", "", *bm.chosen_table(width.chosen)]
    return lines


def _tests(standing: Standing, level: str) -> list[str]:
    lines = []
    for name, footing in ((AUTO, PLAIN), (AUTO_FILTERED, WITH_FILTER)):
        if footing in standing.footings and standing.footings[footing].tests:
            lines += [
                f"{level} {paper.system_title(name)} against the others, over "
                f"{len(standing.groups)} groups",
                "",
                *bm.tests_table(standing.footings[footing]),
            ]
    if lines:
        lines += ["p is of a two-sided Wilcoxon signed-rank test over people.", ""]
    return lines


def _without(standing: Standing, harm_points: float) -> list[str]:
    lines = [
        "### Without the people the defaults were chosen on",
        "",
        f"The same over the {len(standing.groups)} groups that played no part in choosing the "
        "defaults.",
        "",
        *bm.accuracy_table(standing),
        *_tests(standing, "####"),
    ]
    if standing.harm is not None:
        lines += bm.harm_lines(standing.harm, harm_points)
    return lines
