"""The people whose streams the experiments run on, and how to load one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlat.base.errors import InputError
from mlat.stream.stream import Stream

from .. import datasets
from ..datasets.catalog import SETS, STREAM_SETS, DataSet, StreamSet, get_set
from ..datasets.files import open_set
from .stream_protocol import SECOND, STREAM_PROTOCOLS


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
        As for :func:`mlat_lab.datasets.load`.
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


# Sets of whole recordings, in the order of the table of streams.
WHOLE: Mapping[str, DataSet] = {**STREAM_SETS, "scma": SETS["scma"]}


def get_whole_set(name: str) -> DataSet:
    """The set of whole recordings of this name, in any case."""
    try:
        return WHOLE[name.lower()]
    except KeyError:
        there = ", ".join(WHOLE)
        raise InputError(f"unknown set of streams {name!r}; there are {there}") from None


def whole_sets(
    data: str | os.PathLike[str] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Which sets of whole recordings there are, and why there are no others."""
    found, missing = [], {}
    for name, data_set in WHOLE.items():
        try:
            open_set(data_set, data).__exit__(None, None, None)
        except InputError as error:
            missing[name] = str(error)
        else:
            found.append(name)
    return found, missing


def stream_people(
    sets: Iterable[str] | None = None,
    people: Iterable[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> dict[str, dict[str, People]]:
    """The people of whole recordings, by protocol and set.

    Parameters
    ----------
    sets : iterable of str, optional
        Some of the sets of streams, or ``scma``; default all.
    people : iterable of str, optional
        As for :func:`uci_people`. Under ``second`` somebody is there whose files are all named.
    data : path, optional
        As for :func:`mlat_lab.datasets.load_streams`.
    """
    chosen = [get_whole_set(name) for name in (sets or WHOLE)]
    wanted = None if people is None else list(people)
    _check_people(chosen, wanted)
    result: dict[str, dict[str, People]] = {protocol: {} for protocol in STREAM_PROTOCOLS}
    for data_set in chosen:
        files = data_set.people if wanted is None else _of_set(data_set, wanted)
        if files:
            open_set(data_set, data).__exit__(None, None, None)
        for protocol, of_sets in result.items():
            groups = recorded(data_set, protocol)
            there = tuple(who for who, parts in groups.items() if set(parts) <= set(files))
            if there:
                place = None if data is None else os.fspath(data)
                of_sets[data_set.name] = People(
                    there, partial(_load_recorded, data_set.name, protocol, place)
                )
    return result


def recorded(data_set: DataSet, protocol: str) -> Mapping[str, tuple[str, ...]]:
    """Who is in a set of whole recordings under a protocol, with the files of each."""
    if protocol != SECOND:
        return {person: (person,) for person in data_set.people}
    return data_set.repeated if isinstance(data_set, StreamSet) else {}


def _load_recorded(name: str, protocol: str, data: str | None, who: str) -> Stream:
    files = recorded(WHOLE[name], protocol)[who]
    load = datasets.load_streams if name in STREAM_SETS else datasets.load
    loaded = load(name, data, files)
    return loaded[files[0]] if len(files) == 1 else Stream.join(loaded[file] for file in files)


def _of_set(data_set: DataSet, wanted: list[str]) -> tuple[str, ...]:
    """Those of the wanted people that are of this set, in the set's own order."""
    names = set()
    for name in wanted:
        of_set, _, person = name.rpartition(":")
        if not of_set or of_set.lower() == data_set.name:
            names |= {person, f"sub{person}"}
    return tuple(person for person in data_set.people if person in names)


def _check_people(chosen: Sequence[DataSet], wanted: list[str] | None) -> None:
    if wanted is None:
        return
    if not wanted:
        raise InputError("no people are named; leave people out for everyone")
    for name in wanted:
        if not any(_of_set(data_set, [name]) for data_set in chosen):
            there = "; ".join(
                f"{data_set.name} has {', '.join(data_set.people)}" for data_set in chosen
            )
            raise InputError(f"no person {name!r} in the chosen sets: {there}")
