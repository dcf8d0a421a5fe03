"""The data sets: what each is called, who is in it, and where it is from.

``SETS`` are the four of the paper, ``STREAM_SETS`` six further kinds of stream, with every switch
of states that was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from mlat.base.errors import InputError

# Some of a set's people: names, bare numbers, one of them alone, or None for everyone.
People = Iterable[str | int] | str | int | None

S = TypeVar("S", bound="DataSet")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set.

    Attributes
    ----------
    home : str
        The folder that sets of this kind are kept in, below a folder of all data.
    name : str
        Its short name in this library.
    title : str
        The name its authors gave it.
    folder : str
        The folder that its archive unpacks to.
    layout : str
        A glob that finds the data files below that folder.
    pattern : str
        A regular expression of their paths.
    rate : float
        Steps per second.
    people : tuple of str
        Everyone in the set.
    """

    home: ClassVar[str]
    name: str
    title: str
    folder: str
    layout: str
    pattern: str
    rate: float
    people: tuple[str, ...]

    @property
    def zips(self) -> tuple[str, ...]:
        """The names that a zip of the set may have, the short one first."""
        return (f"{self.name}.zip",)

    @property
    def remedy(self) -> str:
        """What to do where the set is missing."""
        raise NotImplementedError

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


@dataclass(frozen=True, kw_only=True)
class UciSet(DataSet):
    """One of the paper's data sets, of the UCI repository.

    AReM is one group of people, because UCI does not say who was recorded when.

    Attributes
    ----------
    number : int
        UCI's number of the set.
    addresses : tuple of str
        Where UCI serves the archive, relative to its base address; the first that exists counts.
    """

    home = "uci"
    rate: int
    number: int
    addresses: tuple[str, ...]

    @property
    def zips(self) -> tuple[str, ...]:
        """The short name, then the names under which a browser saves UCI's archives."""
        (ours,) = super().zips
        theirs = [a.rsplit("/", 1)[1].replace("%20", " ") for a in self.addresses]
        return (ours, *(name for name in theirs if name.endswith(".zip") and name.lower() != ours))

    @property
    def remedy(self) -> str:
        return f"run `mlat-lab data fetch {self.name}` to download it"


@dataclass(frozen=True, kw_only=True)
class StreamSet(DataSet):
    """One of the sets of whole streams: a CSV file per person or recording.

    Its columns are the channels, ``recording`` where a file holds several, and ``state``.

    Attributes
    ----------
    source, licence : str
        Where it is from, and under which licence.
    repeated : mapping of person to files
        Who was recorded more than once by nature, and the one or two files that hold the first and
        the second recording.
    """

    home = "streams"
    layout: str = "*.csv"
    source: str
    licence: str
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def remedy(self) -> str:
        page = "docs/evidence/datasets.md"
        return f"put {self.name}.zip there ({self.source}; {page} has its layout)"

    @property
    def development(self) -> tuple[str, ...]:
        """The files that defaults are chosen on: every second one by name, from the first on."""
        return tuple(sorted(self.people)[::2])


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


_GESTURE_PEOPLE = tuple(
    f"p{i:02}" for i in (1, 4, 6, 8, 10, 14, 16, 18, 20, 22, 24, 26, 28, 31, 33, 36)
)
_WATCH_PEOPLE = tuple(f"s{i:02}" for i in range(1, 24, 2))

STREAM_SETS = {
    s.name: s
    for s in (
        StreamSet(
            name="emg_gestures",
            title="EMG data for gestures",
            folder="emg_gestures",
            pattern=r"p\d+\.csv",
            rate=200,
            people=_GESTURE_PEOPLE,
            source="UCI 481",
            licence="CC BY 4.0",
            repeated={person: (person,) for person in _GESTURE_PEOPLE},
        ),
        StreamSet(
            name="phone_watch",
            title="Smartphone and smartwatch inertial measurements",
            folder="phone_watch",
            pattern=r"s\d+\.csv",
            rate=50,
            people=_WATCH_PEOPLE,
            source="Matey-Sanz et al. 2023, Data in Brief 109809",
            licence="CC BY 4.0",
            repeated={person: (person,) for person in _WATCH_PEOPLE},
        ),
        StreamSet(
            name="wisdm_watch",
            title="WISDM smartphone and smartwatch activity and biometrics",
            folder="wisdm_watch",
            pattern=r"p\d+\.csv",
            rate=20,
            people=("p1601", "p1606", "p1610", "p1612", "p1620", "p1623"),
            source="UCI 507",
            licence="CC BY 4.0",
        ),
        StreamSet(
            name="ecg_rhythm",
            title="MIT-BIH Arrhythmia Database",
            folder="ecg_rhythm",
            pattern=r"r\d+\.csv",
            rate=120,
            people=("r104", "r119", "r201", "r203", "r208", "r217", "r222", "r228", "r231"),
            source="PhysioNet",
            licence="ODC-By 1.0",
        ),
        StreamSet(
            name="gesture_phase",
            title="Gesture Phase Segmentation",
            folder="gesture_phase",
            pattern=r"person[abc]_story\d\.csv",
            rate=30,
            people=(
                *("persona_story1", "persona_story2", "persona_story3"),
                *("personb_story1", "personb_story3", "personc_story1", "personc_story3"),
            ),
            source="UCI 302",
            licence="CC BY 4.0",
            repeated={
                "persona": ("persona_story1", "persona_story2"),
                "personb": ("personb_story1", "personb_story3"),
                "personc": ("personc_story1", "personc_story3"),
            },
        ),
        StreamSet(
            name="room_occupancy",
            title="Room Occupancy Estimation",
            folder="room_occupancy",
            pattern=r"room\.csv",
            rate=1 / 30,
            people=("room",),
            source="UCI 864",
            licence="CC BY 4.0",
        ),
    )
}


def get_set(name: str) -> UciSet:
    """The UCI set of this name, in any case."""
    return _look_up(name, SETS)


def get_stream_set(name: str) -> StreamSet:
    """The set of streams of this name, in any case."""
    return _look_up(name, STREAM_SETS)


def any_set(name: str) -> DataSet:
    """The set of this name, of either kind."""
    everything: dict[str, DataSet] = {**SETS, **STREAM_SETS}
    return _look_up(name, everything)


def _look_up(name: str, sets: Mapping[str, S]) -> S:
    try:
        return sets[name.lower()]
    except KeyError:
        raise InputError(f"unknown data set {name!r}; there are {', '.join(sets)}") from None
