"""The dynamic programmes of time warping, compiled; ``dtw`` is their face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from ...checks import Floats, Ints

# -------------------------------------------------------------------- lanes
# Windows laid side by side, so that one dynamic programme serves many of them.
#
# Dynamic time warping of one query with one window is a chain of dependent steps that a processor
# cannot run wide. Sixty-four windows at once can: the step is the same, the data lie next to each
# other. This module arranges them so.
#
# Windows that overlap as neighbours of one stream share their points, and the arrangement keeps
# each point once: lane ``l`` at step ``t`` is column ``l + t`` of the block. Windows that share
# nothing lie step after step: column ``l + t * LANES``. What reads a block needs only that stride.

# Wide enough to hide the chain, narrow enough that the windows of a block resemble each other and
# can be ruled out together: of 16, 32, 64, 96 and 128 the best on most of ten sets of windows.
LANES = 64


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


def continues(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Which windows are the one before them moved on by one step, shape (n,)."""
    same = np.zeros(len(X), dtype=bool)
    same[1:] = (X[1:, :-1] == X[:-1, 1:]).all(axis=(1, 2))
    return same


def distinct_points(X: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The points of windows, those that neighbours share kept once.

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


# -------------------------------------------------------------------- point_costs
# Squared distances of points: the local costs of dynamic time warping, and bounds of them.
#
# Every sum runs over the channels in the same order, so a cost does not depend on which of these
# loops computed it, and the distance to a box never exceeds, not by a rounding either, the distance
# to a point in it.

Function = TypeVar("Function", bound=Callable[..., Any])

# `fastmath` is written out because numba lets a function that is silent about it inherit the
# setting of whichever caller happens to compile it first.
jit: Callable[[Function], Function] = numba.njit(cache=True, nogil=True, fastmath=False)


@jit
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


@jit
def local_costs(x: Floats, y: Floats) -> Floats:
    """Squared distances of all pairs of steps of two series, shape (n, m)."""
    costs = np.empty((len(x), len(y)))
    columns = np.ascontiguousarray(y.T)
    for a in range(len(x)):
        point_costs(columns, x[a], 0, len(y), costs[a])
    return costs


@jit
def box_costs(low: Floats, high: Floats, points: Floats, first: int, rest: Floats) -> None:
    """What rows ``a`` to ``w - 1`` of a table must cost at least, for each block.

    ``rest`` has shape (w + 1, n_blocks). A path has a cell in every row, which costs no less than
    the distance of the query's step to the box of the points it may meet there.
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


@jit
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
    becomes the row's minimum. The neighbours' values travel in buffers of their own: were they
    read from the table, the compiler would have to assume that the store it has just made changes
    them.
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


@jit
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


@jit
def search(
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


@jit
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


@jit
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


@jit
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
