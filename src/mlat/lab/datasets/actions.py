"""What EMG and Vicon share: twenty physical actions, one file for each person and action."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...stream.stream import Stream
from .catalog import People, UciSet
from .files import open_people, read_recording

# The names are UCI's file names, spelling included.
NORMAL = (
    "Bowing",
    "Clapping",
    "Handshaking",
    "Hugging",
    "Jumping",
    "Running",
    "Seating",
    "Standing",
    "Walking",
    "Waving",
)
AGGRESSIVE = (
    "Elbowing",
    "Frontkicking",
    "Hamering",
    "Headering",
    "Kneeing",
    "Pulling",
    "Punching",
    "Pushing",
    "Sidekicking",
    "Slapping",
)
ACTIVITIES = NORMAL + AGGRESSIVE


def load_actions(
    uci: UciSet,
    data: str | os.PathLike[str] | None,
    people: People,
    activities: Iterable[str] | None,
    *,
    channels: tuple[str, ...],
    n_columns: int,
    prepare: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    complete: bool,
) -> dict[str, Stream]:
    """A stream per person, its files joined in the order of `ACTIVITIES`, a recording each.

    ``prepare`` turns the rows of one file into channel values. Files of activities that were not
    asked for are not read.
    """
    wanted = _check_activities(uci, activities)
    streams = {}
    with open_people(uci, data, people, complete=complete) as (source, by_person):
        for person, files in by_person.items():
            by_activity = {_activity_of(file): file for file in files}
            names = [name for name in wanted if name in by_activity]
            if not names:
                raise InputError(
                    f"{uci.name} person {person} has no recording of {', '.join(wanted)} "
                    f"in {source.place}"
                )
            chosen = [by_activity[name] for name in names]
            parts = [
                prepare(read_recording(source, file, n_columns, complete=complete))
                for file in chosen
            ]
            lengths = [len(part) for part in parts]
            streams[person] = Stream(
                np.concatenate(parts),
                np.repeat(names, lengths),
                recordings=np.repeat([_recording_of(file) for file in chosen], lengths),
                channels=channels,
            )
    return streams


def _check_activities(uci: UciSet, activities: Iterable[str] | None) -> tuple[str, ...]:
    if activities is None:
        return ACTIVITIES
    asked = [activities] if isinstance(activities, str) else list(activities)
    unknown = [name for name in asked if name not in ACTIVITIES]
    if unknown or not asked:
        raise InputError(
            f"{uci.name} has no activity {unknown[0] if unknown else ''!r}; "
            f"it has {', '.join(ACTIVITIES)}"
        )
    return tuple(name for name in ACTIVITIES if name in asked)


def _activity_of(file: str) -> str:
    return file.rsplit("/", 1)[1].removesuffix(".txt")


def _recording_of(file: str) -> str:
    """``sub1/Normal/txt/Bowing.txt`` is the recording ``Normal/Bowing``."""
    return f"{file.split('/')[1]}/{_activity_of(file)}"
