"""Dependent multivariate dynamic time warping (Berndt & Clifford 1994), exact.

The cost of an alignment is the sum of squared Euclidean distances of the steps it pairs; ``cost``
below is that sum for the best alignment, and a distance is its square root. A ``band`` of ``r``
pairs only steps at most ``r`` apart (Sakoe & Chiba 1978); ``None`` pairs any.
"""

from __future__ import annotations

from itertools import pairwise as successive
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from ...checks import Floats, Ints
from ...errors import InputError
from . import dtw_kernels as kernels
from .dtw_kernels import LaneBlocks, distinct_points, local_costs, pack

# Point costs kept for queries that overlap: a part of the processor's cache, so that looking one
# up costs less than computing it again.
KEPT_BYTES = 4 << 20


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

    Of alignments that cost the same, the one found from the end by going diagonally first.

    Examples
    --------
    >>> path([[0.0], [1.0], [2.0]], [[0.0], [0.0], [2.0]]).tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    table = _table(x, y, band)
    steps = np.empty((sum(table.shape) - 1, 2), dtype=np.int64)
    length = kernels.trace_back(table, steps)
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
        kernels.all_costs(
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
        In order of cost; of windows that cost the same, the earlier first.
    """
    X, Y = _windows(X), _windows(Y)
    _same_steps(X, Y)
    reach = check_band(band, X.shape[1], Y.shape[1])
    return search(X, pack(Y, reach), n_neighbors, band=reach, n_jobs=n_jobs)


def search(
    X: Floats,
    packed: tuple[LaneBlocks, ...],
    n_neighbors: int,
    *,
    band: int,
    n_jobs: int | None = None,
) -> tuple[Floats, Ints]:
    """``nearest`` for windows that ``pack`` has arranged with the same band.

    Per query, blocks of windows are visited in the order of a lower bound of their costs, until
    the bound exceeds the best that was found; a block is left as soon as the rows of its tables
    that are done, and the bound of those to come, exceed it. No window that is skipped can be
    among the nearest.
    """
    costs = np.full((len(X), n_neighbors), np.inf)
    windows = np.full((len(X), n_neighbors), np.iinfo(np.int64).max)
    n_threads = max(1, min(_n_threads(n_jobs), len(X)))
    edges = np.linspace(0, len(X), n_threads + 1).astype(int)
    parts = [slice(a, b) for a, b in successive(edges)]
    if n_threads == 1:
        _search_part(X, packed, band, costs, windows)
    else:
        Parallel(n_jobs=n_threads, prefer="threads", require="sharedmem")(
            delayed(_search_part)(X[part], packed, band, costs[part], windows[part])
            for part in parts
        )
    return costs, windows


def _search_part(
    X: Floats,
    packed: tuple[LaneBlocks, ...],
    band: int,
    costs: Floats,
    windows: Ints,
) -> None:
    points, first = distinct_points(X)
    overlap = len(points) < X.shape[0] * X.shape[1]
    for blocks in packed:
        bytes_per_block = X.shape[1] * blocks.points.shape[2] * 8
        remember = overlap and bytes_per_block <= KEPT_BYTES
        tile = KEPT_BYTES // bytes_per_block if remember else len(blocks.points)
        for begin in range(0, len(blocks.points), tile):
            part = slice(begin, begin + tile)
            kernels.search(
                points,
                first,
                blocks.points[part],
                blocks.window[part],
                blocks.stride,
                np.ascontiguousarray(blocks.low[:, :, part]),
                np.ascontiguousarray(blocks.high[:, :, part]),
                band,
                remember,
                costs,
                windows,
            )


def check_band(band: int | None, n: int, m: int) -> int:
    """A band as a number of steps, for series of ``n`` and ``m`` steps."""
    if band is None:
        return max(n, m)
    if isinstance(band, bool) or not isinstance(band, int | np.integer) or band < 0:
        raise InputError(f"band must be a whole number of steps, 0 or more, or None, not {band!r}")
    if band < abs(n - m):
        raise InputError(
            f"a band of {band} cannot align series of {n} and {m} steps; "
            f"it must be at least {abs(n - m)}"
        )
    # The kernels subtract it from a step's number: keep it in their integers.
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
    reach = check_band(band, len(a), len(b))
    return kernels.accumulate(local_costs(a, b), reach)


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


def _n_threads(n_jobs: int | None) -> int:
    return 1 if n_jobs is None else int(effective_n_jobs(n_jobs))
