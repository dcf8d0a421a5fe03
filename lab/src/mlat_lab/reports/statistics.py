"""From single results to figures: means, deviations, intervals, ranks and tests over people.

Every table is made of these: a `Figure` is one entry, a `Footing` compares some systems with each
other, a `Section` holds the footings over some people, a `Summary` all that a page tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import stats

from mlat import __version__
from mlat.base.checks import Floats

from ..experiments.experiment import ALL, Experiment, describe
from ..experiments.journal import Result
from ..experiments.systems import DEVELOPMENT

Group = tuple[str, str]  # data set and person
Trained = tuple[str, str]  # system and size

N_RESAMPLES = 10_000
CONFIDENCE = 0.95
EVERYONE = "all groups"
WITHOUT_DEVELOPMENT = "Without the people the defaults were chosen on"


@dataclass(frozen=True)
class Figure:
    """One entry of a table: the mean over people of the mean over runs."""

    mean: float
    deviation: float | None  # over a person's runs, root mean square over people; None with one run
    low: float | None  # the bootstrap interval of the mean over people; None with one person
    high: float | None
    n_people: int


@dataclass(frozen=True)
class Comparison:
    """A two-sided Wilcoxon signed-rank test of one system against another, over people."""

    other: Trained
    difference: float  # the mean over people of how much the first is ahead, in points
    wins: int
    losses: int
    ties: int
    p: float
    p_holm: float  # corrected for the number of systems compared with (Holm 1979)

    @property
    def n_people(self) -> int:
        return self.wins + self.losses + self.ties


@dataclass(frozen=True)
class Footing:
    """Systems that are compared with each other."""

    trained: tuple[Trained, ...]
    accuracy: Mapping[str, Mapping[str, Figure]]  # by data set and system
    ranks: Mapping[str, float]  # the mean over people
    critical_difference: float
    tests: Mapping[str, Sequence[Comparison]]  # of ours, over everyone and in each data set


@dataclass(frozen=True)
class Section:
    """The figures over some people, on one or more footings."""

    groups: tuple[Group, ...]
    footings: Mapping[str, Footing]

    @property
    def data_sets(self) -> list[str]:
        return list(dict.fromkeys(data_set for data_set, _ in self.groups))


def same_over(section: Section) -> str:
    return f"The same over {len(section.groups)} groups."


class Scores:
    """The accuracies of one protocol, by person, system, size and run.

    Parameters
    ----------
    results : iterable of Result
    protocol : str
    without : mapping of data set to people, optional
        People to leave out.
    """

    def __init__(
        self,
        results: Iterable[Result],
        protocol: str,
        without: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        runs: dict[Group, dict[Trained, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        for result in results:
            data_set, person = result["data_set"], result["person"]
            if result["protocol"] == protocol and person not in (without or {}).get(data_set, ()):
                trained = result["system"], result["size"]
                runs[data_set, person][trained][result["run"]] = result["accuracy"]
        self.runs = {group: dict(by) for group, by in runs.items()}

    @property
    def groups(self) -> list[Group]:
        return list(self.runs)

    @property
    def data_sets(self) -> list[str]:
        return list(dict.fromkeys(data_set for data_set, _ in self.runs))

    @property
    def trained(self) -> list[Trained]:
        return list(dict.fromkeys(trained for by in self.runs.values() for trained in by))

    def lacking(self, trained: Trained) -> list[Group]:
        """The groups without a result of a system."""
        return [group for group in self.groups if trained not in self.runs[group]]

    def by_person(self, trained: Trained, data_set: str) -> dict[str, float]:
        """The mean over runs of each person of a set who has results."""
        return {
            person: float(self._of_runs((data_set, person), trained).mean())
            for _, person in self._of_set(data_set, trained)
        }

    def means(self, trained: Trained, data_set: str | None = None) -> Floats:
        """Each person's mean over runs, of one set or of all; everyone must have results."""
        return np.array(
            [
                np.mean(list(self.runs[group][trained].values()))
                for group in self.groups
                if data_set in (None, group[0])
            ]
        )

    def figure(self, trained: Trained, data_set: str) -> Figure:
        """The accuracy of a system in a set, over the people who have results of it."""
        by_run = [self._of_runs(group, trained) for group in self._of_set(data_set, trained)]
        return _figure(by_run)

    def gain(self, system: str, few: str, all_: str, data_set: str) -> Figure:
        """What a system gains from ``few`` to ``all_``, run by run."""
        by_run = [
            self._of_runs(group, (system, all_)) - self._of_runs(group, (system, few))
            for group in self._of_set(data_set)
        ]
        return _figure(by_run)

    def _of_set(self, data_set: str, trained: Trained | None = None) -> list[Group]:
        return [
            group
            for group, by in self.runs.items()
            if group[0] == data_set and (trained is None or trained in by)
        ]

    def _of_runs(self, group: Group, trained: Trained) -> Floats:
        by_run = self.runs[group][trained]
        return np.array([by_run[run] for run in sorted(by_run)])

    def ranks(self, trained: Sequence[Trained]) -> Floats:
        """The mean rank of each over all people; 1 is the best, equals share their ranks."""
        accuracy = np.stack([self.means(one) for one in trained], axis=1)
        # Ties are ties of test windows counted, not of how sums were rounded.
        return np.asarray(stats.rankdata(-accuracy.round(9), axis=1).mean(axis=0))

    def compare(
        self, ours: Trained, others: Sequence[Trained], data_set: str | None = None
    ) -> list[Comparison]:
        """Test one system against each of the others, over the people of a set or of all."""
        first = self.means(ours, data_set)
        differences = [(first - self.means(other, data_set)).round(9) for other in others]
        p_values = [_wilcoxon(difference) for difference in differences]
        return [
            Comparison(
                other,
                float(difference.mean()),
                int((difference > 0).sum()),
                int((difference < 0).sum()),
                int((difference == 0).sum()),
                p,
                p_holm,
            )
            for other, difference, p, p_holm in zip(
                others, differences, p_values, holm(p_values), strict=True
            )
        ]

    def footing(self, trained: Sequence[Trained], ours: Trained) -> Footing:
        """Compare systems that everyone has results of, and test ours against the others."""
        tests = {}
        if ours in trained:
            others = [one for one in trained if one != ours]
            scopes = {EVERYONE: None, **{data_set: data_set for data_set in self.data_sets}}
            tests = {scope: self.compare(ours, others, within) for scope, within in scopes.items()}
        return Footing(
            tuple(trained),
            {
                data_set: {one[0]: self.figure(one, data_set) for one in trained}
                for data_set in self.data_sets
            },
            dict(zip((name for name, _ in trained), self.ranks(trained).tolist(), strict=True)),
            critical_difference(len(trained), len(self.groups)),
            tests,
        )


