"""The figures of the table beyond the paper's as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..experiments.beyond import AUTO, AUTO_FILTERED
from . import paper
from .beyond_tables import PLAIN, WITH_FILTER, Harm, Standing, Width
from .markdown import interval_cell, mean_cell, n_people, p_cell, table
from .summary import EVERYONE, Footing
from .tables import Group, signed

NONE = "–"
PARTLY = "†"

# From here on a difference counts as real, after Holm's correction.
SIGNIFICANT = 0.05


def accuracy_table(standing: Standing) -> list[str]:
    """Accuracy by system and set, with mean ranks; what is not of everyone is marked."""
    ranks = {f"rank, {name}": footing.ranks for name, footing in standing.footings.items()}
    return _accuracy_table(standing, ranks)


def headline(standing: Standing) -> list[str]:
    """The same with one rank: among all that are shown."""
    footing = standing.footings.get(WITH_FILTER) or standing.footings.get(PLAIN)
    return _accuracy_table(standing, {} if footing is None else {"mean rank": footing.ranks})


def interval_table(standing: Standing) -> list[str]:
    """The bootstrap intervals, for the sets of more than one person."""
    sets = [
        one
        for one in standing.data_sets
        if any(by[one].low is not None for by in standing.accuracy.values() if one in by)
    ]
    if not sets:
        return []
    rows = [
        [
            _title(name, standing),
            *(interval_cell(by[one]) if one in by else NONE for one in sets),
        ]
        for name, by in standing.accuracy.items()
    ]
    return table(["95 % interval", *map(paper.set_title, sets)], rows)


def lacking_list(standing: Standing) -> list[str]:
    """Which systems have no rank, and of whom they have no results."""
    sizes = Counter(data_set for data_set, _ in standing.groups)
    lines = [
        f"- {PARTLY} {paper.system_title(name)} not run on {people_list(groups, sizes)}."
        for name, groups in standing.lacking.items()
    ]
    return [*lines, ""] if lines else []


def people_list(groups: Sequence[Group], sizes: Mapping[str, int]) -> str:
    """People by set; only the set where it is all of them."""
    parts = []
    for one in dict.fromkeys(data_set for data_set, _ in groups):
        people = [person for data_set, person in groups if data_set == one]
        names = "" if len(people) == sizes[one] else f" {', '.join(people)}"
        parts.append(f"{paper.set_title(one)}{names}")
    return "; ".join(parts)


def tests_table(footing: Footing) -> list[str]:
    """Ours against each other system, over everyone."""
    rows = [
        [
            paper.system_title(test.other[0]),
            signed(test.difference),
            f"{test.wins}/{test.losses}/{test.ties}",
            *([p_cell(test.p), p_cell(test.p_holm)] if n_people(test) > 1 else [NONE, NONE]),
        ]
        for test in footing.tests[EVERYONE]
    ]
    return table(["against", "points ahead", "wins/losses/ties", "p", "p, Holm"], rows)


def in_short(name: str, footing: Footing) -> str:
    """Where a system stands among the others, and whom it is surely ahead of or behind."""
    place = 1 + sum(rank < footing.ranks[name] for rank in footing.ranks.values())
    text = (
        f"{paper.system_title(name)} has the mean rank {footing.ranks[name]:.2f}, number {place} "
        f"of {len(footing.ranks)}."
    )
    sure = [t for t in footing.tests[EVERYONE] if t.p_holm < SIGNIFICANT]
    for word, sign in (("ahead of", 1), ("behind", -1)):
        others = [
            f"{paper.system_title(t.other[0])} ({signed(t.difference)})"
            for t in sure
            if sign * t.difference > 0
        ]
        text += f" Significantly {word} {'; '.join(others) or 'nobody'}."
    return text


def harm_lines(harm: Harm, points: float) -> list[str]:
    """MLAT-auto minus ED by set, and everyone for whom it is much below."""
    rows = [[f"{paper.system_title(AUTO)} minus ED", *map(signed, harm.by_set.values())]]
    names = [
        f"- {paper.set_title(one)} {person}: {signed(by)} points" for one, person, by in harm.below
    ]
    below = f"{len(names)} of {harm.n_groups} groups it is below ED by more than {points:g} points"
    return [
        *table(["points", *map(paper.set_title, harm.by_set)], rows),
        f"For {below}{':' if names else '.'}",
        "",
        *([*names, ""] if names else []),
    ]


def seconds_table(width: Width) -> list[str]:
    """The median seconds of a fit."""
    sets = width.everyone.data_sets
    rows = [
        [paper.system_title(name), *(_seconds(by[one]) if one in by else NONE for one in sets)]
        for name, by in width.seconds.items()
        if name != AUTO_FILTERED or AUTO not in width.seconds  # it is the same fit
    ]
    return table(["seconds per fit", *map(paper.set_title, sets)], rows)


def chosen_table(chosen: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What MLAT-auto chose, and how often."""
    rows = [
        [paper.set_title(one), "; ".join(f"{what} ({n})" for what, n in choices.items())]
        for one, choices in chosen.items()
    ]
    return table(["", "chosen (how often)"], rows, left=2)


def windows_table(widths: Mapping[str, Width], n_channels: Mapping[str, int]) -> list[str]:
    """By set: channels, steps per window, reach, and m of those who see every m-th step only."""
    rows = [["channels", *map(str, n_channels.values())]]
    for title, width in widths.items():
        steps = [str(width.steps.get(one, NONE)) for one in n_channels]
        rows.append([f"{title}: steps per window", *steps])
        reach = [str(width.reach.get(one, NONE)) for one in n_channels]
        rows.append([f"{title}: reach of {paper.system_title(AUTO)}", *reach])
        alike: dict[tuple[int, ...], list[str]] = {}
        for name, every in width.every.items():
            alike.setdefault(tuple(every.get(one, 1) for one in n_channels), []).append(name)
        for ms, names in alike.items():
            if max(ms) > 1:
                who = ", ".join(map(paper.system_title, names))
                rows.append([f"{title}: m of {who}", *map(str, ms)])
    return table(["", *map(paper.set_title, n_channels)], rows)


def _accuracy_table(standing: Standing, ranks: Mapping[str, Mapping[str, float]]) -> list[str]:
    sizes = Counter(data_set for data_set, _ in standing.groups)
    best: dict[str, float] = {}
    for by in standing.accuracy.values():
        for one, figure in by.items():
            if figure.n_people == sizes[one]:  # else it is of other people, and no match
                best[one] = max(best.get(one, 0.0), round(figure.mean, 1))
    rows = []
    for name, by in standing.accuracy.items():
        row = [_title(name, standing)]
        for one in standing.data_sets:
            if one not in by:
                row.append(NONE)
            elif by[one].n_people < sizes[one]:
                row.append(f"{mean_cell(by[one], np.nan)} {PARTLY}")
            else:
                row.append(mean_cell(by[one], best[one]))
        row += [_rank(column.get(name), column.values()) for column in ranks.values()]
        rows.append(row)
    return table(["", *map(paper.set_title, standing.data_sets), *ranks], rows)


def _title(name: str, standing: Standing) -> str:
    return paper.system_title(name) + (f" {PARTLY}" if name in standing.lacking else "")


def _rank(rank: float | None, ranks: Iterable[float]) -> str:
    if rank is None:
        return NONE
    text = f"{rank:.2f}"
    return f"**{text}**" if text == f"{min(ranks):.2f}" else text


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return "< 0.1"
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"
