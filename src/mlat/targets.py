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

# How many windows apart two moments of one run must be to teach as much as another run does.
APART = 5
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
        window is kept out). ``"run"`` takes targets from another run of the state, where runs
        with fewer than ``5 * width`` steps between them count as one; where the state has one
        run only, from it, at least ``5 * width`` steps away or, if it is shorter than twice
        that, half its length.
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
    other_run = False
    if gap == "run":
        run = episodes(start, run, APART * width)
        other_run = bool((run != run[0]).any())
        gap = min(APART * width, int(np.ptp(start)) // 2)
    nearest = np.full((n, k), -1, dtype=np.int64)
    for begin in range(0, n, BLOCK):
        rows = slice(begin, min(begin + BLOCK, n))
        squared = norms[rows, None] + norms[None, :] - 2 * (X[rows] @ X.T)
        same_run = run[rows, None] == run[None, :]
        steps = np.abs(start[rows, None] - start[None, :])
        barred = same_run if other_run else same_run & (steps < gap)
        squared[barred] = np.inf
        squared[np.arange(squared.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
        best = np.argpartition(squared, min(k, n - 1) - 1, axis=1)[:, :k]
        distance = np.take_along_axis(squared, best, axis=1)
        order = np.lexsort((best, distance), axis=1)
        best = np.take_along_axis(best, order, axis=1)
        distance = np.take_along_axis(distance, order, axis=1)
        nearest[rows] = np.where(np.isfinite(distance), best, -1)
    return nearest


def episodes(start: NDArray[Any], run: NDArray[Any], gap: int) -> NDArray[np.int64]:
    """Runs of one state, with those fewer than ``gap`` steps after another joined to it.

    A lost sample cuts a run in two, but what follows is the same walk.
    """
    runs, inverse = np.unique(run, return_inverse=True)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    last = np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(first, inverse, start)
    np.maximum.at(last, inverse, start)
    order = np.argsort(first, kind="stable")
    between = first[order[1:]] - last[order[:-1]]
    # Runs that overlap in `start` are not of one timeline, and no one's continuation.
    begins = np.concatenate([[0], ~((between > 0) & (between < gap))])
    episode = np.empty(len(runs), np.int64)
    episode[order] = np.cumsum(begins)
    return episode[inverse]
