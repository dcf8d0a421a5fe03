"""Dependent multivariate dynamic time warping (Berndt & Clifford 1994), exact.

The cost of an alignment is the sum of the squared Euclidean distances of the steps it pairs. Here
``cost`` is that sum for the best alignment, and a distance is its square root. A ``band`` of ``r``
pairs only steps at most ``r`` apart (Sakoe & Chiba 1978); ``None`` pairs any.

The search for nearest windows runs one dynamic programme over 64 windows at a time, and leaves
out windows that a lower bound of their costs rules out. First comes what other modules call, then
the arrangement of windows in blocks, then the compiled loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise as successive
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from mlat.base.checks import Bools, Floats, Ints, is_whole
from mlat.base.compiled import jit
from mlat.base.errors import InputError

# Windows per block. Wide enough to hide the chain of dependent operations, narrow enough that the
# windows of a block are similar and can be ruled out together: of 16, 32, 64, 96 and 128 the best
# on most of ten sets of windows.
LANES = 64
# Point costs kept for queries that overlap: a part of the processor's cache, so that to look one
# up takes less time than to compute it again.
KEPT_BYTES = 4 << 20

# For sums that are compared with nothing to the last bit, and may be taken in any order.
SUMS = {"reassoc", "contract"}


def cost(x: ArrayLike, y: ArrayLike, *, band: int | None = None) -> float:
    """The cost of the best alignment of two series, shapes (n, d) and (m, d).

    Examples
    --------
    >>> cost([[0.0], [1.0], [2.0]], [[0.0], [0.0], [2.0]])
    1.0
    """
    return float(_table(x, y, band)[-1, -1])


def path(x: ArrayLike, y: ArrayLike, *, band: int | None = None) -> Ints:
    """The steps (i, j) that the best alignment pairs, shape (length, 2), in order.

    Of alignments with equal cost, the one that is found from the end, diagonal moves first.

    Examples
    --------
    >>> path([[0.0], [1.0], [2.0]], [[0.0], [0.0], [2.0]]).tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    table = _table(x, y, band)
    steps = np.empty((sum(table.shape) - 1, 2), dtype=np.int64)
    length = trace_back(table, steps)
    return steps[:length][::-1]


def pairwise(X: NDArray[Any], Y: NDArray[Any] | None = None, *, band: int | None = None) -> Floats:
    """The costs of all pairs of windows, shapes (n, w, d) and (m, w, d), as (n, m).

    ``Y`` is ``X`` where it is not given.
    """
    X = _windows(X)
    Y = X if Y is None else _windows(Y)
    _same_steps(X, Y)
    reach = check_band(band, X.shape[1], Y.shape[1])
    out = np.empty((len(X), len(Y)))
    points, first = distinct_points(X)
    for blocks in pack(Y, reach):
        all_costs(
            points, first, blocks.points, blocks.window, blocks.stride, X.shape[1], reach, out
        )
    return out


def nearest(
    X: NDArray[Any],
    Y: NDArray[Any],
    n_neighbors: int = 1,
    *,
    band: int | None = None,
    n_jobs: int | None = None,
) -> tuple[Floats, Ints]:
    """The windows of ``Y`` (m, w, d) nearest to each of ``X`` (n, w, d).

    Returns
    -------
    costs, windows : arrays of shape (n, n_neighbors)
        In order of cost; of windows with equal cost, the earlier first.
    """
    X, Y = _windows(X), _windows(Y)
    _same_steps(X, Y)
    return Index(Y, band).query_costs(X, n_neighbors, n_jobs)


