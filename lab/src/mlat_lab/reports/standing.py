"""How systems stand with each other over some people, whoever has results.

The journals need not be complete: a system that lacks somebody is shown, but has no rank. The
tables ``beyond`` and ``streams`` are made of these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..experiments.experiment import ALL
from ..experiments.systems import AUTO, AUTO_FILTERED, ED_FILTERED, SAME_PAST, has_same_past
from .page import NONE, Picture, interval_cell, mean_cell, p_cell, signed, table, wins_cell
from .paper import set_title, system_title
from .plots import ByPerson, BySet, draw_critical_differences, draw_dots
from .statistics import EVERYONE, Comparison, Footing, Group, Scores, Section

# Ranks and tests are of systems that may look equally far back first, then of these with the
# filter, which looks back further, and of what rivals make of windows alone.
EQUAL, WITH_FILTER, WINDOWS = "same past", "with the filter", "windows alone"
OURS = {EQUAL: AUTO, WITH_FILTER: AUTO_FILTERED, WINDOWS: AUTO}

# Points below the Euclidean distance from which choosing a metric counts as harm.
HARM_POINTS = 2.0

# Below this a difference counts as real, after Holm's correction.
SIGNIFICANT = 0.05

PARTLY = "†"
FILTERED = (AUTO_FILTERED, ED_FILTERED)


# Figures.


@dataclass(frozen=True)
class Harm:
    """How MLAT-auto compares with the Euclidean distance, over the people who have both."""

    by_set: Mapping[str, float]  # points ahead, the mean over people
    n_groups: int
    below: tuple[tuple[str, str, float], ...]  # set, person and points; the worst first


@dataclass(frozen=True)
class Standing(Section):
    """The figures over some people; footings are EQUAL, WITH_FILTER and WINDOWS."""

    people: ByPerson  # accuracy, the mean over runs
    accuracy: BySet  # over those people of the set who have results of the system
    lacking: Mapping[str, tuple[Group, ...]]  # who lacks results; such a system has no rank
    harm: Harm | None


def stand(scores: Scores, systems: Sequence[str]) -> Standing:
    people = {
        name: {
            one: by for one in scores.data_sets if (by := scores.by_person((name, ALL), one))
        }
        for name in systems
    }  # fmt: skip
    lacking = {name: tuple(scores.lacking((name, ALL))) for name in systems}
    whole = [name for name in systems if not lacking[name]]
    equal = [name for name in whole if has_same_past(name) or name == AUTO]
    windows = [name for name in whole if not has_same_past(name) and name not in FILTERED]
    # Old journals have nobody with the same past.
    rivals = equal if set(equal) - {AUTO} else windows
    filtered = [name for name in whole if name in (*rivals, *FILTERED)]
    compared = {EQUAL: equal, WITH_FILTER: filtered, WINDOWS: windows}
    footings = {
        footing: scores.footing([(name, ALL) for name in names], (OURS[footing], ALL))
        for footing, names in compared.items()
        if len(names) > 1 and (footing != WITH_FILTER or len(names) > len(rivals))
    }
    return Standing(
        tuple(scores.groups),
        footings,
        people,
        {name: {one: scores.figure((name, ALL), one) for one in by} for name, by in people.items()},
        {name: groups for name, groups in lacking.items() if groups},
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


def pictures(section: Standing, what: str, slug: str) -> Iterator[Picture]:
    """Everyone's accuracy, and the mean ranks.

    Parameters
    ----------
    what : str
        What the figures are of, for the titles.
    slug : str
        The same as a part of the names of files.
    """
    shows = f"Accuracy {what}: people, their mean and its 95 % interval"
    drawing = draw_dots(section.people, section.accuracy, (AUTO, AUTO_FILTERED))
    yield Picture(shows, f"accuracy-{slug}.png", drawing)
    if len(section.groups) > 1 and section.footings:
        shows = f"Mean ranks {what}, with Nemenyi's critical difference"
        drawing = draw_critical_differences(section.footings, len(section.groups))
        yield Picture(shows, f"critical-difference-{slug}.png", drawing)


# Markdown.


def in_short_lines(sections: Mapping[str, Standing]) -> list[str]:
    """Where ours stands among the others, and whom it is surely ahead of or behind.

    Parameters
    ----------
    sections : mapping of title to Standing
    """
    lines = [
        f"- {title}, {name}: {_place(ours, footing)} {_significance(footing)}"
        for title, section in sections.items()
        for name, ours, footing in _tested(section)
    ]
    lines += [
        f"- {title}: in the mean better with windows alone than with the same past: {who}."
        for title, section in sections.items()
        if (who := _better_alone(section))
    ]
    if not lines:
        return []
    rule = "Significant is what has p < 0.05 after Holm's correction; points are in brackets."
    return ["## In short", "", rule, "", *lines, ""]


def _better_alone(section: Standing) -> str:
    """The rivals to whom more of the past does harm, and by how many points."""
    found = []
    for name, alone in section.people.items():
        past = section.people.get(f"{name}{SAME_PAST}", {})
        gains = [
            mean - past[one][person]
            for one, by in alone.items()
            for person, mean in by.items()
            if person in past.get(one, {})
        ]
        if gains and np.mean(gains) > 0:
            found.append(f"{system_title(name)} ({signed(float(np.mean(gains)))})")
    return "; ".join(found)


def _place(ours: str, footing: Footing) -> str:
    """Our mean rank, and who has a better one."""
    rank = footing.ranks[ours]
    better = sorted((other, name) for name, other in footing.ranks.items() if other < rank)
    line = (
        f"{system_title(ours)} has the mean rank {rank:.2f}, number {1 + len(better)} of "
        f"{len(footing.ranks)}"
    )
    if not better:
        return f"{line}."
    return f"{line}, after {'; '.join(f'{system_title(name)} ({r:.2f})' for r, name in better)}."


def _significance(footing: Footing) -> str:
    """Whom ours is significantly ahead of or behind, and whom neither can be said of."""
    tests = footing.tests[EVERYONE]
    kinds = {
        "Significantly ahead of": [t for t in tests if _sign(t) > 0],
        "Significantly behind": [t for t in tests if _sign(t) < 0],
        "No significant difference from": [t for t in tests if not _sign(t)],
    }
    said = {
        words: "; ".join(f"{system_title(t.other[0])} ({signed(t.difference)})" for t in some)
        for words, some in kinds.items()
    }
    return " ".join(f"{words} {whom or 'nobody'}." for words, whom in said.items())


def _sign(test: Comparison) -> float:
    return np.sign(test.difference) if test.p_holm < SIGNIFICANT else 0.0


def incomplete_lines(
    section: Standing,
    not_run: Sequence[str],
    nobody: Sequence[Group],
    sizes: Mapping[str, int],
) -> list[str]:
    """What was not run, and what that means for ranks.

    Parameters
    ----------
    not_run : sequence of str
        Systems without any result.
    nobody : sequence of Group
        Of whom no system has results.
    sizes : mapping of data set to int
        How many people there are.
    """
    lines = []
    if section.lacking:
        lines += [
            f"Who lacks results of somebody has no rank and no test; a figure with {PARTLY} is "
            "over some of the people of the set and stands beside nobody's.",
            "",
        ]
    if not_run:
        lines += [f"Not run: {'; '.join(map(system_title, not_run))}.", ""]
    if nobody:
        lines += [f"No system was run on {_people_list(nobody, sizes)}.", ""]
    return lines


def _tested(section: Standing) -> Iterator[tuple[str, str, Footing]]:
    """Each footing that our system is tested on: its name, our system, and itself."""
    for name, footing in section.footings.items():
        if footing.tests:
            yield name, OURS[name], footing


def full_table(section: Standing, *, mean: bool = False) -> list[str]:
    """Accuracy by system and set with all mean ranks."""
    return accuracy_table(section, rank_columns(section), mean=mean)


def rank_columns(section: Standing) -> dict[str, Footing]:
    return {f"rank, {name}": footing for name, footing in section.footings.items()}


def accuracy_table(
    section: Standing, footings: Mapping[str, Footing], *, mean: bool = False
) -> list[str]:
    """Accuracy by system and set, with mean ranks; what is not of everyone is marked.

    ``mean`` adds the mean over sets, of the systems that everyone has results of.
    """
    sizes = Counter(data_set for data_set, _ in section.groups)
    best: dict[str, float] = {}
    for by in section.accuracy.values():
        for one, figure in by.items():
            if figure.n_people == sizes[one]:  # else it is of other people, and no match
                best[one] = max(best.get(one, 0.0), round(figure.mean, 1))
    means = {
        name: float(np.mean([figure.mean for figure in by.values()]))
        for name, by in section.accuracy.items()
        if name not in section.lacking
    }
    rows = []
    for name, by in section.accuracy.items():
        row = [_title(name, section)]
        for one in section.data_sets:
            if one not in by:
                row.append(NONE)
            elif by[one].n_people < sizes[one]:
                row.append(f"{mean_cell(by[one], np.nan)} {PARTLY}")
            else:
                row.append(mean_cell(by[one], best[one]))
        if mean:
            cell = f"{means[name]:.1f}" if name in means else NONE
            is_best = name in means and cell == f"{max(means.values()):.1f}"
            row.append(f"**{cell}**" if is_best else cell)
        row += [_rank_cell(f.ranks.get(name), f.ranks.values()) for f in footings.values()]
        rows.append(row)
    of_sets = ["mean of sets"] if mean else []
    return table(["", *map(set_title, section.data_sets), *of_sets, *footings], rows)


def _rank_cell(rank: float | None, ranks: Iterable[float]) -> str:
    if rank is None:
        return NONE
    cell = f"{rank:.2f}"
    return f"**{cell}**" if cell == f"{min(ranks):.2f}" else cell


def interval_table(section: Standing) -> list[str]:
    """The bootstrap intervals, for the sets of more than one person."""
    sets = [
        one
        for one in section.data_sets
        if any(by[one].low is not None for by in section.accuracy.values() if one in by)
    ]
    if not sets:
        return []
    rows = [
        [_title(name, section), *(interval_cell(by[one]) if one in by else NONE for one in sets)]
        for name, by in section.accuracy.items()
    ]
    return table(["95 % interval", *map(set_title, sets)], rows)


def _title(name: str, section: Standing) -> str:
    return system_title(name) + (f" {PARTLY}" if name in section.lacking else "")


def lacking_lines(section: Standing) -> list[str]:
    """Which systems have no rank, and of whom they have no results."""
    sizes = Counter(data_set for data_set, _ in section.groups)
    lines = [
        f"- {PARTLY} {system_title(name)} not run on {_people_list(groups, sizes)}."
        for name, groups in section.lacking.items()
    ]
    return [*lines, ""] if lines else []


def _people_list(groups: Sequence[Group], sizes: Mapping[str, int]) -> str:
    """People by set; only the set where it is all of them."""
    parts = []
    for one in dict.fromkeys(data_set for data_set, _ in groups):
        people = [person for data_set, person in groups if data_set == one]
        names = "" if len(people) == sizes[one] else f" {', '.join(people)}"
        parts.append(f"{set_title(one)}{names}")
    return "; ".join(parts)


def test_lines(section: Standing, level: str) -> list[str]:
    """Ours against each other system, over everyone."""
    lines = []
    for name, ours, footing in _tested(section):
        rows = [
            [
                system_title(test.other[0]),
                signed(test.difference),
                wins_cell(test),
                *([p_cell(test.p), p_cell(test.p_holm)] if test.n_people > 1 else [NONE, NONE]),
            ]
            for test in footing.tests[EVERYONE]
        ]
        who = f"{system_title(ours)} against the others"
        heading = f"{name.capitalize()}: {who}, over {len(section.groups)} groups"
        lines += [f"{level} {heading}", ""]
        lines += table(["against", "points ahead", "wins/losses/ties", "p", "p, Holm"], rows)
    if lines:
        lines += ["p is of a two-sided Wilcoxon signed-rank test over people.", ""]
    return lines


def harm_lines(harm: Harm) -> list[str]:
    """MLAT-auto minus ED by set, and everyone for whom it is much below."""
    rows = [[f"{system_title(AUTO)} minus ED", *map(signed, harm.by_set.values())]]
    names = [f"- {set_title(one)} {person}: {signed(by)} points" for one, person, by in harm.below]
    groups = f"{len(names)} of {harm.n_groups} groups"
    return [
        *table(["points", *map(set_title, harm.by_set)], rows),
        f"For {groups} it is below ED by more than {HARM_POINTS:g} points{':' if names else '.'}",
        "",
        *([*names, ""] if names else []),
    ]


def seconds_cell(seconds: float) -> str:
    if seconds < 0.1:
        return "< 0.1"
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"
