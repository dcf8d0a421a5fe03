"""Labelling with a perfect annotator, simulated: which spans to ask for.

Spans are asked for one after the other, and the annotator says the state of every step of each: he
cuts a span where the state changes, and says so where there is none. After each answer the rest of
the recording is judged. For speed the rest is judged by the nearest labelled window under the
features of :mod:`mlat.label.active_learning`; of one recording of each set the default classifier
judges it,
too, when a tenth of it is answered.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mlat.base.checks import Bools, Floats, Ints
from mlat.base.errors import InputError
from mlat.classifier.classifier import StreamClassifier
from mlat.label.active_learning import QueryStrategy, uncertainty_of
from mlat.stream.stream import Stream

from ..datasets.catalog import any_set
from .enrolment import distances_at
from .experiment import ALL, Experiment, Sees, System
from .journal import Job, Result
from .people import People

OURS, RANDOM, UNIFORM, UNCERTAINTY = "ours", "random", "uniform", "largest uncertainty"
STRATEGIES = (OURS, RANDOM, UNIFORM, UNCERTAINTY)
SEEDS: Mapping[str, int] = {OURS: 1, RANDOM: 5, UNIFORM: 1, UNCERTAINTY: 5}
GOAL = 0.95  # of the accuracy of all labels
MOST_ANSWERED = 0.6  # of the steps; who has not reached the goal by then needs all of them
LASTING = 3  # answers over whose mean the goal must be reached
GRID = tuple(range(1, 51))  # per cent of the steps, of the curves
N_SPANS = tuple(range(1, 61))  # of the curves against spans
CHECKED = 0.1  # of the steps, when the default classifier judges
WIDTH = 10


def active_learning_experiment(people: Mapping[str, People]) -> Experiment:
    """The experiment of people by data set; each job is one recording, with all strategies."""
    # The name under which results of before are stored.
    settings = {"asking": [GOAL, MOST_ANSWERED, LASTING, CHECKED, dict(SEEDS)]}
    several = {
        name: replace(of_set, options={**of_set.options, **settings})
        for name, of_set in people.items()
    }
    system = System(OURS, _default, (ALL,), sees=Sees.STREAM)
    return Experiment(several, {OURS: system}, WIDTH, work=simulate_job)


def _default(data_set: str, size: str) -> StreamClassifier:
    return StreamClassifier()


def simulate_job(experiment: Experiment, job: Job) -> Result:
    """All strategies on one recording."""
    people = experiment.people[job.data_set]
    began = time.perf_counter()
    stream = people.load(job.person)
    rate = any_set(job.data_set).rate
    simulation = Simulation(stream)
    checks = job.person == people.names[0]
    found = {}
    for name in STRATEGIES:
        curves = [simulation.run(name, seed) for seed in range(SEEDS[name])]
        reached = [simulation.reached(curve) for curve in curves]
        found[name] = {
            "seconds": float(np.mean([one[0] for one in reached])) / rate,
            "spans": float(np.mean([one[1] for one in reached])),
            "by_share": _mean([curve.by_share(len(stream)) for curve in curves]),
            "by_spans": _mean([curve.by_spans() for curve in curves]),
        }
        if checks and name in (OURS, RANDOM):
            found[name]["default"] = simulation.check(name)
    seconds = round(time.perf_counter() - began, 4)
    return {
        **job._asdict(),
        "fingerprint": experiment.fingerprint(job),
        "accuracy": 100.0 * simulation.all_labels,
        "right": {},
        "total": {},
        "n_train": len(stream),
        "n_test": int((simulation.truth >= 0).sum()),
        "left_out": {},
        "fit_seconds": 0.0,
        "predict_seconds": seconds,
        "span": simulation.queries.span / rate,
        "length": len(stream) / rate,
        "strategies": found,
    }


def _mean(curves: list[list[float]]) -> list[float | None]:
    """The mean of curves of accuracy in per cent; None where some have ended."""
    stacked = np.array(curves).mean(axis=0)
    return [None if np.isnan(value) else round(100 * float(value), 2) for value in stacked]


class Curve:
    """What was answered after each query: steps, and the accuracy on the rest."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.accuracy: list[float] = []

    def by_share(self, n_steps: int) -> list[float]:
        """The accuracy when each per cent of ``GRID`` of the steps is answered; NaN beyond."""
        place = np.searchsorted(self.steps, np.array(GRID) / 100 * n_steps, side="right") - 1
        values = np.append(self.accuracy, np.nan)
        ended = np.array(GRID) / 100 * n_steps > self.steps[-1]
        return np.where((place < 0) | ended, np.nan, values[place]).tolist()

    def by_spans(self) -> list[float]:
        """The accuracy after each number of queries; NaN beyond."""
        values = np.array(self.accuracy)
        return [values[n - 1] if n <= len(values) else np.nan for n in N_SPANS]


