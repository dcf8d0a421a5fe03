"""Learning a chosen metric, from no more windows than it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..windows import Windows
from .choice import Choice

# A metric is learned from at most this many windows; all of them stay references. Neighbours in
# time are near-copies, and learning grows with the square of their number.
MOST_IN_FIT = 1500


def learn_metric(choice: Choice, windows: Windows, most: int, **options: Any) -> Any:
    """The choice's metric, learned from at most so many of the windows.

    A state of a single window has no target and teaches nothing; it is left out. None, which is
    the Euclidean distance, where fewer than two states are left.
    """
    if options.get("init", 0) is None:
        del options["init"]
    states, counts = np.unique(windows.y, return_counts=True)
    if counts.min() < 2:
        if (counts >= 2).sum() < 2:
            return None
        windows = windows.take(np.isin(windows.y, states[counts >= 2]))
    fewest = _fewest(windows.y)
    windows = windows.take(fair_rows(windows.y, most))
    n_targets = max(1, min(choice.n_targets, fewest - 1, _fewest(windows.y) - 1))
    metric = choice.but(n_targets=n_targets).make_metric(**options)
    try:
        return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    except InputError as error:
        raise InputError(f"{choice.metric_name}: {error}") from None


def _fewest(labels: NDArray[Any]) -> int:
    return int(np.unique(labels, return_counts=True)[1].min())


def fair_rows(labels: NDArray[Any], most: int) -> NDArray[np.int64]:
    """At most so many rows, evenly spaced within each state, small states kept whole."""
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    share, left = most, len(names)
    kept = {}
    for code in np.argsort(counts, kind="stable"):
        n = min(int(counts[code]), max(share // left, 2))
        kept[code] = n
        share, left = share - n, left - 1
    parts: Sequence[NDArray[np.int64]] = [
        np.flatnonzero(inverse == code)[
            np.linspace(0, counts[code] - 1, n).round().astype(np.int64)
        ]
        for code, n in kept.items()
    ]
    return np.sort(np.concatenate(parts))
