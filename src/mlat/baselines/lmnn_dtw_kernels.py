"""The compiled loops of LMNN-DTW: paths of the pairs that matter, and the loss along fixed paths.

A path is kept as its moves, two bits each, four to a byte, first move lowest: bit 0 is a step in
the first window, bit 1 a step in the second. It ends where both windows end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..margin import hinges
from .dtw_kernels import accumulate, next_row, trace_back
from .lanes import LANES, FloatArray, IntArray
from .ldmlt_kernels import jit as sums_jit
from .point_costs import box_costs, jit, local_costs, point_costs

Moves = NDArray[np.uint8]
Rows = NDArray[np.int32]


def bytes_per_path(width: int) -> int:
    """Room for the longest path of two windows, ``2w - 2`` moves."""
    return max(1, -(-(2 * width - 2) // 4))


@jit
def write_moves(steps: IntArray, length: int, moves: Moves) -> None:
    """The path that ``trace_back`` left in ``steps``, last cell first, as moves."""
    moves[:] = 0
    for move in range(length - 1):
        after, before = steps[length - 2 - move], steps[length - 1 - move]
        code = (after[0] - before[0]) + 2 * (after[1] - before[1])
        moves[move // 4] |= np.uint8(code << (2 * (move % 4)))


@jit
def align_pairs(
    points: FloatArray,
    first: IntArray,
    width: int,
    band: int,
    left: Rows,
    right: Rows,
    costs: FloatArray,
    moves: Moves,
) -> None:
    """Cost and moves of the best path of each pair (left, right) of windows."""
    steps = np.empty((2 * width - 1, 2), dtype=np.int64)
    for pair in range(len(left)):
        a, b = first[left[pair]], first[right[pair]]
        table = accumulate(local_costs(points[a : a + width], points[b : b + width]), band)
        costs[pair] = table[width - 1, width - 1]
        write_moves(steps, trace_back(table, steps), moves[pair])


@jit
def align_within(
    points: FloatArray,
    first: IntArray,
    queries: IntArray,
    limit: FloatArray,
    block_points: FloatArray,
    block_window: IntArray,
    stride: int,
    low: FloatArray,
    high: FloatArray,
    band: int,
    remember: bool,
    left: Rows,
    right: Rows,
    costs: FloatArray,
    moves: Moves,
) -> int:
    """The pairs of a query and a window of some blocks that cost less than either's limit.

    As ``dtw_kernels.search``, with a limit that is given: a block is passed over where the
    bound of its costs exceeds the limits of all of its lanes, and left as soon as the rows done
    and the bound of those to come do. Rows are kept, so that a pair found has its path at once.

    Parameters
    ----------
    limit : array of shape (n,)
        Of each window; a pair is found if it costs less than the larger of its two.
    remember : bool
        Keep the point costs of the last w query points, for queries that overlap.
    left, right, costs, moves : arrays
        Written: what was found, in the order of the queries, then of the blocks.

    Returns
    -------
    int
        How many were found.
    """
    width, _, n_blocks = low.shape
    n_columns = block_points.shape[2]
    # A bound and a cost are sums of the same rounded terms in another order: see `search`.
    slack = 1.0 + 8.0 * width * np.finfo(np.float64).eps
    kept_blocks, kept_rows = (n_blocks, width) if remember else (1, 1)
    kept = np.empty((kept_blocks, kept_rows, n_columns))
    kept_point = np.full((kept_blocks, kept_rows), -1)
    rest = np.empty((width + 1, n_blocks))
    table = np.empty(width * LANES)
    # Cells beyond the band are never written, and stay infinite.
    rows = np.full((width, width * LANES), np.inf)
    cells = rows.reshape(width, width, LANES)
    diagonal, before, lowest = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lane_limit = np.full((n_blocks, LANES), -np.inf)
    block_limit = np.full(n_blocks, -np.inf)
    for block in range(n_blocks):
        for lane in range(LANES):
            if block_window[block, lane] >= 0:
                lane_limit[block, lane] = limit[block_window[block, lane]]
                block_limit[block] = max(block_limit[block], lane_limit[block, lane])
    steps = np.empty((2 * width - 1, 2), dtype=np.int64)
    found = 0
    for query in queries:
        own = limit[query]
        box_costs(low, high, points, first[query], rest)
        for block in range(n_blocks):
            if rest[0, block] > max(own, block_limit[block]) * slack:
                continue
            limits = lane_limit[block]
            table[:] = np.inf
            alive = True
            for a in range(width):
                point = first[query] + a
                place, row = (block, point % width) if remember else (0, 0)
                costs_here = kept[place, row]
                if kept_point[place, row] != point or not remember:
                    kept_point[place, row] = point
                    reach = width if remember else band
                    begin = max(0, a - reach) * stride
                    end = min(width - 1, a + reach) * stride + LANES
                    point_costs(block_points[block], points[point], begin, end, costs_here)
                next_row(a, costs_here, stride, band, table, diagonal, before, lowest)
                to_come = rest[a + 1, block]
                n_alive = 0
                for lane in range(LANES):
                    n_alive += lowest[lane] + to_come <= max(own, limits[lane]) * slack
                if n_alive == 0:
                    alive = False
                    break
                cell, last = max(0, a - band) * LANES, (min(width - 1, a + band) + 1) * LANES
                rows[a, cell:last] = table[cell:last]
            if not alive:
                continue
            for lane in range(LANES):
                cost = table[(width - 1) * LANES + lane]
                if block_window[block, lane] >= 0 and cost < max(own, limits[lane]):
                    left[found], right[found] = query, block_window[block, lane]
                    costs[found] = cost
                    write_moves(steps, trace_back(cells[:, :, lane], steps), moves[found])
                    found += 1
    return found


@sums_jit
def path_cost(Z: FloatArray, a: int, b: int, width: int, moves: Moves, limit: float) -> float:
    """The cost of a path from points (a, b) on; what it was when it reached ``limit``."""
    last_a, last_b = a + width - 1, b + width - 1
    total, move = 0.0, 0
    while True:
        for f in range(Z.shape[1]):
            u = Z[a, f] - Z[b, f]
            total += u * u
        if total >= limit or (a == last_a and b == last_b):
            return total
        code = (moves[move >> 2] >> (2 * (move & 3))) & 3
        a += code & 1
        b += code >> 1
        move += 1


@sums_jit
def add_force(
    Z: FloatArray, a: int, b: int, width: int, moves: Moves, weight: float, force: FloatArray
) -> None:
    """Add ``weight (z_a - z_b)`` at both ends of every pair of points on a path."""
    last_a, last_b = a + width - 1, b + width - 1
    move = 0
    while True:
        for f in range(Z.shape[1]):
            u = weight * (Z[a, f] - Z[b, f])
            force[a, f] += u
            force[b, f] -= u
        if a == last_a and b == last_b:
            return
        code = (moves[move >> 2] >> (2 * (move & 3))) & 3
        a += code & 1
        b += code >> 1
        move += 1


@sums_jit
def fixed_path_loss(
    Z: FloatArray,
    first: IntArray,
    width: int,
    targets: IntArray,
    target_moves: Moves,
    left: Rows,
    right: Rows,
    moves: Moves,
    push_weight: float,
    force: FloatArray,
) -> tuple[float, float, int]:
    """The pull and the push of all pairs along their paths, and how many margins are violated.

    ``force`` (p, d), zeros on entry, becomes half the gradient in the points Z (p, d).
    """
    n, k = targets.shape
    pull_one, push_one = (1.0 - push_weight) / n, push_weight / n
    margin = np.full((n, k), -np.inf)
    farthest = np.full(n, -np.inf)
    violations = np.zeros((n, k), dtype=np.int64)
    pull = 0.0
    for i in range(n):
        for j in range(k):
            if targets[i, j] >= 0:
                a, b = first[i], first[targets[i, j]]
                cost = path_cost(Z, a, b, width, target_moves[i * k + j], np.inf)
                pull += pull_one * cost
                margin[i, j] = 1.0 + cost
                farthest[i] = max(farthest[i], margin[i, j])
    hinge, n_active = 0.0, 0
    for pair in range(len(left)):
        i, l = left[pair], right[pair]  # noqa: E741
        limit = max(farthest[i], farthest[l])
        cost = path_cost(Z, first[i], first[l], width, moves[pair], limit)
        if cost < limit:
            part, count = hinges(cost, i, l, margin, violations)
            hinge += part
            n_active += count
            add_force(Z, first[i], first[l], width, moves[pair], -push_one * count, force)
    for i in range(n):
        for j in range(k):
            if targets[i, j] >= 0:
                weight = pull_one + push_one * violations[i, j]
                a, b = first[i], first[targets[i, j]]
                add_force(Z, a, b, width, target_moves[i * k + j], weight, force)
    return pull, push_one * hinge, n_active
