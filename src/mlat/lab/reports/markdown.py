"""The figures of a summary as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..experiments.systems import ALL
from . import paper
from .findings import Finding, Loss
from .summary import EVERYONE, ON_ALL, OURS, TABLE_2, Footing, Section, Summary
from .tables import Comparison, Figure, signed

FOOTINGS = {TABLE_2: "rivals on few windows, MLAT on all", ON_ALL: "everyone on all windows"}
LEARNED = ("LMNN", "MLAT-paper", "MLAT")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """A Markdown table; the first ``left`` columns are text, the others figures."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)] + [""]


def accuracy_table(footing: Footing, *, with_paper: bool, marks: Mapping[str, str]) -> list[str]:
    """Accuracy by set and system, with deviation, interval and the paper's figure."""
    systems = [name for name, _ in footing.trained]
    rows = []
    for data_set, figures in footing.accuracy.items():
        best = max(round(figure.mean, 1) for figure in figures.values())
        cells = [mean_cell(figures[n], best) + marks.get(f"{data_set} {n}", "") for n in systems]
        rows.append([paper.set_title(data_set), "accuracy", *cells])
        if any(figure.low is not None for figure in figures.values()):
            rows.append(["", "95 % interval", *(interval_cell(figures[name]) for name in systems)])
        theirs = paper.TABLE_2.get(data_set)
        if with_paper and theirs is not None:
            rows.append(["", "the paper", *(_paper(theirs.get(name)) for name in systems)])
    return table(["", "", *map(paper.system_title, systems)], rows, left=2)


def gains_table(gains: Mapping[str, Mapping[str, Figure]], marks: Mapping[str, str]) -> list[str]:
    """Points gained from 100 windows per label to all, beside the paper's."""
    systems = list(next(iter(gains.values())))
    rows = []
    for data_set, figures in gains.items():
        cells = [
            signed(figures[name].mean) + marks.get(f"{data_set} {name}", "") for name in systems
        ]
        rows.append([paper.set_title(data_set), "gain", *cells])
        if any(figure.low is not None for figure in figures.values()):
            cells = [interval_cell(figures[name], sign=True) for name in systems]
            rows.append(["", "95 % interval", *cells])
        theirs = paper.TABLE_3.get(data_set)
        if theirs is not None:
            rows.append(["", "the paper", *(signed(theirs[name]) for name in systems)])
    return table(["", "", *map(paper.system_title, systems)], rows, left=2)


def ranks_table(section: Section) -> list[str]:
    """Mean ranks on each footing."""
    rows = [
        [
            FOOTINGS[name],
            *(f"{rank:.2f}" for rank in footing.ranks.values()),
            f"{footing.critical_difference:.2f}",
        ]
        for name, footing in section.footings.items()
    ]
    systems = list(next(iter(section.footings.values())).ranks)
    return table(["", *map(paper.system_title, systems), "critical difference"], rows)


def tests_table(footing: Footing) -> list[str]:
    """Our MLAT against each other system: by how much, for how many, and how sure."""
    rows = []
    for scope, comparisons in footing.tests.items():
        cells = []
        for test in comparisons:
            count = f"{signed(test.difference)} · {test.wins}/{test.losses}/{test.ties}"
            sure = f" · {p_cell(test.p)} ({p_cell(test.p_holm)})" if n_people(test) > 1 else ""
            cells.append(count + sure)
        rows.append([scope if scope == EVERYONE else paper.set_title(scope), *cells])
    others = [paper.system_title(name) for name, _ in footing.trained if (name, ALL) != OURS]
    return table(["our MLAT against", *others], rows)


def n_people(test: Comparison) -> int:
    return test.wins + test.losses + test.ties


