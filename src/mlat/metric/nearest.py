"""Exact nearest neighbours: the one search of target neighbours, predictions and explanations.

All distances ``‖x - y‖² = ‖x‖² + ‖y‖² - 2 x·y`` are one matrix product, but the product rounds. Its
error has a bound, so a point whose lower bound exceeds the k-th smallest upper bound is not one of
the k nearest. The few that remain are compared by their differences, summed in one fixed order.
The result is that of the plain search to the last bit, whatever the product rounds to. Of equally
near points the one with the lower row comes first.

Windows of w steps that follow each other share all but one. The product of two windows is the sum
of w products of their steps, and those of a step serve w windows: a quicker way to the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..base.fixed_order import exponent_of
from ..stream.windows import Windows, flatten
from .threads import n_threads, run_each

BLOCK = 512  # points compared at a time: memory is bounded by their products
ORDINARY = 300  # powers of two up to which squares are far from overflowing and from vanishing
MANY_PAIRS = 50_000_000  # from which products are in single precision, with its bound
LARGE = 40  # powers of two up to which the squares of single precision are far from overflowing
# Points this far out (where candidates are within 1) would overflow single precision.
FAR = 1e15
CHUNK = 64  # candidates that are passed over at once
# Windows that are compared with others at a time: their products stay in a core's cache. A tile is
# of whole chunks.
WINDOWS, TILE = 128, 1024


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
    many = len(X) * len(others) > MANY_PAIRS and exponent < LARGE
    dtype = np.float32 if many else np.float64
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


def nearest_windows(windows: Windows, k: int, *, rows: Ints, places: Places) -> Nearest:
    """As :func:`nearest`, of windows among themselves.

    Parameters
    ----------
    windows : Windows
        Of finite values, in the order of time.
    k : int
    rows : array of shape (n,)
    places : Places
    """
    n, w = len(windows), windows.width
    windows = windows.compact()
    steps = windows.values
    if w == 1 or len(steps) > 2 * n or abs(exponent_of(steps)) >= LARGE:
        X = flatten(windows.X)
        return nearest(X, X, k, rows=rows, places=(places, places))
    search = OverlappingWindows(steps, windows.start, w, rows)
    found, table = Nearest.none(n, k), places.table()

    def compare(begin: int) -> None:
        some = slice(begin, min(begin + WINDOWS, n))
        search.compare(some, found.rows[some], found.squared[some], table)

    run_each(compare, range(0, n, WINDOWS), n_threads())
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
        self._place = exact.shape[1] * np.arange(len(exact))
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
        product = centred.astype(self.rough.dtype, copy=False) @ self.rough.T
        least = no_chunks(product)
        least_of_chunks(product, self.squared, 1.0 - self.rounding[0], least, 0, len(self.exact))
        _select(
            product,
            least,
            exact,
            norms,
            self.exact.reshape(-1),
            self._place,
            self.squared,
            *self.rounding,
            self.bounded,
            self.rows,
            here,
            there,
            rows,
            squared,
        )


class OverlappingWindows:
    """Windows as places in the steps that they share.

    Parameters
    ----------
    steps : array of shape (T, d)
    place : array of shape (n,)
        Of the first step of each window, ascending.
    width : int
    rows : array of shape (n,)
        Row numbers.
    """

    def __init__(self, steps: Floats, place: Ints, width: int, rows: Ints) -> None:
        self.exact, self.place, self.width, self.rows = steps, place, width, rows
        centred = steps - steps.mean(axis=0)
        self.steps = centred.astype(np.float32)
        energy = np.einsum("ij,ij->i", centred, centred)
        self.squared: Floats = sum((energy[place + t] for t in range(width)), np.zeros(len(place)))
        # Of a product of two steps, of the sum over w of them, and a few more roundings.
        n, limits = steps.shape[1] + width + 16, np.finfo(np.float32)
        self.rounding = n * float(limits.eps), n * float(limits.tiny)

    def compare(self, some: slice, rows: Ints, squared: Floats, table: Ints) -> None:
        """Write the nearest of some windows into ``rows`` and ``squared`` (b, k).

        ``table`` (n, 4) is that of :class:`Places`.
        """
        n, w, d, at = len(self.place), self.width, self.steps.shape[1], self.place[some]
        here = self.steps[at[0] : at[-1] + w]
        product = np.empty((len(at), n), np.float32)
        least = no_chunks(product)
        for begin in range(0, n, TILE):
            end = min(begin + TILE, n)
            there = self.place[begin:end]
            of_steps = here @ self.steps[there[0] : there[-1] + w].T
            _sum_steps(of_steps, at - at[0], there - there[0], w, product, begin)
            least_of_chunks(product, self.squared, 1.0 - self.rounding[0], least, begin, end)
        _select(
            product,
            least,
            self.exact[at[:, None] + np.arange(w)].reshape(len(at), w * d),
            self.squared[some],
            self.exact.reshape(-1),
            d * self.place,
            self.squared,
            *self.rounding,
            np.inf,
            self.rows,
            table[some],
            table,
            rows,
            squared,
        )


def no_chunks(product: NDArray[Any]) -> Floats:
    """Room for what :func:`least_of_chunks` finds, (n, chunks)."""
    return np.empty((len(product), -(-product.shape[1] // CHUNK)))


@jit()
def _sum_steps(of_steps, here, there, width, product, column):  # type: ignore[no-untyped-def]
    """Products of n windows with m others, from ``column`` on, by those of all their steps.

    ``here`` (n,) and ``there`` (m,) are the first steps of the windows. A product of windows is the
    sum along a diagonal of ``of_steps``, which changes.
    """
    n_steps, n_others = of_steps.shape
    product[:, column : column + len(there)] = np.float32(0.0)
    # Sums of 1, 2, 4, ... steps take the place of the products; those of the binary digits of the
    # width make up its sum.
    size, offset = 1, 0
    while size <= width:
        if width & size:
            begin = 0
            while begin < len(there):
                end = begin + 1  # windows that follow each other
                while end < len(there) and there[end] == there[end - 1] + 1:
                    end += 1
                for q in range(len(here)):
                    row = product[q, column + begin : column + end]
                    sums = of_steps[here[q] + offset, there[begin] + offset :]
                    for j in range(len(row)):
                        row[j] += sums[j]
                begin = end
            offset += size
        if 2 * size <= width:
            for i in range(n_steps - size):
                sums, later = of_steps[i, : n_others - size], of_steps[i + size, size:]
                for j in range(len(sums)):
                    sums[j] += later[j]
        size *= 2


# All are finite: points that are too large for the product's precision never get here.
@jit(fastmath={"nnan", "nsz"})
def least_of_chunks(product, squared, less, least, begin, end):  # type: ignore[no-untyped-def]
    """The least ``less * squared - 2 product`` of each chunk of the candidates from begin to end.

    ``least`` (n, chunks) takes them; begin is that of a chunk.
    """
    n_whole = (end - begin) // CHUNK * CHUNK
    for q in range(len(product)):
        for first in range(begin, begin + n_whole, CHUNK):
            row, norms = product[q, first : first + CHUNK], squared[first : first + CHUNK]
            low = np.inf
            for i in range(CHUNK):  # of a length that is known, which makes it vector code
                low = min(low, less * norms[i] - 2.0 * row[i])
            least[q, first // CHUNK] = low
        if begin + n_whole < end:
            low = np.inf
            for i in range(begin + n_whole, end):
                low = min(low, less * squared[i] - 2.0 * product[q, i])
            least[q, end // CHUNK] = low


@jit()
def _select(  # type: ignore[no-untyped-def]
    product,
    least,
    x,
    x_squared,
    others,
    place,
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
    """Of the candidates that the bounds leave, the nearest by their differences.

    ``others`` are the values of all candidates, of which each begins at its ``place`` (m,): points
    one after the other, or windows that share their steps.
    """
    n, m = product.shape
    k, size = distances.shape[1], x.shape[1]
    upper = np.empty(k)
    more, less = 1.0 + relative, 1.0 - relative
    for q in range(n):
        high, low = more * x_squared[q] + absolute, less * x_squared[q] - absolute
        # The k-th smallest upper bound: nothing whose lower bound is above it can be a neighbour.
        upper[:] = np.inf
        for chunk in range(least.shape[1] if x_squared[q] < bounded else 0):
            if least[q, chunk] + low > upper[k - 1]:
                continue
            for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, m)):
                bound = more * squared[i] - 2.0 * product[q, i] + high
                if bound < upper[k - 1]:
                    if here is not None and _too_near(here[q], there[i]):
                        continue
                    at = k - 1
                    while at > 0 and upper[at - 1] > bound:
                        upper[at] = upper[at - 1]
                        at -= 1
                    upper[at] = bound
        cut = upper[k - 1]
        found = 0
        for chunk in range(least.shape[1]):
            if least[q, chunk] + low > cut:
                continue
            for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, m)):
                if less * squared[i] - 2.0 * product[q, i] + low > cut:
                    continue
                if here is not None and _too_near(here[q], there[i]):
                    continue
                distance = squared_distance(x[q], others[place[i] : place[i] + size])
                at = found
                if found == k:
                    at = k - 1
                    last = distances[q, at]
                    if not (distance < last or (distance == last and numbers[i] < rows[q, at])):
                        continue
                while at > 0 and (
                    distances[q, at - 1] > distance
                    or (distances[q, at - 1] == distance and rows[q, at - 1] > numbers[i])
                ):
                    distances[q, at] = distances[q, at - 1]
                    rows[q, at] = rows[q, at - 1]
                    at -= 1
                distances[q, at] = distance
                rows[q, at] = numbers[i]
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
