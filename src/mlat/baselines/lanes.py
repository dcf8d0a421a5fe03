"""Windows laid side by side, so that one dynamic programme serves many of them.

Dynamic time warping of one query with one window is a chain of dependent steps that a processor
cannot run wide. Sixty-four windows at once can: the step is the same, the data lie next to each
other. This module arranges them so.

Windows that overlap as neighbours of one stream share their points, and the arrangement keeps
each point once: lane ``l`` at step ``t`` is column ``l + t`` of the block. Windows that share
nothing lie step after step: column ``l + t * LANES``. What reads a block needs only that stride.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

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

    points: FloatArray
    window: IntArray
    stride: int
    low: FloatArray
    high: FloatArray


def continues(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Which windows are the one before them moved on by one step, shape (n,)."""
    same = np.zeros(len(X), dtype=bool)
    same[1:] = (X[1:, :-1] == X[:-1, 1:]).all(axis=(1, 2))
    return same


def distinct_points(X: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
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


def pack(X: FloatArray, band: int) -> tuple[LaneBlocks, ...]:
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


def _with_boxes(
    columns: FloatArray, window: IntArray, stride: int, width: int, band: int
) -> LaneBlocks:
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
