"""What is told of a comparison: who stands where, who was not run, the time, and the committee.

The tables ``beyond`` and ``streams`` are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from ..experiments.systems import AUTO, AUTO_FILTERED
from .committee import Bins, pooled, reliability_lines, weights_lines, weights_of
from .page import NONE, table
from .paper import set_title, system_title
from .standing import (
    PLAIN,
    WITH_FILTER,
    Standing,
    accuracy_table,
    full_table,
    incomplete_lines,
    lacking_lines,
    seconds_cell,
)
from .statistics import Group, left_out, median_seconds


@dataclass(frozen=True)
class Comparison:
    """The figures over everyone, and what is told beside them."""

    everyone: Standing
    not_run: tuple[str, ...]  # systems without any result
    nobody: tuple[Group, ...]  # of whom no system has results; they count nowhere
    sizes: Mapping[str, int]  # how many people of each set the experiment has
    seconds: Mapping[str, Mapping[str, float]]  # the median of a fit, by system and data set
    weights: Mapping[str, Mapping[str, float]]  # of each expert of MLAT-auto, the mean by data set
    reliability: Mapping[str, Bins]  # of its probabilities, by data set
    left_out: Sequence[Mapping[str, Any]]


def systems_with_results(results: Sequence[Result], experiment: Experiment) -> list[str]:
    there = {result["system"] for result in results}
    return [name for name in experiment.systems if name in there]


def compare(results: Sequence[Result], experiment: Experiment, everyone: Standing) -> Comparison:
    """The comparison in some results, whose standing is that of ``everyone``."""
    seconds = {name: by_set for (name, _), by_set in median_seconds(results).items()}
    systems = systems_with_results(results, experiment)
    planned = [(one, person) for one, by in experiment.people.items() for person in by.names]
    return Comparison(
        everyone,
        tuple(name for name in experiment.systems if name not in systems),
        tuple(group for group in planned if group not in everyone.groups),
        {one: len(by.names) for one, by in experiment.people.items()},
        {name: seconds[name] for name in systems},
        weights_of(results),
        pooled(results),
        left_out(results),
    )


def headline(section: Standing, *, mean: bool = False) -> list[str]:
    """The table that a command prints."""
    footing = section.footings.get(WITH_FILTER) or section.footings.get(PLAIN)
    ranks = {} if footing is None else {"mean rank": footing}
    return [*accuracy_table(section, ranks, mean=mean), *lacking_lines(section)]


def opening_lines(found: Comparison, *, mean: bool = False) -> list[str]:
    """Everyone's accuracy, and who or what is missing."""
    section = found.everyone
    return [
        *full_table(section, mean=mean),
        *lacking_lines(section),
        *incomplete_lines(section, found.not_run, found.nobody, found.sizes),
    ]


def closing_lines(found: Comparison, median_over: str) -> list[str]:
    """The time of a fit, the weights of the experts, and whether probabilities are right."""
    sets = found.everyone.data_sets
    rows = [
        [system_title(name), *(seconds_cell(by[one]) if one in by else NONE for one in sets)]
        for name, by in found.seconds.items()
        if name != AUTO_FILTERED or AUTO not in found.seconds  # it is the same fit
    ]
    return [
        *["### Time", "", f"The median over {median_over}, on one thread.", ""],
        *table(["seconds per fit", *map(set_title, sets)], rows),
        *weights_lines(found.weights, "###"),
        *reliability_lines(found.reliability, "###"),
    ]
