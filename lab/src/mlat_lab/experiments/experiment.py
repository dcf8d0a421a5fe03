"""An experiment: systems, people and settings, the jobs they make, and each job's fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from mlat import __version__

from .journal import Job, Result, Results
from .past import unweighted_default
from .people import People
from .protocol import WITHIN_SHARE
from .stream_protocol import AFTER_SWITCH, LEAST_WINDOWS, MOST_GIVEN, STREAM_PROTOCOLS

# How much a system trains on: the paper's 100 random windows per label, or all windows.
FEW, ALL = "few", "all"


class Sees(StrEnum):
    """What a system learns from and predicts by."""

    WINDOW = "window"  # the steps of a window
    PAST = "past"  # a window, and as many steps before it as our default may look at
    FEATURES = "features"  # the features of our default, of the last step of a window
    STREAM = "stream"  # a stream: it is a `StreamClassifier`, which predicts every step


@dataclass(frozen=True)
class System:
    """A classifier of windows, and how much it trains on in the paper's tables.

    Attributes
    ----------
    name : str
    make : callable
        From the name of a data set and a size to a fresh estimator. Worker processes call it, so
        it must be picklable.
    sizes : tuple of str
        A rival trains on few windows in Table 2 and on all in Table 3; MLAT always on all.
    sees : Sees
    filtered : bool
        Its states are those of the causal filter.
    alone : bool
        Judge each expert of its committee by itself, too.
    needs : str or None
        A package that it needs and that only an extra installs.
    """

    name: str
    make: Callable[[str, str], Any]
    sizes: tuple[str, ...] = (FEW, ALL)
    sees: Sees = Sees.WINDOW
    filtered: bool = False
    alone: bool = False
    needs: str | None = None

    @property
    def is_rival(self) -> bool:
        return FEW in self.sizes

    @property
    def table_2_size(self) -> str:
        return self.sizes[0]


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a result.

    Attributes
    ----------
    people : mapping of data set to People
    systems : mapping of name to System
    width, n_few, n_test : int
        As for :func:`mlat_lab.experiments.protocol.split`, and for
        :func:`mlat_lab.experiments.stream_protocol.split_stream`.
    work : callable, optional
        From the experiment and a job to its result; default to train a system on a split and judge
        it. Worker processes call it, so it must be picklable.
    """

    people: Mapping[str, People]
    systems: Mapping[str, System]
    width: int = 10
    n_few: int = 100
    n_test: int = 500
    work: Callable[[Experiment, Job], Result] | None = None

    def width_of(self, data_set: str) -> int:
        """The steps per window of a set."""
        return self.people[data_set].width or self.width

    def on_all_windows(self) -> Experiment:
        """The same with every system on all windows, also in Table 2."""
        systems = {name: replace(one, sizes=(ALL,)) for name, one in self.systems.items()}
        return replace(self, systems=systems)

    def fingerprint(self, job: Job) -> str:
        """Changes with whatever could change the job's result, and with nothing else."""
        people, system = self.people[job.data_set], self.systems[job.system]
        settings = {
            "version": __version__,
            "width": self.width_of(job.data_set),
            "n_few": self.n_few,
            "n_test": self.n_test,
            "given": people.given,
            "options": people.options,
            "within_share": WITHIN_SHARE,
            "system": describe(system.make(job.data_set, job.size)),
        }
        if system.sees in (Sees.PAST, Sees.FEATURES):
            settings["sees"] = [system.sees, describe(unweighted_default())]
        if job.protocol in STREAM_PROTOCOLS:
            settings["streams"] = [MOST_GIVEN, LEAST_WINDOWS, AFTER_SWITCH]
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(estimator: Any) -> dict[str, Any]:
    """An estimator's class and parameters, as JSON would have them."""
    description: dict[str, Any] = {"class": type(estimator).__name__}
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if hasattr(value, "get_params"):
            description[name] = describe(value)
        elif value is None or isinstance(value, bool | int | float | str):
            description[name] = value
        else:
            description[name] = repr(value)
    return description


def plan(
    experiment: Experiment,
    protocols: Sequence[str],
    n_runs: int,
    tables: Iterable[int] = (2, 3),
) -> list[Job]:
    """The jobs of the tables.

    All people's first run comes first, then all second runs: a run that is stopped has something
    of everyone, and ``n_runs`` can be lowered to what is done.
    """
    wanted = set(tables)
    trained = [
        (system.name, size)
        for system in experiment.systems.values()
        for size in system.sizes
        if (2 in wanted and size == system.table_2_size) or (3 in wanted and system.is_rival)
    ]
    return [
        Job(name, person, run, protocol, system, size)
        for run in range(n_runs)
        for name, people in experiment.people.items()
        for person in people.names
        for protocol in protocols
        for system, size in trained
    ]


def gather(
    experiment: Experiment,
    results: Results,
    n_runs: int | None = None,
    protocol: str = "holdout",
) -> tuple[list[Result], Counter[str]]:
    """What a journal has of an experiment under a protocol, in the order of the plan.

    Parameters
    ----------
    results : Results
        Of any jobs; some may be missing.
    n_runs : int, optional
        At most; default whatever there is.

    Returns
    -------
    found : list of Result
    stale : counter of system
        Jobs that have only results of another version or other settings.
    """
    known = {job for job, _ in results}
    if n_runs is None:
        n_runs = 1 + max((job.run for job in known), default=-1)
    found, stale = [], Counter[str]()
    for job in plan(experiment, [protocol], n_runs, [2]):
        result = results.get((job, experiment.fingerprint(job)))
        if result is not None:
            found.append(result)
        elif job in known:
            stale[job.system] += 1
    return found, stale
