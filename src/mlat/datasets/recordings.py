"""The files of a person and their rows, checked against what UCI has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .catalog import People, UciSet
from .manifest import manifest
from .rows import parse_rows
from .source import Source, open_set


@contextmanager
def open_people(
    uci: UciSet, data: str | os.PathLike[str] | None, people: People, *, complete: bool
) -> Iterator[tuple[Source, dict[str, list[str]]]]:
    """A copy of a set, and the data files in it of each person asked for.

    Parameters
    ----------
    uci : UciSet
    data : path, optional
    people : iterable of str or int, optional
        Default everyone; of an incomplete copy, everyone who is in it.
    complete : bool
        Whether a file that UCI has and the copy lacks is an error.
    """
    asked = uci.select(people)
    with open_set(uci, data) as source:
        yield source, _files_by_person(source, asked, everyone=people is None, complete=complete)


def _files_by_person(
    source: Source, asked: tuple[str, ...], *, everyone: bool, complete: bool
) -> dict[str, list[str]]:
    uci = source.uci
    held: dict[str, list[str]] = {person: [] for person in uci.people}
    for file in sorted(source.files):
        held.setdefault(uci.person_of(file), []).append(file)
    if everyone and not complete:
        asked = tuple(person for person in asked if held[person])
    for person in asked:
        if not held[person]:
            raise InputError(
                f"{source.place} has no files of {uci.name} person {person}; "
                f"run `mlat data check {uci.name}` to see what is there"
            )
    if complete:
        for file in manifest(uci):
            if uci.person_of(file) in asked and file not in source.files:
                raise InputError(
                    f"{source.place} lacks {file} of {uci.folder!r}; get a fresh copy, or load "
                    "with complete=False"
                )
    return {person: held[person] for person in asked}


def read_recording(
    source: Source, file: str, n_columns: int, *, complete: bool
) -> NDArray[np.float64]:
    """The rows of a file.

    With ``complete`` a number of rows other than UCI's is an error: a file cut at the end of a
    line parses well and would pass unseen.
    """
    where = source.where(file)
    values = parse_rows(source.read(file), n_columns, where)
    known = manifest(source.uci).get(file)
    if complete and known is not None and len(values) != known.rows:
        what = "cut short" if len(values) < known.rows else "not UCI's"
        raise InputError(
            f"{where} has {len(values)} rows where UCI's file has {known.rows}: it is {what}; "
            "get a fresh copy, or load an excerpt with complete=False"
        )
    return values
