"""The files of a run: every result, the figures, and a report to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..experiments.journal import Result
from ..experiments.runner import Experiment
from . import markdown as md
from . import paper
from .findings import findings, losses
from .pages import Pictures, write_csv, write_json, write_pages
from .paper import WHY_IT_DIFFERS, WHY_LEARNING_LOSES
from .plots import write_plots
from .summary import ON_ALL, TABLE_2, Footing, Section, Summary, summarise


def write_reports(
    results: Sequence[Result],
    experiment: Experiment,
    tables: Iterable[int],
    folder: Path,
    report: Path | None = None,
) -> Iterator[Path]:
    """Write everything; yields each file as it is there.

    Parameters
    ----------
    folder : path
        For ``results.csv``, ``summary.json``, ``report.md`` and its plots.
    report : path, optional
        Another place for the report; its plots go into a folder of the same name beside it.
    """
    tables = tuple(tables)
    path = folder / "results.csv"
    write_csv(results, path)
    yield path
    summary = summarise(results, experiment, tables)
    path = folder / "summary.json"
    write_json(summary.as_json(), path)
    yield path
    yield from write_pages(
        folder,
        report,
        lambda pictures: write_plots(summary, experiment, pictures),
        lambda pictures: write_markdown(results, summary, pictures),
    )


def write_markdown(results: Sequence[Result], summary: Summary, pictures: Pictures) -> str:
    """The report, as text."""
    lines = [*_opening(summary)]
    marks = md.thinned_marks(summary)
    for protocol, section in summary.protocols.items():
        lines += [f"## {protocol.capitalize()}", "", PROTOCOLS[protocol], ""]
        lines += section_lines(section, marks, summary.settings["windows_per_label"])
        if protocol in summary.without_development:
            lines += without_lines(summary.without_development[protocol])
    lines += _agreement(summary)
    lines += _learning(results, summary)
    lines += ["## Pictures", "", *md.pictures(pictures)]
    lines += [
        "## Labels left out",
        "",
        *md.left_out_list(summary.left_out, summary.settings["runs"]),
    ]
    lines += _closing(summary)
    return "\n".join(lines)


PROTOCOLS = {
    "holdout": "The headline. The test windows are of the same person, from observations outside "
    "the given ones and more than a window away from them; scaling is learned from the training "
    "observations alone.",
    "within": "The leaky habit of the field: the windows of the given observations are split at "
    "random, half for training, half for test, so a test window shares most of its steps with "
    "training windows. Not a measure of what a system can do; given because figures like the "
    "paper's on SCMA can only be of this kind.",
}


TESTS = (
    "Points our MLAT is ahead · wins/losses/ties over people · p of a two-sided Wilcoxon "
    "signed-rank test (in brackets after Holm's correction for the number of rivals)"
)


_THINNED = (
    "† LDMLT learned its metric from 200 evenly spaced windows per label and searched all: its "
    "learning grows with the square of their number."
)


def _opening(summary: Summary) -> list[str]:
    settings = summary.settings
    people = ", ".join(f"{paper.set_title(n)} {len(p)}" for n, p in settings["people"].items())
    lines = [
        "# The paper's tables, run again",
        "",
        f"Written by `mlat reproduce` (mlat {settings['version']}) from {settings['results']} "
        f"results: {settings['runs']} run(s) of every person or group ({people}), windows of "
        f"{settings['width']} steps, 1-NN. Figures are percent of the test windows: the mean over "
        "people of the mean over runs. ± is the standard deviation over the runs of a person (root "
        "mean square over people), as the paper's is over its runs; the interval is a 95 % "
        "bootstrap over people. `docs/experiments.md` says how all this is measured.",
        "",
    ]
    tested = {
        name: footing for name, footing in _footings(summary, "holdout").items() if footing.tests
    }
    if tested:
        lines += ["## In short", "", "How far our MLAT is ahead under `holdout`.", ""]
    for name, footing in tested.items():
        lines += [f"With {md.FOOTINGS[name]}:", "", *md.headline(footing)]
    return lines


def _footings(summary: Summary, protocol: str) -> Mapping[str, Footing]:
    section = summary.protocols.get(protocol)
    return {} if section is None else section.footings


def section_lines(section: Section, marks: dict[str, str], n_few: int) -> list[str]:
    """The tables of one protocol, its ranks and tests."""
    lines: list[str] = []
    if TABLE_2 in section.footings:
        lines += [f"### Table 2: rivals on {n_few} windows per label, MLAT on all", ""]
        lines += md.accuracy_table(section.footings[TABLE_2], with_paper=True, marks={})
    if section.gains:
        lines += [f"### Table 3: what all windows gain over {n_few} per label", ""]
        lines += md.gains_table(section.gains, marks)
    if ON_ALL in section.footings:
        lines += ["### Everyone on all windows", ""]
        lines += ["In Table 2 MLAT alone has all windows. Here everyone has.", ""]
        lines += md.accuracy_table(section.footings[ON_ALL], with_paper=False, marks=marks)
        if any(key.split()[0] in section.footings[ON_ALL].accuracy for key in marks):
            lines += [_THINNED, ""]
    if len(section.groups) > 1:
        lines += [f"### Ranks and tests over {len(section.groups)} groups", ""]
        lines += ["Mean ranks, 1 being the best. The critical difference is Nemenyi's, at 5 %.", ""]
        lines += md.ranks_table(section)
        for name, footing in section.footings.items():
            if footing.tests:
                lines += [f"{TESTS}, {md.FOOTINGS[name]}:", ""]
                lines += md.tests_table(footing)
    return lines


def without_lines(section: Section) -> list[str]:
    """The tables over the people whom nothing was chosen on."""
    lines = [
        "### Without the people the defaults were chosen on",
        "",
        f"The same over the {len(section.groups)} groups that played no part in choosing the "
        "defaults.",
        "",
    ]
    for name, footing in section.footings.items():
        lines += [f"With {md.FOOTINGS[name]}:", ""]
        lines += md.accuracy_table(footing, with_paper=False, marks={})
        if footing.tests:
            lines += md.tests_table(footing)
    return lines


def _agreement(summary: Summary) -> list[str]:
    if not any(name in paper.TABLE_2 for name in summary.settings["people"]):
        return []
    lines = ["## What agrees with the paper, and what does not", ""]
    lines += [
        "Said by rule from the figures above. A level agrees within two deviations, a gap if it "
        "has the paper's sign and is between half and twice its size, an order if eight of ten "
        "pairs of systems stand as in the paper, the gains if at most one has the other sign.",
        "",
    ]
    for protocol, section in summary.protocols.items():
        lines += [f"### {protocol.capitalize()} against the paper", ""]
        lines += md.findings_list(findings(section))
    return [*lines, "### Why we think so", "", WHY_IT_DIFFERS, ""]


def _learning(results: Sequence[Result], summary: Summary) -> list[str]:
    lines = ["## Where learning loses to the Euclidean distance", ""]
    on_all = _footings(summary, "holdout").get(ON_ALL)
    compared = md.learning_table(summary)
    if compared:
        lines += [
            "How far the learned metrics are ahead of ED on the same windows, on the given "
            "observations (`within`) and away from them (`holdout`):",
            "",
            *compared,
        ]
    if on_all is not None and {"ED", "MLAT"} <= set(on_all.ranks):
        lost = losses(results, "holdout")
        n_groups = len(summary.protocols["holdout"].groups)
        behind = f"for {len(lost)} of {n_groups} groups"
        lines += [f"Under `holdout` our MLAT is behind ED on all windows {behind}:", ""]
        lines += md.losses_list(lost)
    return [*lines, WHY_LEARNING_LOSES, ""]


def _closing(summary: Summary) -> list[str]:
    seconds = ", ".join(f"{paper.system_title(n)} {s:.0f} s" for n, s in summary.seconds.items())
    total = sum(summary.seconds.values()) / 60
    return [
        "## Time",
        "",
        f"{total:.0f} minutes of one processor in all: {seconds}.",
        "",
    ]
