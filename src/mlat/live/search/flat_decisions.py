"""From running sums to the nearest of each state, and whether the bound lets them decide.

Where it does not, the references that matter are named, to be asked about exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .flat_bound import Bound
from .flat_lanes import TILE

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