P = TypeVar("P")


@dataclass(frozen=True)
class Summary(Generic[P]):
    """Everything in a report: a part for each protocol, width of windows, or kind of stream."""

    settings: Mapping[str, Any]
    parts: Mapping[str, P]


def summarise(
    results: Mapping[str, Sequence[Result]],
    experiments: Mapping[str, Experiment],
    part: Callable[[str, Sequence[Result], Experiment], P],
    **settings: Any,
) -> Summary[P]:
    """The figures of every part that has results, and settings beside those that all tell."""
    one = next(iter(experiments.values()))
    common = {
        "version": __version__,
        "width": one.width,
        "test_windows_per_label": one.n_test,
        "systems": {name: describe(made.make("", ALL)) for name, made in one.systems.items()},
    }
    there = {name: found for name, found in results.items() if found}
    parts = {name: part(name, found, experiments[name]) for name, found in there.items()}
    return Summary({**common, **settings}, parts)


def grouped(results: Iterable[Result], field: str) -> dict[str, list[Result]]:
    """The results by what a field of theirs says, such as the data set."""
    found: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        found[result[field]].append(result)
    return dict(found)


S = TypeVar("S", bound=Section)


def sections_of(
    results: Sequence[Result], protocol: str, make: Callable[[Scores], S]
) -> tuple[S, S | None]:
    """The section over everyone, and the one without the people the defaults were chosen on.

    The second is None where it would be the first, or nobody.
    """
    everyone = Scores(results, protocol)
    others = Scores(results, protocol, without=DEVELOPMENT)
    fewer = 0 < len(others.groups) < len(everyone.groups)
    return make(everyone), make(others) if fewer else None


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


