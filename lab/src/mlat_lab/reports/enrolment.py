"""The report of leaving one person out: without labels beside rivals, and with some seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlat import __version__

from ..experiments.enrolment import (
    ANEW,
    ENROLLED,
    EUCLIDEAN,
    FILTERED,
    FOLLOWED,
    LEARNED_SECONDS,
    MOST_REFERENCES,
    NOT_ADAPTED,
    OURS,
    SECONDS,
    SELF_TRAINED,
    SYSTEMS,
    UNITS,
    person_of,
)
from ..experiments.experiment import Experiment
from ..experiments.journal import Result
from .page import COLUMNS, Report, best_cells, signed, table
from .paper import set_title

Scores = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]  # set, seconds, system


def scores_of(results: Sequence[Result]) -> Scores:
    """The accuracies of the files of each set, in per cent."""
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for result in results:
        for seconds, one in result["by_seconds"].items():
            for system, accuracy in one["accuracy"].items():
                found[result["data_set"]][seconds][system].append(accuracy)
            found[result["data_set"]][seconds]["given"].append(one["given"])
    return found


def enrol_report(
    results: Sequence[Result], experiment: Experiment, development: Mapping[str, Sequence[str]]
) -> Report:
    """The report; ``development`` are the files that choices were made on, by set."""
    scores = scores_of(results)
    content: dict[str, Any] = {
        "settings": {"version": __version__, "width": experiment.width, "seconds": SECONDS},
        "sets": {
            name: {s: {k: float(np.mean(v)) for k, v in one.items()} for s, one in by.items()}
            for name, by in scores.items()
        },
        "without_labels": {r["data_set"]: _means(results, r["data_set"]) for r in results},
    }
    others = [r for r in results if r["person"] not in development.get(r["data_set"], ())]
    return Report(
        results,
        content,
        lambda: (),
        lambda links: _text(results, scores, others, experiment),
        _table(scores),
        COLUMNS,
    )


def _means(results: Sequence[Result], data_set: str) -> dict[str, float]:
    """Of each system without labels, over the recordings of a set."""
    found = [r["without_labels"] for r in results if r["data_set"] == data_set]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _text(
    results: Sequence[Result], scores: Scores, others: Sequence[Result], experiment: Experiment
) -> list[str]:
    people = {(r["data_set"], person_of(r["data_set"], r["person"])) for r in results}
    n_all = sum(len(of_set.names) for of_set in experiment.people.values())
    lines = [
        "# The next person",
        "",
        f"Written by `mlat-lab reproduce --table enrol` (mlat {__version__}): {len(results)} "
        f"of {n_all} recordings, of {len(people)} people. Each person is left out once. From the "
        f"others a model is learned by the defaults, with windows of {experiment.width} steps and "
        "with `groups`, from the first "
        f"{LEARNED_SECONDS} s of each state of each of them, at most {MOST_REFERENCES:,} windows; "
        "the rest of their recordings is there without states. Figures are balanced accuracy in "
        "per cent, the mean over recordings.",
        "",
        "## Without a label of the new person",
        "",
        "The whole recording is judged, with every switch. "
        f"*{OURS}*: the model of the others, adapted to the recording (`clf.adapt`): in common "
        "units where it was learned in them, and with what it is surest of in the recording among "
        f"its references; *{UNITS}*: without the latter; *{FOLLOWED}*: the units followed step by "
        "step, as a live session does; "
        f"*{NOT_ADAPTED}*: as it is. Rivals learn from the same windows, and have the same units "
        "of the recording: *-features* over the default's own features, *-past* over windows as "
        f"long as the default looks back. *{FILTERED[2:]}*: with the state filter of the default, "
        f"which changes nothing where runs are short. *{SELF_TRAINED[2:]}*: learned again with "
        "what it is surest of, chosen as the default's is.",
        "",
        *_without_labels(results),
        *_expectations(results),
        "## With some seconds of the new person",
        "",
        f"Of the person left out the first {', '.join(map(str, SECONDS[:-1]))} or {SECONDS[-1]} s "
        "of each state are given, but at most 35 % of them: where recordings are short it is less, "
        "as the column *given* says. The rest is the test stream. "
        f"*{ENROLLED}*: `clf.enrol(stream)`, the others' model with the new windows among its "
        f"references. *{ANEW}*: a committee from the given seconds alone. *{EUCLIDEAN}*: the "
        "Euclidean distance, with the given seconds as references.",
        "",
        *_table(scores),
        f"## {ENROLLED.capitalize()} minus {ANEW}",
        "",
        *_differences(scores),
        _verdict(scores),
        "",
    ]
    if not others:
        lines += ["All are recordings of development people, whom choices were made on.", ""]
    if others and len(others) < len(results):
        lines += [
            "## Without the recordings that choices were made on",
            "",
            "Choices were made on some of every second recording of a set. "
            f"The same over the other {len(others)} recordings that are left out (the model of "
            "the others is learned from all).",
            "",
            *_without_labels(others),
            *_table(scores_of(others)),
        ]
    return lines


def _without_labels(results: Sequence[Result]) -> list[str]:
    sets = list(dict.fromkeys(r["data_set"] for r in results))
    systems = list(results[0]["without_labels"])
    means = {name: _means(results, name) for name in sets}
    rows = []
    for name in sets:
        n = sum(r["data_set"] == name for r in results)
        units = sum(r["units"] for r in results if r["data_set"] == name)
        cells = best_cells(means[name][system] for system in systems)
        rows.append([set_title(name), str(n), f"{units} of {n}", *cells])
    cells = best_cells(float(np.mean([means[s][system] for s in sets])) for system in systems)
    rows.append(["mean of sets", "", "", *cells])
    return table(["", "recordings", "common units", *systems], rows)


def _expectations(results: Sequence[Result]) -> list[str]:
    told = [r for r in results if r["expected"] and r["expected"]["of"] == "group"]
    if not told:
        return []
    parts = []
    for which, system in (("expected", UNITS), ("expected_adapted", OURS)):
        truth = np.array([r["without_labels"][system] / 100 for r in told])
        said, low, high = np.array(
            [[r[which][key] for key in ("accuracy", "low", "high")] for r in told]
        ).T
        off = 100 * np.abs(said - truth).mean()
        held = ((low <= truth) & (truth <= high)).sum()
        parts.append(
            f"was off by {off:.1f} points in the mean absolute (*{system}*), and its interval, "
            f"which is to hold nine times in ten, held for {held} of {len(told)} recordings"
        )
    by_set = [
        [r["without_labels"][UNITS] for r in results if r["data_set"] == name]
        for name in {r["data_set"] for r in results}
    ]
    apart = float(
        np.mean(np.concatenate([np.abs(np.subtract(one, np.mean(one))) for one in by_set]))
    )
    return [
        f"What `fit` expected of another group, of which nothing is known, {parts[0]}. The "
        f"recordings of a set are {apart:.1f} points from their own mean: no one number for all "
        f"could be nearer. What was expected once the model was adapted {parts[1]}.",
        "",
    ]


def _table(scores: Scores) -> list[str]:
    rows = []
    for name, by_seconds in scores.items():
        for seconds, found in by_seconds.items():
            cells = best_cells(float(np.mean(found[system])) for system in SYSTEMS)
            given = f"{float(np.mean(found['given'])):.1f} s"
            n = str(len(found[ENROLLED]))
            rows.append([set_title(name), f"{seconds} s", given, n, *cells])
    for seconds in next(iter(scores.values())):
        cells = best_cells(
            float(np.mean([np.mean(by[seconds][system]) for by in scores.values()]))
            for system in SYSTEMS
        )
        rows.append(["mean of sets", f"{seconds} s", "", "", *cells])
    return table(["", "seconds", "given", "recordings", *SYSTEMS], rows, left=2)


def _verdict(scores: Scores) -> str:
    seconds = list(next(iter(scores.values())))

    def mean(system: str, amount: str) -> float:
        return float(np.mean([np.mean(by[amount][system]) for by in scores.values()]))

    by_anew = [signed(mean(ENROLLED, one) - mean(ANEW, one)) for one in seconds]
    by_euclidean = [signed(mean(ENROLLED, one) - mean(EUCLIDEAN, one)) for one in seconds]
    return (
        f"In the mean over sets enrolling differs from learning anew by {', '.join(by_anew)} "
        f"points, with {', '.join(seconds)} s a state, and from the Euclidean distance by "
        f"{', '.join(by_euclidean)}."
    )


def _differences(scores: Scores) -> list[str]:
    rows = []
    for name, by_seconds in scores.items():
        row = [set_title(name)]
        for found in by_seconds.values():
            gain = np.subtract(found[ENROLLED], found[ANEW])
            ahead, behind = int((gain > 0.05).sum()), int((gain < -0.05).sum())
            row.append(f"{signed(float(gain.mean()))} (ahead for {ahead}, behind for {behind})")
        rows.append(row)
    return table(["", *(f"{s} s" for s in next(iter(scores.values())))], rows)
