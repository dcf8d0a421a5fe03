"""Signs that windows to be judged overlap with those that were learned from.

A splitter that does not know of time puts windows that follow each other on both sides of a split.
They share all steps but one, so a score says nothing. Nothing in the training part shows it; the
test part does, once it comes: a window that goes on where a training window ends, and is none.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Bools, Floats

FEWEST_STEPS = 4  # of a window; fewer values may be equal by chance

Keys = NDArray[np.uint64]


class SeenWindows:
    """What is needed to know the neighbours in time of the windows (n, w, d) again."""

    def __init__(self, windows: Floats) -> None:
        self._width = windows.shape[1]
        self._whole = np.sort(_keys(windows))
        self._heads, self._tails = (np.sort(keys) for keys in _ends(windows))

    def __len__(self) -> int:
        return len(self._whole)

    def neighbours(self, windows: Floats) -> Bools:
        """Which windows come one step before or after a seen one, and are none of them, (n,)."""
        if self._width < FEWEST_STEPS or not len(windows) or not len(self):
            return np.zeros(len(windows), dtype=bool)
        heads, tails = _ends(windows)
        near = _in(heads, self._tails) | _in(tails, self._heads)
        rows = np.flatnonzero(near)
        # Values that do not change are equal to those of any other time.
        inner = windows[rows, 1:-1]
        near[rows] = (inner != inner[:, :1]).any(axis=(1, 2))
        rows = np.flatnonzero(near)
        near[rows] = ~_in(_keys(windows[rows]), self._whole)
        return near


def warn_of_neighbours(seen: SeenWindows, windows: Floats, *, stacklevel: int = 3) -> None:
    """Warn if windows come one step before or after those that a metric was learned from."""
    count = int(seen.neighbours(windows).sum())
    if count:
        warnings.warn(
            f"{count} of {len(windows)} windows overlap with windows that the metric was learned "
            "from, all but one step: a score on them says nothing; split by whole runs or "
            "recordings, or into blocks with a gap (mlat.model_selection)",
            UserWarning,
            stacklevel=stacklevel,
        )


def _ends(windows: Floats) -> tuple[Keys, Keys]:
    """The keys of the first and of the last w - 1 steps of each window."""
    return _keys(windows[:, :-1]), _keys(windows[:, 1:])


def _keys(windows: Floats) -> Keys:
    """A number for each window that equal windows share, and hardly any others, shape (n,)."""
    _, w, d = windows.shape
    factors = np.random.default_rng(0).integers(1, 2**64, (w, d), np.uint64) | np.uint64(1)
    bits = (np.ascontiguousarray(windows, dtype=np.float64) + 0.0).view(np.uint64)  # -0 is 0
    mixed = bits ^ (bits >> np.uint64(32))  # the high bits alone hold whole numbers
    keys: Keys = np.einsum("nwd,wd->n", mixed, factors)
    return keys


def _in(keys: Keys, known: Any) -> Bools:
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: Bools = known[place] == keys
    return found