def learning_table(summary: Summary) -> list[str]:
    """What learning gains over ED on the given steps, and what of it is left elsewhere."""
    sections = {name: s for name, s in summary.protocols.items() if ON_ALL in s.footings}
    if len(sections) < 2 or not all(
        name in section.footings[ON_ALL].ranks for name in LEARNED for section in sections.values()
    ):
        return []
    rows = []
    for data_set in summary.settings["people"]:
        cells = []
        for name in LEARNED:
            for section in sections.values():
                figures = section.footings[ON_ALL].accuracy[data_set]
                cells.append(signed(figures[name].mean - figures["ED"].mean))
        rows.append([paper.set_title(data_set), *cells])
    head = [f"{paper.system_title(name)}: {protocol}" for name in LEARNED for protocol in sections]
    return table(["points ahead of ED", *head], rows)


def losses_list(losses: Sequence[Loss]) -> list[str]:
    lines = []
    for loss in losses:
        worst = [f"{label} {signed(by)}" for label, by in loss.by_label if by < 0][:3]
        lines.append(
            f"- {paper.set_title(loss.data_set)} {loss.person}: {signed(loss.difference)} points; "
            f"by label {', '.join(worst)}"
        )
    return [*lines, ""]


def findings_list(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for agrees, title in ((True, "Agrees:"), (False, "Differs:")):
        texts = [finding.text for finding in findings if finding.agrees == agrees]
        lines += [title, "", *(f"- {text}" for text in texts or ["nothing"]), ""]
    return lines


def left_out_list(rows: Iterable[Mapping[str, Any]], n_runs: int) -> list[str]:
    """The labels that were left out, for whom and why."""
    lines = [
        f"- {row['protocol']}, {paper.set_title(row['data_set'])} {row['person']}: {row['label']}, "
        f"{row['why']} ({row['runs']} of {n_runs} runs)"
        for row in rows
    ]
    return [*(lines or ["- none"]), ""]


def pictures(drawn: Iterable[tuple[str, str]]) -> list[str]:
    """Each picture, by what it shows and its path, with that below it."""
    return [line for title, path in drawn for line in (f"![{title}]({path})", "", f"{title}.", "")]


def headline(footing: Footing, others: Sequence[str] = ("ED", "LMNN", "MLAT-paper")) -> list[str]:
    """How our MLAT stands to some others, set by set."""
    lines = []
    for scope, comparisons in footing.tests.items():
        parts = []
        for test in comparisons:
            if test.other[0] in others:
                n = n_people(test)
                sure = f", p = {p_cell(test.p)}" if n > 1 else ""
                parts.append(
                    f"{signed(test.difference)} points to {paper.system_title(test.other[0])} "
                    f"(ahead for {test.wins} of {n}{sure})"
                )
        where = EVERYONE.capitalize() if scope == EVERYONE else paper.set_title(scope)
        lines.append(f"- {where}: {'; '.join(parts)}.")
    return [*lines, ""]


def thinned_marks(summary: Summary) -> dict[str, str]:
    """Where LDMLT learned from some of the windows only."""
    capped = summary.settings["ldmlt_windows_per_label"]
    return {f"{data_set} LDMLT": "†" for data_set in capped}


def mean_cell(figure: Figure, best: float) -> str:
    """A mean with its deviation; the best in bold."""
    text = f"{figure.mean:.1f}"
    if round(figure.mean, 1) == best:
        text = f"**{text}**"
    return text if figure.deviation is None else f"{text} ± {figure.deviation:.1f}"


def interval_cell(figure: Figure, *, sign: bool = False) -> str:
    """The bootstrap interval, or a dash where there is none."""
    if figure.low is None or figure.high is None:
        return "–"
    if sign:
        return f"{signed(figure.low)} … {signed(figure.high)}"
    return f"{figure.low:.1f} … {figure.high:.1f}"


def _paper(figure: tuple[float, float] | None) -> str:
    return "" if figure is None else f"{figure[0]:.1f} ± {figure[1]:.1f}"


def p_cell(p: float) -> str:
    """A p value to three places, and a small one by its order."""
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"
