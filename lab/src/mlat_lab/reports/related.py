"""The report of the related systems: the tables of the paper with three more systems in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ..experiments.experiment import FEW, Experiment
from ..experiments.journal import Result, job_of
from ..experiments.systems import RELATED
from .page import NONE, Links, Picture, Report, left_out_lines, picture_lines, table
from .paper import set_title, system_title
from .paper_tables import (
    ON_ALL,
    TABLE_2,
    PaperFigures,
    comparison_pictures,
    headline_lines,
    in_short_lines,
    people_counts,
    protocol_lines,
    rank_pictures,
    section_lines,
    summarise_paper,
)
from .statistics import Footing, median_seconds

HOLDOUT = "holdout"


def related_report(
    few: Sequence[Result], on_all: Sequence[Result], experiment: Experiment
) -> Report:
    """The report of the related systems.

    Parameters
    ----------
    few : sequence of Result
        On the footing of Table 2, of every system, person and protocol.
    on_all : sequence of Result
        With everyone on all windows, under ``holdout``; may be empty.
    """
    results = list({job_of(result): result for result in (*few, *on_all)}.values())
    table_2 = summarise_paper(few, experiment, [2])
    everyone = summarise_paper(on_all, experiment.on_all_windows(), [3]) if on_all else None

    def draw() -> Iterator[Picture]:
        yield from comparison_pictures(table_2)
        if everyone is not None:
            title = "Mean ranks under holdout with everyone on all windows"
            yield from rank_pictures(everyone.parts[HOLDOUT].everyone, title, "all-windows")

    return Report(
        results,
        {name: asdict(part) for name, part in ((TABLE_2, table_2), (ON_ALL, everyone)) if part},
        draw,
        lambda links: _text(results, table_2, everyone, links),
        [line for part in (table_2, everyone) if part for line in headline_lines(part)],
    )


def _text(
    results: Sequence[Result], table_2: PaperFigures, everyone: PaperFigures | None, links: Links
) -> list[str]:
    settings = table_2.settings
    related = [system_title(name) for name in RELATED if name in settings["systems"]]
    lines = [
        "# The related systems, on the windows of Table 2",
        "",
        f"Written by `mlat-lab reproduce --table related` (mlat {settings['version']}): "
        f"{', '.join(related)} beside the systems of the paper's Table 2, {settings['runs']} "
        f"run(s) of every person or group ({people_counts(settings)}), windows of "
        f"{settings['width']} steps, 1-NN. Splits, figures and tests are those of the paper's "
        "tables (`docs/evidence/experiments.md`). The related systems are as in the literature: "
        "their targets, where they have any, are the nearest windows wherever in time. One seed; "
        "each fit on one thread.",
        "",
    ]
    footings: dict[str, Footing] = {}
    for part in (table_2, everyone):
        if part is not None and HOLDOUT in part.parts:
            footings.update(part.parts[HOLDOUT].everyone.footings)
    lines += in_short_lines(footings, RELATED)
    lines += protocol_lines(table_2)
    if everyone is not None:
        runs = everyone.settings["runs"]
        lines += ["## All windows", "", f"Under `holdout`, {runs} run{'s' * (runs > 1)}.", ""]
        lines += section_lines(everyone, HOLDOUT)
    lines += ["## Pictures", "", *picture_lines(links)]
    lines += ["## Labels left out", "", *left_out_lines(settings["left_out"], settings["runs"])]
    return [*lines, *_time_lines(results)]


def _time_lines(results: Sequence[Result]) -> list[str]:
    """The median time of a fit, and the time of all, by system and size."""
    totals: Counter[tuple[str, str]] = Counter()
    for result in results:
        seconds = result["fit_seconds"] + result["predict_seconds"]
        totals[result["system"], result["size"]] += seconds
    sets = list(dict.fromkeys(result["data_set"] for result in results))
    rows = [
        [
            system_title(system),
            "few" if size == FEW else "all",
            *(f"{by[one]:.1f}" if one in by else NONE for one in sets),
            f"{totals[system, size] / 60:.1f}",
        ]
        for (system, size), by in median_seconds(results).items()
    ]
    return [
        "## Time",
        "",
        "The median of a fit, and the minutes of one processor for all fits and searches.",
        "",
        *table(
            ["seconds per fit", "windows", *map(set_title, sets), "minutes in all"], rows, left=2
        ),
    ]