class Simulation:
    """A recording whose states are known to the annotator alone.

    Attributes
    ----------
    all_labels : float
        The balanced accuracy when all is answered but a span on either side of each window.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream, self.queries = stream, QueryStrategy(stream)
        self.truth = stream.codes[self.queries.ends]
        if len(np.unique(self.truth[self.truth >= 0])) < 2:
            raise InputError("the recording has fewer than two states to ask for")
        self.all_labels = self._all_labels()

    def run(self, strategy: str, seed: int = 0, until: float = MOST_ANSWERED) -> Curve:
        """Ask until so much of the recording is answered."""
        return self._ask(strategy, seed, until)[0]

    def _ask(self, strategy: str, seed: int, until: float) -> tuple[Curve, Bools]:
        answered = np.zeros(len(self.stream), dtype=bool)
        choose = _CHOICES[strategy](self, np.random.default_rng(seed))
        curve, nearest = Curve(), np.full((len(self.truth), self.n_states), np.inf)
        while answered.mean() < until:
            span = choose(answered)
            if span is None:
                break
            new = ~answered[self.queries.ends]
            answered[slice(*span)] = True
            new &= answered[self.queries.ends]
            for code in np.unique(self.truth[new & (self.truth >= 0)]):
                rows = new & (self.truth == code)
                nearest[:, code] = np.minimum(
                    nearest[:, code], self.queries.distances[:, rows].min(axis=1)
                )
            curve.steps.append(int(answered.sum()))
            curve.accuracy.append(self._judge(nearest, answered))
        return curve, answered

    @property
    def n_states(self) -> int:
        return len(self.stream.classes)

    def _judge(self, nearest: Floats, answered: Bools) -> float:
        rest = ~answered[self.queries.ends] & (self.truth >= 0)
        known = np.isfinite(nearest).any(axis=1)
        return balanced(np.where(known, nearest.argmin(axis=1), -1)[rest], self.truth[rest])

    def _all_labels(self) -> float:
        queries, judged = self.queries, self.truth >= 0
        distances = queries.distances.copy()
        near = np.abs(queries.ends[:, None] - queries.ends) < queries.span
        distances[near & (queries.begin[:, None] == queries.begin)] = np.inf
        distances[:, ~judged] = np.inf
        found = np.where(np.isfinite(distances.min(axis=1)), self.truth[distances.argmin(1)], -1)
        return balanced(found[judged], self.truth[judged])

    def reached(self, curve: Curve) -> tuple[float, float]:
        """The steps and the spans after which the goal is reached; all where it is not."""
        accuracy = np.nan_to_num(np.array(curve.accuracy), nan=1.0)
        for i in range(len(accuracy) - LASTING + 1):
            if accuracy[i : i + LASTING].mean() >= GOAL * self.all_labels:
                return float(curve.steps[i]), float(i + 1)
        return float(len(self.stream)), len(self.stream) / self.queries.span

    def check(self, strategy: str) -> float | None:
        """The accuracy in per cent of the default classifier, from a tenth of the recording."""
        _, answered = self._ask(strategy, 0, CHECKED)
        stream, queries = self.stream, self.queries
        states = np.where(answered, stream.states, stream.no_state)
        labelled = stream.with_states(states, unlabelled=stream.no_state)
        rest = ~answered[queries.ends] & (self.truth >= 0)
        rest &= queries.ends - queries.begin + 1 >= WIDTH
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                model = StreamClassifier(WIDTH).fit(labelled)
            except InputError:  # of fewer than two states
                return None
            nearest = distances_at(model, labelled, queries.ends[rest])
        found = np.searchsorted(stream.classes, model.classes_)[nearest.argmin(axis=1)]
        return 100.0 * balanced(found, self.truth[rest])


def balanced(found: Ints, truth: Ints) -> float:
    """The mean recall of the states that occur; NaN where none does."""
    recalls = [float((found[truth == code] == code).mean()) for code in np.unique(truth)]
    return float(np.mean(recalls)) if recalls else np.nan


# Strategies: from a simulation and a generator to a function from what is answered to a span.

Choice = Callable[[Bools], tuple[int, int] | None]


def _ours(simulation: Simulation, rng: np.random.Generator) -> Choice:
    stream = simulation.stream

    def choose(answered: Bools) -> tuple[int, int] | None:
        codes = np.where(answered, stream.codes, -1)
        query = simulation.queries.query(codes, answered, stream.classes)
        return None if query is None else (query.start, query.end)

    return choose


def _free(queries: QueryStrategy, answered: Bools) -> Ints:
    """The spans that are answered by less than half."""
    count = np.concatenate([[0], np.cumsum(answered)])
    share = (count[queries.end] - count[queries.start]) / (queries.end - queries.start)
    return np.flatnonzero(share < 0.5)


def _span(queries: QueryStrategy, row: Any) -> tuple[int, int]:
    return int(queries.start[row]), int(queries.end[row])


def _random(simulation: Simulation, rng: np.random.Generator) -> Choice:
    queries = simulation.queries

    def choose(answered: Bools) -> tuple[int, int] | None:
        free = _free(queries, answered)
        return _span(queries, rng.choice(free)) if len(free) else None

    return choose


def _uniform(simulation: Simulation, rng: np.random.Generator) -> Choice:
    """Evenly over the recording, at every time: the middle, the quarters, the eighths, …"""
    queries, n = simulation.queries, len(simulation.queries.start)
    order = dict.fromkeys(int(_half_turned(k) * n) for k in range(1, 8 * n))
    queue = iter([*order, *range(n)])

    def choose(answered: Bools) -> tuple[int, int] | None:
        free = set(_free(queries, answered).tolist())
        return next((_span(queries, row) for row in queue if row in free), None)

    return choose


def _half_turned(k: int) -> float:
    """The k-th number of van der Corput's sequence: the binary digits of k behind the point."""
    digits = bin(k)[:1:-1]
    return sum(int(digit) / 2**i for i, digit in enumerate(digits, 1))


def _uncertainty(simulation: Simulation, rng: np.random.Generator) -> Choice:
    """The span that is most between two states; at random until there are two."""
    queries, codes = simulation.queries, simulation.stream.codes
    at_random = _random(simulation, rng)

    def choose(answered: Bools) -> tuple[int, int] | None:
        known = np.where(answered, codes, -1)[queries.ends]
        if len(np.unique(known[known >= 0])) < 2:
            return at_random(answered)
        _, nearest = queries.look(known, answered[queries.ends])
        uncertainty = np.where(answered[queries.ends], 0.0, uncertainty_of(nearest))
        free = _free(queries, answered)
        worth = queries.over_spans(uncertainty)[free]
        return _span(queries, free[worth.argmax()]) if len(free) else None

    return choose


_CHOICES: Mapping[str, Callable[[Simulation, np.random.Generator], Choice]] = {
    OURS: _ours,
    RANDOM: _random,
    UNIFORM: _uniform,
    UNCERTAINTY: _uncertainty,
}