class Index:
    """Windows (n, w, d) arranged for the search of nearest neighbours under DTW.

    Per query, blocks of windows are visited in the order of a lower bound of their costs, until
    the bound exceeds the best cost found. A block is left as soon as the rows of its tables that
    are done, plus the bound of the rows to come, exceed that cost. So no window that is skipped
    can be among the nearest.

    Attributes
    ----------
    band : int
        As a number of steps.
    """

    def __init__(self, windows: Floats, band: int | None = None) -> None:
        n_steps = windows.shape[1]
        self.band = check_band(band, n_steps, n_steps)
        self._packed = pack(windows, self.band)

    def query(self, X: Floats, n_neighbors: int, n_jobs: int | None = None) -> tuple[Floats, Ints]:
        """Distances and positions of the nearest windows, both (n, n_neighbors)."""
        costs, windows = self.query_costs(X, n_neighbors, n_jobs)
        return np.sqrt(costs), windows

    def query_costs(
        self, X: Floats, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[Floats, Ints]:
        """The same with costs, which are the squares of the distances."""
        costs = np.full((len(X), n_neighbors), np.inf)
        windows = np.full((len(X), n_neighbors), np.iinfo(np.int64).max)
        n_threads = 1 if n_jobs is None else int(effective_n_jobs(n_jobs))
        n_threads = max(1, min(n_threads, len(X)))
        if n_threads == 1:
            self._search(X, costs, windows)
        else:
            edges = np.linspace(0, len(X), n_threads + 1).astype(int)
            parts = [slice(a, b) for a, b in successive(edges)]
            Parallel(n_jobs=n_threads, prefer="threads", require="sharedmem")(
                delayed(self._search)(X[part], costs[part], windows[part]) for part in parts
            )
        return costs, windows

    def _search(self, X: Floats, costs: Floats, windows: Ints) -> None:
        points, first = distinct_points(X)
        overlap = len(points) < X.shape[0] * X.shape[1]
        for blocks in self._packed:
            remember = overlap and blocks.bytes_to_keep <= KEPT_BYTES
            for tile in blocks.tiles() if remember else (blocks,):
                search_blocks(
                    points,
                    first,
                    tile.points,
                    tile.window,
                    tile.stride,
                    tile.low,
                    tile.high,
                    self.band,
                    remember,
                    costs,
                    windows,
                )


def transform(X: Floats, L: Floats) -> Floats:
    """``L x`` for every step of windows (n, w, d).

    DTW of these is DTW with the local distance ``(x - y)ᵀ LᵀL (x - y)``. Steps that windows share
    are mapped once, so the results are equal to the last bit, and a search still finds that the
    windows overlap.
    """
    points, first = distinct_points(X)
    mapped: Floats = (points @ L.T)[first[:, None] + np.arange(X.shape[1])]
    return mapped


def components(M: Floats) -> Floats:
    """L with ``M = LᵀL``, for a matrix that is positive semidefinite up to rounding."""
    values, vectors = np.linalg.eigh(M)
    L: Floats = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return L


def check_band(band: int | None, n: int, m: int) -> int:
    """A band as a number of steps, for series of ``n`` and ``m`` steps."""
    if band is None:
        return max(n, m)
    if not is_whole(band) or band < 0:
        raise InputError(f"band must be a whole number of steps, 0 or more, or None, not {band!r}")
    if band < abs(n - m):
        raise InputError(
            f"a band of {band} cannot align series of {n} and {m} steps; "
            f"it must be at least {abs(n - m)}"
        )
    # The kernels subtract it from a step's number: keep it within their integers.
    return min(int(band), max(n, m))


def _table(x: ArrayLike, y: ArrayLike, band: int | None) -> Floats:
    a = np.ascontiguousarray(x, dtype=np.float64)
    b = np.ascontiguousarray(y, dtype=np.float64)
    for name, series in (("x", a), ("y", b)):
        if series.ndim != 2 or not series.size:
            raise InputError(f"{name} must have shape (steps, channels), not {series.shape}")
        if not np.isfinite(series).all():
            raise InputError(f"{name} has NaN or infinity at step {_first_bad(series)[0]}")
    if a.shape[1] != b.shape[1]:
        raise InputError(f"x has {a.shape[1]} channels and y has {b.shape[1]}; they must agree")
    return accumulate(local_costs(a, b), check_band(band, len(a), len(b)))


def _windows(X: NDArray[Any]) -> Floats:
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 3 or 0 in X.shape[1:]:
        raise InputError(f"windows must have shape (n, w, d), not {X.shape}")
    if not np.isfinite(X).all():
        window, step, channel = _first_bad(X)
        raise InputError(f"NaN or infinity in window {window}, step {step}, channel {channel}")
    return X


def _same_steps(X: Floats, Y: Floats) -> None:
    if X.shape[1:] != Y.shape[1:]:
        raise InputError(
            f"windows of shape {X.shape[1:]} cannot be compared with windows of shape "
            f"{Y.shape[1:]}; (steps, channels) must agree"
        )


def _first_bad(values: Floats) -> list[int]:
    position: list[int] = np.argwhere(~np.isfinite(values))[0].tolist()
    return position


# Blocks: windows side by side, so that one dynamic programme serves many of them.
#
# DTW of one query with one window is a chain of dependent operations, which a processor cannot
# vectorise. For 64 windows at once it can: the operation is the same and the data are adjacent.
#
# Neighbouring windows of a stream share their points, and a block keeps each point once: step
# ``t`` of lane ``l`` is column ``l + t``. Windows that share nothing lie step after step: column
# ``l + t * LANES``. Whoever reads a block needs only that stride.


class LaneBlocks(NamedTuple):
    """Blocks of ``LANES`` windows.

    Attributes
    ----------
    points : array of shape (n_blocks, d, m)
        Step ``t`` of lane ``l`` is ``points[block, :, l + t * stride]``.
    window : array of shape (n_blocks, LANES)
        Which window each lane holds; -1 is padding.
    stride : int
    low, high : arrays of shape (w, d, n_blocks)
        For each step of a query, the box around all points of the block it may align with.
    """

    points: Floats
    window: Ints
    stride: int
    low: Floats
    high: Floats

    @property
    def bytes_to_keep(self) -> int:
        """Bytes of the point costs of one block with all steps of a query."""
        return len(self.low) * self.points.shape[2] * 8

    def tiles(self) -> Iterator[LaneBlocks]:
        """As many blocks at a time as have their point costs kept in the processor's cache."""
        size = max(1, KEPT_BYTES // self.bytes_to_keep)
        for begin in range(0, len(self.points), size):
            part = slice(begin, begin + size)
            yield LaneBlocks(
                self.points[part],
                self.window[part],
                self.stride,
                np.ascontiguousarray(self.low[:, :, part]),
                np.ascontiguousarray(self.high[:, :, part]),
            )


def continues(X: NDArray[Any]) -> Bools:
    """Which windows are the window before them moved on by one step, shape (n,)."""
    same = np.zeros(len(X), dtype=bool)
    same[1:] = (X[1:, :-1] == X[:-1, 1:]).all(axis=(1, 2))
    return same


def distinct_points(X: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The points of windows; points that neighbours share are kept once.

    Returns
    -------
    points : array of shape (p, d)
    first : array of shape (n,)
        Window ``i`` is ``points[first[i] : first[i] + w]``.

    Examples
    --------
    >>> X = np.array([[[0.0], [1.0]], [[1.0], [2.0]], [[7.0], [8.0]]])
    >>> points, first = distinct_points(X)
    >>> points.ravel().tolist(), first.tolist()
    ([0.0, 1.0, 2.0, 7.0, 8.0], [0, 1, 3])
    """
    new = np.repeat(~continues(X)[:, None], X.shape[1], axis=1)
    new[:, -1] = True
    return X[new], np.cumsum(new.sum(axis=1)) - X.shape[1]


def pack(X: Floats, band: int) -> tuple[LaneBlocks, ...]:
    """Windows (n, w, d) as blocks: those of long runs with shared points, then the others."""
    n, width, _ = X.shape
    begin = np.flatnonzero(~continues(X))
    length = np.diff(np.append(begin, n))
    # Each run is cut into chunks of LANES windows; a last chunk that would leave most lanes empty
    # joins the windows that share nothing.
    chunks = -(-length // LANES)
    nth = np.arange(chunks.sum()) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    start = np.repeat(begin, chunks) + nth * LANES
    size = np.minimum(LANES, np.repeat(begin + length, chunks) - start)
    shared = 2 * size >= LANES

    lane = np.arange(LANES)
    blocks = []
    if shared.any():
        start_, size_ = start[shared, None], size[shared, None]
        points, first = distinct_points(X)
        column = np.minimum(np.arange(LANES + width - 1), size_ + width - 2)
        window = np.where(lane < size_, start_ + lane, -1)
        blocks.append(_with_boxes(points[first[start_] + column], window, 1, width, band))
    alone = np.flatnonzero(np.repeat(~shared, size))
    if len(alone):
        window = np.full(-(-len(alone) // LANES) * LANES, -1)
        window[: len(alone)] = alone
        padded = np.where(window < 0, alone[-1], window).reshape(-1, LANES)
        steps = X[padded].transpose(0, 2, 1, 3).reshape(len(padded), width * LANES, -1)
        blocks.append(_with_boxes(steps, window.reshape(-1, LANES), LANES, width, band))
    return tuple(blocks)


def _with_boxes(columns: Floats, window: Ints, stride: int, width: int, band: int) -> LaneBlocks:
    """Blocks from their columns, shape (n_blocks, m, d)."""
    n_blocks, _, n_channels = columns.shape
    low = np.empty((width, n_channels, n_blocks))
    high = np.empty_like(low)
    for step in range(width):
        # Every path holds the two corners, so the first and last rows are bounded by them alone.
        if step in (0, width - 1):
            begin = end = step
        else:
            begin, end = max(0, step - band), min(width - 1, step + band)
        reached = columns[:, begin * stride : end * stride + LANES]
        low[step] = reached.min(axis=1).T
        high[step] = reached.max(axis=1).T
    points = np.ascontiguousarray(columns.transpose(0, 2, 1))
    return LaneBlocks(points, window.astype(np.int64), stride, low, high)


# The compiled loops.
#
# Squared distances are summed over the channels in one order everywhere. So a cost does not depend
# on which loop computed it, and the distance to a box never exceeds the distance to a point in it,
# not even by rounding.


@jit()
def search_blocks(
    points: Floats,
    first: Ints,
    block_points: Floats,
    block_window: Ints,
    stride: int,
    low: Floats,
    high: Floats,
    band: int,
    remember: bool,
    costs: Floats,
    windows: Ints,
) -> None:
    """Improve the k nearest windows of each query by those of some blocks.

    Parameters
    ----------
    points, first : arrays of shape (p, d) and (n,)
        The queries, as ``distinct_points`` gives them.
    remember : bool
        Keep the point costs of the last w query points, for queries that overlap.
    costs, windows : arrays of shape (n, k)
        The nearest so far, in order; read and written.
    """
    width, _, n_blocks = low.shape
    n_columns = block_points.shape[2]
    # A bound and a distance are sums of the same rounded terms in another order. Each sum is right
    # to within one unit of rounding per addition, so this much keeps a bound below its distance.
    slack = 1.0 + 8.0 * width * np.finfo(np.float64).eps
    kept_blocks, kept_rows = (n_blocks, width) if remember else (1, 1)
    kept = np.empty((kept_blocks, kept_rows, n_columns))
    kept_point = np.full((kept_blocks, kept_rows), -1)
    rest = np.empty((width + 1, n_blocks))
    table = np.empty(width * LANES)
    diagonal, left, lowest = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for query in range(len(first)):
        box_costs(low, high, points, first[query], rest)
        for block in np.argsort(rest[0]):
            limit = costs[query, -1] * slack
            if rest[0, block] > limit:
                break
            table[:] = np.inf
            alive = True
            for a in range(width):
                point = first[query] + a
                place, row = (block, point % width) if remember else (0, 0)
                costs_here = kept[place, row]
                if kept_point[place, row] != point or not remember:
                    kept_point[place, row] = point
                    # Another query may need any column of a row that is kept, this one its band.
                    reach = width if remember else band
                    begin = max(0, a - reach) * stride
                    end = min(width - 1, a + reach) * stride + LANES
                    point_costs(block_points[block], points[point], begin, end, costs_here)
                next_row(a, costs_here, stride, band, table, diagonal, left, lowest)
                cheapest = np.inf
                for lane in range(LANES):
                    cheapest = lowest[lane] if lowest[lane] < cheapest else cheapest
                if cheapest + rest[a + 1, block] > limit:
                    alive = False
                    break
            if alive:
                for lane in range(LANES):
                    if block_window[block, lane] >= 0:
                        insert(
                            table[(width - 1) * LANES + lane],
                            block_window[block, lane],
                            costs[query],
                            windows[query],
                        )


@jit()
def all_costs(
    points: Floats,
    first: Ints,
    block_points: Floats,
    block_window: Ints,
    stride: int,
    width: int,
    band: int,
    out: Floats,
) -> None:
    """Every query against every window of some blocks, into ``out`` (n_queries, n_windows)."""
    n_columns = block_points.shape[2]
    kept = np.empty((width, n_columns))
    kept_point = np.empty(width, dtype=np.int64)
    table = np.empty(width * LANES)
    diagonal, left, lowest = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for block in range(len(block_points)):
        kept_point[:] = -1
        for query in range(len(first)):
            table[:] = np.inf
            for a in range(width):
                point = first[query] + a
                row = point % width
                if kept_point[row] != point:
                    point_costs(block_points[block], points[point], 0, n_columns, kept[row])
                    kept_point[row] = point
                next_row(a, kept[row], stride, band, table, diagonal, left, lowest)
            for lane in range(LANES):
                if block_window[block, lane] >= 0:
                    out[query, block_window[block, lane]] = table[(width - 1) * LANES + lane]


@jit()
def insert(cost: float, window: int, costs: Floats, windows: Ints) -> None:
    """Put a candidate among the k nearest: smaller cost first, then earlier window."""
    k = len(costs)
    if cost > costs[k - 1] or (cost == costs[k - 1] and window > windows[k - 1]):
        return
    place = k - 1
    while place > 0 and (
        cost < costs[place - 1] or (cost == costs[place - 1] and window < windows[place - 1])
    ):
        costs[place] = costs[place - 1]
        windows[place] = windows[place - 1]
        place -= 1
    costs[place] = cost
    windows[place] = window


@jit()
def next_row(
    a: int,
    costs: Floats,
    stride: int,
    band: int,
    table: Floats,
    diagonal: Floats,
    left: Floats,
    lowest: Floats,
) -> None:
    """Row ``a`` of the table of a block, in place of row ``a - 1``.

    Cell ``b`` of lane ``l`` is ``table[b * LANES + l]``, infinite before row 0. ``lowest`` (LANES,)
    becomes the row's minimum. The neighbours' values are kept in buffers of their own: if they
    were read from the table, the compiler would have to assume that its last store changes them.
    """
    width = len(table) // LANES
    start = 0.0 if a == 0 else np.inf
    begin, end = max(0, a - band), min(width - 1, a + band)
    for lane in range(LANES):
        left[lane] = np.inf
        lowest[lane] = np.inf
        diagonal[lane] = table[(begin - 1) * LANES + lane] if begin > 0 else start
    b = begin
    while b < end:
        # Two columns a pass, for half the traffic with the buffers.
        cells = table[b * LANES : (b + 2) * LANES]
        first, second = costs[b * stride :][:LANES], costs[(b + 1) * stride :][:LANES]
        for lane in range(LANES):
            above, above_next = cells[lane], cells[LANES + lane]
            best = min(above, min(diagonal[lane], left[lane])) + first[lane]
            best_next = min(above_next, min(above, best)) + second[lane]
            cells[lane], cells[LANES + lane] = best, best_next
            diagonal[lane], left[lane] = above_next, best_next
            lowest[lane] = min(lowest[lane], min(best, best_next))
        b += 2
    if b == end:
        cells, first = table[b * LANES : (b + 1) * LANES], costs[b * stride :][:LANES]
        for lane in range(LANES):
            best = min(cells[lane], min(diagonal[lane], left[lane])) + first[lane]
            cells[lane] = best
            lowest[lane] = min(lowest[lane], best)


@jit()
def box_costs(low: Floats, high: Floats, points: Floats, first: int, rest: Floats) -> None:
    """Lower bounds of what rows ``a`` to ``w - 1`` of a table cost, for each block.

    ``rest``, shape (w + 1, n_blocks), is written. A path has a cell in every row, which costs no
    less than the distance of the query's step to the box of the points it may meet there.
    """
    width, n_channels, n_blocks = low.shape
    cost = np.empty(n_blocks)
    for block in range(n_blocks):
        rest[width, block] = 0.0
    for a in range(width - 1, -1, -1):
        for block in range(n_blocks):
            cost[block] = 0.0
        for channel in range(n_channels):
            x = points[first + a, channel]
            lowest, highest = low[a, channel], high[a, channel]
            for block in range(n_blocks):
                u, v = lowest[block] - x, x - highest[block]
                u = v if v > u else u
                u = u if u > 0.0 else 0.0
                cost[block] += u * u
        for block in range(n_blocks):
            rest[a, block] = rest[a + 1, block] + cost[block]


@jit()
def point_costs(points: Floats, x: Floats, begin: int, end: int, costs: Floats) -> None:
    """Squared distances of one point (d,) to columns ``[begin, end)`` of ``points`` (d, m)."""
    out = costs[begin:end]
    n_channels, n_columns = len(points), len(out)
    # Three channels a pass: most of the time of a plain loop goes into loading and storing `out`.
    # What three leave over comes first, and starts the sums.
    head = n_channels % 3
    for channel in range(head):
        x0, y0 = x[channel], points[channel, begin:end]
        for c in range(n_columns):
            u0 = x0 - y0[c]
            out[c] = u0 * u0 if channel == 0 else out[c] + u0 * u0
    for channel in range(head, n_channels, 3):
        x0, x1, x2 = x[channel], x[channel + 1], x[channel + 2]
        y0 = points[channel, begin:end]
        y1 = points[channel + 1, begin:end]
        y2 = points[channel + 2, begin:end]
        if channel == 0:
            for c in range(n_columns):
                u0, u1, u2 = x0 - y0[c], x1 - y1[c], x2 - y2[c]
                out[c] = (u0 * u0 + u1 * u1) + u2 * u2
        else:
            for c in range(n_columns):
                u0, u1, u2 = x0 - y0[c], x1 - y1[c], x2 - y2[c]
                out[c] = ((out[c] + u0 * u0) + u1 * u1) + u2 * u2


@jit()
def local_costs(x: Floats, y: Floats) -> Floats:
    """Squared distances of all pairs of steps of two series, shape (n, m)."""
    costs = np.empty((len(x), len(y)))
    columns = np.ascontiguousarray(y.T)
    for a in range(len(x)):
        point_costs(columns, x[a], 0, len(y), costs[a])
    return costs


@jit()
def accumulate(cost: Floats, band: int) -> Floats:
    """The table of cumulative costs (n, m) of a local cost matrix."""
    n, m = cost.shape
    table = np.full((n, m), np.inf)
    for a in range(n):
        for b in range(max(0, a - band), min(m - 1, a + band) + 1):
            best = 0.0 if a == 0 and b == 0 else np.inf
            if a > 0:
                best = min(best, table[a - 1, b])
            if b > 0:
                best = min(best, table[a, b - 1])
            if a > 0 and b > 0:
                best = min(best, table[a - 1, b - 1])
            table[a, b] = best + cost[a, b]
    return table


@jit()
def trace_back(table: Floats, steps: Ints) -> int:
    """Write the path that a table holds into ``steps``, last cell first; return its length.

    Of predecessors that cost the same, the diagonal one is taken, then the one in the row above.
    """
    a, b = table.shape[0] - 1, table.shape[1] - 1
    length = 0
    while True:
        steps[length, 0], steps[length, 1] = a, b
        length += 1
        if a == 0 and b == 0:
            return length
        if a == 0:
            b -= 1
        elif b == 0:
            a -= 1
        else:
            above, before, across = table[a - 1, b], table[a, b - 1], table[a - 1, b - 1]
            if across <= above and across <= before:
                a -= 1
                b -= 1
            elif above <= before:
                a -= 1
            else:
                b -= 1
