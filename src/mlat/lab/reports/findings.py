"""What agrees with the paper and what does not, said from the numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..experiments.journal import Result
from ..experiments.systems import ALL
from . import paper
from .summary import ON_ALL, TABLE_2, Section
from .tables import Figure, signed

# A gap counts as the paper's if it has the same sign and is within this factor of it.
GAP_FACTOR = 2.0
# Levels agree if they are closer than this many deviations of their difference.
LEVEL_DEVIATIONS = 2.0
# An order agrees if this share of the pairs of systems stands as in the paper.
ORDER_SHARE = 0.8


@dataclass(frozen=True)
class Finding:
    """One thing the paper says, and whether it came out so."""

    agrees: bool
    text: str


@dataclass(frozen=True)
class Loss:
    """A person for whom our metric is behind the Euclidean one on the same windows."""

    data_set: str
    person: str
    difference: float
    by_label: tuple[tuple[str, float], ...]  # the largest loss first


def findings(section: Section) -> list[Finding]:
    """Everything the paper says that these figures can be held against."""
    found: list[Finding] = []
    table_2 = section.footings.get(TABLE_2)
    if table_2 is not None:
        for name in [name for name in table_2.accuracy if name in paper.TABLE_2]:
            ours, theirs = table_2.accuracy[name], paper.TABLE_2[name]
            if all(system in ours for system in theirs):
                found += [
                    _level(name, ours["ED"], *theirs["ED"]),
                    _best(name, {s: ours[s].mean for s in theirs}),
                    _order(name, {s: ours[s].mean for s in theirs}),
                    _gap(name, ours, "ED"),
                    _gap(name, ours, "LMNN"),
                ]
    for name in [name for name in section.gains if name in paper.TABLE_3]:
        found.append(_gains(name, section.gains[name]))
    on_all = section.footings.get(ON_ALL)
    if on_all is not None and {"MLAT-paper", "LMNN"} <= set(on_all.ranks):
        found.append(_still_ahead(on_all.accuracy))
    return found


def _level(name: str, ours: Figure, mean: float, deviation: float) -> Finding:
    difference = ours.mean - mean
    spread = float(np.hypot(ours.deviation or 0.0, deviation))
    apart = f"{abs(difference):.1f} points {'above' if difference > 0 else 'below'}"
    return Finding(
        abs(difference) <= LEVEL_DEVIATIONS * spread,
        f"{paper.set_title(name)}, the level: ED has {ours.mean:.1f} %, {apart} the paper's "
        f"{mean:.1f} %.",
    )


def _best(name: str, ours: dict[str, float]) -> Finding:
    theirs = {system: mean for system, (mean, _) in paper.TABLE_2[name].items()}
    best, expected = _first(ours), _first(theirs)
    which = "as in the paper" if best == expected else f"where in the paper it is {expected}"
    return Finding(
        best == expected,
        f"{paper.set_title(name)}, the best of the paper's five: {best} with "
        f"{max(ours.values()):.1f} %, {which}.",
    )


def _first(accuracy: dict[str, float]) -> str:
    return paper.system_title(max(accuracy, key=lambda system: accuracy[system]))


def _order(name: str, ours: dict[str, float]) -> Finding:
    theirs = paper.TABLE_2[name]
    pairs = list(combinations(theirs, 2))
    kept = sum((ours[a] - ours[b]) * (theirs[a][0] - theirs[b][0]) > 0 for a, b in pairs)
    return Finding(
        kept >= ORDER_SHARE * len(pairs),
        f"{paper.set_title(name)}, the order: {kept} of {len(pairs)} pairs of systems stand as in "
        "the paper.",
    )


def _gap(name: str, ours: Mapping[str, Figure], rival: str) -> Finding:
    theirs = paper.TABLE_2[name]
    expected = theirs["MLAT-paper"][0] - theirs[rival][0]
    gap = ours["MLAT-paper"].mean - ours[rival].mean
    default = ours["MLAT"].mean - ours[rival].mean if "MLAT" in ours else None
    beside = "" if default is None else f" (our MLAT {signed(default)})"
    agrees = gap * expected > 0 and 1 / GAP_FACTOR <= gap / expected <= GAP_FACTOR
    return Finding(
        agrees,
        f"{paper.set_title(name)}, MLAT against {rival}: {signed(gap)} points in the "
        f"paper's form{beside}, where the paper has {signed(expected)}.",
    )


def _gains(name: str, gains: Mapping[str, Figure]) -> Finding:
    theirs = paper.TABLE_3[name]
    other = [s for s in theirs if gains[s].mean * theirs[s] < 0]
    listed = ", ".join(f"{s} {signed(gains[s].mean)} (paper {signed(theirs[s])})" for s in other)
    what = f"of the other sign: {listed}" if other else "all of the paper's sign"
    return Finding(
        len(other) <= 1,
        f"{paper.set_title(name)}, the gain from all windows (Table 3): {what}.",
    )


def _still_ahead(accuracy: Mapping[str, Mapping[str, Figure]]) -> Finding:
    gaps = {name: by["MLAT-paper"].mean - by["LMNN"].mean for name, by in accuracy.items()}
    listed = ", ".join(f"{paper.set_title(name)} {signed(gap)}" for name, gap in gaps.items())
    return Finding(
        all(gap > 0 for gap in gaps.values()),
        "The paper's MLAT against LMNN when both train on all windows, which the paper says it "
        f"beats: {listed}.",
    )


def losses(results: Sequence[Result], protocol: str) -> list[Loss]:
    """For whom MLAT is behind ED on the same windows, and with which labels."""
    right: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["protocol"] != protocol or result["size"] != ALL:
            continue
        sign = {"MLAT": 1, "ED": -1}.get(result["system"])
        if sign is None:
            continue
        by_label = right[result["data_set"], result["person"]]
        by_label[""].append(sign * result["accuracy"])
        for label, total in result["total"].items():
            by_label[label].append(sign * 100 * result["right"][label] / total)
    found = []
    for (data_set, person), by_label in right.items():
        # Each list holds as many accuracies of the one as of the other.
        differences = {label: 2 * float(np.mean(v)) for label, v in by_label.items()}
        overall = differences.pop("")
        if overall < 0:
            labels = sorted(differences.items(), key=lambda item: item[1])
            found.append(Loss(data_set, person, overall, tuple(labels)))
    return sorted(found, key=lambda loss: loss.difference)
