"""When a window is like no state that was ever labelled.

A window farther from every reference than a threshold is of an unknown state. The threshold is a
conformal quantile: of how far the training windows are from the references when those of their own
time are left out (see :mod:`mlat.left_out`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fit_threshold(nearest_left_out: Floats, alpha: float, blocks: Ints | None = None) -> float:
    """The distance that a share ``alpha`` of windows like the training windows exceed.

    Parameters
    ----------
    nearest_left_out : array of shape (n, S)
        For each training window the distance to the nearest reference of each state, those of
        its own time left out. Rows with a NaN are passed over.
    alpha : float
        The false-alarm rate asked for, from 0 to less than 1; 0 is never an alarm.
    blocks : array of shape (n,), optional
        Windows of one block are near-copies; default each window for itself.

    Returns
    -------
    threshold : float
        Alarm where the least distance is above it; infinite for no alarms.

    Notes
    -----
    Each of the K blocks weighs 1/(K+1), spread over its windows, and so does the one to come, of
    which the worst is assumed. If the blocks and a new one are exchangeable, a window of the new
    one is a false alarm with probability at most ``alpha``: on average over training streams, not
    for each. With fewer than ``1/alpha - 1`` blocks this would be infinite; the largest distance
    seen is given instead, which promises 1/(K+1) only.

    Not promised: anything for windows of another day or person, or across a switch of states,
    which are unlike the training windows; that alarms come singly, for they come in a row; and
    the rate where the metric was learned on these same windows and could fit them closely, for
    they are then nearer to each other than new ones are.

    Examples
    --------
    >>> nearest = np.array([[1.0, 9.0], [9.0, 2.0], [3.0, 9.0], [4.0, 9.0]])
    >>> fit_threshold(nearest, 0.4), fit_threshold(nearest, 0.0)
    (3.0, inf)
    """
    if not 0 <= alpha < 1:
        raise InputError(f"alpha must be from 0 to less than 1, not {alpha}")
    distance = least_distance(nearest_left_out)
    use = ~np.isnan(distance)
    if alpha == 0 or not use.any():
        return float(np.inf)
    distance = distance[use]
    owner = np.arange(len(distance)) if blocks is None else np.asarray(blocks)[use]
    _, place, size = np.unique(owner, return_inverse=True, return_counts=True)
    weight = 1.0 / (size[place] * (len(size) + 1.0))
    order = np.argsort(distance, kind="stable")
    below = np.cumsum(weight[order])
    # A sum of weights that should be the level must not miss it by its rounding.
    rank = int(np.searchsorted(below, (1 - alpha) * (1 - 1e-12)))
    return float(distance[order[min(rank, len(order) - 1)]])


def is_unknown(nearest: Floats, threshold: float) -> NDArray[np.bool_]:
    """Where a window is farther than the threshold from every reference, shape (T,).

    False where there are no distances: no window, no alarm.
    """
    unknown: NDArray[np.bool_] = least_distance(nearest) > threshold
    return unknown


def least_distance(nearest: Floats) -> Floats:
    """The distance to the nearest reference of any state, shape (T,); NaN where there is none."""
    nearest = np.asarray(nearest, dtype=np.float64)
    if nearest.ndim != 2 or not nearest.shape[1]:
        raise InputError(f"nearest must have shape (T, S), not {nearest.shape}")
    least: Floats = nearest.min(axis=1)
    return least
