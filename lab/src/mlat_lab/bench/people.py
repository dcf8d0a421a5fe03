"""Accuracy on the development people: those that experts, defaults and constants are chosen on.

Accuracy is in per cent on held-out observations of the same person (protocol ``holdout``): the mean
over people of the mean over runs. CPU seconds are of one fit, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from mlat.classifier.classifier import StreamClassifier
from mlat.metric.estimators import LMNN, MLAT
from mlat.neighbours.search import NearestNeighbors
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows
from mlat.synthetic import rotating_states

from ..experiments.delay import switch_delay
from ..experiments.experiment import Experiment
from ..experiments.people import uci_people
from ..experiments.protocol import Split, as_streams, split, split_seed
from ..experiments.systems import DEVELOPMENT, beyond_experiments
from ..rivals.knn import MDTW, MetricKNN
from ..rivals.lmnn_dtw import LMNNDTW
from .harness import Bench, Row, Stopwatch

Data = Annotated[Path, typer.Argument(help="The folder of the UCI sets.")]
Runs = Annotated[int, typer.Option(min=1, help="Of each person.")]
Seed = Callable[[str, str, int], list[int]]  # of a data set, a person and a run


def experiment_on(data: Path) -> Experiment:
    """The development people, with windows of ten steps."""
    people = [f"{name}:{person}" for name, names in DEVELOPMENT.items() for person in names]
    return Experiment(uci_people(DEVELOPMENT, people, data), {})


def splits(
    experiment: Experiment, n_runs: int, seed: Seed, bench: Bench
) -> Iterator[tuple[str, str, Split]]:
    for name, people in experiment.people.items():
        for person in people.names:
            bench.say(f"[dim]{name} {person}")
            stream, width = people.load(person), experiment.width_of(name)
            for run in range(n_runs):
                drawn = seed(name, person, run)
                yield name, person, split(stream, "holdout", drawn, width=width, given=people.given)


def show(scores: list[Row], title: str, labels: Sequence[str], bench: Bench) -> None:
    """A row of accuracies by set, with their mean and what else there is."""
    sets = list(dict.fromkeys(score["set"] for score in scores))
    rows = []
    for row in dict.fromkeys(tuple(score[label] for label in labels) for score in scores):
        own = [score for score in scores if tuple(score[label] for label in labels) == row]
        by_set: Row = {}
        for one in sets:
            people: dict[str, list[float]] = {}
            for score in own:
                if score["set"] == one:
                    people.setdefault(score["person"], []).append(score["accuracy"])
            by_set[one] = float(np.mean([np.mean(runs) for runs in people.values()]))
        mean = {"mean": float(np.mean(list(by_set.values())))}
        for name in ("CPU_s", "weight"):
            values = [value for score in own if (value := score.get(name)) is not None]
            mean |= {name: float(np.mean(values))} if values else {}
        rows.append({**dict(zip(labels, row, strict=True)), **by_set, **mean})
    bench.table(title, rows, left=len(labels), percent=("weight",))


def committee(bench: Bench, data: Data, runs: Runs = 4) -> None:
    """What the committee is worth beside its experts, equal weights and the Euclidean distance.

    Everyone sees the same splits as in ``mlat-lab reproduce --table beyond``, with windows of ten
    steps and of one second. An expert alone is one of the committee's and has no seconds.
    """
    figures = {}
    with threadpool_limits(1):
        for title, experiment in beyond_experiments(experiment_on(data).people).items():

            def seed(*who: str | int) -> list[int]:
                return split_seed(*who, "holdout")

            figures[title] = [
                {"set": name, "person": person, **row}
                for name, person, parts in splits(experiment, runs, seed, bench)
                for row in _experts(parts, experiment.width_of(name))
            ]
            widths = ", ".join(f"{name} {experiment.width_of(name)}" for name in experiment.people)
            show(figures[title], f"Windows of {title} ({widths} steps)", ["who"], bench)
            bench.keep(figures)


def _experts(parts: Split, width: int) -> Iterator[Row]:
    streams = as_streams(parts)

    def right(who: str, predicted: Any, **more: float) -> Row:
        accuracy = 100 * float((predicted[streams.ends] == parts.test.y).mean())
        return {"who": who, "accuracy": accuracy, **more}

    def fitted(**options: Any) -> tuple[Any, float]:
        with Stopwatch() as spent:
            classifier = StreamClassifier(width, **options).fit(streams.train)
        return classifier, spent.cpu

    euclidean, seconds = fitted(metric="euclidean")
    yield right("Euclidean", euclidean.predict(streams.test), CPU_s=seconds)
    equal, seconds = fitted(held_out=False)
    yield right("equal weights", equal.predict(streams.test), CPU_s=seconds)
    committee, seconds = fitted()
    yield right("**committee**", committee.predict(streams.test), CPU_s=seconds)
    steady = committee.predict(streams.test, filtered=True)
    yield right("**committee**, filtered", steady, CPU_s=seconds)
    weights = {member.name: member.weight for member in committee.committee_.members}
    alone = zip(equal.committee_.deciding, equal.expert_distances(streams.test), strict=True)
    for member, distances in alone:
        nearest = equal.classes_[np.nan_to_num(distances, nan=np.inf).argmin(axis=1)]
        yield right(f"{member.name} alone", nearest, weight=weights[member.name])


VARIATIONS: dict[str, list[Any]] = {
    "target_gap": [0, 10, 50, "run"],
    "n_targets": [1, 3, 5, 10],
    "push_weight": [0.1, 0.3, 0.5, 0.7, 0.9],
    "shrinkage": [0.0, 0.01, 0.1, 1.0, 10.0],
    "n_taps": [1, 5, 10, 20],
    "n_filters": ["half the channels"],
    "max_iter": [25, 50, 100],
    "tol": [1e-2, 1e-3, 1e-4],
}
# Around which one parameter at a time is varied.
BASE: dict[str, Any] = {"n_targets": 3, "n_taps": 10}


def configurations() -> Iterator[tuple[str, Any, Any]]:
    """(what varies, its value, the metric), Euclidean and LMNN first."""
    yield "", "Euclidean", None
    yield "", "LMNN, targets of another run", LMNN(n_targets=3)
    yield "", "LMNN, nearest targets", LMNN(n_targets=3, target_gap=0)
    yield "", "**MLAT, defaults**", MLAT()
    yield "", "MLAT, 3 targets and 10 taps", MLAT(**BASE)
    base = MLAT(**BASE).get_params()
    for name, values in VARIATIONS.items():
        for value in values:
            if value != base[name]:
                yield name, value, MLAT(**{**BASE, name: value})
    for value in (0.1, 0.3, 1.0):
        yield "admm, rho", value, MLAT(solver="admm", n_targets=3, rho=value)
    yield "", "MLAT as in the paper", MLAT.as_in_paper(n_targets=3)


def defaults(
    bench: Bench,
    data: Data,
    runs: Runs = 2,
    only: Annotated[str | None, typer.Option(help="Vary this parameter alone.")] = None,
) -> None:
    """What each default of MLAT is worth: one parameter at a time."""

    def seed(*who: str | int) -> list[int]:
        return split_seed("defaults", *who)

    scores = []
    with threadpool_limits(1):
        drawn = list(splits(experiment_on(data), runs, seed, bench))
        for what, value, metric in configurations():
            if only in (None, what):
                bench.say(f"[dim]{what} {value}")
                for name, person, parts in drawn:
                    row = {"varied": what, "value": str(value), "set": name, "person": person}
                    scores.append({**row, **_nearest(metric, parts)})
                bench.keep(scores)
    show(scores, "What each default is worth", ["varied", "value"], bench)


def _nearest(metric: Any, parts: Split) -> Row:
    train, test = parts.train, parts.test
    if metric is not None and metric.get_params().get("n_filters") == "half the channels":
        metric = clone(metric).set_params(n_filters=-(-train.values.shape[1] // 2))
    with Stopwatch() as spent:
        if metric is not None:
            metric.fit(train.X, train.y, start=train.start, run=train.run)

    def embed(windows: Windows) -> Any:
        flat = windows.X.reshape(len(windows), -1)
        return flat if metric is None else metric.transform(windows.X)

    _, rows = NearestNeighbors(embed(train)).query(embed(test))
    accuracy = 100 * float(np.mean(train.y[rows[:, 0]] == test.y))
    return {"accuracy": accuracy, "CPU_s": spent.cpu}


def lmnn_dtw(bench: Bench, data: Data, runs: Runs = 2) -> None:
    """LMNN-DTW beside MDTW and LMNN: the literature's form and ours.

    On 100 windows per label (few) and on all.
    """
    scores = []
    with threadpool_limits(1):
        for name, person, parts in splits(experiment_on(data), runs, split_seed, bench):
            train = parts.train
            for size, rows in (("few", parts.few), ("all", np.arange(len(train)))):
                systems = {
                    "MDTW": MDTW(),
                    "LMNN, literature": MetricKNN(
                        metric=LMNN(n_targets=3, target_gap=0, push_weight=0.5)
                    ),
                    "LMNN-DTW, literature": LMNNDTW.as_in_paper(),
                    "LMNN-DTW, default": LMNNDTW(),
                }
                for label, model in systems.items():
                    when = {"start": train.start[rows], "run": train.run[rows]}
                    with Stopwatch() as spent:
                        model.fit(train.X[rows], train.y[rows], **({} if label == "MDTW" else when))
                    score = 100 * model.score(parts.test.X, parts.test.y)
                    row = {"windows": size, "system": label, "set": name, "person": person}
                    scores.append({**row, "accuracy": score, "CPU_s": spent.cpu})
            bench.keep(scores)
    show(scores, "1-NN accuracy", ["windows", "system"], bench)
    longest = max(s["CPU_s"] for s in scores if s["system"].startswith("LMNN-DTW"))
    bench.say(f"longest fit of LMNN-DTW: {longest:.1f} s")


def filter_delay(bench: Bench, data: Data) -> None:
    """What the causal filter gains, and how late it is at a switch of states.

    Synthetic streams with runs of 60, 200 and 600 steps, and the whole recordings of the
    development people of SCMA, which switch eight times each. A classifier learns from other steps
    than those it is judged on, but for the given 510 of each label inside SCMA's recordings, which
    are left out.
    """
    rows: list[Row] = []

    def judge(name: str, classifier: StreamClassifier, stream: Stream, judged: Any) -> None:
        starts = np.zeros(len(stream), bool)
        starts[stream.segments.start] = True
        place = {state: code for code, state in enumerate(classifier.classes_.tolist())}
        true = np.array([place.get(state, -1) for state in stream.states.tolist()])
        for filtered in (False, True):
            states = classifier.predict(stream, filtered=filtered)
            codes = np.array([place.get(state, -1) for state in states.tolist()])
            use = judged & (codes >= 0) & (true >= 0)
            late = switch_delay(true, codes, starts)
            accuracy = 100 * float((codes[use] == true[use]).mean())
            row: Row = {"stream": name, "states": "filtered" if filtered else "plain"}
            row |= {"accuracy": accuracy, "switches": late.n_switches}
            row |= {"first_right": late.first_median, "right_for_good": late.settled_median}
            rows.append({**row, "missed": late.missed})

    for steps in (60, 200, 600):
        train = rotating_states(random_state=0, run_length=steps)
        test = rotating_states(random_state=1, run_length=steps)
        for metric in ("auto", "euclidean", "mlat"):
            classifier = StreamClassifier(width=16, metric=metric).fit(train)
            everything = np.ones(len(test), bool)
            judge(f"synthetic, runs of {steps}, {metric}", classifier, test, everything)
    people = uci_people(["scma"], [f"scma:{p}" for p in DEVELOPMENT["scma"]], data)["scma"]
    for person in people.names:
        stream = people.load(person)
        parts = split(stream, "holdout", split_seed("scma", person, 0, "holdout"))
        classifier = StreamClassifier().fit(as_streams(parts).train)
        scaled = Stream(parts.train.values, stream.states, recordings=stream.recordings)
        judge(f"SCMA {person}, auto", classifier, scaled, parts.apart)
    bench.table("The causal filter at switches", rows, left=2, percent=("missed",))
    bench.keep(rows)
