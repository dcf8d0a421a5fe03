"""Target neighbours: whom each window is pulled towards.

The k nearest windows of the same state under the Euclidean metric, as in LMNN. Augmented windows
overlap, so the nearest is almost always the same window one step later, which teaches nothing:
the rules here keep such neighbours out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..errors import InputError

Gap = int | Literal["run"]

# How many windows apart two moments of one run must be to teach as much as another run does.
EPISODE_WIDTHS = 5
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
    check_enough(codes, n_targets, names)
    places = places_of(codes, start, run, gap=gap, width=width)
    targets = np.full((len(X), n_targets), -1, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        nearest = Nearest.none(len(rows), n_targets)
        nearest.meet(X[rows], places.take(rows), X[rows], places.take(rows))
        targets[rows] = nearest.rows
    check_found(codes, targets, gap, names)
    return targets


def check_enough(codes: NDArray[Any], n_targets: int, names: NDArray[Any] | None = None) -> None:
    """Refuse a state with too few windows."""
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        if count < max(n_targets, 2):
            raise InputError(
                f"state {_name(code, names)} has fewer windows ({count}) than n_targets "
                f"({n_targets}) needs; label more of it, leave it out, or lower n_targets"
            )


def check_found(
    codes: NDArray[Any], targets: NDArray[np.int64], gap: Gap, names: NDArray[Any] | None = None
) -> None:
    """Refuse a state none of whose windows has a target."""
    without = np.setdiff1d(codes, codes[(targets >= 0).any(axis=1)])
    if len(without):
        raise InputError(
            f"no two windows of state {_name(without[0], names)} are {gap} steps apart; "
            "lower target_gap, or label more of the state"
        )


def _name(code: Any, names: NDArray[Any] | None) -> str:
    return str(code if names is None else names[code])


@dataclass(frozen=True, eq=False)
class Places:
    """Where windows lie, as far as it decides on who may be whose target.

    ``row`` (n,) is each window's number in the whole problem. Two windows of one ``run`` whose
    ``start`` is fewer than ``gap`` apart are not each other's target; all three are (n,).
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    run: NDArray[np.int64]
    gap: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> Places:
        return Places(self.row[rows], self.start[rows], self.run[rows], self.gap[rows])


