"""Which of the values that arrived belong to which prediction.

A session may hold steps back to put them into order, and drops late, doubled and refused ones; so
the steps of one push and the predictions it gives are not the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..prediction import Prediction
    from ..steps import Steps

Floats = NDArray[Any]

MOST_WAITING = 4096  # steps that are remembered until a prediction asks for them


class Arrivals:
    """The values of steps that have no prediction yet, by sequence number or else by time."""

    def __init__(self) -> None:
        self._waiting: dict[float, Floats] = {}

    def match(self, steps: Steps, predictions: Sequence[Prediction]) -> Floats:
        """The channels (n, d) of each prediction's step, as they arrived; NaN if not known."""
        values = np.asarray(steps.values)
        keys, asked = _keys(steps, predictions)
        if keys is None:
            return _in_order(values, len(predictions))
        if keys == asked and not self._waiting:  # the usual case
            return values
        for key, row in zip(keys, values, strict=True):
            self._waiting.setdefault(key, row)
        missing = np.full(values.shape[1], np.nan)
        found = [self._waiting.pop(key, missing) for key in asked]
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return np.array(found).reshape(len(asked), values.shape[1])


def _keys(
    steps: Steps, predictions: Sequence[Prediction]
) -> tuple[list[float] | None, list[float]]:
    """What tells steps apart, of those that arrived and of those that were predicted."""
    if steps.seq is not None:
        return steps.seq.tolist(), [np.nan if p.seq is None else p.seq for p in predictions]
    if steps.time is not None:
        return steps.time.tolist(), [np.nan if p.time is None else p.time for p in predictions]
    return None, []


def _in_order(values: Floats, n: int) -> Floats:
    """Without numbers nothing is reordered: either all were accepted, or those without a NaN."""
    if len(values) == n:
        return values
    whole = values[~np.isnan(values).any(axis=1)]
    if len(whole) == n:
        return whole
    found = np.full((n, values.shape[1]), np.nan)
    kept = values[-n:] if n else values[:0]
    found[n - len(kept) :] = kept
    return found
