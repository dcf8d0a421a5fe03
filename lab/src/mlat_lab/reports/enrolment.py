"""The report of leaving one person out: enrolled beside learned anew and Euclidean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlat import __version__

from ..experiments.enrolment import (
    ANEW,
    AS_IT_IS,
    ENROLLED,
    EUCLIDEAN,
    LEARNED_SECONDS,
    SECONDS,
    SYSTEMS,
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


def _text(
    results: Sequence[Result], scores: Scores, others: Sequence[Result], experiment: Experiment
) -> list[str]:
    people = {(r["data_set"], person_of(r["data_set"], r["person"])) for r in results}
    lines = [
        "# Enrol: use a model for a new person",
        "",
        "A model was learned from some people. Now somebody else wears the sensors, or they sit "
        "elsewhere, or it is another day. Label a few seconds of each state of the new stream, and "
        "the model takes these as its references. No metric is learned, so it is done at once:",
        "",
        "```sh",
        "mlat enrol walk.mlat eve.csv --label state -o eve.mlat",
        "```",
        "",
        "In Python it is `clf.enrol(stream)`.",
        "",
        "## How good it is",
        "",
        f"Written by `mlat-lab reproduce --table enrol` (mlat {__version__}): {len(results)} "
        f"recordings of {len(people)} people. Each person is left out once. From the others a "
        f"model is learned by the defaults, with windows of {experiment.width} steps, from the "
        f"first {LEARNED_SECONDS} s of each state of each of them. Of the person left out the "
        f"first {', '.join(map(str, SECONDS[:-1]))} or {SECONDS[-1]} s of each state are given, "
        "but at most 35 % of them: where recordings are short it is less, as the column *given* "
        "says. The rest is the test stream, with every switch. Figures are balanced accuracy in "
        "per cent, the mean over recordings.",
        "",
        f"*{ENROLLED}*: `clf.enrol(stream)`, the others' features, scaling, metrics and weights "
        f"with the new references. *{ANEW}*: a committee from the given seconds alone. "
        f"*{EUCLIDEAN}*: the Euclidean distance, with the given seconds as references. "
        f"*{AS_IT_IS}*: the others' model with the others' references.",
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
            "What is kept and what is taken anew was chosen on every second recording of a set. "
            f"The same over the other {len(others)} recordings that are left out (the model of "
            "the others is learned from all).",
            "",
            *_table(scores_of(others)),
        ]
    return lines + _what_was_tried()


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
    by_others = [signed(mean(ENROLLED, one) - mean(AS_IT_IS, one)) for one in seconds]
    return (
        f"In the mean over sets enrolling differs from learning anew by {', '.join(by_anew)} "
        f"points, with {', '.join(seconds)} s a state, from the Euclidean distance by "
        f"{', '.join(by_euclidean)}, and from the others' model as it is by "
        f"{', '.join(by_others)}. Enrolling learns nothing, and so is done at once."
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


# Of development people, 5 s a state; measured once, with up to 6,000 references of the others.
_TRIED = (
    ("everything kept", "91.8", "85.7", "82.6", "31.4"),
    ("own whitening", "91.9", "85.9", "83.1", "29.7"),
    ("own scaling", "91.4", "85.2", "81.8", "26.8"),
    ("own scaling and whitening", "91.7", "85.3", "83.0", "28.0"),
)


def _what_was_tried() -> list[str]:
    head = ["", "EMG gestures (2)", "phone, watch (4)", "WISDM watch (1)", "gesture phase (3)"]
    return [
        "## What is kept",
        "",
        "Scaling, maps, whitening, metrics, weights, typical distances and the calibration are the "
        "others'. On some development people, left out in turn, it was tried to take the scaling "
        "of channels and features, or the whitening, from the given seconds instead (5 s a state, "
        "how many people in brackets):",
        "",
        *table(head, _TRIED),
        "A scaling of its own is not better on any of them, and worse where the states are given "
        "unevenly; a whitening of its own makes little difference. So nothing but the references "
        "is taken anew, and the threshold of the unknown state, which depends on how dense they "
        "are. The state filter is kept where the states are the same.",
        "",
    ]
