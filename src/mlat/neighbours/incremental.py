"""Nearest references of live windows, at a cost per step that does not grow with the width.

**The recurrence.** ``x`` are the steps of a stream, ``y`` those of a run of references, both less a
common centre. The metric M is block-Toeplitz with blocks ``B_m``; ``H_0 = B_0 / 2`` and
``H_m = B_m`` for m > 0. Each step has two filtered versions,

    u_t = Σ_m H_m x_{t-m}  (causal)      v_t = Σ_m H_mᵀ x_{t+m}  (anticausal).

The inner product ``G[t, j]`` of two windows under M follows from that of the windows one step
earlier (:class:`mlat.metric.loss.ToeplitzLoss`),

    G[t, j] = G[t-1, j-1] + x_a·u_b + u_a·y_b - x_p·v_q - v_p·y_q,

with the steps a and b that enter the windows and the steps p and q that leave them. The squared
distance is ``xᵀ M x + yᵀ M y - 2 G``. So all that a step needs of a reference are two steps and
their filtered versions (4d numbers; 2d where M has no lags), whatever the width.

**Pieces.** Runs of references are cut into pieces of at most ``period`` windows. The first window
of a piece has none before it: its inner product is computed directly from ``M y``, at every step.
So each running sum starts again from a direct value after at most ``period`` steps, and every step
costs the same.

**The bound.** Step s adds at most

    e_s = γ Σ_part ‖left_part‖ ‖right_part‖  +  κ ‖M‖ ‖X_s‖ (‖X_s‖ + ‖Y‖)  +  φ ‖X_s‖ (…)  +  tiny

to the error of an inner product, and to that of ``xᵀ M x``. γ is for the increments, which are in
single precision; κ for all that is in double (filters, direct values, running sums); φ for filters
that are stored in single precision. ``X_s`` is the window with the step that leaves it, Y the
largest reference. Over a period these add up to S, and a squared distance is within ``3 S + r`` of
the true one; r is the error of the references' own ``yᵀ M y``. The constants count roundings, so
the bound holds for any order of summation.

``predict`` rounds, too: its squared distances D are within ``2 (2 √D z + 16 z² + ρ D)`` of the true
ones, with z the rounding of a window in the learned space.

**The decision.** Where the nearest references of two states differ by more than both bounds, the
running sums decide (:mod:`mlat.classifier.decision`). Elsewhere the references in question are
compared as ``predict`` compares them. So the state is always that of ``predict``, and squared
distances agree to the bound.

All results are the same, bit by bit, however steps are cut into chunks and whichever streams are
classified together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints, check_whole
from ..base.compiled import copy_into, jit
from ..base.errors import InputError
from ..base.fixed_order import ROWS, TILE, in_tiles, move_tile, multiply_tiles, power_above
from ..metric import toeplitz
from ..metric.nearest import squared_distance
from ..stream.windows import Windows
from .references import References

ANCHOR = 64
# A direct value costs w*d for each piece, an increment 4d for each reference.
PERIOD_PER_WIDTH = 4
N_BLOCKS = 10  # blocks of steps whose errors are summed; nine of them are at least a period
FOLLOW = ("products", "sums")  # arrays of a state that follow from its others, where they lack
MAX_CANDIDATES = 64  # references that are compared one by one; where there are more, all are

# The memory of n streams, by name: what a snapshot holds of a search.
Arrays = dict[str, NDArray[Any]]


# -------------------------------------------------------------------- search


class IncrementalSearch:
    """The references of an expert, prepared for live streams; made by :meth:`of`.

    A state has these arrays:

    - ring (n, w, d'): the last features; the step after ``count`` others is at ``count % w``;
    - products (n, N + 1): the inner product of the window with each reference, after an unused
      first entry;
    - sums (n, 2 + N_BLOCKS): the window's own product, the same since the last multiple of the
      width, and the error that each block of steps adds;
    - count (n,): steps since the segment began.

    Attributes
    ----------
    references : PreparedReferences
    """

    def __init__(
        self, expert: References, metric: ToeplitzMetric, references: PreparedReferences
    ) -> None:
        self.references, self._expert, self._metric = references, expert, metric
        self._columns = np.arange(expert.n_seen)  # of the features that are pushed
        if expert.view.columns is not None and expert.view.mixing is None:
            self._columns = expert.view.columns
        self._place = np.empty(len(expert), np.int64)  # of each row, state by state
        self._place[expert.nearest.rows] = np.arange(len(expert))

    @classmethod
    def of(cls, expert: References, *, anchor: int = ANCHOR) -> IncrementalSearch | None:
        """For an expert of a fitted classifier.

        None where its metric is not Toeplitz, or where not every window is a reference. Each
        running sum starts again from a direct value after at most ``anchor`` steps, or four widths
        where that is more.
        """
        check_whole(anchor, "anchor")
        width = expert.windows.width
        if not in_runs(expert.windows):
            return None
        metric = toeplitz_metric(expert)
        if metric is None:
            return None
        period = max(int(anchor), PERIOD_PER_WIDTH * width)
        return cls(expert, metric, prepare(expert, metric, period))

    @property
    def operations(self) -> tuple[float, float]:
        """Products per step, of this search and of the exact one.

        Those in double precision count twice, since half as many fit a vector register.
        """
        r, metric = self.references, self._metric
        d, w = len(r.centre), r.width
        # In whole vectors of four factors and eight results. These counts choose the search, and a
        # snapshot opens only with the search it was made with: they stay as they were.
        factors = least_multiple(d, 4)
        direct = w * factors * least_multiple(len(r.first), 8)
        filters = 2 * len(metric.blocks) * factors * least_multiple(d, 8)
        incremental = r.right.size + 4 * r.squared.size + 2 * (direct + filters)
        embed = 2 * w * d * metric.n_terms if metric.n_terms > 1 else 0
        exact = embed + len(self._expert) * metric.n_coordinates
        return float(incremental), float(exact)

    def start(self, n_streams: int = 1) -> Arrays:
        """The state before the first step."""
        r = self.references
        return {
            "ring": np.tile(r.centre, (n_streams, r.width, 1)),
            "products": np.zeros((n_streams, len(r.squared) + 1)),
            "sums": np.zeros((n_streams, 2 + N_BLOCKS)),
            "count": np.zeros(n_streams, np.int64),
        }

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        """The state of a snapshot.

        Snapshots of before have only the last features of experts without lags. Their sums are
        those of these steps, as if the segment began with them.
        """
        lacking = [name for name in FOLLOW if name not in arrays]
        if not lacking:
            return {name: np.array(array) for name, array in arrays.items()}
        if len(lacking) < len(FOLLOW):
            raise InputError(f"the snapshot is damaged: its search has no {lacking[0]}")
        ring, count, width = arrays["ring"], arrays["count"], self.references.width
        state, there = self.start(len(count)), np.minimum(count, width)
        state["count"][:] = count - there
        for back in range(width, 0, -1):
            owner = np.flatnonzero(there >= back)
            seen = ring[owner, (count[owner] - back) % width]
            found = found_nothing(1, len(owner), len(self._expert.classes)).at(0)
            of_all = np.arange(seen.shape[1]), owner, np.ones(len(owner), np.int64)
            self._take(state, np.ascontiguousarray(seen), *of_all, found)
        return state

    def push(self, state: Arrays, features: Floats, owner: Ints, marks: Ints, found: Found) -> None:
        """Take steps (t, d') in order, of the streams ``owner`` (t,); the state changes in place.

        By its mark a step ends the segment of its stream (0), goes on with it (1) or begins one
        (2). What is found is written to ``found``.
        """
        if self._expert.view.mixing is not None:
            features = self._expert.view(features)
        self._take(state, features, self._columns, owner, marks, found)

    def _take(
        self, state: Arrays, steps: Floats, columns: Ints, owner: Ints, marks: Ints, found: Found
    ) -> None:
        arrays = (state["ring"], state["products"], state["sums"], state["count"])
        _push_rows(steps, owner, marks, columns, *arrays, self.references, found)

    def compare(self, found: Found, some: Ints | slice, Z: Floats) -> tuple[Floats, Ints]:
        """What ``predict`` finds for some rows (m,): distances (m, S) and references (m, S).

        ``Z`` (m, r) are their windows in the learned space. Distances are computed as
        :mod:`mlat.neighbours.search` does, by differences in one fixed order, with the references
        that may be the nearest of their state; or with all, where these are too many.
        """
        expert, nearest = self._expert, self._expert.nearest
        n_candidates = found.n_candidates[some]
        best = np.full((len(Z), len(expert.classes)), np.inf)
        rows = np.full(best.shape, -1, np.int64)
        x = np.ascontiguousarray((Z - nearest.mean) / nearest.scale)
        candidates = (found.candidates[some], n_candidates)
        _compare(x, nearest.points, self._place, expert.codes, *candidates, best, rows)
        distances: Floats = nearest.scale * np.sqrt(best)
        every = n_candidates < 0
        if every.any():
            distances[every], rows[every] = expert.by_class.query_rows(Z[every])
        return distances, rows


@jit()
def _compare(  # type: ignore[no-untyped-def]
    x, references, place, codes, candidates, n_candidates, best, rows
):
    for i in range(len(x)):
        for j in range(n_candidates[i]):
            row = candidates[i, j]
            code = codes[row]
            squared = squared_distance(x[i], references[place[row]])
            # Of equally near references the first.
            if squared < best[i, code] or (squared == best[i, code] and row < rows[i, code]):
                best[i, code], rows[i, code] = squared, row


# -------------------------------------------------------------------- references

# Metrics of the solver "admm" are Toeplitz up to a residual; only rounding errors pass.
RESIDUAL = 1e-12
LARGEST = 2000  # w*d up to which the matrix of such a metric is formed to judge it
# Filters of more bytes are stored in single precision: reading them takes longer than computing.
SMALL_FILTER = 1 << 18


def in_runs(windows: Windows) -> bool:
    """Whether the windows of each run follow each other step by step."""
    order = np.lexsort((windows.start, windows.run))
    same = np.diff(windows.run[order]) == 0
    return not bool((np.diff(windows.start[order])[same] != 1).any())


class ToeplitzMetric(NamedTuple):
    """A block-Toeplitz metric ``M = LᵀL`` without its zero lags.

    ``blocks`` (n_lags, d, d); ``embedding`` bounds the norm of L, ``n_terms`` is the number of
    products in a coordinate of ``L x``, ``n_coordinates`` the number of these; ``residual`` is how
    far M is from the blocks, relative to its norm.
    """

    blocks: Floats
    embedding: float
    n_terms: int
    n_coordinates: int
    residual: float = 0.0


def toeplitz_metric(expert: References) -> ToeplitzMetric | None:
    """The metric of an expert by its lags; None where it is not Toeplitz."""
    metric, width, n_features = expert.metric, expert.windows.width, expert.n_seen
    size = width * n_features
    if metric is None:
        return ToeplitzMetric(np.eye(n_features)[None], 1.0, 1, size)
    if not hasattr(metric, "blocks_"):
        return None
    blocks = np.asarray(metric.blocks_, dtype=np.float64)
    if hasattr(metric, "taps_"):
        taps = np.asarray(metric.taps_, dtype=np.float64)
        norms = np.sqrt((taps**2).sum(axis=(1, 2)))
        q, r, d = taps.shape
        # Beyond the taps blocks are zero, but for the rounding of the transform that gave them.
        blocks, length, off = _trimmed(blocks[:q]), (width + q - 1) * r, 0.0
        if expert.n_dimensions < length:  # in the smallest space, whose map is factored
            L = expert.embed(np.eye(size).reshape(size, width, n_features))
            off = _apart(L @ L.T, blocks, width) + size * DOUBLE
        n_terms = q * d if expert.n_dimensions == length else size
        return ToeplitzMetric(blocks, float(norms.sum()), n_terms, expert.n_dimensions, off)
    if size > LARGEST:
        return None
    M = np.asarray(metric.metric_, dtype=np.float64)
    off = _apart(M, blocks, width)
    if off > RESIDUAL:
        return None
    norm = float(np.sqrt(np.linalg.norm(M)))
    return ToeplitzMetric(_trimmed(blocks), norm * size**0.25, size, size, off)


def _apart(M: Floats, blocks: Floats, width: int) -> float:
    """How far a matrix is from that of the blocks, relative to its norm."""
    norm = float(np.linalg.norm(M))
    every = np.zeros((width, *blocks.shape[1:]))
    every[: len(blocks)] = blocks[:width]
    return float(np.linalg.norm(M - toeplitz.to_matrix(every))) / norm if norm else 0.0


def _trimmed(blocks: Floats) -> Floats:
    """Without the last lags that are exactly zero."""
    last = np.flatnonzero(np.abs(blocks).max(axis=(1, 2)) > 0)
    return blocks[: int(last[-1]) + 1 if len(last) else 1]


class PreparedReferences(NamedTuple):
    """What all streams are compared with; the kernels take it as it is.

    Everything is in units of ``scale``, around ``centre``, with the metric in units of ``weight``.
    Both units are powers of two, which change no digit; squared distances are in ``scale² weight``.

    Attributes
    ----------
    width, period : int
    scale, weight : float
    centre : array of shape (d,)
    rows : array of shape (N,)
        The row of each place in the classifier's windows; -1 for padding. Places go state by
        state, each state padded to whole tiles.
    tile_codes : array of shape (N / TILE,)
        The state of each tile.
    right : array of shape (N / TILE, C, TILE), in single precision
        What the increments multiply, in tiles; C is 2d without lags, else 4d.
    squared : array of shape (N,)
        ``yᵀ M y``; infinite for padding.
    first : array of shape (n_pieces,)
        The place of the first window of each piece.
    direct : array of shape (n_pieces, w * d)
        ``M y`` of these windows.
    causal, anticausal : arrays of shape (d, n_lags * d)
        The two filters of a stream's steps, oldest step first; in single precision if large.
    parts : array of shape (C / d,)
        The largest norm of each part of C among the references.
    bound : Bound
    """

    width: int
    period: int
    scale: float
    weight: float
    centre: Floats
    rows: Ints
    tile_codes: Ints
    right: NDArray[np.float32]
    squared: Floats
    first: Ints
    direct: Floats
    causal: NDArray[Any]
    anticausal: NDArray[Any]
    parts: Floats
    bound: Bound


def prepare(expert: References, metric: ToeplitzMetric, period: int) -> PreparedReferences:
    """Prepare references, in pieces of at most ``period`` windows.

    Those of a state are padded to whole tiles; snapshots hold a sum for each place.
    """
    seen, codes, width = expert.view(expert.steps), expert.codes, expert.windows.width
    start, run, d = expert.windows.start, expert.windows.run, expert.n_seen
    order = np.lexsort((start, run, codes))
    steps = seen[np.unique((start[:, None] + np.array([0, width - 1])).ravel())]
    centre = steps.mean(axis=0)
    scale = power_above(np.abs(seen[np.isfinite(seen).all(axis=1)] - centre).max(initial=0.0))
    weight = power_above(np.abs(metric.blocks).max(initial=0.0))
    half = metric.blocks / weight
    half[0] /= 2
    n_columns = (4 if len(half) > 1 else 2) * d

    rows, tile_codes, squared, columns, first, direct = [], [], [], [], [], []
    largest, n_places = 0.0, 0
    for code in range(int(codes.max()) + 1):
        n_state = 0
        of_state = order[codes[order] == code]
        for members in np.split(of_state, np.flatnonzero(np.diff(run[of_state])) + 1):
            if not len(members):
                continue
            begin = start[members[0]]
            x = (seen[begin : start[members[-1]] + width] - centre) / scale
            run_columns, run_squared, largest_here = _columns(x, half, width)
            largest = max(largest, largest_here)
            for piece in np.array_split(np.arange(len(members)), -(-len(members) // period)):
                window = x[piece[0] : piece[0] + width]
                transformed = _causal(window, half) + _anticausal(window, half)
                right = run_columns[piece].copy()
                right[0] = 0.0
                columns.append(right)
                change = run_squared[piece].copy()
                change[0] = (window * transformed).sum()
                squared.append(np.cumsum(change))
                first.append(n_places + n_state)
                direct.append(transformed.ravel())
                rows.append(members[piece])
                n_state += len(piece)
        n_padded = least_multiple(n_state, TILE)
        rows.append(np.full(n_padded - n_state, -1))
        squared.append(np.full(n_padded - n_state, np.inf))
        columns.append(np.zeros((n_padded - n_state, n_columns)))
        tile_codes += [code] * (n_padded // TILE)
        n_places += n_padded

    right = np.concatenate(columns)
    dtype = np.float64 if 8 * half.size <= SMALL_FILTER else np.float32
    return PreparedReferences(
        width=width,
        period=period,
        scale=scale,
        weight=weight,
        centre=centre,
        rows=np.concatenate(rows).astype(np.int64),
        tile_codes=np.array(tile_codes, dtype=np.int64),
        right=in_tiles(right.T),
        squared=np.concatenate(squared),
        first=np.array(first, dtype=np.int64),
        direct=np.stack(direct),
        causal=np.ascontiguousarray(half[::-1].transpose(1, 0, 2).reshape(d, -1), dtype=dtype),
        anticausal=np.ascontiguousarray(half.transpose(2, 0, 1).reshape(d, -1), dtype=dtype),
        parts=np.sqrt((right.reshape(len(right), -1, d) ** 2).sum(axis=2)).max(axis=0),
        bound=bound_of(metric, half, width, period, largest, weight, dtype, centre / scale),
    )


def _causal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m] x[t-m]``, lag by lag; that of the loss rounds more."""
    result: Floats = x @ taps[0].T
    for m in range(1, min(len(taps), len(x))):
        result[m:] += x[: len(x) - m] @ taps[m].T
    return result


def _anticausal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m]ᵀ x[t+m]``, lag by lag."""
    result: Floats = x @ taps[0]
    for m in range(1, min(len(taps), len(x))):
        result[: len(x) - m] += x[m:] @ taps[m]
    return result


def _columns(x: Floats, half: Floats, width: int) -> tuple[Floats, Floats, float]:
    """Of the windows of one run: factors of the increments, changes of ``yᵀ M y``, largest norm."""
    n = len(x) - width + 1
    u, v = _causal(x, half), _anticausal(x, half)
    enter = np.arange(n) + width - 1
    leave = np.maximum(np.arange(n) - 1, 0)  # the first window of a run has no step before it
    xb, ub, xq, vq = x[enter], u[enter], x[leave], v[leave]
    parts = [ub, xb, vq, xq] if len(half) > 1 else [2 * ub, 2 * vq]
    change = 2 * ((xb * ub).sum(axis=1) - (xq * vq).sum(axis=1))
    energy = np.concatenate([[0.0], np.cumsum((x**2).sum(axis=1))])
    norms = energy[width:] - energy[np.maximum(np.arange(n) - 1, 0)]
    return np.concatenate(parts, axis=1), change, float(np.sqrt(norms.max()))


def least_multiple(n: int, size: int) -> int:
    """The least multiple of ``size`` that is at least n."""
    return -(-n // size) * size


# -------------------------------------------------------------------- bound

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
# What numbers too small for single precision may lose, for each product, in units near 1.
TINY = 2.0**-120
# Windows of a larger norm would overflow single precision; they are compared exactly.
FAR = 1e15


class Bound(NamedTuple):
    """The constants of the bound: γ, κ‖M‖, φ, tiny, r, then z per unit of norm, ρ, ‖Y‖.

    ``offset`` is the norm of a window of the centre, ``block`` the steps of a block of errors.
    """

    gamma: float
    kappa: float
    phi: float
    tiny: float
    of_squared: float
    embedding: float
    rho: float
    largest: float
    offset: float
    block: int


def bound_of(
    metric: ToeplitzMetric,
    half: Floats,
    width: int,
    period: int,
    largest: float,
    weight: float,
    dtype: type,
    centre: Floats,
) -> Bound:
    """The constants for references of norm ``largest``; ``half`` are the blocks ``H_m``."""
    n_lags, d = half.shape[:2]
    # Roundings in `multiply_tiles`: factors, the product, d - 1 sums, those of the parts.
    n = (d + 8) * SINGLE
    in_double = (4 * (width * d + 2 * n_lags * d) + 64) * DOUBLE
    norm = float(2 * np.sqrt((half**2).sum(axis=(1, 2))).sum())  # no less than that of the metric
    kappa = (in_double + metric.residual * np.sqrt(width * d)) * norm
    blocks = metric.blocks / weight
    n_terms = metric.n_terms + 8 * np.log2(metric.n_coordinates + 2) + 32
    return Bound(
        gamma=n / (1 - n),
        kappa=kappa,
        phi=2 * SINGLE * float(np.sqrt((blocks**2).sum())) if dtype is np.float32 else 0.0,
        tiny=(4 if n_lags > 1 else 2) * d * TINY,
        of_squared=(period + 4) * kappa * largest**2,
        embedding=2 * n_terms * DOUBLE * metric.embedding / np.sqrt(weight),
        rho=(metric.n_coordinates + 16) * DOUBLE,
        largest=largest,
        offset=float(np.sqrt(width) * np.linalg.norm(centre)),
        block=-(-period // (N_BLOCKS - 2)),
    )


# -------------------------------------------------------------------- kernels
# One step of any number of streams, or many steps of one. Rows are steps; each belongs to a stream.
# First the query side of every row: filters of the step that enters and of the one that leaves,
# direct values, error. Then the increments of some rows at once, which are most of the work. Then,
# row by row, the running sums move on by one reference, and the nearest of each state is found.

HELD = 2**17  # products that are kept at a time: they fit a core's second-level cache
Q_SUM, P_SUM, ERRORS = 0, 1, 2  # places in a stream's sums


class Found(NamedTuple):
    """What a search finds for t rows; or M searches, where each array has M before its shape.

    Attributes
    ----------
    nearest, rows : arrays of shape (t, S)
        The distance to the nearest reference of each state, and that reference; NaN and -1 where
        there is no complete window.
    bound : array of shape (t,)
        Squared distances are within this of those of ``predict``.
    n_candidates : array of shape (t,)
        References that may be the nearest of their state; -1 where these are too many.
    candidates : array of shape (t, MAX_CANDIDATES)
    """

    nearest: Floats
    rows: Ints
    bound: Floats
    n_candidates: Ints
    candidates: Ints

    def at(self, place: Any) -> Found:
        """A part of every array: what one of the searches finds, or what all find for some rows."""
        return Found(*(cast(Any, array)[place] for array in self))


def found_nothing(n_searches: int, t: int, n_classes: int) -> Found:
    """Room for what each of some searches finds for t rows."""
    shape = (n_searches, t)
    return Found(
        np.empty((*shape, n_classes)),
        np.empty((*shape, n_classes), np.int64),
        np.empty(shape),
        np.empty(shape, np.int64),
        np.empty((*shape, MAX_CANDIDATES), np.int64),
    )


@jit()
def rows_at_once(n_places):  # type: ignore[no-untyped-def]
    """Rows whose products with so many references are kept at a time."""
    return max(ROWS, HELD // max(1, n_places))


@jit()
def clear(found, row):  # type: ignore[no-untyped-def]
    """Nothing is found: there is no window."""
    found.nearest[row], found.rows[row], found.bound[row] = np.nan, -1, np.nan
    found.n_candidates[row] = 0


@jit()
def _push_rows(  # type: ignore[no-untyped-def]
    features, owner, marks, columns, ring, products, sums, counts, refs, found
):
    """Take one step per row, in order; the arrays of the n streams' state change."""
    m, width, d = len(features), ring.shape[1], len(columns)
    n_columns, n_places = refs.right.shape[1], len(refs.squared)
    size, n_lags = max(1, min(m, rows_at_once(n_places))), refs.causal.shape[1] // d
    windows, filtered = np.zeros((size, (width + 1) * d)), np.zeros((3, size, d))
    left = np.zeros((size, n_columns), np.float32)
    grown = np.empty((size, n_places), np.float32)
    direct = np.empty((size, len(refs.first)))
    query = np.empty((size, 3))  # xᵀ M x, error, norm of the window
    before = np.empty(size, np.int64)  # steps of the segment before each
    nothing, older = np.zeros((2, size), np.int64)
    of_lags, of_window = np.full(size, n_lags * d), np.full(size, width * d)
    of_tile, least = np.empty(len(refs.tile_codes)), np.empty(found.nearest.shape[1])
    for begin in range(0, m, size):
        n = min(size, m - begin)
        for i in range(n):
            o, mark = owner[begin + i], marks[begin + i]
            if mark != 1:
                # A window of the centre is zero around the centre: no step has entered.
                for t in range(width):
                    copy_into(ring[o, t], refs.centre)
                counts[o] = 0
            before[i] = counts[o]
            if mark != 0:
                _next_window(features[begin + i], columns, ring[o], counts[o], refs, windows[i])
                counts[o] += 1
            older[i] = max(n_lags - 1 - before[i] % width, 0) * d
        shift, x = (width + 1 - n_lags) * d, windows[:n]
        dot_products(x, shift, refs.causal, older, of_lags, filtered[0])
        dot_products(x, shift, refs.causal, nothing, older, filtered[1])
        # A literal 0 would be compiled once more.
        dot_products(x, np.int64(0), refs.anticausal, nothing, of_lags, filtered[2])
        dot_products(x, d, refs.direct, nothing, of_window, direct)
        for i in range(n):
            own = sums[owner[begin + i]]
            if marks[begin + i] != 1:
                own[:] = 0.0
            left[i] = 0.0
            if marks[begin + i] != 0:
                _enter(windows[i], filtered[:, i], before[i], own, refs, left[i], query[i])
        multiply_tiles(left[:n], refs.right, n_columns // d, grown[:n])
        for i in range(n):
            row = begin + i
            clear(found, row)
            G = products[owner[row]]
            if marks[row] != 1:
                G[:] = 0.0
            if marks[row] == 0:
                continue
            # A piece's first window has none before it: what would move there ends here.
            near = query[i, 2] < FAR
            for piece in range(len(refs.first)):
                G[refs.first[piece]] = direct[i, piece] if near else 0.0
            for tile in range(len(of_tile) - 1, -1, -1):  # the last first: none is read once moved
                of_tile[tile] = move_tile(G, grown[i], refs.squared, tile * TILE)
            if before[i] + 1 >= width:
                find(G[1:], of_tile, query[i], refs, least, found, row)


@jit()
def _next_window(step, columns, ring, count, refs, window):  # type: ignore[no-untyped-def]
    """The last steps around the centre, oldest first, and the step that enters the ring."""
    width, d = ring.shape
    place = count % width  # of the step that leaves, and then of the one that enters
    per_unit = 1.0 / refs.scale  # a power of two: no digit changes
    for t in range(width):
        source, first = ring[t], (t - place if t >= place else t - place + width) * d
        for f in range(d):
            window[first + f] = (source[f] - refs.centre[f]) * per_unit
    for f in range(d):
        ring[place, f] = step[columns[f]]
        window[width * d + f] = (ring[place, f] - refs.centre[f]) * per_unit


@jit()
def _enter(window, filtered, count, sums, refs, left, query):  # type: ignore[no-untyped-def]
    """The query side of one step: the factors of the references, and the error of the step."""
    bound, width, d = refs.bound, refs.width, filtered.shape[1]
    place, last = count % width, width * d
    recent, older, leaving = filtered
    size = np.sqrt(energy(window))
    error = np.inf
    # Q, the window's own product, is a running sum. P is that of the steps since the last multiple
    # of the width: after as many steps it is the same without the drift of Q, and replaces it.
    if place == 0:
        sums[P_SUM] = 0.0
    if size < FAR:  # False for NaN
        n_parts = len(left) // d
        entered = entered_recent = left_behind = 0.0
        of_xa = of_u = of_xp = of_v = 0.0
        for f in range(d):
            xa, xp = window[last + f], window[f]
            u, v = older[f] + recent[f], leaving[f]
            entered += xa * u
            entered_recent += xa * recent[f]
            left_behind += xp * v
            of_xa += xa * xa
            of_u += u * u
            of_xp += xp * xp
            of_v += v * v
            if n_parts == 2:
                left[f], left[d + f] = xa, -xp
            else:
                left[f], left[d + f], left[2 * d + f], left[3 * d + f] = xa, u, -xp, -v
        sums[P_SUM] += 2.0 * entered_recent
        sums[Q_SUM] += 2.0 * (entered - left_behind)
        error = bound.tiny + bound.kappa * size * (size + bound.largest)
        of_xa, of_u, of_xp, of_v = np.sqrt(of_xa), np.sqrt(of_u), np.sqrt(of_xp), np.sqrt(of_v)
        if n_parts == 2:
            error += bound.gamma * (of_xa * refs.parts[0] + of_xp * refs.parts[1])
        else:
            of_parts = of_xa * refs.parts[0] + of_u * refs.parts[1]
            error += bound.gamma * (of_parts + of_xp * refs.parts[2] + of_v * refs.parts[3])
        if bound.phi > 0.0:
            error += bound.phi * size * (of_xa + of_xp + refs.parts[1] + refs.parts[3])
    if place == width - 1:
        sums[Q_SUM] = sums[P_SUM]
    block = ERRORS + (count // bound.block) % N_BLOCKS
    if count % bound.block == 0:
        sums[block] = 0.0
    sums[block] += error
    query[0] = sums[Q_SUM]
    query[1] = sums[ERRORS:].sum()
    query[2] = size


@jit(fastmath={"reassoc", "nsz"})
def energy(window):  # type: ignore[no-untyped-def]
    total = 0.0
    for x in window:
        total += x * x
    return total


# The compiler may reorder these sums, which the bound allows. Each row is summed for itself, so a
# sum does not depend on the rows around it.
@jit(fastmath={"reassoc", "nsz", "contract"})
def dot_products(X, shift, right, first, last, out):  # type: ignore[no-untyped-def]
    """``out[i] = right[:, c] @ X[i, shift + c]``, in double precision, for some columns c.

    They are from ``first`` to ``last`` (m,). Four vectors at a time serve all rows.
    """
    for j in range(0, len(right), 4):
        b, c, d = min(j + 1, len(right) - 1), min(j + 2, len(right) - 1), min(j + 3, len(right) - 1)
        for i in range(len(X)):
            some = slice(first[i], last[i])
            x = X[i, shift + first[i] : shift + last[i]]
            p, q, r, s = right[j, some], right[b, some], right[c, some], right[d, some]
            of_p = of_q = of_r = of_s = 0.0
            for k in range(len(x)):
                of_p += x[k] * p[k]
                of_q += x[k] * q[k]
                of_r += x[k] * r[k]
                of_s += x[k] * s[k]
            out[i, j], out[i, b], out[i, c], out[i, d] = of_p, of_q, of_r, of_s


@jit()
def find(G, of_tile, query, refs, least, found, row):  # type: ignore[no-untyped-def]
    """The nearest reference of each state, and those that may be the nearest."""
    bound = refs.bound
    least[:] = np.inf
    for tile in range(len(of_tile)):
        c = refs.tile_codes[tile]
        least[c] = min(least[c], of_tile[tile])
    unit = np.sqrt(refs.weight) * refs.scale
    farthest = 0.0
    for c in range(len(least)):
        farthest = max(farthest, least[c] + query[0])
        found.nearest[row, c] = unit * np.sqrt(max(least[c] + query[0], 0.0))
    own = 3.0 * query[1] + bound.of_squared
    z = bound.embedding * (query[2] + bound.largest + 2.0 * bound.offset)
    squared = farthest + own
    of_predict = 2.0 * (2.0 * np.sqrt(squared) * z + 16.0 * z * z + bound.rho * squared)
    found.bound[row] = unit * unit * (own + of_predict)
    # The window's own product is common to all references: its error decides nothing.
    margin = 2.0 * (2.0 * query[1] + bound.of_squared + of_predict)
    n = 0
    for tile in range(len(of_tile)):
        c = refs.tile_codes[tile]
        high = least[c] + margin
        if of_tile[tile] > high:
            continue
        for j in range(tile * TILE, (tile + 1) * TILE):
            value = refs.squared[j] - 2.0 * G[j]
            if refs.rows[j] < 0 or value > high:
                continue
            if value == least[c] and found.rows[row, c] < 0:
                found.rows[row, c] = refs.rows[j]
            if n < MAX_CANDIDATES:
                found.candidates[row, n] = refs.rows[j]
            n += 1
    found.n_candidates[row] = n if n <= MAX_CANDIDATES else -1