def common_runs(results: Sequence[Result]) -> tuple[list[Result], int]:
    """The results of as many runs as all systems have, and how many runs that is.

    A system that lacks a run of somebody does not count for "all". Of such a system the results of
    those people are kept who have as many runs.
    """
    runs: dict[str, dict[Group, set[int]]] = defaultdict(lambda: defaultdict(set))
    for result in results:
        runs[result["system"]][result["data_set"], result["person"]].add(result["run"])
    groups = {group for by in runs.values() for group in by}
    first = {
        system: {group: next(i for i in count() if i not in by[group]) for group in by}
        for system, by in runs.items()
    }
    whole = [min(by.values()) for by in first.values() if by.keys() == groups]
    n_runs = min((n for n in whole if n), default=1)
    kept = [
        result
        for result in results
        if result["run"] < n_runs
        and first[result["system"]][result["data_set"], result["person"]] >= n_runs
    ]
    return kept, n_runs


def median_seconds(results: Iterable[Result]) -> dict[Trained, dict[str, float]]:
    """The median time of a fit, by system, size and data set."""
    times: dict[Trained, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        by_set = times[result["system"], result["size"]]
        by_set[result["data_set"]].append(result["fit_seconds"])
    return {
        trained: {one: float(np.median(seconds)) for one, seconds in by_set.items()}
        for trained, by_set in times.items()
    }


def _figure(by_run: list[Floats]) -> Figure:
    means = np.array([runs.mean() for runs in by_run])
    deviation = None
    if min(len(runs) for runs in by_run) > 1:
        deviation = float(np.sqrt(np.mean([runs.var(ddof=1) for runs in by_run])))
    low, high = bootstrap(means)
    return Figure(float(means.mean()), deviation, low, high, len(means))


def bootstrap(means: Floats, seed: int = 0) -> tuple[float | None, float | None]:
    """The percentile interval of the mean when people are drawn again with replacement."""
    n = len(means)
    if n < 2:
        return None, None
    drawn = np.random.default_rng(seed).integers(n, size=(N_RESAMPLES, n))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means[drawn].mean(axis=1), [tail, 100 - tail])
    return float(low), float(high)


def _wilcoxon(difference: Floats) -> float:
    if not difference.any():
        return 1.0  # nobody differs: there is nothing to rank
    return float(stats.wilcoxon(difference).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number, as Holm (1979) does."""
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for place, i in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        corrected[i] = largest
    return corrected


def critical_difference(n_systems: int, n_groups: int) -> float:
    """The difference of mean ranks that the Nemenyi test takes for real (Demšar 2006)."""
    return float(_nemenyi(n_systems) * np.sqrt(n_systems * (n_systems + 1) / (6 * n_groups)))


@cache  # it takes seconds to compute
def _nemenyi(n_systems: int) -> float:
    return float(float(stats.studentized_range.ppf(CONFIDENCE, n_systems, np.inf)) / np.sqrt(2))


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Maximal intervals [first, last] of sorted ranks that are at most the difference apart."""
    order = sorted(ranks)
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(order):
        last = max(i for i, other in enumerate(order) if other - rank <= difference)
        if last > first and not any(a <= first and last <= b for a, b in found):
            found.append((first, last))
    return found
