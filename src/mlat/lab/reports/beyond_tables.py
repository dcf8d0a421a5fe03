"""The figures of the table beyond the paper's, of whoever has results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ... import __version__
from ...classifier.selection import longest_reach
from ..experiments.beyond import AUTO, AUTO_FILTERED, Decimated
from ..experiments.journal import Result
from ..experiments.runner import Experiment
from ..experiments.systems import ALL, DEVELOPMENT, describe
from .beyond_results import PROTOCOL, common_runs
from .summary import Footing, footing_of, left_out
from .tables import Figure, Group, Scores

# The filter looks at more than a window, so there are ranks with it and ranks without it.
PLAIN, WITH_FILTER = "without the filter", "with the filter"

# Points below the Euclidean distance from which choosing a metric counts as harm.
HARM_POINTS = 2.0

ByPerson = Mapping[str, Mapping[str, Mapping[str, float]]]  # system, data set, person


@dataclass(frozen=True)
class Harm:
    """How MLAT-auto stands to the Euclidean distance, over the people who have both."""

    by_set: Mapping[str, float]  # points ahead, the mean over people
    n_groups: int
    below: tuple[tuple[str, str, float], ...]  # set, person and points; the worst first


@dataclass(frozen=True)
class Standing:
    """The figures over some people.

    Attributes
    ----------
    groups : tuple of (data set, person)
        Everyone of whom there are results.
    people : mapping of system, data set and person to accuracy
        The mean over runs.
    accuracy : mapping of system and data set to Figure
        Over those people of the set who have results of the system.
    lacking : mapping of system to groups
        Of whom there are no results. Such a system has no rank and no test.
    footings : mapping
        Ranks and tests: PLAIN with those of MLAT-auto, WITH_FILTER with those of the filter.
    harm : Harm, optional
    """

    groups: tuple[Group, ...]
    people: ByPerson
    accuracy: Mapping[str, Mapping[str, Figure]]
    lacking: Mapping[str, tuple[Group, ...]]
    footings: Mapping[str, Footing]
    harm: Harm | None

    @property
    def data_sets(self) -> list[str]:
        return list(dict.fromkeys(data_set for data_set, _ in self.groups))


@dataclass(frozen=True)
class Width:
    """The figures at one width of windows.

    Attributes
    ----------
    n_runs : int
        Runs per person: as many as everyone has of every system that is compared.
    n_results, n_more : int
        The results of these runs, and those of further runs, which are not reported.
    steps, reach : mapping of data set to int
        Steps per window, and how much further back MLAT-auto may look.
    every : mapping of system and data set to int
        m, where a system sees every m-th step.
    everyone, without_development : Standing
        The second is None where it would be the first, or nobody.
    not_run : tuple of str
        Systems without any result.
    nobody : tuple of (data set, person)
        Those of whom no system has results; they count nowhere.
    sizes : mapping of data set to int
        How many people were to be judged.
    seconds : mapping of system and data set to float
        The median time of a fit.
    chosen : mapping of data set and choice to int
        How often MLAT-auto chose what, where that was written down.
    left_out : sequence
        As of :func:`mlat.lab.reports.summary.left_out`.
    """

    n_runs: int
    n_results: int
    n_more: int
    steps: Mapping[str, int]
    reach: Mapping[str, int]
    every: Mapping[str, Mapping[str, int]]
    everyone: Standing
    without_development: Standing | None
    not_run: tuple[str, ...]
    nobody: tuple[Group, ...]
    sizes: Mapping[str, int]
    seconds: Mapping[str, Mapping[str, float]]
    chosen: Mapping[str, Mapping[str, int]]
    left_out: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Summary:
    """What the report is made of."""

    settings: Mapping[str, Any]
    widths: Mapping[str, Width]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(
    results: Mapping[str, Sequence[Result]], experiments: Mapping[str, Experiment]
) -> Summary:
    """The figures at every width that has results."""
    there = {name: found for name, found in results.items() if found}
    data_sets = dict.fromkeys(r["data_set"] for found in there.values() for r in found)
    any_one = next(iter(experiments.values()))
    n_channels = {}
    for name in data_sets:
        people = any_one.people[name]
        n_channels[name] = people.load(people.names[0]).n_channels
    settings = {
        "version": __version__,
        "protocol": PROTOCOL,
        "test_windows_per_label": any_one.n_test,
        "channels": n_channels,
        "harm_points": HARM_POINTS,
        "development": {name: list(people) for name, people in DEVELOPMENT.items()},
        "systems": {name: describe(s.make("", ALL)) for name, s in any_one.systems.items()},
    }
    return Summary(
        settings,
        {name: _width(found, experiments[name], n_channels) for name, found in there.items()},
    )


def _width(found: Sequence[Result], experiment: Experiment, n_channels: Mapping[str, int]) -> Width:
    results, n_runs = common_runs(found)
    everyone = Scores(results, PROTOCOL)
    others = Scores(results, PROTOCOL, without=DEVELOPMENT)
    steps = {name: experiment.width_of(name) for name in everyone.data_sets}
    systems = [name for name in experiment.systems if (name, ALL) in everyone.trained]
    every: dict[str, dict[str, int]] = {}
    for name in systems:
        made = experiment.systems[name].make("", ALL)
        if isinstance(made, Decimated):
            every[name] = {one: made.every(w, n_channels[one]) for one, w in steps.items()}
    seconds: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in systems}
    chosen: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        seconds[result["system"]][result["data_set"]].append(result["fit_seconds"])
        if result["system"] == AUTO and "chosen" in result:
            chosen[result["data_set"]][result["chosen"]] += 1
    asked = [(one, person) for one, by in experiment.people.items() for person in by.names]
    fewer = 0 < len(others.groups) < len(everyone.groups)
    return Width(
        n_runs,
        len(results),
        len(found) - len(results),
        steps,
        {name: longest_reach(width) for name, width in steps.items()},
        every,
        _standing(everyone, systems),
        _standing(others, systems) if fewer else None,
        tuple(name for name in experiment.systems if name not in systems),
        tuple(group for group in asked if group not in everyone.groups),
        {one: len(by.names) for one, by in experiment.people.items()},
        {
            name: {one: float(np.median(times)) for one, times in by.items()}
            for name, by in seconds.items()
        },
        {name: dict(choices.most_common()) for name, choices in chosen.items()},
        left_out(results),
    )


def _standing(scores: Scores, systems: Sequence[str]) -> Standing:
    people = {
        name: {
            one: by for one in scores.data_sets if (by := scores.by_person((name, ALL), one))
        }
        for name in systems
    }  # fmt: skip
    lacking = {name: tuple(scores.lacking((name, ALL))) for name in systems}
    whole = [(name, ALL) for name in systems if not lacking[name]]
    plain = [one for one in whole if one[0] != AUTO_FILTERED]
    footings = {}
    if len(plain) > 1:
        footings[PLAIN] = footing_of(scores, plain, (AUTO, ALL))
    if len(whole) > max(1, len(plain)):
        footings[WITH_FILTER] = footing_of(scores, whole, (AUTO_FILTERED, ALL))
    return Standing(
        tuple(scores.groups),
        people,
        {name: {one: scores.figure((name, ALL), one) for one in by} for name, by in people.items()},
        {name: groups for name, groups in lacking.items() if groups},
        footings,
        _harm(people),
    )


def _harm(people: ByPerson) -> Harm | None:
    ours, theirs = people.get(AUTO, {}), people.get("ED", {})
    ahead = {
        # Two points are two points of test windows counted, however sums were rounded.
        (data_set, person): round(mean - theirs[data_set][person], 9)
        for data_set, by in ours.items()
        for person, mean in by.items()
        if person in theirs.get(data_set, {})
    }
    if not ahead:
        return None
    by_set: dict[str, list[float]] = defaultdict(list)
    for (data_set, _), points in ahead.items():
        by_set[data_set].append(points)
    below = sorted((points, group) for group, points in ahead.items() if points < -HARM_POINTS)
    return Harm(
        {data_set: float(np.mean(points)) for data_set, points in by_set.items()},
        len(ahead),
        tuple((*group, points) for points, group in below),
    )
