"""The nearest references of a stream's windows, at a cost per step that does not grow with w.

The distances of one step follow from those of the step before (see ``flat_references``). They are
running sums with a stated bound (see ``flat_bound``); where two states are nearer to each other
than it can tell apart, the window is compared as ``predict`` compares it. So the state is always
that of ``predict``, and distances agree to the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...checks import Bools, Floats, Ints
from ...classifier.classifier import StreamClassifier
from ...errors import InputError
from ...metric import toeplitz
from ...neighbours.votes import vote
from .lanes import CHAINS, LANES, TILE, in_lanes, increments, lane_products, move_on

# -------------------------------------------------------------------- flat_exact
# What ``predict`` says of a window, asked of only those references that may decide it.
#
# Every number is worked out as :mod:`mlat.neighbours.search` does, by differences in one fixed
# order. It rules out references by bounds of its own, so asking fewer changes no result, as long as
# those that matter are among them.


class ExactAnswer:
    """The references of a classifier in the learned space."""

    def __init__(self, clf: StreamClassifier) -> None:
        self._search, self._codes = clf.references_, clf.references_.codes
        self.n_classes = len(clf.classes_)
        self._place = np.empty(len(clf.references_), np.int64)  # of each row, state by state
        self._place[clf.references_.by_class.nearest.rows] = np.arange(len(clf.references_))

    def embed(self, window: Floats) -> Floats:
        """A window (w, d') in the learned space, (1, r)."""
        return np.asarray(self._search.embed(window[None]))

    def by_state(self, window: Floats, rows: Ints | None = None) -> tuple[Floats, Ints]:
        """Distances (S,) to the nearest of each state and their rows (S,).

        Infinite and -1 for a state of which none of the ``rows`` is, where these are given.
        """
        z, by_class = self.embed(window), self._search.by_class
        if rows is None:
            nearest, of = by_class.query_rows(z)
            return nearest[0], of[0]
        squared = self._squared_to(z, rows)
        best = np.full(self.n_classes, np.inf)
        found = np.full(self.n_classes, -1, np.int64)
        for row, distance in zip(rows, squared, strict=True):
            code = self._codes[row]
            if distance < best[code]:
                best[code], found[code] = distance, row
        return by_class.nearest.scale * np.sqrt(best), found

    def neighbours(self, window: Floats, k: int, rows: Ints | None = None) -> tuple[Floats, Ints]:
        """Distances (k,) and rows (k,) of the nearest, of all or of the given rows."""
        z, nearest = self.embed(window), self._search.by_class.nearest
        if rows is None:
            distances, found = nearest.query(z, k)
            return distances[0], found[0]
        rows = np.sort(rows)  # equally near ones come in the order of their rows
        squared = self._squared_to(z, rows)
        order = np.argsort(squared, kind="stable")[:k]
        return nearest.scale * np.sqrt(squared[order]), rows[order]

    def _squared_to(self, z: Floats, rows: Ints) -> Floats:
        """Squared distances to these rows, in units of the scale."""
        nearest = self._search.by_class.nearest
        x = ((z - nearest.mean) / nearest.scale)[0]
        return np.asarray(_squared(x, nearest.points, self._place[rows]))

    def vote(self, distances: Floats, rows: Ints) -> int:
        """The state that k neighbours agree on."""
        return int(vote(self._codes[rows][None], distances[None], self.n_classes)[0][0])


@njit(cache=True, nogil=True)
def _squared(x, references, places):  # type: ignore[no-untyped-def]
    squared = np.empty(len(places))
    for i in range(len(places)):
        total = 0.0
        for f in range(len(x)):
            difference = x[f] - references[places[i], f]
            total += difference * difference
        squared[i] = total
    return squared


# -------------------------------------------------------------------- flat_kernels
# One step of any number of streams against all references, or many steps of one.
#
# Rows are steps; each belongs to a stream. First every row's query side: the filters of the step
# that enters and of the one that leaves, direct values, error bound. Then the increments of some
# rows at once (:mod:`mlat.live.search.lanes`), which is nearly all of the work. Then row by
# row the running sums move on by one reference, and the nearest of each state is found. All sums
# are in one order, whatever rows come together.

GROUP = 32  # rows whose increments are kept at a time: they fit a core's second cache
Q_SUM, P_SUM, ERRORS = 0, 1, 2  # places in a stream's sums


@njit(cache=True, nogil=True)
def push_rows(values, owner, present, ring, products, sums, counts, shared, found):  # type: ignore[no-untyped-def]
    """Take one step per row, in order; ``owner`` says of which stream each is.

    ``ring`` (n, w, d), ``products`` (n, N + 1), ``sums`` (n, 2 + N_BLOCKS) and ``counts`` (n,) are
    all that is remembered of n streams, and are changed.
    """
    m, d = values.shape
    width = ring.shape[1]
    n_columns = shared.right.shape[1]
    n_places = shared.squared.shape[0]
    n_filled = shared.direct.shape[1] // width
    size = max(1, min(m, GROUP))
    window = np.zeros((width + 1) * n_filled)
    filtered = np.zeros((3, shared.causal.shape[0] * LANES))
    left = np.zeros((size, n_columns), np.float32)
    grown = np.empty((size, n_places), np.float32)
    direct = np.empty((size, shared.direct.shape[0] * LANES))
    query = np.empty((size, 3))  # xᵀ M x, error, norm of the window
    norms = np.empty(4)
    ready = np.empty(size, np.bool_)
    of_tile = np.empty(len(shared.of_class))
    least = np.empty(found.nearest.shape[1])
    for begin in range(0, m, size):
        n = min(size, m - begin)
        for i in range(n):
            o = owner[begin + i]
            if not present[begin + i]:
                _forget(ring[o], sums[o], shared.centre)
                counts[o] = 0
                ready[i] = False
                left[i] = 0.0
                continue
            _enter(
                values[begin + i],
                ring[o],
                sums[o],
                counts[o],
                shared,
                window,
                filtered,
                norms,
                left[i],
                direct[i],
                query[i],
            )
            counts[o] += 1
            ready[i] = counts[o] >= width
        increments(left[:n], shared.right, n_columns // d, grown[:n])
        for i in range(n):
            row = begin + i
            G = products[owner[row]]
            if not present[row]:
                G[:] = 0.0
                continue
            # A piece's first window has none before it: what would move there ends here.
            for piece in range(len(shared.first)):
                G[shared.first[piece]] = direct[i, piece]
            move_on(G, grown[i], shared.squared, of_tile)
            if ready[i]:
                find(G, of_tile, query[i], shared, least, found, row)


@njit(cache=True, nogil=True)
def _forget(ring, sums, centre):  # type: ignore[no-untyped-def]
    """A window of the centre is zero around the centre: no step has entered."""
    ring[:] = centre
    sums[:] = 0.0


@njit(cache=True, nogil=True)
def _enter(step, ring, sums, count, shared, window, filtered, norms, left, direct, query):  # type: ignore[no-untyped-def]
    """The query side of one step: what multiplies the references, and what it may be wrong by."""
    bound = shared.bound
    width, d = ring.shape
    d4 = shared.direct.shape[1] // width
    n_lags = shared.causal.shape[1] // d4
    place = count % width  # of the step that leaves, and then of the one that enters
    per_unit = 1.0 / shared.scale  # a power of two: no digit changes
    for t in range(width + 1):
        source = step
        if t < width:
            source = ring[place + t if place + t < width else place + t - width]
        for f in range(d):
            window[t * d4 + f] = (source[f] - shared.centre[f]) * per_unit
    ring[place] = step
    size = np.sqrt(_energy(window))
    near = size < FAR  # a NaN is not
    error = np.inf
    first, last = 0, width * d4
    # Q, the window's own product, is a running sum; P is that of the steps since the last multiple
    # of the width, and after as many steps the same without what Q has drifted by.
    if place == 0:
        sums[P_SUM] = 0.0
    if not near:
        left[:] = 0.0
        direct[:] = 0.0
    else:
        recent, older, leaving = filtered
        n_recent = min(place + 1, n_lags)
        n_older = n_lags - n_recent
        lane_products(
            window, last + (1 - n_recent) * d4, n_recent * d4, shared.causal, n_older * d4, recent
        )
        if n_older:
            lane_products(window, last + (1 - n_lags) * d4, n_older * d4, shared.causal, 0, older)
        else:
            older[:] = 0.0
        lane_products(window, first, n_lags * d4, shared.anticausal, 0, leaving)
        lane_products(window, d4, width * d4, shared.direct, 0, direct)
        n_parts = len(left) // d
        norms[:] = 0.0
        entered = entered_recent = left_behind = 0.0
        for f in range(d):
            xa, xp = window[last + f], window[first + f]
            u, v = older[f] + recent[f], leaving[f]
            entered += xa * u
            entered_recent += xa * recent[f]
            left_behind += xp * v
            if n_parts == 2:
                left[f], left[d + f] = xa, -xp
                norms[0] += xa * xa
                norms[1] += xp * xp
            else:
                left[f], left[d + f], left[2 * d + f], left[3 * d + f] = xa, u, -xp, -v
                norms[0] += xa * xa
                norms[1] += u * u
                norms[2] += xp * xp
                norms[3] += v * v
        sums[P_SUM] += 2.0 * entered_recent
        sums[Q_SUM] += 2.0 * (entered - left_behind)
        error = bound.tiny + bound.kappa * size * (size + bound.largest)
        for part in range(n_parts):
            error += bound.gamma * np.sqrt(norms[part]) * shared.parts[part]
        if bound.phi > 0.0:
            steps = np.sqrt(norms[0]) + np.sqrt(norms[2]) + shared.parts[1] + shared.parts[3]
            error += bound.phi * size * steps
    if place == width - 1:
        sums[Q_SUM] = sums[P_SUM]
    stretch = ERRORS + (count // bound.block) % N_BLOCKS
    if count % bound.block == 0:
        sums[stretch] = 0.0
    sums[stretch] += error
    query[0] = sums[Q_SUM]
    query[1] = sums[ERRORS:].sum()
    query[2] = size


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _energy(window):  # type: ignore[no-untyped-def]
    """Summed as the processor likes: in the bound the order of a sum is nothing."""
    total = 0.0
    for x in window:
        total += x * x
    return total


# -------------------------------------------------------------------- flat_decisions
# From running sums to the nearest of each state, and whether the bound lets them decide.
#
# Where it does not, the references that matter are named, to be asked about exactly.

DECIDED, UNDECIDED = 1, 2  # 0 is no window
MOST_ASKED = 64  # references that are asked about one by one; where there are more, all are


class Shared(NamedTuple):
    """What all streams are compared with; as in ``References``, in the order of use."""

    centre: NDArray[np.float64]
    scale: float
    weight: float
    causal: NDArray[Any]
    anticausal: NDArray[Any]
    direct: NDArray[np.float64]
    right: NDArray[np.float32]
    parts: NDArray[np.float64]
    first: NDArray[np.int64]
    squared: NDArray[np.float64]
    of_class: NDArray[np.int64]
    rows: NDArray[np.int64]
    codes: NDArray[np.int64]  # the state of each row
    cuts: NDArray[np.float64]  # distances that decide something, beside which state is nearest
    bound: Bound


class Found(NamedTuple):
    """What is found for each of m rows; see ``FlatResult``."""

    status: NDArray[np.int8]
    code: NDArray[np.int64]
    nearest: NDArray[np.float64]
    rows: NDArray[np.int64]
    bound: NDArray[np.float64]
    distances: NDArray[np.float64]
    neighbours: NDArray[np.int64]
    n_asked: NDArray[np.int64]  # rows to ask about exactly; -1 for all there are
    asked: NDArray[np.int64]


@njit(cache=True, nogil=True)
def find(G, of_tile, query, shared, least, found, row):  # type: ignore[no-untyped-def]
    """The nearest of each state, and whether they decide which state it is."""
    bound = shared.bound
    least[:] = np.inf
    for tile in range(len(shared.of_class)):
        c = shared.of_class[tile]
        if of_tile[tile] < least[c]:
            least[c] = of_tile[tile]
            found.rows[row, c] = tile
    unit = np.sqrt(shared.weight) * shared.scale
    best, farthest = np.inf, 0.0
    for c in range(len(least)):
        begin = found.rows[row, c] * TILE
        for j in range(begin, begin + TILE):
            if shared.squared[j] - 2.0 * G[j + 1] == least[c]:
                found.rows[row, c] = shared.rows[j]
                break
        if least[c] < best:
            best = least[c]
            found.code[row] = c
        farthest = max(farthest, least[c] + query[0])
        found.nearest[row, c] = unit * np.sqrt(max(least[c] + query[0], 0.0))
    own = 3.0 * query[1] + bound.of_squared
    z = bound.embedding * (query[2] + bound.largest + 2.0 * bound.offset)
    found.bound[row] = unit * unit * (own + _rounding(max(farthest, 0.0) + own, z, bound.rho))
    here = max(best + query[0], 0.0)
    rounding = _rounding(here + own, z, bound.rho)
    # The window's own product is common to all references: its error decides nothing.
    margin = 2.0 * (2.0 * query[1] + bound.of_squared + rounding)
    near_cut = False
    for cut in shared.cuts:
        near_cut |= abs(here - (cut / unit) ** 2) <= own + rounding
    if found.neighbours.shape[1] == 1:
        _ask_one(G, least, best, margin, near_cut, shared, found, row)
    else:
        _ask_many(G, query[0], unit, margin, near_cut, shared, found, row)


@njit(cache=True, nogil=True)
def _rounding(squared, z, rho):  # type: ignore[no-untyped-def]
    """What ``predict`` may be wrong by at this squared distance."""
    return 2.0 * (2.0 * np.sqrt(squared) * z + 16.0 * z * z + rho * squared)


@njit(cache=True, nogil=True)
def _ask_one(G, least, best, margin, near_cut, shared, found, row):  # type: ignore[no-untyped-def]
    """With one neighbour: the nearest of every state that could be the nearest of all."""
    rivals = 0
    for c in range(len(least)):
        rivals += least[c] <= best + margin
    found.status[row] = DECIDED
    found.neighbours[row, 0] = found.rows[row, found.code[row]]
    found.distances[row, 0] = found.nearest[row, found.code[row]]
    if rivals == 1 and not near_cut:
        return
    found.status[row] = UNDECIDED
    n = 0
    for tile in range(len(shared.of_class)):
        low = least[shared.of_class[tile]]
        if low > best + margin:
            continue
        for j in range(tile * TILE, (tile + 1) * TILE):
            if shared.rows[j] >= 0 and shared.squared[j] - 2.0 * G[j + 1] <= low + margin:
                if n == MOST_ASKED:
                    found.n_asked[row] = -1
                    return
                found.asked[row, n] = shared.rows[j]
                n += 1
    found.n_asked[row] = n


@njit(cache=True, nogil=True)
def _ask_many(G, own, unit, margin, near_cut, shared, found, row):  # type: ignore[no-untyped-def]
    """With k neighbours: those that may be among them, and whether they agree on the vote."""
    k = found.neighbours.shape[1]
    upper = np.full(k, np.inf)
    for j in range(len(shared.rows)):
        value = shared.squared[j] - 2.0 * G[j + 1]
        if value < upper[k - 1]:
            place = k - 1
            while place > 0 and upper[place - 1] > value:
                upper[place] = upper[place - 1]
                place -= 1
            upper[place] = value
    found.status[row] = UNDECIDED
    found.n_asked[row] = -1
    values = np.empty(MOST_ASKED)
    n = 0
    for j in range(len(shared.rows)):
        value = shared.squared[j] - 2.0 * G[j + 1]
        if shared.rows[j] < 0 or not value <= upper[k - 1] + margin:
            continue
        if n == MOST_ASKED:
            return
        values[n] = value
        found.asked[row, n] = shared.rows[j]
        n += 1
    found.n_asked[row] = n
    order = np.argsort(values[:n])
    votes = np.zeros(len(found.nearest[row]), np.int64)
    # Those that the k-th cannot be confused with are neighbours; the others matter by their state.
    doubtful = -1
    agreed = True
    for place in range(n):
        candidate = order[place]
        code = shared.codes[found.asked[row, candidate]]
        if place < k:
            votes[code] += 1
            found.neighbours[row, place] = found.asked[row, candidate]
            squared = max(values[candidate] + own, 0.0)
            found.distances[row, place] = unit * np.sqrt(squared)
        if n > k and values[candidate] + margin >= upper[k - 1]:
            agreed &= doubtful in (-1, code)
            doubtful = code
    first = votes.argmax()
    tied = 0
    for c in range(len(votes)):
        tied += votes[c] == votes[first]
    if agreed and tied == 1 and not near_cut:
        found.status[row] = DECIDED
        found.code[row] = first
        found.n_asked[row] = 0


# -------------------------------------------------------------------- flat_bound
# How wrong a running distance can be: a bound from norms, stated and used.
#
# A running sum is added up over at most ``period`` steps from a value that was worked out directly.
# With u and v the roundings of single and double precision, the step s adds at most
#
#     e_s = γ Σ_part ‖left_part‖ ‖right_part‖  +  κ ‖M‖ ‖X_s‖ (‖X_s‖ + ‖Y‖)  +  φ ‖X_s‖ (…)  +  tiny
#
# to the error of an inner product and to that of ``xᵀ M x``: γ for sums of d products in single
# precision, κ for all that is done in double (filters, direct values, adding up), φ where the
# filters themselves are stored in single precision; ``X_s`` is the window with the step that leaves
# it, Y the largest reference. Over a period these add up to S, and a squared distance is within ``3
# S + r`` of the true one, r being what the references' own ``yᵀ M y`` may be wrong by.
#
# ``predict`` rounds too. Its squared distances are within ``2 (2 √D z + 16 z² + ρ D)`` of the true
# ones, z being the rounding of a window in the learned space. Two states are told apart where they
# differ by more than both bounds together.
#
# All figures here are in the units of :class:`~mlat.live.search.incremental.References`.

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
# What numbers too small for single precision may lose, for each product, in units near 1.
TINY = 2.0**-120
# A query this far out would overflow single precision; its distances are worked out exactly.
FAR = 1e15
N_BLOCKS = 10  # stretches of steps whose errors are summed; nine of them are at least a period


class Bound(NamedTuple):
    """The constants above: γ, κ‖M‖, φ, tiny, r, then z per unit of norm, ρ, Y and the offset.

    ``block`` is how many steps a stretch has, ``offset`` the norm of a window of the centre.
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


def bound_of(references: References) -> Bound:
    """From the sizes and norms of the references."""
    d, w = references.n_features, references.width
    metric, n_lags = references.metric, references.n_lags
    n = (d + 8) * SINGLE  # a product's factors and itself, d - 1 sums, those of the parts
    in_double = (4 * (w * d + 2 * n_lags * d) + 64) * DOUBLE
    kappa = (in_double + metric.residual * np.sqrt(w * d)) * references.norm
    blocks = metric.blocks / references.weight
    phi = 2 * SINGLE * float(np.sqrt((blocks**2).sum())) if references.single_filters else 0.0
    n_terms = metric.n_terms + 8 * np.log2(metric.n_coordinates + 2) + 32
    return Bound(
        gamma=n / (1 - n),
        kappa=kappa,
        phi=phi,
        tiny=references.right.shape[1] * TINY,
        of_squared=(references.period + 4) * kappa * references.largest**2,
        embedding=2 * n_terms * DOUBLE * metric.embedding / np.sqrt(references.weight),
        rho=(metric.n_coordinates + 16) * DOUBLE,
        largest=references.largest,
        offset=float(np.sqrt(w) * np.linalg.norm(references.centre)) / references.scale,
        block=-(-references.period // (N_BLOCKS - 2)),
    )


# -------------------------------------------------------------------- flat_references
# The references of a classifier, made ready for distances that follow from those before.
#
# With ``x`` the steps of a query and ``y`` those of a reference run, inner products of windows
# under a block-Toeplitz metric follow from those one step earlier
# (:mod:`mlat.metric.toeplitz_loss`),
#
#     G[t, j] = G[t-1, j-1] + x_a·ũ_b + ũ_a·y_b - x_p·ṽ_q - ṽ_p·y_q,
#
# so what is kept of a reference is the step ``b`` that enters it and the step ``q`` that leaves it,
# with their filtered companions. Runs are cut into pieces of at most ``period`` windows. The first
# window of a piece has none before it: its inner product is worked out directly, at every step,
# from ``M y``. So each running sum begins anew, exactly, at most ``period`` steps back, and the
# work for that is the same at every step.

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
    """``Σ_m taps[m] x[t-m]``, lag by lag; that of ``mlat.metric.toeplitz_loss`` rounds more."""
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


ANCHOR = 64
# Direct values cost w*d for each piece of a run, increments 4d for each reference.
PERIOD_PER_WIDTH = 4


@dataclass(frozen=True, eq=False, slots=True)
class FlatState:
    """All that is remembered of n streams; for a single one n is 1.

    Attributes
    ----------
    ring : array of shape (n, w, d')
        The last features; the step after ``count`` others goes to place ``count % w``.
    products : array of shape (n, N + 1)
        The inner product of the window with each reference, after one that is never used.
    sums : array of shape (n, 2 + N_BLOCKS)
        The window's own product, the same since the last multiple of the width, and what each
        stretch of steps adds to the error.
    count : array of shape (n,)
        Steps since the segment began.
    """

    ring: Floats
    products: Floats
    sums: Floats
    count: Ints

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For a snapshot."""
        return {name: getattr(self, name).copy() for name in _FIELDS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """From what :meth:`to_arrays` gave; the arrays are copied."""
        if set(arrays) != set(_FIELDS):
            raise InputError(f"a flat state has {', '.join(_FIELDS)}, not {', '.join(arrays)}")
        return cls(
            np.array(arrays["ring"], dtype=np.float64),
            np.array(arrays["products"], dtype=np.float64),
            np.array(arrays["sums"], dtype=np.float64),
            np.array(arrays["count"], dtype=np.int64),
        )

    def copy(self) -> FlatState:
        return FlatState.from_arrays({name: getattr(self, name) for name in _FIELDS})

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in _FIELDS)


_FIELDS = ("ring", "products", "sums", "count")


@dataclass(frozen=True, eq=False, slots=True)
class FlatResult:
    """What t steps gave; NaN and -1 where there is no complete window.

    Attributes
    ----------
    nearest : array of shape (t, S)
        The distance to the nearest reference of each state.
    rows : array of shape (t, S)
        That reference.
    bound : array of shape (t,)
        Squared distances, these and the next, are within this of those of ``predict``.
    exact : array of shape (t,)
        Where the bound could not decide: the distances that decided are those of ``predict``.
    codes : array of shape (t,)
        The state: that of ``predict``.
    distances, neighbours : arrays of shape (t, k)
        The k nearest references, for the number of neighbours of the classifier.
    """

    nearest: Floats
    rows: Ints
    bound: Floats
    exact: Bools
    codes: Ints
    distances: Floats
    neighbours: Ints


class FlatSearch:
    """References made ready for a live stream; see :meth:`of`.

    Attributes
    ----------
    references : References
    n_neighbors : int
    """

    def __init__(
        self, clf: StreamClassifier, references: References, cuts: Sequence[float]
    ) -> None:
        self.references = references
        self.n_neighbors = clf.n_neighbors_
        self.n_classes = len(clf.classes_)
        self._exact = ExactAnswer(clf)
        self.shared = Shared(
            references.centre,
            references.scale,
            references.weight,
            references.causal,
            references.anticausal,
            references.direct,
            references.right,
            references.parts,
            references.first,
            references.squared,
            references.of_class,
            references.rows,
            clf.references_.codes,
            np.array([cut for cut in cuts if np.isfinite(cut)], dtype=np.float64),
            bound_of(references),
        )

    @classmethod
    def of(
        cls, clf: StreamClassifier, *, anchor: int = ANCHOR, cuts: Sequence[float] | None = None
    ) -> FlatSearch | None:
        """For a fitted classifier; None where the metric is not Toeplitz or ``step`` is not 1.

        Parameters
        ----------
        clf : StreamClassifier
        anchor : int
            Each running sum begins anew from a direct value after at most this many steps, or
            four widths where that is more.
        cuts : sequence of float, optional
            Distances to the nearest reference beyond which something else is decided: windows
            near them are compared exactly too. Default the threshold of the classifier.
        """
        windows, width = clf.windows_, clf.width_
        if isinstance(anchor, bool) or not isinstance(anchor, int | np.integer) or anchor < 1:
            raise InputError(f"anchor must be a whole number of steps, at least 1, not {anchor!r}")
        order = np.lexsort((windows.start, windows.run))
        same = np.diff(windows.run[order]) == 0
        if (np.diff(windows.start[order])[same] != 1).any():
            return None
        metric = toeplitz_metric(clf.metric_, width, clf.features_.n_features)
        if metric is None:
            return None
        references = prepare(
            clf.features_.mix(clf.reference_features_),
            windows.start,
            windows.run,
            clf.references_.codes,
            width,
            metric,
            max(int(anchor), PERIOD_PER_WIDTH * width),
        )
        return cls(clf, references, (clf.confidence_.threshold,) if cuts is None else cuts)

    @property
    def operations(self) -> dict[str, float]:
        """Products per step, of this search and of the exact one.

        Those in double precision, half as many of which are done at a time, count twice.
        """
        r = self.references
        d, w, n = r.n_features, r.width, int((r.rows >= 0).sum())
        flat = r.right.size + 4 * r.squared.size + 2 * (r.direct.size + r.causal.size * 2)
        embed = 2 * w * d * r.metric.n_terms if r.metric.n_terms > 1 else 0
        return {"flat": float(flat), "exact": float(embed + n * r.metric.n_coordinates)}

    def cheaper(self) -> bool:
        """Whether it takes fewer operations than the exact search."""
        operations = self.operations
        return operations["flat"] < operations["exact"]

    def start(self, n_streams: int = 1) -> FlatState:
        """What is remembered before the first step."""
        r = self.references
        return FlatState(
            np.tile(r.centre, (n_streams, r.width, 1)),
            np.zeros((n_streams, len(r.squared) + 1)),
            np.zeros((n_streams, 2 + N_BLOCKS)),
            np.zeros(n_streams, np.int64),
        )

    def reset(self, state: FlatState) -> None:
        """A segment begins."""
        state.ring[:] = self.references.centre
        for array in (state.products, state.sums, state.count):
            array[:] = 0

    def push(self, state: FlatState, seen: Floats) -> FlatResult:
        """Take the next steps (t, d') of one stream; the state moves on, in place.

        However the steps are cut, the result is the same, bit by bit. Steps are complete: where
        one misses a value, :meth:`reset` and go on after it.
        """
        seen = np.ascontiguousarray(seen, dtype=np.float64)
        if seen.ndim != 2 or seen.shape[1] != self.references.n_features:
            raise InputError(
                f"steps must have shape (t, {self.references.n_features}), not {seen.shape}"
            )
        t = len(seen)
        before = state.ring[0].copy() if t > 1 else state.ring[0]
        count = int(state.count[0])
        found = self.push_rows(state, seen, np.zeros(t, np.int64), np.ones(t, np.bool_))
        width = self.references.width

        def window(i: int) -> Floats:
            if t == 1:
                return np.roll(state.ring[0], -((count + 1) % width), axis=0)
            steps = np.concatenate([np.roll(before, -(count % width), axis=0), seen[: i + 1]])
            return steps[-width:]

        return self.settle(found, window)

    def push_rows(self, state: FlatState, seen: Floats, owner: Ints, present: Bools) -> Found:
        """Steps (t, d') of the streams that ``owner`` (t,) tells, in order; see ``push_rows``.

        A step that is not present ends the segment of its stream.
        """
        t = len(seen)
        k, S = self.n_neighbors, self.n_classes
        found = Found(
            np.zeros(t, np.int8),
            np.full(t, -1, np.int64),
            np.full((t, S), np.nan),
            np.full((t, S), -1, np.int64),
            np.full(t, np.nan),
            np.full((t, k), np.nan),
            np.full((t, k), -1, np.int64),
            np.zeros(t, np.int64),
            np.empty((t, MOST_ASKED), np.int64),
        )
        push_rows(
            seen,
            owner,
            present,
            state.ring,
            state.products,
            state.sums,
            state.count,
            self.shared,
            found,
        )
        return found

    def settle(self, found: Found, window: Any) -> FlatResult:
        """Ask exactly where the bound does not decide; ``window(i)`` gives that of row i."""
        exact = found.status == UNDECIDED
        for i in np.flatnonzero(exact):
            n = found.n_asked[i]
            asked = None if n < 0 else found.asked[i, :n]
            if self.n_neighbors == 1:
                nearest, rows = self._exact.by_state(window(i), asked)
                known = rows >= 0
                found.nearest[i, known], found.rows[i, known] = nearest[known], rows[known]
                code = int(nearest.argmin())
                found.distances[i], found.neighbours[i] = nearest[code], rows[code]
            else:
                k = self.n_neighbors
                distances, rows = self._exact.neighbours(window(i), k, asked)
                found.distances[i], found.neighbours[i] = distances, rows
                code = self._exact.vote(distances, rows)
            found.code[i] = code
        return FlatResult(
            found.nearest,
            found.rows,
            found.bound,
            exact,
            found.code,
            found.distances,
            found.neighbours,
        )
