"""All figures of a report, computed once and written as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ... import __version__
from ..experiments.journal import Result
from ..experiments.protocol import WITHIN_SHARE
from ..experiments.runner import Experiment
from ..experiments.systems import ALL, DEVELOPMENT, FEW, LDMLT_PER_LABEL, describe
from .tables import Comparison, Figure, Scores, Trained, critical_difference

OURS: Trained = ("MLAT", ALL)

# On what footing systems are compared: as in the paper's Table 2, where MLAT alone trains on all
# windows, or with everyone on all of them.
TABLE_2, ON_ALL = "table 2", "all windows"
EVERYONE = "all groups"


@dataclass(frozen=True)
class Footing:
    """Systems that are compared with each other."""

    trained: tuple[Trained, ...]
    accuracy: Mapping[str, Mapping[str, Figure]]  # by data set and system
    ranks: Mapping[str, float]
    critical_difference: float
    tests: Mapping[str, Sequence[Comparison]]  # of ours, over everyone and by data set


@dataclass(frozen=True)
class Section:
    """The figures of one protocol over some people."""

    groups: tuple[tuple[str, str], ...]
    footings: Mapping[str, Footing]
    gains: Mapping[str, Mapping[str, Figure]]  # Table 3, by data set and system


@dataclass(frozen=True)
class Summary:
    """What a report is made of."""

    settings: Mapping[str, Any]
    protocols: Mapping[str, Section]
    without_development: Mapping[str, Section]
    left_out: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(
    results: Sequence[Result], experiment: Experiment, tables: Iterable[int] = (2, 3)
) -> Summary:
    """The figures of the tables.

    Parameters
    ----------
    results : sequence of Result
        Of all jobs of the tables, for every person the same.
    """
    protocols = list(dict.fromkeys(result["protocol"] for result in results))
    wanted = set(tables)
    sections, without = {}, {}
    for protocol in protocols:
        sections[protocol] = _section(Scores(results, protocol), experiment, wanted)
        others = Scores(results, protocol, without=DEVELOPMENT)
        if others.groups and len(others.groups) < len(sections[protocol].groups):
            without[protocol] = _section(others, experiment, wanted)
    seconds: Counter[str] = Counter()
    for result in results:
        seconds[result["system"]] += result["fit_seconds"] + result["predict_seconds"]
    return Summary(
        _settings(results, experiment, wanted),
        sections,
        without,
        left_out(results),
        {system: round(total, 1) for system, total in seconds.items()},
    )


def _section(scores: Scores, experiment: Experiment, tables: set[int]) -> Section:
    systems = experiment.systems.values()
    there = set(scores.trained)
    footings = {}
    if 2 in tables:
        trained = [(system.name, system.table_2_size) for system in systems]
        footings[TABLE_2] = footing_of(scores, trained)
    if 3 in tables:
        on_all = [(s.name, ALL) for s in systems if (s.name, ALL) in there]
        footings[ON_ALL] = footing_of(scores, on_all)
    rivals = [system.name for system in systems if system.is_rival]
    gains = {
        data_set: {name: scores.gain(name, FEW, ALL, data_set) for name in rivals}
        for data_set in scores.data_sets
        if 3 in tables and rivals
    }
    return Section(tuple(scores.groups), footings, gains)


def footing_of(scores: Scores, trained: Sequence[Trained], ours: Trained = OURS) -> Footing:
    """Compare systems that everyone has results of, and test ours against the others."""
    tests = {}
    if ours in trained:
        others = [one for one in trained if one != ours]
        scopes = {EVERYONE: None, **{data_set: data_set for data_set in scores.data_sets}}
        tests = {scope: scores.compare(ours, others, within) for scope, within in scopes.items()}
    return Footing(
        tuple(trained),
        {
            data_set: {one[0]: scores.figure(one, data_set) for one in trained}
            for data_set in scores.data_sets
        },
        dict(zip((name for name, _ in trained), scores.ranks(trained).tolist(), strict=True)),
        critical_difference(len(trained), len(scores.groups)),
        tests,
    )


def left_out(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Which labels were left out, for whom and why, and in how many of the runs."""
    # A label that somebody has and another was never recorded in is left out for the other.
    labels: dict[str, dict[str, None]] = defaultdict(dict)
    for result in results:
        labels[result["data_set"]].update(dict.fromkeys([*result["total"], *result["left_out"]]))
    seen: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for result in results:
        lacking = {
            label: "no recording"
            for label in labels[result["data_set"]]
            if label not in result["total"]
        }
        for label, why in (lacking | result["left_out"]).items():
            key = (result["protocol"], result["data_set"], result["person"], label, why)
            seen[key].add(result["run"])
    names = ("protocol", "data_set", "person", "label", "why")
    return [{**dict(zip(names, key, strict=True)), "runs": len(runs)} for key, runs in seen.items()]


def _settings(
    results: Sequence[Result], experiment: Experiment, tables: set[int]
) -> dict[str, Any]:
    return {
        "version": __version__,
        "tables": sorted(tables),
        "runs": 1 + max(result["run"] for result in results),
        "results": len(results),
        "width": experiment.width,
        "windows_per_label": experiment.n_few,
        "test_windows_per_label": experiment.n_test,
        "within_share": WITHIN_SHARE,
        "people": {name: list(people.names) for name, people in experiment.people.items()},
        "given": {
            name: people.given or "one recording" for name, people in experiment.people.items()
        },
        "options": {name: dict(people.options) for name, people in experiment.people.items()},
        "development": {name: list(people) for name, people in DEVELOPMENT.items()},
        "ldmlt_windows_per_label": dict(LDMLT_PER_LABEL),
        "systems": {
            name: describe(system.make("", ALL)) for name, system in experiment.systems.items()
        },
    }
