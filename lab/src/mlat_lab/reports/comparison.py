"""What is told of a comparison: who stands where, who was not run, the time, and the committee.

The tables ``beyond`` and ``streams`` are made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from ..experiments.systems import AUTO, AUTO_FILTERED
from .committee import Bins, pooled, reliability_lines, weights_lines, weights_of
from .page import NONE, Links, picture_lines, table
from .paper import set_title, system_title
from .standing import (
    Standing,
    accuracy_table,
    full_table,
    harm_lines,
    in_short_lines,
    incomplete_lines,
    interval_table,
    lacking_lines,
    rank_columns,
    seconds_cell,
    test_lines,
)
from .statistics import Group, Summary, grouped, left_out, median_seconds, same_over


@dataclass(frozen=True)
class Compared:
    """The figures over everyone, and what is told beside them."""

    everyone: Standing
    others: Mapping[str, Standing]  # over some of the people, by who they are
    n_runs: int  # as many as everyone has of every system that is compared
    not_run: tuple[str, ...]  # systems without any result
    nobody: tuple[Group, ...]  # of whom no system has results; they count nowhere
    sizes: Mapping[str, int]  # how many people of each set the experiment has
    seconds: Mapping[str, Mapping[str, float]]  # the median of a fit, by system and data set
    weights: Mapping[str, Mapping[str, float]]  # of each expert of MLAT-auto, the mean by data set
    reliability: Mapping[str, Bins]  # of its probabilities, by data set
    past: Mapping[str, Sequence[int]]  # steps of the same past, of each result, by data set
    padded: Mapping[str, Sequence[float]]  # the share of its windows that were padded
    left_out: Sequence[Mapping[str, Any]]


C = TypeVar("C", bound=Compared)


def systems_with_results(results: Sequence[Result], experiment: Experiment) -> list[str]:
    there = {result["system"] for result in results}
    return [name for name in experiment.systems if name in there]


def compare(
    results: Sequence[Result],
    experiment: Experiment,
    sections: Mapping[str, Standing | None],
    n_runs: int = 1,
) -> dict[str, Any]:
    """The fields of `Compared` for some results; the first section is that of everyone."""
    everyone, *_ = sections.values()
    assert everyone is not None
    seconds = {name: by_set for (name, _), by_set in median_seconds(results).items()}
    systems = systems_with_results(results, experiment)
    planned = [(one, person) for one, by in experiment.people.items() for person in by.names]
    return {
        "everyone": everyone,
        "others": {who: one for who, one in list(sections.items())[1:] if one is not None},
        "n_runs": n_runs,
        "not_run": tuple(name for name in experiment.systems if name not in systems),
        "nobody": tuple(group for group in planned if group not in everyone.groups),
        "sizes": {one: len(by.names) for one, by in experiment.people.items()},
        "seconds": {name: seconds[name] for name in systems},
        "weights": weights_of(results),
        "reliability": pooled(results),
        "past": _told(results, "past"),
        "padded": _told(results, "padded"),
        "left_out": left_out(results),
    }


def _told(results: Sequence[Result], field: str) -> dict[str, list[Any]]:
    """What the results of each set tell in a field, where they do."""
    some = [result for result in results if field in result]
    return {one: [r[field] for r in found] for one, found in grouped(some, "data_set").items()}


def past_rows(found: Compared, sets: Iterable[str]) -> list[list[str]]:
    """By set: the steps of the same past, and how many windows of these had to be padded."""
    names = list(sets)
    steps = [found.past.get(one) for one in names]
    ends = ["…".join(map(str, sorted({min(s), max(s)}))) if s else NONE for s in steps]
    shares = [found.padded.get(one) for one in names]
    padded = [f"{sum(s) / len(s):.0%}" if s else NONE for s in shares]
    rows = [["steps of the same past", *ends], ["windows of these that are padded", *padded]]
    return rows if found.past else []


def comparison_page(
    found: Summary[C],
    headings: Mapping[str, str],
    opening: Sequence[str],
    in_short: Mapping[str, Standing],
    part: Callable[[C], tuple[Sequence[str], Sequence[str]]],
    links: Links,
    *,
    mean: bool = False,
) -> list[str]:
    """The lines of a page up to what was left out.

    Parameters
    ----------
    headings : mapping of a part's name to its heading
        Also of parts that were not run.
    in_short : mapping of title to Standing
        Whose ranks are told first.
    part : callable
        What is told of a part alone: lines below its first table, and below its tests.
    mean : bool
        Tell the mean over sets.
    """
    lines = [*opening, *in_short_lines(in_short)]
    for name, heading in headings.items():
        lines += [f"## {heading}", ""]
        if name not in found.parts:
            lines += ["Not run.", ""]
            continue
        one = found.parts[name]
        section, (note, more) = one.everyone, part(one)
        own = [(shows, path) for shows, path in links if path.endswith(f"-{slug(name)}.png")]
        lines += [*full_table(section, mean=mean), *lacking_lines(section)]
        lines += [*incomplete_lines(section, one.not_run, one.nobody, one.sizes), *note]
        lines += [*interval_table(section), *picture_lines(own), *test_lines(section, "###")]
        if section.harm is not None:
            lines += ["### No harm?", "", *harm_lines(section.harm)]
        lines += more
        for who, some in one.others.items():
            lines += [f"### {who}", "", same_over(some), "", *full_table(some, mean=mean)]
            lines += test_lines(some, "####")
            lines += [] if some.harm is None else harm_lines(some.harm)
        lines += _closing_lines(one)
    return lines


def slug(name: str) -> str:
    """The name of a part as a part of a file's name."""
    return name.replace(" ", "-")


def headline(section: Standing, *, mean: bool = False) -> list[str]:
    """The table that a command prints."""
    ranks = dict(list(rank_columns(section).items())[:1])
    return [*accuracy_table(section, ranks, mean=mean), *lacking_lines(section)]


def _closing_lines(found: Compared) -> list[str]:
    """The time of a fit, the weights of the experts, and whether probabilities are right."""
    sets = found.everyone.data_sets
    rows = [
        [system_title(name), *(seconds_cell(by[one]) if one in by else NONE for one in sets)]
        for name, by in found.seconds.items()
        if name != AUTO_FILTERED or AUTO not in found.seconds  # it is the same fit
    ]
    return [
        *["### Time", ""],
        "The median over people and runs, on one thread; over our features without making these.",
        "",
        *table(["seconds per fit", *map(set_title, sets)], rows),
        *weights_lines(found.weights, "###"),
        *reliability_lines(found.reliability, "###"),
    ]
