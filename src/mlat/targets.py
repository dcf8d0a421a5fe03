"""Target neighbours: whom each window is pulled towards.

The k nearest windows of the same state under the Euclidean metric, as in LMNN. Augmented windows
overlap, so the nearest is almost always the same window one step later, which teaches nothing:
the rules here keep such neighbours out.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Gap = int | Literal["run"]

# Distances are computed for this many windows at a time, so memory is bounded by the block.
BLOCK = 1024


def select_targets(
    X: NDArray[Any],
    codes: NDArray[Any],
    n_targets: int,
    *,
    gap: Gap = 0,
    start: NDArray[Any],
    run: NDArray[Any],
    width: int = 1,
    names: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """The nearest permitted windows of the same state.

    Parameters
    ----------
    X : array of shape (n, D)
        Flat windows.
    codes : array of shape (n,)
        The state of each window, as an index.
    n_targets : int
    gap : int or "run"
        An int keeps out windows of the same run that start fewer than ``gap`` steps away (0: no
        window is kept out). ``"run"`` takes targets from another run of the state; where the
        state has one run only, from the other half of it and, if it is long enough, at least
        ``width`` steps away.
    start, run : arrays of shape (n,)
        When each window begins, and the run it lies in.
    width : int
        Steps per window.
    names : array, optional
        Names of the states, for messages.

    Returns
    -------
    targets : array of shape (n, n_targets)
        Row numbers, nearest first, filled up with -1 where fewer are permitted.
    """
    names = np.unique(codes) if names is None else names
    targets = np.full((len(X), n_targets), -1, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if len(rows) < max(n_targets, 2):
            raise InputError(
                f"state {names[code]!s} has fewer windows ({len(rows)}) than n_targets "
                f"({n_targets}) needs; label more of it, leave it out, or lower n_targets"
            )
        part = _nearest_permitted(X[rows], n_targets, gap, start[rows], run[rows], width)
        if (part < 0).all():
            raise InputError(
                f"no two windows of state {names[code]!s} are {gap} steps apart; "
                "lower target_gap, or label more of the state"
            )
        targets[rows] = np.where(part >= 0, rows[part], -1)
    return targets


def _nearest_permitted(
    X: NDArray[Any], k: int, gap: Gap, start: NDArray[Any], run: NDArray[Any], width: int
) -> NDArray[np.int64]:
    """As :func:`select_targets` for the windows of one state."""
    n = len(X)
    norms = np.einsum("ij,ij->i", X, X)
    if gap == "run" and (run == run[0]).all():
        # One run only: its halves stand for two, without the windows that overlap the middle.
        run = (np.argsort(np.argsort(start, kind="stable"), kind="stable") * 2) // n
        gap_between, apart = width, np.ptp(start) >= 2 * width
    else:
        gap_between, apart = 0, False
    nearest = np.full((n, k), -1, dtype=np.int64)
    for begin in range(0, n, BLOCK):
        rows = slice(begin, min(begin + BLOCK, n))
        squared = norms[rows, None] + norms[None, :] - 2 * (X[rows] @ X.T)
        same_run = run[rows, None] == run[None, :]
        steps = np.abs(start[rows, None] - start[None, :])
        if gap == "run":
            barred = same_run | (steps < gap_between) if apart else same_run
        else:
            barred = same_run & (steps < gap)
        squared[barred] = np.inf
        squared[np.arange(squared.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
        best = np.argpartition(squared, min(k, n - 1) - 1, axis=1)[:, :k]
        distance = np.take_along_axis(squared, best, axis=1)
        order = np.lexsort((best, distance), axis=1)
        best = np.take_along_axis(best, order, axis=1)
        distance = np.take_along_axis(distance, order, axis=1)
        nearest[rows] = np.where(np.isfinite(distance), best, -1)
    return nearest
