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
from ..base.compiled import copy_into, jit, smaller
from ..base.fixed_order import TILE, exponent_of, in_tiles, multiply_tiles
from ..base.work import n_threads, run_each
from ..stream.windows import Windows, flatten

BLOCK = 512  # points compared at a time: memory is bounded by their products
ORDINARY = 300  # powers of two up to which squares are far from overflowing and from vanishing
MANY_PAIRS = 50_000_000  # from which products are in single precision, with its bound
LARGE = 40  # powers of two up to which the squares of single precision are far from overflowing
# Points this far out (where candidates are within 1) would overflow single precision.
FAR = 1e15
CANDIDATES = 16384  # that points are compared with at a time
CHUNK = 64  # candidates that are passed over at once
# Windows that are compared with others at a time: their products stay in a core's cache.
WINDOWS, OTHERS = 128, 1024
ANYWHERE = np.empty((0, 4), np.int64)  # a table of places where all pairs are permitted


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
    here, there = (ANYWHERE,) * 2 if places is None else (places[0].table(), places[1].table())
    for begin in range(0, len(X), BLOCK):
        some = slice(begin, begin + BLOCK)
        between = (here[some], there)
        candidates.compare(X[some], X[some] - mean, found.rows[some], found.squared[some], between)
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
        search.compare_own(some, table, found.rows[some], found.squared[some])

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
    tiled : bool
        Whether products are made in tiles: quicker in single precision, without threads.

    Attributes
    ----------
    exact, rows
    rough : array of shape (m, r)
        ``centred`` in the precision of the product; empty where it is in ``tiles``.
    tiles : array of shape (m' / TILE, r, TILE), or None
    squared : array of shape (m,)
        The squared norms of ``centred``.
    rounding : tuple of float
        How far a squared distance from the product may be off: relative to the sum of the two
        squared norms, and absolute.
    low, high : arrays of shape (m,)
        The squared norms less and plus what they may be off, in the precision of the product.
    bounded : float
        A point whose squared norm is not below this is compared with every candidate.
    place : array of shape (m,)
        Where the values of each candidate begin among those of ``exact``.
    """

    def __init__(
        self,
        exact: Floats,
        centred: Floats,
        rows: Ints | None = None,
        dtype: DTypeLike = np.float64,
        tiled: bool = False,
    ) -> None:
        self.exact = exact
        self.rough = centred.astype(dtype, copy=False)
        self.tiles = None
        if tiled:
            padding = [(0, -len(exact) % TILE), (0, 0)]
            self.tiles = in_tiles(np.pad(self.rough, padding).T)
            self.rough = np.empty((0, exact.shape[1]), dtype)  # the points are held once
        self.squared: Floats = np.einsum("ij,ij->i", centred, centred)
        self.rows: Ints = np.arange(len(exact)) if rows is None else rows
        self.place = exact.shape[1] * np.arange(len(exact))
        # |fl(2 x·y) - 2 x·y| ≤ γ_r (‖x‖² + ‖y‖²), a few more roundings, and what underflows.
        self._bound(exact.shape[1] + 16)
        self.bounded = FAR**2 if self.rough.dtype == np.float32 else np.inf

    def _bound(self, n: int) -> None:
        """The bounds after so many roundings."""
        limits = np.finfo(self.rough.dtype)
        self.rounding = n * float(limits.eps), n * float(limits.tiny)
        self.low = (self.squared * (1.0 - self.rounding[0])).astype(self.rough.dtype)
        self.high = (self.squared * (1.0 + self.rounding[0])).astype(self.rough.dtype)

    def compare(
        self,
        exact: Floats,
        centred: Floats,
        rows: Ints,
        squared: Floats,
        places: tuple[Ints, Ints] = (ANYWHERE, ANYWHERE),
        edges: Ints | None = None,
    ) -> None:
        """Write the nearest of some points (b, r) into ``rows`` and ``squared`` (b, S * k).

        Free places are -1 and infinite, as they must be before.

        Parameters
        ----------
        places : arrays of shapes (b, 4) and (m, 4)
            Tables of :class:`Places`, of the points and of the candidates.
        edges : array of shape (S + 1,), optional
            Where each segment of the candidates begins, of which the k nearest are sought; default
            one of all.
        """
        norms = np.einsum("ij,ij->i", centred, centred)
        far = ~(norms < self.bounded)
        if far.any():  # they would overflow, and are compared with every candidate
            centred = np.where(far[:, None], 0.0, centred)
        rough = centred.astype(self.rough.dtype, copy=False)
        edges = np.array([0, len(self.exact)]) if edges is None else edges
        for begin in range(0, len(self.exact), CANDIDATES):
            if self.tiles is None:
                product = rough @ self.rough[begin : begin + CANDIDATES].T
            else:  # the last of them is padded: places beyond all edges are not looked at
                tiles = self.tiles[begin // TILE : (begin + CANDIDATES) // TILE]
                product = np.empty((len(rough), len(tiles) * TILE), np.float32)
                multiply_tiles(rough, tiles, 1, product)
            self.select(product, begin, exact, norms, edges, places, rows, squared)

    def select(
        self,
        product: NDArray[Any],
        begin: int,
        exact: Floats,
        norms: Floats,
        edges: Ints,
        places: tuple[Ints, Ints],
        rows: Ints,
        squared: Floats,
    ) -> None:
        """The same from products (b, c) with the candidates from ``begin`` on."""
        select_nearest(product, begin, exact, norms, *self.prepared, edges, *places, rows, squared)

    @property
    def prepared(self) -> tuple[Any, ...]:
        """What :func:`select_nearest` takes of them."""
        candidates = self.exact.reshape(-1), self.place, self.low, self.high, self.rows
        return *candidates, *self.rounding, self.bounded


class OverlappingWindows(Candidates):
    """Windows as candidates, whose products come from the steps that they share.

    Parameters
    ----------
    steps : array of shape (T, d)
    start : array of shape (n,)
        The first step of each window, ascending.
    width : int
    rows : array of shape (n,)
        Row numbers.
    """

    def __init__(self, steps: Floats, start: Ints, width: int, rows: Ints) -> None:
        super().__init__(steps, steps - steps.mean(axis=0), rows, np.float32)
        self.start, self.width, self.place = start, width, steps.shape[1] * start
        self.squared = sum((self.squared[start + t] for t in range(width)), np.zeros(len(start)))
        # Of a product of two steps, of the sum over w of them, and a few more roundings.
        self._bound(steps.shape[1] + width + 16)
        self.bounded = np.inf

    def compare_own(self, some: slice, table: Ints, rows: Ints, squared: Floats) -> None:
        """The nearest of some of the windows; ``table`` (n, 4) is that of :class:`Places`."""
        n, w, at = len(self.start), self.width, self.start[some]
        here = self.rough[at[0] : at[-1] + w]
        product = np.empty((len(at), n), np.float32)
        for begin in range(0, n, OTHERS):
            there = self.start[begin : begin + OTHERS]
            of_steps = here @ self.rough[there[0] : there[-1] + w].T
            _sum_steps(of_steps, at - at[0], there - there[0], w, product, begin)
        exact = self.exact[at[:, None] + np.arange(w)].reshape(len(at), -1)
        places, edges = (table[some], table), np.array([0, n])
        self.select(product, 0, exact, self.squared[some], edges, places, rows, squared)


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


@jit()
def _least(product, low, high):  # type: ignore[no-untyped-def]
    """The least ``low - 2 product`` and ``high - 2 product`` of a chunk.

    All are finite: points that are too large for the product's precision never get here.
    """
    twice = product[0] + product[0]
    below, above = low[0] - twice, high[0] - twice
    for i in range(1, len(product)):
        twice = product[i] + product[i]
        below, above = smaller(below, low[i] - twice), smaller(above, high[i] - twice)
    return below, above


@jit()
def select_nearest(  # type: ignore[no-untyped-def]
    product, begin, x, x_squared, others, place, low, high, numbers, relative, absolute, bounded,
    edges, here, there, rows, distances,
):  # fmt: skip
    """Of the candidates that the bounds leave, the nearest by their differences.

    ``others`` are the values of all candidates, of which each begins at its ``place``: points one
    after the other, or windows that share their steps. What was found before is a bound, too.
    """
    n, m = product.shape
    k, size = rows.shape[1] // (len(edges) - 1), x.shape[1]
    low, high, place, numbers = low[begin:], high[begin:], place[begin:], numbers[begin:]
    anywhere = len(there) == 0
    upper, least = np.empty(k), np.empty(m // CHUNK + 1, low.dtype)
    for q in range(n):
        is_bounded = x_squared[q] < bounded
        more = x_squared[q] * (1.0 + relative) + absolute
        less = x_squared[q] * (1.0 - relative) - absolute
        for s in range(len(edges) - 1):
            first, last = max(edges[s] - begin, 0), min(edges[s + 1] - begin, m)
            free, full = s * k, (s + 1) * k
            # The k-th smallest upper bound: nothing whose lower bound is above it is a neighbour.
            copy_into(upper, distances[q, free:full])
            for a in range(first, last if is_bounded else first, CHUNK):
                b, chunk = min(a + CHUNK, last), (a - first) // CHUNK
                least[chunk], closest = _least(product[q, a:b], low[a:b], high[a:b])
                if not closest + more < upper[k - 1]:
                    continue
                if k == 1 and anywhere:
                    upper[0] = closest + more
                    continue
                for i in range(a, b):
                    bound = high[i] - 2.0 * product[q, i] + more
                    if bound < upper[k - 1]:
                        if not anywhere and _too_near(here[q], there[begin + i]):
                            continue
                        at = k - 1
                        while at > 0 and upper[at - 1] > bound:
                            upper[at] = upper[at - 1]
                            at -= 1
                        upper[at] = bound
            cut = upper[k - 1]
            for a in range(first, last, CHUNK):
                if is_bounded and least[(a - first) // CHUNK] + less > cut:
                    continue
                for i in range(a, min(a + CHUNK, last)):
                    if is_bounded and low[i] - 2.0 * product[q, i] + less > cut:
                        continue
                    if not anywhere and _too_near(here[q], there[begin + i]):
                        continue
                    distance = squared_distance(x[q], others[place[i] : place[i] + size])
                    insert(distance, numbers[i], distances[q], rows[q], free, full)


@jit()
def insert(distance, number, distances, rows, free, full):  # type: ignore[no-untyped-def]
    """Put a neighbour into the places from ``free`` to ``full``, which are in order.

    Of equally near ones the lower number comes first.
    """
    if not distance <= distances[full - 1]:  # a NaN is not, either
        return
    at = full
    while at > free and not (
        distance > distances[at - 1]
        or (distance == distances[at - 1] and 0 <= rows[at - 1] < number)
    ):
        at -= 1
    for later in range(full - 1, at, -1):
        distances[later], rows[later] = distances[later - 1], rows[later - 1]
    if at < full:
        distances[at], rows[at] = distance, number


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
