"""The references of a classifier, made ready for distances that follow from those before.

With ``x`` the steps of a query and ``y`` those of a reference run, inner products of windows under
a block-Toeplitz metric follow from those one step earlier (:mod:`mlat.diagonals`),

    G[t, j] = G[t-1, j-1] + x_a·ũ_b + ũ_a·y_b - x_p·ṽ_q - ṽ_p·y_q,

so what is kept of a reference is the step ``b`` that enters it and the step ``q`` that leaves it,
with their filtered companions. Runs are cut into pieces of at most ``period`` windows. The first
window of a piece has none before it: its inner product is worked out directly, at every step, from
``M y``. So each running sum begins anew, exactly, at most ``period`` steps back, and the work for
that is the same at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import toeplitz
from .flat_lanes import CHAINS, TILE, in_lanes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Metrics of the solver "admm" are Toeplitz up to a residual; only what is rounding passes.
RESIDUAL = 1e-12
LARGEST = 2000  # w*d up to which the matrix of such a metric is formed to judge it
# Filters larger than this are kept in single precision: reading them takes longer than computing.
SMALL_FILTER = 1 << 18


class Metric(NamedTuple):
    """A block-Toeplitz metric, as far as it is not zero.

    ``blocks`` (n_lags, d, d); ``embedding`` bounds the norm of L with ``M = LᵀL``, ``n_terms`` is
    how many products a coordinate of ``L x`` sums, ``n_coordinates`` how many there are;
    ``residual`` is how far M is from these blocks, relative to its norm.
    """

    blocks: Floats
    embedding: float
    n_terms: int
    n_coordinates: int
    residual: float = 0.0


def toeplitz_metric(metric: Any, width: int, n_features: int) -> Metric | None:
    """The metric of a classifier by its lags; None where it is not Toeplitz."""
    if metric is None:
        return Metric(np.eye(n_features)[None], 1.0, 1, width * n_features)
    if not hasattr(metric, "blocks_"):
        return None
    blocks = np.asarray(metric.blocks_, dtype=np.float64)
    if hasattr(metric, "taps_"):
        taps = np.asarray(metric.taps_, dtype=np.float64)
        norms = np.sqrt((taps**2).sum(axis=(1, 2)))
        q, r, d = taps.shape
        # Beyond the taps blocks are zero, but for the rounding of the transform they came by.
        return Metric(_trimmed(blocks[:q]), float(norms.sum()), q * d, (width + q - 1) * r)
    if width * n_features > LARGEST:
        return None
    M = np.asarray(metric.metric_, dtype=np.float64)
    norm = float(np.linalg.norm(M))
    off = float(np.linalg.norm(M - toeplitz.to_matrix(blocks))) / norm if norm else 0.0
    if off > RESIDUAL:
        return None
    size = len(M)
    return Metric(_trimmed(blocks), float(np.sqrt(norm)) * size**0.25, size, size, off)


def _trimmed(blocks: Floats) -> Floats:
    """Without the lags at the end that are exactly zero."""
    last = np.flatnonzero(np.abs(blocks).max(axis=(1, 2)) > 0)
    return blocks[: int(last[-1]) + 1 if len(last) else 1]


@dataclass(frozen=True, eq=False)
class References:
    """All that is shared by the streams that are compared with one set of references.

    Everything is in units of ``scale``, around ``centre``, with the metric in units of ``weight``
    (both powers of two, which change no digit): squared distances are in ``scale² weight``.

    Attributes
    ----------
    width, period : int
    centre : array of shape (d,)
    rows : array of shape (n,)
        The row of each place in the classifier's windows; -1 where a tile is filled up. Places
        go state by state, each state filled up to whole tiles.
    of_class : array of shape (n_tiles,)
        The state of each tile.
    right : array of shape (n_tiles, C, TILE), in single precision
        What the increments multiply; C is 2d without lags, else 4d.
    squared : array of shape (n,)
        ``yᵀ M y``; infinite where a tile is filled up.
    first : array of shape (n_pieces,)
        The place of the first window of each piece.
    direct : array of shape (n_lanes, w * d4, LANES)
        ``M y`` of these windows; d4 is d filled up to a multiple of ``CHAINS``.
    causal, anticausal : arrays of shape (n_lanes, n_lags * d4, LANES)
        The two filters of a query's steps: oldest step first.
    parts : array of shape (C / d,)
        The largest norm among the references of each part of C.
    largest : float
        The largest norm of a window and the step before it.
    norm : float
        No less than that of the metric.
    """

    width: int
    period: int
    metric: Metric
    scale: float
    weight: float
    centre: Floats
    rows: Ints
    of_class: Ints
    right: NDArray[np.float32]
    squared: Floats
    first: Ints
    direct: Floats
    causal: NDArray[Any]
    anticausal: NDArray[Any]
    parts: Floats
    largest: float
    norm: float

    @property
    def n_features(self) -> int:
        return len(self.centre)

    @property
    def n_lags(self) -> int:
        return len(self.metric.blocks)

    @property
    def single_filters(self) -> bool:
        return self.causal.dtype == np.float32


def prepare(
    seen: Floats, start: Ints, run: Ints, codes: Ints, width: int, metric: Metric, period: int
) -> References:
    """Make references ready.

    Parameters
    ----------
    seen : array of shape (T, d)
        The features of their steps.
    start, run, codes : arrays of shape (n,)
        Where each window starts, its run and its state; the windows of a run follow each other
        step by step.
    width : int
    metric : Metric
    period : int
        The most windows of a piece.
    """
    d = seen.shape[1]
    order = np.lexsort((start, run, codes))
    steps = seen[np.unique((start[:, None] + np.array([0, width - 1])).ravel())]
    centre = steps.mean(axis=0)
    scale = _power(np.abs(seen[np.isfinite(seen).all(axis=1)] - centre).max(initial=0.0))
    weight = _power(np.abs(metric.blocks).max(initial=0.0))
    half = metric.blocks / weight
    half[0] /= 2
    lagged = len(half) > 1
    n_columns = (4 if lagged else 2) * d

    rows, of_class, squared, columns, firsts, direct = [], [], [], [], [], []
    largest, n_places = 0.0, 0
    for code in range(int(codes.max()) + 1):
        n_state = 0
        of_state = order[codes[order] == code]
        for members in np.split(of_state, np.flatnonzero(np.diff(run[of_state])) + 1):
            if not len(members):
                continue
            begin = start[members[0]]
            x = (seen[begin : start[members[-1]] + width] - centre) / scale
            run_columns, run_squared, largest_here = _columns(x, half, width, lagged)
            largest = max(largest, largest_here)
            for piece in np.array_split(np.arange(len(members)), -(-len(members) // period)):
                window = x[piece[0] : piece[0] + width]
                transformed = causal(window, half) + anticausal(window, half)
                right = run_columns[piece].copy()
                right[0] = 0.0
                columns.append(right)
                change = run_squared[piece].copy()
                change[0] = (window * transformed).sum()
                squared.append(np.cumsum(change))
                firsts.append(n_places + n_state)
                direct.append(transformed)
                rows.append(members[piece])
                n_state += len(piece)
        filled = -(-n_state // TILE) * TILE - n_state
        rows.append(np.full(filled, -1))
        squared.append(np.full(filled, np.inf))
        columns.append(np.zeros((filled, n_columns)))
        of_class += [code] * ((n_state + filled) // TILE)
        n_places += n_state + filled

    right = np.concatenate(columns)
    d4 = -(-d // CHAINS) * CHAINS
    flat = np.zeros((width, d4, len(direct)))
    flat[:, :d] = np.stack(direct, axis=2)
    size = len(half) * d4 * d
    dtype = np.float64 if 8 * size <= SMALL_FILTER else np.float32
    return References(
        width=width,
        period=period,
        metric=metric,
        scale=scale,
        weight=weight,
        centre=centre,
        rows=np.concatenate(rows).astype(np.int64),
        of_class=np.array(of_class, dtype=np.int64),
        right=np.ascontiguousarray(
            right.reshape(-1, TILE, n_columns).transpose(0, 2, 1), dtype=np.float32
        ),
        squared=np.concatenate(squared),
        first=np.array(firsts, dtype=np.int64),
        direct=in_lanes(flat.reshape(width * d4, -1)),
        causal=in_lanes(_stacked(half[::-1].transpose(0, 2, 1), d4), dtype),
        anticausal=in_lanes(_stacked(half, d4), dtype),
        parts=np.sqrt((right.reshape(len(right), -1, d) ** 2).sum(axis=2)).max(axis=0),
        largest=largest,
        norm=float(2 * np.sqrt((half**2).sum(axis=(1, 2))).sum()),
    )


def causal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m] x[t-m]``, lag by lag: as :func:`mlat.lags.causal`, which rounds more."""
    result: Floats = x @ taps[0].T
    for m in range(1, min(len(taps), len(x))):
        result[m:] += x[: len(x) - m] @ taps[m].T
    return result


