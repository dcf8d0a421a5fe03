"""From the figures of a table to its files: results as CSV, figures as JSON, a page with pictures.

Each table makes a `Report`; `write_report` is the one place that writes. The rest are the cells
and lists of Markdown that the pages share.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Drawing

from mlat.base.disk import atomic_write, disk_errors
from mlat.plots.figure import save_figure

from ..experiments.journal import FIELDS, Job, Result
from .paper import set_title
from .statistics import Comparison, Figure

HEADLINE = "headline.md"
COLUMNS = (
    *Job._fields,
    *(field for field in FIELDS if field not in ("fingerprint", "right", "total")),
)
DPI = 110  # small files: they are kept with the documentation
NONE = "–"


class Picture(NamedTuple):
    """What it shows, the name of its file, and the drawing."""

    title: str
    file: str
    drawing: Drawing


Links = Sequence[tuple[str, str]]  # what each picture shows, and its path as the page has it


@dataclass(frozen=True)
class Report:
    """One table, ready to be written.

    Attributes
    ----------
    results : iterable of Result
        The rows of ``results.csv``.
    figures : dict or dataclass
        The content of ``summary.json``.
    draw : callable
        The pictures.
    text : callable
        From the links to the pictures to the lines of the page.
    headline : sequence of str
        The lines of ``headline.md``; none, no such file.
    columns : sequence of str
        Of ``results.csv``.
    """

    results: Iterable[Result]
    figures: Any
    draw: Callable[[], Iterable[Picture]]
    text: Callable[[Links], Sequence[str]]
    headline: Sequence[str] = ()
    columns: Sequence[str] = COLUMNS


def write_report(report: Report, folder: Path, page: Path | None = None) -> Iterator[Path]:
    """Write everything; yields each file as soon as it is there.

    Parameters
    ----------
    folder : path
        For ``results.csv``, ``summary.json``, ``report.md`` and its pictures in ``plots``.
    page : path, optional
        A second place for the report; its pictures go into a folder of the same name beside it.
    """
    path = folder / "results.csv"
    _write_csv(report.results, path, report.columns)
    yield path
    figures = report.figures
    content = figures if isinstance(figures, dict) else asdict(figures)
    yield _write(folder / "summary.json", json.dumps(content, indent=1) + "\n")
    if report.headline:
        yield _write(folder / HEADLINE, "\n".join(report.headline))
    plots = _make_folder(folder / "plots")
    drawn = []
    for title, file, drawing in report.draw():
        save_figure(drawing, plots / file, dpi=DPI)
        drawn.append((title, file))
    yield _write_page(report, folder / "report.md", plots, drawn)
    if page is not None:
        pictures = _make_folder(page.with_suffix(""))
        for _, file in drawn:
            shutil.copyfile(plots / file, pictures / file)
        yield _write_page(report, page, pictures, drawn)


def _write_page(report: Report, path: Path, pictures: Path, drawn: Links) -> Path:
    links = [(title, f"{pictures.name}/{file}") for title, file in drawn]
    return _write(path, "\n".join(report.text(links)))


def _make_folder(folder: Path) -> Path:
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    return folder


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _write_csv(results: Iterable[Result], path: Path, columns: Sequence[str]) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f)
        writer.writerow(columns)
        for result in results:
            row = {**result, "left_out": "; ".join(result["left_out"])}
            writer.writerow([row.get(column, "") for column in columns])


# Markdown.


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """A table; the first ``left`` columns are text, the others figures."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)] + [""]


def picture_lines(links: Links) -> list[str]:
    """Each picture, with what it shows below it."""
    return [line for title, path in links for line in (f"![{title}]({path})", "", f"{title}.", "")]


def left_out_lines(rows: Iterable[Mapping[str, Any]], n_runs: int) -> list[str]:
    """The labels that were left out, for whom and why."""
    lines = [
        f"- {row['protocol']}, {set_title(row['data_set'])} {row['person']}: {row['label']}, "
        f"{row['why']} ({row['runs']} of {n_runs} runs)"
        for row in rows
    ]
    return [*(lines or ["- none"]), ""]


def signed(points: float) -> str:
    """Points with their sign, and no sign where they round to 0."""
    return f"{round(points, 1):+.1f}" if round(points, 1) else "0.0"


def best_cells(values: Iterable[float]) -> list[str]:
    """Figures to one place, the largest in bold."""
    shown = [round(value, 1) for value in values]
    return [f"**{one:.1f}**" if one == max(shown) else f"{one:.1f}" for one in shown]


def mean_cell(figure: Figure, best: float) -> str:
    """A mean with its deviation; the best in bold."""
    text = f"{figure.mean:.1f}"
    if round(figure.mean, 1) == best:
        text = f"**{text}**"
    return text if figure.deviation is None else f"{text} ± {figure.deviation:.1f}"


def interval_cell(figure: Figure, *, sign: bool = False) -> str:
    """The bootstrap interval, or a dash where there is none."""
    if figure.low is None or figure.high is None:
        return NONE
    if sign:
        return f"{signed(figure.low)} … {signed(figure.high)}"
    return f"{figure.low:.1f} … {figure.high:.1f}"


def p_cell(p: float) -> str:
    """A p value to three places, and a small one by its order."""
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def wins_cell(test: Comparison) -> str:
    return f"{test.wins}/{test.losses}/{test.ties}"
