"""The dynamic programmes of time warping, compiled; ``dtw`` is their face."""

from __future__ import annotations

import numpy as np

from .lanes import LANES, FloatArray, IntArray
from .point_costs import box_costs, jit, point_costs


@jit
def next_row(
    a: int,
    costs: FloatArray,
    stride: int,
    band: int,
    table: FloatArray,
    diagonal: FloatArray,
    left: FloatArray,
    lowest: FloatArray,
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
def insert(cost: float, window: int, costs: FloatArray, windows: IntArray) -> None:
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
    points: FloatArray,
    first: IntArray,
    block_points: FloatArray,
    block_window: IntArray,
    stride: int,
    low: FloatArray,
    high: FloatArray,
    band: int,
    remember: bool,
    costs: FloatArray,
    windows: IntArray,
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
    points: FloatArray,
    first: IntArray,
    block_points: FloatArray,
    block_window: IntArray,
    stride: int,
    width: int,
    band: int,
    out: FloatArray,
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
def accumulate(cost: FloatArray, band: int) -> FloatArray:
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
def trace_back(table: FloatArray, steps: IntArray) -> int:
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
