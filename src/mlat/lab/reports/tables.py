"""From single results to the figures of a table: means, deviations, intervals, ranks, tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ...checks import Floats
from ..experiments.journal import Result

Group = tuple[str, str]  # data set and person
Trained = tuple[str, str]  # system and size

N_RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Figure:
    """One entry of a table.

    Attributes
    ----------
    mean : float
        The mean over people of the mean over runs.
    deviation : float or None
        The standard deviation over a person's runs, root mean square over people; None with one
        run.
    low, high : float or None
        The bootstrap interval of the mean over people; None with one person.
    n_people : int
    """

    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    n_people: int


@dataclass(frozen=True)
class Comparison:
    """A Wilcoxon signed-rank test of one system against another, over people.

    Attributes
    ----------
    other : (system, size)
    difference : float
        The mean over people of how much the first is ahead, in points.
    wins, losses, ties : int
    p : float
        Two-sided.
    p_holm : float
        The same, corrected for the number of systems compared with (Holm 1979).
    """

    other: Trained
    difference: float
    wins: int
    losses: int
    ties: int
    p: float
    p_holm: float


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


def signed(points: float) -> str:
    """Points with their sign, and none of them where they round to 0."""
    return f"{round(points, 1) + 0.0:+.1f}" if round(points, 1) else "0.0"


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
    q = float(stats.studentized_range.ppf(CONFIDENCE, n_systems, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(n_systems * (n_systems + 1) / (6 * n_groups)))


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Maximal stretches [first, last] of sorted ranks that the difference does not tell apart."""
    order = sorted(ranks)
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(order):
        last = max(i for i, other in enumerate(order) if other - rank <= difference)
        if last > first and not any(a <= first and last <= b for a, b in found):
            found.append((first, last))
    return found
