"""Compare a copy of a set with what it should be, file by file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mlat.base.errors import MlatError

from .catalog import DataSet, any_set
from .files import describe, manifest, open_set


@dataclass(frozen=True)
class PersonCheck:
    """How one person's files compare with UCI's, by path below the set's folder."""

    person: str
    ok: tuple[str, ...]
    missing: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def all_right(self) -> bool:
        return not self.missing and not self.different


@dataclass(frozen=True)
class SetCheck:
    """How a copy of a set compares with UCI's.

    Attributes
    ----------
    name : str
    place : Path or None
        Where the copy is; None if there is none.
    people : tuple of PersonCheck
    problem : str
        One line on what is wrong; empty if nothing is.
    """

    name: str
    place: Path | None
    people: tuple[PersonCheck, ...]
    problem: str

    @property
    def all_right(self) -> bool:
        return not self.problem


def check(name: str, data: str | os.PathLike[str] | None = None) -> SetCheck:
    """Compare every file of a set with the checksums that are shipped with the library.

    Parameters
    ----------
    name : str
        The set.
    data : path, optional
        As for the loaders.
    """
    data_set = any_set(name)
    try:
        copy = open_set(data_set, data)
    except MlatError as error:
        return SetCheck(data_set.name, None, (), str(error))
    results: dict[str, dict[str, list[str]]] = {
        person: {"ok": [], "missing": [], "different": []} for person in data_set.people
    }
    with copy:
        for file, known in manifest(data_set).items():
            if file not in copy.files:
                verdict = "missing"
            else:
                try:
                    verdict = "ok" if describe(copy.read(file)) == known else "different"
                except MlatError:  # it is there, and cannot be read
                    verdict = "different"
            results[data_set.person_of(file)][verdict].append(file)
    people = tuple(
        PersonCheck(person, tuple(r["ok"]), tuple(r["missing"]), tuple(r["different"]))
        for person, r in results.items()
    )
    return SetCheck(data_set.name, copy.place, people, _problem(data_set, copy.place, people))


def _problem(data_set: DataSet, place: Path, people: tuple[PersonCheck, ...]) -> str:
    missing = [file for person in people for file in person.missing]
    different = [file for person in people for file in person.different]
    parts = [
        f"{len(files)} {'file' if len(files) == 1 else 'files'} {what} (first: {files[0]})"
        for what, files in (("missing", missing), ("with a wrong checksum", different))
        if files
    ]
    if not parts:
        return ""
    return f"{data_set.name} at {place}: {', '.join(parts)}; get a fresh copy"
