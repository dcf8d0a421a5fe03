"""Exact nearest neighbours: the one search of target neighbours, predictions and explanations.

All distances ``‖x - y‖² = ‖x‖² + ‖y‖² - 2 x·y`` are one matrix product, but the product rounds. Its
error has a bound, so a point whose lower bound exceeds the k-th smallest upper bound is not one of
the k nearest. The few that remain are compared by their differences, summed in one fixed order.
The result is that of the plain search to the last bit, whatever the product rounds to. Of equally
near points the one with the lower row comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..checks import Floats, Ints
from ..compiled import jit
from ..fixed_order import exponent_of

BLOCK = 512  # points compared at a time: memory is bounded by their products
ORDINARY = 300  # powers of two up to which squares are far from overflowing and from vanishing
MANY_PAIRS = 50_000_000  # from which products are in single precision, with its bound
# Points this far out (where candidates are within 1) would overflow single precision.
FAR = 1e15


@dataclass(frozen=True, eq=False)
class Nearest:
    """The k nearest of each of n points.

    ``rows`` (n, k) are row numbers, nearest first, filled up with -1; ``squared`` (n, k) are the
    squared distances, infinite where there is no neighbour (or no number can hold the square).
    """

    rows: Ints
    squared: Floats

    @classmethod
    def none(cls, n: int, k: int) -> Nearest:
        return cls(np.full((n, k), -1, np.int64), np.full((n, k), np.inf))

    def add(self, at: Ints, others: Nearest) -> None:
        """Merge in what points ``at`` (m,) found elsewhere; the order of merges does not matter."""
        rows = np.concatenate([self.rows[at], others.rows], axis=1)
        squared = np.concatenate([self.squared[at], others.squared], axis=1)
        # A free place comes last: it is infinitely far.
        first = np.lexsort((rows, squared), axis=1)[:, : self.rows.shape[1]]
        self.rows[at] = np.take_along_axis(rows, first, axis=1)
        self.squared[at] = np.take_along_axis(squared, first, axis=1)


@dataclass(frozen=True, eq=False)
class Places:
    """Where windows lie in time; all arrays have shape (n,).

    ``row`` is a window's number in the whole problem. Window i may not be a neighbour of itself,
    nor of a window of the same ``run`` whose ``start`` is fewer than ``gap[i]`` steps away.
    """

    row: Ints
    start: Ints
    run: Ints
    gap: Ints

    def take(self, rows: Ints | slice) -> Places:
        return Places(self.row[rows], self.start[rows], self.run[rows], self.gap[rows])

    def table(self) -> Ints:
        """The four as columns, (n, 4): what a pair needs is read from two places in memory."""
        return np.stack([self.row, self.start, self.run, self.gap], axis=1)


def nearest(
    X: NDArray[Any],
    others: NDArray[Any],
    k: int,
    *,
    rows: Ints | None = None,
    places: tuple[Places, Places] | None = None,
) -> Nearest:
    """The k nearest ``others`` of every point.

    Parameters
    ----------
    X : array of shape (n, r)
    others : array of shape (m, r)
    k : int
        May exceed m; the places that are left stay free.
    rows : array of shape (m,), optional
        The row numbers of ``others``; default 0 to m - 1.
    places : pair of Places, optional
        Those of X and of ``others``, where some pairs are not permitted.
    """
    X, others = (np.ascontiguousarray(a, dtype=np.float64) for a in (X, others))
    found = Nearest.none(len(X), k)
    if not len(X) or not len(others):
        return found
    # Squares of extreme numbers overflow or vanish: these are compared in another unit.
    exponent = max(exponent_of(X), exponent_of(others))
    if abs(exponent) > ORDINARY:
        X, others = np.ldexp(X, -exponent), np.ldexp(others, -exponent)
    # Around their mean the points are small, and so are the rounding errors of the product.
    mean = others.mean(axis=0)
    # The result is the same; many candidates within a wider bound cost more than a product saves.
    dtype = np.float32 if len(X) * len(others) > MANY_PAIRS else np.float64
    candidates = Candidates(others, others - mean, rows, dtype)
    here, there = (None, None) if places is None else (places[0].table(), places[1].table())
    for begin in range(0, len(X), BLOCK):
        some = slice(begin, begin + BLOCK)
        candidates.compare(
            X[some],
            X[some] - mean,
            found.rows[some],
            found.squared[some],
            None if here is None else here[some],
            there,
        )
    if abs(exponent) > ORDINARY:
        with np.errstate(over="ignore", under="ignore"):
            found.squared[:] = np.ldexp(found.squared, 2 * exponent)
    return found


class Candidates:
    """Points among which the nearest are sought, prepared once for many queries.

    Parameters
    ----------
    exact : array of shape (m, r)
        The coordinates that decide.
    centred : array of shape (m, r)
        The same up to a shift that makes them small; the bounds come from these.
    rows : array of shape (m,), optional
        Row numbers; default 0 to m - 1.
    dtype : float64 or float32
        The precision of the matrix product.

    Attributes
    ----------
    exact, rows
    rough : array of shape (m, r)
        ``centred`` in the precision of the product.
    squared : array of shape (m,)
        The squared norms of ``centred``.
    rounding : tuple of float
        How far a squared distance from the product may be off: relative to the sum of the two
        squared norms, and absolute.
    bounded : float
        A point whose squared norm is not below this is compared with every candidate.
    """

    def __init__(
        self,
        exact: Floats,
        centred: Floats,
        rows: Ints | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.exact = exact
        self.rough = centred.astype(dtype, copy=False)
        self.squared: Floats = np.einsum("ij,ij->i", centred, centred)
        self.rows: Ints = np.arange(len(exact)) if rows is None else rows
        # |fl(2 x·y) - 2 x·y| ≤ γ_r (‖x‖² + ‖y‖²), a few more roundings, and what underflows.
        n, limits = exact.shape[1] + 16, np.finfo(self.rough.dtype)
        self.rounding = n * float(limits.eps), n * float(limits.tiny)
        self.bounded = FAR**2 if self.rough.dtype == np.float32 else np.inf

    def compare(
        self,
        exact: Floats,
        centred: Floats,
        rows: Ints,
        squared: Floats,
        here: Ints | None = None,
        there: Ints | None = None,
    ) -> None:
        """Write the nearest of some points (b, r) into ``rows`` and ``squared`` (b, k).

        ``here`` (b, 4) and ``there`` (m, 4) are tables of :class:`Places`.
        """
        norms = np.einsum("ij,ij->i", centred, centred)
        far = ~(norms < self.bounded)
        if far.any():  # they would overflow, and are compared with every candidate
            centred = np.where(far[:, None], 0.0, centred)
        _select(
            centred.astype(self.rough.dtype, copy=False) @ self.rough.T,
            exact,
            norms,
            self.exact,
            self.squared,
            *self.rounding,
            self.bounded,
            self.rows,
            here,
            there,
            rows,
            squared,
        )


@jit()
def _select(  # type: ignore[no-untyped-def]
    product,
    x,
    x_squared,
    others,
    squared,
    relative,
    absolute,
    bounded,
    numbers,
    here,
    there,
    rows,
    distances,
):
    n, m = product.shape
    k = distances.shape[1]
    upper = np.empty(k)
    more, less = 1.0 + relative, 1.0 - relative
    for q in range(n):
        high, low = more * x_squared[q] + absolute, less * x_squared[q] - absolute
        # The k-th smallest upper bound: nothing whose lower bound is above it can be a neighbour.
        upper[:] = np.inf
        for i in range(m if x_squared[q] < bounded else 0):
            bound = more * squared[i] - 2.0 * product[q, i] + high
            if bound < upper[k - 1]:
                if here is not None and _too_near(here[q], there[i]):
                    continue
                place = k - 1
                while place > 0 and upper[place - 1] > bound:
                    upper[place] = upper[place - 1]
                    place -= 1
                upper[place] = bound
        cut = upper[k - 1]
        found = 0
        for i in range(m):
            if less * squared[i] - 2.0 * product[q, i] + low > cut:
                continue
            if here is not None and _too_near(here[q], there[i]):
                continue
            distance = squared_distance(x[q], others[i])
            place = found
            if found == k:
                place = k - 1
                last = distances[q, place]
                if not (distance < last or (distance == last and numbers[i] < rows[q, place])):
                    continue
            while place > 0 and (
                distances[q, place - 1] > distance
                or (distances[q, place - 1] == distance and rows[q, place - 1] > numbers[i])
            ):
                distances[q, place] = distances[q, place - 1]
                rows[q, place] = rows[q, place - 1]
                place -= 1
            distances[q, place] = distance
            rows[q, place] = numbers[i]
            found = min(found + 1, k)


@jit()
def _too_near(here, there):  # type: ignore[no-untyped-def]
    """Whether two windows (row, start, run, gap) are the same, or too near in time."""
    return here[0] == there[0] or (here[2] == there[2] and abs(here[1] - there[1]) < here[3])


@jit()
def squared_distance(a, b):  # type: ignore[no-untyped-def]
    """``‖a - b‖²``, summed in one fixed order."""
    total = 0.0
    for f in range(len(a)):
        difference = a[f] - b[f]
        total += difference * difference
    return total
