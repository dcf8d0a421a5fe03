"""The four UCI data sets: what each is called, who is in it, and where UCI keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import InputError

# Some of a set's people: names, bare numbers, one of them alone, or None for everyone.
People = Iterable[str | int] | str | int | None


@dataclass(frozen=True)
class UciSet:
    """One data set of the UCI repository.

    Attributes
    ----------
    name : str
        Its short name in this library.
    title : str
        UCI's name of the set.
    number : int
        UCI's number of the set.
    folder : str
        The folder that UCI's archive unpacks to.
    layout : str
        A glob that finds the data files below that folder.
    pattern : str
        A regular expression of their paths.
    rate : int
        Steps per second.
    people : tuple of str
        Everyone in the set; AReM is one group, because UCI does not say who was recorded when.
    addresses : tuple of str
        Where UCI serves the archive, relative to its base address; the first that exists counts.
    """

    name: str
    title: str
    number: int
    folder: str
    layout: str
    pattern: str
    rate: int
    people: tuple[str, ...]
    addresses: tuple[str, ...]

    def file_of(self, path: str) -> str | None:
        """The part of a path that is a data file of the set, whatever folders stand before it.

        UCI's own archives disagree on those: AReM's has no folder of its own at the top.
        """
        parts = path.replace("\\", "/").split("/")
        for i in range(len(parts)):
            file = "/".join(parts[i:])
            if re.fullmatch(self.pattern, file):
                return file
        return None

    def person_of(self, file: str) -> str:
        """The person that a file is of, from its path below the set's folder."""
        if self.people == ("all",):
            return "all"
        return file.split("/")[0].removesuffix(".csv")

    def select(self, people: People) -> tuple[str, ...]:
        """The requested people, in the order of the request; all of them by default."""
        if people is None:
            return self.people
        wanted = [people] if isinstance(people, str | int) else list(people)
        if not wanted:
            raise InputError(f"{self.name}: no people asked for; leave `people` out for everyone")
        chosen = []
        for person in wanted:
            # A bare number stands for UCI's "sub" and that number.
            matches = [p for p in (str(person), f"sub{person}") if p in self.people]
            if not matches:
                raise InputError(
                    f"{self.name} has no person {str(person)!r}; it has {', '.join(self.people)}"
                )
            chosen.append(matches[0])
        return tuple(dict.fromkeys(chosen))


SETS = {
    s.name: s
    for s in (
        UciSet(
            name="scma",
            title="Activity Recognition from Single Chest-Mounted Accelerometer",
            number=287,
            folder="Activity Recognition from Single Chest-Mounted Accelerometer",
            layout="*.csv",
            pattern=r"\d+\.csv",
            rate=52,
            people=tuple(str(i) for i in range(1, 16)),
            addresses=(
                "static/public/287/"
                "activity+recognition+from+single+chest+mounted+accelerometer.zip",
                "ml/machine-learning-databases/00287/"
                "Activity%20Recognition%20from%20Single%20Chest-Mounted%20Accelerometer.zip",
            ),
        ),
        UciSet(
            name="arem",
            title="Activity Recognition system based on Multisensor data fusion (AReM)",
            number=366,
            folder="AReM",
            layout="*/dataset*.csv",
            pattern=r"(bending[12]|cycling|lying|sitting|standing|walking)/dataset\d+\.csv",
            rate=4,
            people=("all",),
            addresses=(
                "static/public/366/"
                "activity+recognition+system+based+on+multisensor+data+fusion+arem.zip",
                "ml/machine-learning-databases/00366/AReM.zip",
            ),
        ),
        UciSet(
            name="emg",
            title="EMG Physical Action Data Set",
            number=213,
            folder="EMG Physical Action Data Set",
            layout="sub*/*/txt/*.txt",
            pattern=r"sub\d+/(Normal|Aggressive)/txt/[^/]+\.txt",
            rate=1000,
            people=tuple(f"sub{i}" for i in range(1, 5)),
            addresses=(
                "static/public/213/emg+physical+action+data+set.zip",
                "ml/machine-learning-databases/00213/EMG%20Physical%20Action%20Data%20Set.rar",
            ),
        ),
        UciSet(
            name="vicon",
            title="Vicon Physical Action Data Set",
            number=214,
            folder="Vicon Physical Action Data Set",
            layout="sub*/*/*.txt",
            pattern=r"sub\d+/(normal|aggressive)/[^/]+\.txt",
            rate=200,
            people=tuple(f"sub{i}" for i in range(1, 11)),
            addresses=(
                "static/public/214/vicon+physical+action+data+set.zip",
                "ml/machine-learning-databases/00214/Vicon%20Physical%20Action%20Data%20Set.rar",
            ),
        ),
    )
}


def get_set(name: str) -> UciSet:
    """The set of this name, in any case."""
    try:
        return SETS[name.lower()]
    except KeyError:
        raise InputError(f"unknown data set {name!r}; there are {', '.join(SETS)}") from None
