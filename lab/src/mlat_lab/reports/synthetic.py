"""The report of the synthetic suite: the default beside single metrics, its experts and itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlat import __version__

from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from ..experiments.suite import KINDS, STATES
from ..experiments.systems import AUTO, FOREST, LINEAR
from .committee import Bins, calibration_error, pooled, reliability_lines
from .page import COLUMNS, NONE, Report, best_cells, signed, table
from .paper import system_title
from .statistics import grouped, summarise

GUESSING = 100 / len(STATES)
RIVALS = ("ED", FOREST, LINEAR)
# An expert counts as the best one if it decides for at least this fraction of the seeds.
LEAST_SEEDS = 0.5


@dataclass(frozen=True)
class KindFigures:
    """One kind of stream; accuracies are balanced, in per cent, the mean over seeds."""

    what: str
    n_seeds: int
    accuracy: Mapping[str, float]  # by system
    best_expert: tuple[str, float] | None  # its name, and its accuracy where it decides
    expected: float | None  # what the default thinks of itself
    is_as_expected: float | None  # the fraction of seeds for which that is right within ten points


def _kind(kind: str, results: Sequence[Result], _: Experiment) -> KindFigures:
    accuracy: dict[str, list[float]] = defaultdict(list)
    experts: dict[str, list[float]] = defaultdict(list)
    expected: list[float] = []
    off: list[float] = []
    for result in results:
        accuracy[result["system"]].append(result["accuracy"])
        if result["system"] == AUTO:
            for name, alone in result.get("experts", {}).items():
                experts[name].append(alone)
            if "expected" in result:
                expected.append(result["expected"])
                off.append(result["expected"] - result["accuracy"])
    n_seeds = max(map(len, accuracy.values()))
    usual = {
        name: float(np.mean(alone))
        for name, alone in experts.items()
        if len(alone) >= LEAST_SEEDS * n_seeds
    }
    best = max(usual, key=lambda name: usual[name], default=None)
    return KindFigures(
        KINDS[kind].what,
        n_seeds,
        {name: float(np.mean(found)) for name, found in accuracy.items()},
        None if best is None else (best, usual[best]),
        float(np.mean(expected)) if expected else None,
        float(np.mean(np.abs(off) <= 10)) if off else None,
    )


def synthetic_report(results: Sequence[Result], experiment: Experiment) -> Report:
    """The report of the synthetic suite.

    Parameters
    ----------
    results : sequence of Result
        Of every system and seed.
    """
    by_kind = grouped(results, "data_set")
    bins = pooled(results)
    found = summarise(
        by_kind,
        dict.fromkeys(by_kind, experiment),
        _kind,
        guessing=GUESSING,
        calibration_error={kind: calibration_error(found) for kind, found in bins.items()},
    )
    systems = list(experiment.systems)
    return Report(
        results,
        found,
        lambda: (),
        lambda links: _text(found.parts, systems, bins),
        _table(found.parts, systems),
        (*COLUMNS, "delay", "missed", "n_switches", "chosen", "expected"),
    )


def _text(
    figures: Mapping[str, KindFigures], systems: Sequence[str], bins: Mapping[str, Bins]
) -> list[str]:
    seeds = max(found.n_seeds for found in figures.values())
    auto = system_title(AUTO)
    return [
        "# The synthetic suite",
        "",
        f"Written by `mlat-lab reproduce --table synthetic` (mlat {__version__}): {len(figures)} "
        f"kinds of streams of which it is known what tells their states, {seeds} seeds each. Each "
        f"has {len(STATES)} states; a first recording is to learn from, and a second by the same "
        "sensors to test on, with every switch. Figures are balanced accuracy in per cent, the "
        "mean over seeds.",
        "",
        *table(["kind", "what it is"], [[k, f.what] for k, f in figures.items()], left=2),
        "## Accuracy",
        "",
        *_table(figures, systems),
        f"*Best expert* is the one of {auto}'s that would be best by itself, in the mean over the "
        f"seeds for which it decides (at least {LEAST_SEEDS:.0%} of them). *Expected* is what "
        f"{auto} expects of itself after learning, and in brackets for how many seeds that is "
        "within ten points of what it then is.",
        "",
        "## The default against the others",
        "",
        *_differences(figures),
        *reliability_lines(bins, "##"),
    ]


def _table(figures: Mapping[str, KindFigures], systems: Sequence[str]) -> list[str]:
    rows = []
    for kind, found in figures.items():
        row = [kind, f"{GUESSING:.0f}", *best_cells(found.accuracy[name] for name in systems)]
        expert = found.best_expert
        row.append(NONE if expert is None else f"{expert[1]:.1f} ({expert[0]})")
        row.append(
            NONE if found.expected is None else f"{found.expected:.1f} ({found.is_as_expected:.0%})"
        )
        rows.append(row)
    head = ["", "guessing", *map(system_title, systems), "best expert", "expected"]
    return table(head, rows)


def _differences(figures: Mapping[str, KindFigures]) -> list[str]:
    rows = []
    rivals = [name for name in RIVALS if all(name in f.accuracy for f in figures.values())]
    for kind, found in figures.items():
        ours = found.accuracy[AUTO]
        expert, expected = found.best_expert, found.expected
        rows.append(
            [
                kind,
                signed(ours - GUESSING),
                *(signed(ours - found.accuracy[name]) for name in rivals),
                NONE if expert is None else signed(ours - expert[1]),
                NONE if expected is None else signed(ours - expected),
            ]
        )
    head = [f"{system_title(AUTO)} minus", "guessing", *map(system_title, rivals)]
    return table([*head, "best expert", "expected"], rows)
