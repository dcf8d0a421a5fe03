"""Squared distances of points: the local costs of dynamic time warping, and bounds of them.

Every sum runs over the channels in the same order, so a cost does not depend on which of these
loops computed it, and the distance to a box never exceeds, not by a rounding either, the distance
to a point in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from .lanes import FloatArray

Function = TypeVar("Function", bound=Callable[..., Any])

# `fastmath` is written out because numba lets a function that is silent about it inherit the
# setting of whichever caller happens to compile it first.
jit: Callable[[Function], Function] = numba.njit(cache=True, nogil=True, fastmath=False)


@jit
def point_costs(points: FloatArray, x: FloatArray, begin: int, end: int, costs: FloatArray) -> None:
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
def local_costs(x: FloatArray, y: FloatArray) -> FloatArray:
    """Squared distances of all pairs of steps of two series, shape (n, m)."""
    costs = np.empty((len(x), len(y)))
    columns = np.ascontiguousarray(y.T)
    for a in range(len(x)):
        point_costs(columns, x[a], 0, len(y), costs[a])
    return costs


@jit
def box_costs(
    low: FloatArray, high: FloatArray, points: FloatArray, first: int, rest: FloatArray
) -> None:
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