def anticausal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m]ᵀ x[t+m]``, lag by lag."""
    result: Floats = x @ taps[0]
    for m in range(1, min(len(taps), len(x))):
        result[: len(x) - m] += x[m:] @ taps[m]
    return result


def _columns(x: Floats, half: Floats, width: int, lagged: bool) -> tuple[Floats, Floats, float]:
    """Of the windows of one run: what increments multiply, changes of ``yᵀ M y``, largest norm."""
    n = len(x) - width + 1
    u, v = causal(x, half), anticausal(x, half)
    enter = np.arange(n) + width - 1
    leave = np.maximum(np.arange(n) - 1, 0)  # the first window of a run has no step before it
    xb, ub, xq, vq = x[enter], u[enter], x[leave], v[leave]
    parts = [ub, xb, vq, xq] if lagged else [2 * ub, 2 * vq]
    change = 2 * ((xb * ub).sum(axis=1) - (xq * vq).sum(axis=1))
    energy = np.concatenate([[0.0], np.cumsum((x**2).sum(axis=1))])
    norms = energy[width:] - energy[np.maximum(np.arange(n) - 1, 0)]
    return np.concatenate(parts, axis=1), change, float(np.sqrt(norms.max()))


def _stacked(blocks: Floats, filled: int) -> Floats:
    """Blocks (n, d, c) one below the other, each filled up with zeros to so many rows."""
    n, d, c = blocks.shape
    stacked = np.zeros((n, filled, c))
    stacked[:, :d] = blocks
    return stacked.reshape(n * filled, c)


def _power(size: float) -> float:
    """The power of two above a size; 1 for nothing."""
    return float(np.ldexp(1.0, int(np.frexp(size)[1]))) if np.isfinite(size) and size else 1.0
