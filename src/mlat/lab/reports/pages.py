"""How results, figures and reports are put into files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...disk import atomic_write
from ...errors import InputError
from ..experiments.journal import FIELDS, Job, Result

COLUMNS = (
    *Job._fields,
    *(field for field in FIELDS if field not in ("fingerprint", "right", "total")),
)

Pictures = Sequence[tuple[str, str]]  # what each shows, and its path as the page has it


def write_pages(
    folder: Path,
    report: Path | None,
    draw: Callable[[Path], Iterable[tuple[str, Path]]],
    write: Callable[[Pictures], str],
) -> Iterator[Path]:
    """Write a report and its pictures, and once more where somebody asked for it.

    Parameters
    ----------
    folder : path
        For ``report.md`` and a folder ``plots``.
    report : path, optional
        Another place; its pictures go into a folder of the same name beside it.
    draw : callable
        Draws into a folder; what each picture shows, and its file.
    write : callable
        From the pictures to the text.
    """
    places = [(folder / "report.md", folder / "plots")]
    if report is not None:
        places.append((report, report.with_suffix("")))
    for path, pictures in places:
        try:
            pictures.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{pictures} cannot be made ({error.strerror})") from None
        drawn = list(draw(pictures))
        text = write([(title, os.path.relpath(file, path.parent)) for title, file in drawn])
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        yield path


def write_json(content: Mapping[str, Any], path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def write_csv(results: Iterable[Result], path: Path, columns: Sequence[str] = COLUMNS) -> None:
    """One row per job, in the order of the plan."""
    with atomic_write(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f)
        writer.writerow(columns)
        for result in results:
            row = {**result, "left_out": "; ".join(result["left_out"])}
            writer.writerow([row.get(column, "") for column in columns])