def places_of(
    codes: NDArray[Any], start: NDArray[Any], run: NDArray[Any], *, gap: Gap, width: int
) -> Places:
    """The rule of :func:`select_targets` for all windows of a problem."""
    whose, apart = run.astype(np.int64), np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if gap != "run":
            apart[rows] = gap
            continue
        whose[rows] = episodes(start[rows], run[rows], EPISODE_WIDTHS * width)
        several = (whose[rows] != whose[rows[0]]).any()
        near = min(EPISODE_WIDTHS * width, int(np.ptp(start[rows])) // 2)
        apart[rows] = np.iinfo(np.int64).max if several else near
    return Places(np.arange(len(codes)), start.astype(np.int64), whose, apart)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest permitted windows of the same state that were met so far.

    ``rows`` (n, k) are their numbers, nearest first and of equally near ones the lower number
    first, filled up with -1; ``squared`` (n, k) how far they are. It does not matter in which
    order windows are met, nor how many at a time: distances are summed in one fixed order.
    """

    rows: NDArray[np.int64]
    squared: NDArray[np.float64]

    @classmethod
    def none(cls, n: int, k: int) -> Nearest:
        return cls(np.full((n, k), -1, np.int64), np.full((n, k), np.inf))

    def add(self, at: NDArray[np.int64], others: Nearest) -> None:
        """Take in what the windows ``at`` (m,) have met elsewhere."""
        rows = np.concatenate([self.rows[at], others.rows], axis=1)
        squared = np.concatenate([self.squared[at], others.squared], axis=1)
        # A place that is free is behind all others: it is infinitely far.
        first = np.lexsort((rows, squared), axis=1)[:, : self.rows.shape[1]]
        self.rows[at] = np.take_along_axis(rows, first, axis=1)
        self.squared[at] = np.take_along_axis(squared, first, axis=1)

    def meet(self, X: NDArray[Any], places: Places, others: NDArray[Any], there: Places) -> None:
        """Compare windows X (n, D), all of one state, with others (m, D) of that state."""
        if not len(X) or not len(others):
            return
        X, others = (np.ascontiguousarray(a, dtype=np.float64) for a in (X, others))
        # Around their mean the windows are small, and so are the rounding errors of the product.
        mean = others.mean(axis=0)
        x, y = X - mean, others - mean
        x_squared, y_squared = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
        # |fl(2 x·y) - 2 x·y| ≤ γ_D (‖x‖² + ‖y‖²), and a few more roundings.
        relative = (X.shape[1] + 16) * float(np.finfo(np.float64).eps)
        for begin in range(0, len(X), BLOCK):
            some = slice(begin, begin + BLOCK)
            _meet(
                x[some] @ y.T,
                X[some],
                others,
                x_squared[some],
                y_squared,
                relative,
                *(a[some] for a in (places.row, places.start, places.run, places.gap)),
                *(there.row, there.start, there.run),
                self.rows[some],
                self.squared[some],
            )


@njit(cache=True, nogil=True)
def _meet(  # type: ignore[no-untyped-def]
    product,
    X,
    others,
    x_squared,
    y_squared,
    relative,
    row,
    start,
    run,
    gap,
    row_there,
    start_there,
    run_there,
    rows,
    squared,
):
    n, m = product.shape
    k = rows.shape[1]
    upper = np.empty(k)
    for q in range(n):
        # The k-th smallest upper bound: nothing whose lower bound is above it can be a target.
        upper[:] = squared[q]
        for i in range(m):
            total = x_squared[q] + y_squared[i]
            bound = total - 2.0 * product[q, i] + relative * total
            if bound < upper[k - 1]:
                if row[q] == row_there[i] or (
                    run[q] == run_there[i] and abs(start[q] - start_there[i]) < gap[q]
                ):
                    continue
                place = k - 1
                while place > 0 and upper[place - 1] > bound:
                    upper[place] = upper[place - 1]
                    place -= 1
                upper[place] = bound
        cut = upper[k - 1]
        for i in range(m):
            total = x_squared[q] + y_squared[i]
            if total - 2.0 * product[q, i] - relative * total > cut:
                continue
            if row[q] == row_there[i] or (
                run[q] == run_there[i] and abs(start[q] - start_there[i]) < gap[q]
            ):
                continue
            distance = 0.0
            for f in range(X.shape[1]):
                difference = X[q, f] - others[i, f]
                distance += difference * difference
            place = k
            while place > 0 and (
                squared[q, place - 1] > distance
                or (squared[q, place - 1] == distance and rows[q, place - 1] > row_there[i])
            ):
                place -= 1
            for later in range(k - 1, place, -1):
                squared[q, later], rows[q, later] = squared[q, later - 1], rows[q, later - 1]
            if place < k:
                squared[q, place], rows[q, place] = distance, row_there[i]


def when_of(
    codes: NDArray[Any], start: Any = None, run: Any = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The step each window begins at and the run it lies in, checked; arrays of shape (n,).

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window.
    start : array of shape (n,), optional
        Whole numbers; default the row number.
    run : array of shape (n,), optional
        Of any kind; default neighbouring rows of one state are a run.
    """
    n = len(codes)
    starts = np.asarray(np.arange(n) if start is None else start)
    runs = np.asarray(np.cumsum(np.diff(codes, prepend=codes[:1]) != 0) if run is None else run)
    for name, array in (("start", starts), ("run", runs)):
        if array.shape != (n,):
            raise InputError(f"{name} must have one entry per window ({n}), not {array.shape}")
    if starts.dtype.kind not in "iu":
        raise InputError(f"start must hold whole numbers, not {starts.dtype}")
    if runs.dtype.kind not in "iu":
        runs = np.unique(runs, return_inverse=True)[1]
    return starts.astype(np.int64), runs.astype(np.int64)


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
