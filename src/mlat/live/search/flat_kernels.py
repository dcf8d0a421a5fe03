"""One step of any number of streams against all references, or many steps of one.

Rows are steps; each belongs to a stream. First every row's query side: the filters of the step that
enters and of the one that leaves, direct values, error bound. Then the increments of some rows at
once (:mod:`mlat.live.search.flat_lanes`), which is nearly all of the work. Then row by row the
running sums move on by one reference, and the nearest of each state is found. All sums are in one
order, whatever rows come together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .flat_bound import FAR, N_BLOCKS
from .flat_decisions import find
from .flat_lanes import LANES, increments, lane_products, move_on

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
