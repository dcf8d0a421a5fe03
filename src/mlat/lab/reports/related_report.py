"""The report of the related systems, and its files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...plots.figure import save_figure
from ..experiments.journal import Result, job_of
from ..experiments.related import RELATED, on_all_windows
from ..experiments.runner import Experiment
from ..experiments.systems import FEW
from . import markdown as md
from . import paper
from .pages import Pictures, write_csv, write_json, write_pages
from .plots import DPI, draw_ranks, write_comparisons
from .report import PROTOCOLS, section_lines, without_lines
from .summary import ON_ALL, TABLE_2, Section, Summary, summarise

HOLDOUT = "holdout"


def write_reports(
    few: Sequence[Result],
    on_all: Sequence[Result],
    experiment: Experiment,
    folder: Path,
    report: Path | None = None,
) -> Iterator[Path]:
    """Write everything; yields each file as it is there.

    Parameters
    ----------
    few : sequence of Result
        On the footing of Table 2, of every system, person and protocol.
    on_all : sequence of Result
        With everyone on all windows, under ``holdout``; may be empty.
    folder, report : path
        As for :func:`mlat.lab.reports.report.write_reports`.
    """
    path = folder / "results.csv"
    results = list({job_of(result): result for result in (*few, *on_all)}.values())
    write_csv(results, path)
    yield path
    table_2 = summarise(few, experiment, [2])
    everyone = summarise(on_all, on_all_windows(experiment), [3]) if on_all else None
    path = folder / "summary.json"
    parts = {"table 2": table_2, "all windows": everyone}
    write_json({name: part.as_json() for name, part in parts.items() if part}, path)
    yield path
    seconds = seconds_lines(results)
    yield from write_pages(
        folder,
        report,
        lambda pictures: _write_plots(table_2, everyone, pictures),
        lambda pictures: write_markdown(table_2, everyone, seconds, pictures),
    )


def _write_plots(
    table_2: Summary, everyone: Summary | None, folder: Path
) -> Iterator[tuple[str, Path]]:
    yield from write_comparisons(table_2, folder)
    if everyone is not None and len(everyone.protocols[HOLDOUT].groups) > 1:
        path = folder / "critical-difference-all-windows.png"
        save_figure(draw_ranks(everyone.protocols[HOLDOUT]), path, dpi=DPI)
        yield "Mean ranks under holdout with everyone on all windows", path


def write_markdown(
    table_2: Summary, everyone: Summary | None, seconds: list[str], pictures: Pictures
) -> str:
    """The report, as text."""
    lines = _opening(table_2, everyone)
    n_few, marks = table_2.settings["windows_per_label"], md.thinned_marks(table_2)
    for protocol, section in table_2.protocols.items():
        lines += [f"## {protocol.capitalize()}", "", PROTOCOLS[protocol], ""]
        lines += section_lines(section, marks, n_few)
        if protocol in table_2.without_development:
            lines += without_lines(table_2.without_development[protocol])
    if everyone is not None:
        runs = everyone.settings["runs"]
        lines += ["## All windows", "", f"Under `holdout`, {runs} run{'s' * (runs > 1)}.", ""]
        lines += section_lines(everyone.protocols[HOLDOUT], marks, n_few)
        if HOLDOUT in everyone.without_development:
            lines += without_lines(everyone.without_development[HOLDOUT])
    lines += ["## Pictures", "", *md.pictures(pictures)]
    left_out = md.left_out_list(table_2.left_out, table_2.settings["runs"])
    return "\n".join([*lines, "## Labels left out", "", *left_out, *seconds])


def _opening(table_2: Summary, everyone: Summary | None) -> list[str]:
    settings = table_2.settings
    people = ", ".join(f"{paper.set_title(n)} {len(p)}" for n, p in settings["people"].items())
    related = [paper.system_title(name) for name in RELATED if name in settings["systems"]]
    lines = [
        "# The related systems, on the windows of Table 2",
        "",
        f"Written by `mlat reproduce --table related` (mlat {settings['version']}): "
        f"{', '.join(related)} beside the systems of the paper's Table 2, {settings['runs']} "
        f"run(s) of every person or group ({people}), windows of {settings['width']} steps, 1-NN. "
        "Splits, figures and tests are those of the paper's tables (`docs/experiments.md`). The "
        "related systems are as in the literature: their targets, where they have any, are the "
        "nearest windows wherever in time. One seed; each fit on one thread.",
        "",
    ]
    tested = [(TABLE_2, table_2.protocols.get(HOLDOUT))]
    if everyone is not None:
        tested.append((ON_ALL, everyone.protocols[HOLDOUT]))
    short: list[str] = []
    for name, section in tested:
        if section is not None and section.footings[name].tests:
            short += [f"With {md.FOOTINGS[name]}:", "", *_in_short(section, name)]
    if short:
        lines += ["## In short", "", "How far our MLAT is ahead under `holdout`.", "", *short]
    return lines


def _in_short(section: Section, name: str) -> list[str]:
    return md.headline(section.footings[name], RELATED)


def seconds_lines(results: Sequence[Result]) -> list[str]:
    """The median time of a fit, by set, system and how many windows it learned from."""
    times: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for result in results:
        trained = result["system"], result["size"]
        times[trained][result["data_set"]].append(result["fit_seconds"])
        totals[trained] += result["fit_seconds"] + result["predict_seconds"]
    sets = list(dict.fromkeys(result["data_set"] for result in results))
    rows = [
        [
            paper.system_title(system),
            "few" if size == FEW else "all",
            *(f"{np.median(by[one]):.1f}" if one in by else "–" for one in sets),
            f"{totals[system, size] / 60:.1f}",
        ]
        for (system, size), by in times.items()
    ]
    head = ["seconds per fit", "windows", *map(paper.set_title, sets), "minutes in all"]
    return [
        "## Time",
        "",
        "The median of a fit, and the minutes of one processor for all fits and searches.",
        "",
        *md.table(head, rows, left=2),
    ]
