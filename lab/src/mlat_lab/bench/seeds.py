"""The demo on other seeds than its own, and aeon's sets: accuracy at the defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

from mlat.base.errors import require_package
from mlat.classifier.classifier import StreamClassifier
from mlat.cli.demo import AUTO, SENSORS, SYSTEMS, TEST, TRAIN, WIDTH, System
from mlat.metric.estimators import LMNN, MLAT
from mlat.synthetic import rotating_states

from ..experiments.aeon_worker import METHODS, versions
from .harness import Bench

SEEDS = range(10, 30)  # which had no part in choosing the demo's settings


def accuracies(
    system: System, seeds: Iterable[int] = SEEDS, reach: int | None = None, **train: Any
) -> Any:
    """In per cent, for each seed."""
    found = []
    for seed in seeds:
        learned_from = rotating_states(random_state=2 * seed, **SENSORS, **{**TRAIN, **train})
        tested_on = rotating_states(random_state=2 * seed + 1, **SENSORS, **TEST)
        metric = system.metric if isinstance(system.metric, str) else clone(system.metric)
        classifier = StreamClassifier(width=system.width, metric=metric, reach=reach)
        found.append(100 * classifier.fit(learned_from).score(tested_on))
    return np.array(found)


def demo(
    bench: Bench,
    first: Annotated[
        int | None, typer.Option(min=0, help="Only the demo itself, for twenty seeds from this on.")
    ] = None,
) -> None:
    """How the demo comes out for other seeds, and with more labelled runs."""
    seeds = SEEDS if first is None else range(first, first + len(SEEDS))
    by_name = {system.name: accuracies(system, seeds) for system in (*SYSTEMS, AUTO)}
    if first is not None:
        means = {name: float(found.mean()) for name, found in by_name.items()}
        bench.table("Twenty seeds", [{"system": n, "accuracy": m} for n, m in means.items()])
        bench.keep(means)
        return
    by_name[f"{AUTO.name}, reach 10"] = accuracies(AUTO, reach=10)
    for metric in (MLAT(), MLAT(n_targets=10), LMNN(n_targets=10)):
        by_name[f"{WIDTH} steps, {metric}"] = accuracies(System("", "", WIDTH, metric))
    means = {name: float(found.mean()) for name, found in by_name.items()}
    bench.table("Twenty seeds", [{"system": n, "accuracy": m} for n, m in means.items()])
    lead = by_name[SYSTEMS[4].name] - by_name[SYSTEMS[2].name]
    bench.say(
        f"MLAT by filters ahead of LMNN: {(lead > 0).sum()} of {len(lead)}, by {lead.mean():.1f} "
        f"(sd {lead.std(ddof=1):.1f})"
    )
    chosen = [SYSTEMS[1], SYSTEMS[2], SYSTEMS[4], AUTO]
    rows = []
    for runs in (1, 2, 3, 4, 6):
        some = [accuracies(system, SEEDS[:10], runs_per_state=runs) for system in chosen]
        row = {s.name: float(one.mean()) for s, one in zip(chosen, some, strict=True)}
        row["MLAT_ahead_of_LMNN"] = int((some[2] > some[1]).sum())
        rows.append({"runs_per_state": runs, **row})
    bench.table("Ten seeds", rows, left=0)
    bench.keep(means)


def panels(bench: Bench) -> None:
    """The sets that come with aeon: the nearest series by three distances, and aeon's best.

    Learned on the training part of each set and judged on its test part, by whole series; all at
    their defaults. It needs an environment with aeon (lab/benchmarks/ecosystem-aeon.txt) and mlat;
    QUANT and MultiRocket-Hydra need torch there, too, and are left out without it.
    """
    datasets = require_package("aeon.datasets", "", "this benchmark", title="aeon")
    peers = require_package("aeon.classification.distance_based", "", "this benchmark")
    rockets = require_package("aeon.classification.convolution_based", "", "this benchmark")
    from mlat.adapters.aeon import MLATClassifier

    has_torch = versions()["torch"] is not None
    systems = {
        "Euclidean": peers.KNeighborsTimeSeriesClassifier(distance="euclidean", n_neighbors=1),
        "DTW": peers.KNeighborsTimeSeriesClassifier(distance="dtw", n_neighbors=1),
        "MLAT": MLATClassifier(),
        "Rocket": rockets.RocketClassifier(random_state=0),
        **{n: one.make() for n, one in METHODS.items() if has_torch or not one.needs_torch},
    }
    rows = []
    for name in ("basic_motions", "unit_test", "italy_power_demand", "gunpoint", "arrow_head"):
        load = getattr(datasets, f"load_{name}")
        X, y = load(split="train")
        test, truth = load(split="test")
        scores = {who: float(clf.fit(X, y).score(test, truth)) for who, clf in systems.items()}
        size = ", ".join(map(str, X.shape))
        rows.append({"set": name, "series,_channels,_steps": size, **scores})
    bench.table("aeon's sets", rows, left=2)
    bench.keep(rows)
