"""What there is of the table beyond the paper's, in journals that need not be complete."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import count

from ..experiments.journal import Job, Result, Results
from ..experiments.runner import Experiment, plan
from .tables import Group

PROTOCOL = "holdout"


def planned(experiment: Experiment, n_runs: int) -> list[Job]:
    """Every system of an experiment on everyone's windows, all of them."""
    return plan(experiment, [PROTOCOL], n_runs, [2])


def gather(
    experiment: Experiment, results: Results, n_runs: int | None = None
) -> tuple[list[Result], Counter[str]]:
    """What there is of an experiment, in the order of its plan.

    Parameters
    ----------
    n_runs : int, optional
        At most; default whatever there is.

    Returns
    -------
    found : list of Result
    stale : counter of system
        Jobs of which there are only results of another version or other settings.
    """
    if n_runs is None:
        n_runs = 1 + max((job.run for job, _ in results), default=-1)
    known = {job for job, _ in results}
    found, stale = [], Counter[str]()
    for job in planned(experiment, n_runs):
        result = results.get((job, experiment.fingerprint(job)))
        if result is not None:
            found.append(result)
        elif job in known:
            stale[job.system] += 1
    return found, stale


def common_runs(results: Sequence[Result]) -> tuple[list[Result], int]:
    """The results of as many runs as all have, and how many runs that is.

    Those who have not one run of everyone do not count for "all"; of them the results of such
    people are kept who have as many runs.
    """
    runs: dict[str, dict[Group, set[int]]] = defaultdict(lambda: defaultdict(set))
    for result in results:
        runs[result["system"]][_group(result)].add(result["run"])
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
        if result["run"] < n_runs and first[result["system"]][_group(result)] >= n_runs
    ]
    return kept, n_runs


def _group(result: Result) -> Group:
    return result["data_set"], result["person"]
