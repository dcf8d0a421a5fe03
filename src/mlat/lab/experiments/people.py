"""The people whose streams the experiments run on, and how to load one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...errors import InputError
from ...stream.stream import Stream
from .. import datasets
from ..datasets.catalog import get_set
from ..datasets.files import open_set


@dataclass(frozen=True)
class People:
    """Some people of one data set.

    Attributes
    ----------
    names : tuple of str
    load : callable
        From a person's name to the stream. Worker processes call it, so it must be picklable.
    given : int, optional
        The given steps per label; None is one whole recording.
    width : int, optional
        Steps per window of this set; default the experiment's.
    options : mapping
        What else decides the streams, for the fingerprint of a result.
    """

    names: tuple[str, ...]
    load: Callable[[str], Stream]
    given: int | None = 510
    width: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def uci_people(
    sets: Iterable[str] | None = None,
    people: Iterable[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> dict[str, People]:
    """The paper's data sets, or some of them, by name.

    Parameters
    ----------
    sets : iterable of str, optional
        Default all four.
    people : iterable of str, optional
        Names such as ``sub1``, which mean that person in every chosen set that has one, or
        ``emg:sub1``, which means the one of that set alone. Default everyone.
    data : path, optional
        As for :func:`mlat.lab.datasets.load`.
    """
    chosen = [get_set(name) for name in (sets or datasets.SETS)]
    wanted = None if people is None else list(people)
    _check_people(chosen, wanted)
    result = {}
    for uci in chosen:
        names = uci.people if wanted is None else _of_set(uci, wanted)
        if not names:
            continue
        open_set(uci, data).__exit__(None, None, None)  # missing data is an error before any work
        activities = datasets.PAPER_ACTIVITIES.get(uci.name)
        result[uci.name] = People(
            names,
            partial(_load_person, uci.name, None if data is None else os.fspath(data)),
            given=None if uci.name == "arem" else 510,
            options={} if activities is None else {"activities": list(activities)},
        )
    return result


def _load_person(name: str, data: str | None, person: str) -> Stream:
    activities = datasets.PAPER_ACTIVITIES.get(name)
    options = {} if activities is None else {"activities": activities}
    return datasets.load(name, data, [person], **options)[person]


def _of_set(uci: datasets.UciSet, wanted: list[str]) -> tuple[str, ...]:
    """Those of the wanted people that are of this set, in the set's own order."""
    names = set()
    for name in wanted:
        of_set, _, person = name.rpartition(":")
        if not of_set or of_set.lower() == uci.name:
            names |= {person, f"sub{person}"}
    return tuple(person for person in uci.people if person in names)


def _check_people(chosen: list[datasets.UciSet], wanted: list[str] | None) -> None:
    if wanted is None:
        return
    if not wanted:
        raise InputError("no people are named; leave people out for everyone")
    for name in wanted:
        if not any(_of_set(uci, [name]) for uci in chosen):
            there = "; ".join(f"{uci.name} has {', '.join(uci.people)}" for uci in chosen)
            raise InputError(f"no person {name!r} in the chosen sets: {there}")
