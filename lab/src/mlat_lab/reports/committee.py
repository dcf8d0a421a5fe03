"""What MLAT-auto says of itself: how its experts are weighted, and how confident it is.

Probabilities are right if of the steps told with 80 % as many are right.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..experiments.journal import Result
from ..experiments.systems import AUTO
from .page import NONE, table
from .paper import set_title, system_title

LEAST_STEPS = 50  # of a bin, for its frequency to be shown

Bins = Sequence[Sequence[float]]  # of ten: steps, the sum of confidence, and how many are right


def weights_of(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """The mean weight of each expert in per cent, by data set."""
    said: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result["system"] == AUTO and "chosen" in result:
            said[result["data_set"]].append(result["chosen"])
    return {name: mean_weights(found) for name, found in said.items()}


def mean_weights(committees: Sequence[str]) -> dict[str, float]:
    """The mean weight of each expert in per cent, from what committees say of themselves.

    Examples
    --------
    >>> mean_weights(["MLAT over channels 60%, energies 40%", "MLAT over channels 100%"])
    {'MLAT over channels': 80.0, 'energies': 20.0}
    """
    total: Counter[str] = Counter()
    for said in committees:
        for name, weight in re.findall(r"([^,\s][^,]*?) (\d+)%", said):
            total[name] += int(weight)
    return {name: weight / len(committees) for name, weight in total.most_common()}


def weights_lines(weights: Mapping[str, Mapping[str, float]], level: str) -> list[str]:
    if not weights:
        return []
    experts = list(dict.fromkeys(name for by in weights.values() for name in by))
    rows = [[name, *(f"{by.get(name, 0.0):.0f} %" for by in weights.values())] for name in experts]
    return [
        f"{level} The experts of {system_title(AUTO)}",
        "",
        "Their mean weights.",
        "",
        *table(["", *map(set_title, weights)], rows),
    ]


def pooled(results: Iterable[Result]) -> dict[str, Bins]:
    """The bins of each set, over all of its people."""
    bins: dict[str, np.ndarray] = {}
    for result in results:
        if result["system"] == AUTO and "reliability" in result:
            name, found = result["data_set"], np.array(result["reliability"])
            bins[name] = bins.get(name, 0) + found
    return {name: found.round(4).tolist() for name, found in bins.items()}


def calibration_error(bins: Bins) -> float:
    """The expected calibration error: how far off the bins are, weighted by their steps."""
    n, confidence, right = np.array(bins).T
    return float(np.abs(confidence - right).sum() / n.sum())


def reliability_lines(bins: Mapping[str, Bins], level: str) -> list[str]:
    if not bins:
        return []
    rows = []
    for name, found in bins.items():
        cells = [f"{right / n:.0%}" if n >= LEAST_STEPS else NONE for n, _, right in found]
        rows.append([set_title(name), f"{calibration_error(found):.3f}", *cells[1:]])
    head = ["told with", "error", *(f"{low}–{low + 10} %" for low in range(10, 100, 10))]
    return [
        f"{level} Are the probabilities of {system_title(AUTO)} right?",
        "",
        "How often a predicted state is right, by how probable it was told to be, over all judged "
        f"steps of a set; {NONE} for fewer than {LEAST_STEPS} steps. *Error* is the expected "
        "calibration error: by how much a step's column is off, in the mean.",
        "",
        *table(head, rows),
    ]
