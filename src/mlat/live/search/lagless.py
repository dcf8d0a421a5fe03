"""The incremental search of a committee's expert whose metric has no lags.

**Exact sums.** Without lags the inner product of two windows is a sum of products of single steps,

    G[t, s] = Σ_{i < w} P[t-i, s-i],      P[t, s] = x_t · B y_s,

with the steps ``x`` of a stream and ``y`` of the references around a common centre. P is rounded to
a whole number of a small unit, so sums of it are exact. What a step adds to a running sum is taken
away w steps later to the last bit: nothing is left behind, no sum has to start again, and only the
errors of the last w steps count. All steps of all runs are one row of places; the few windows that
would cross from one run to the next are no references.

**The cost.** A step needs d products for each place, half of those of
:mod:`mlat.live.search.incremental`, and P of the last w steps, which makes it a search for narrow
windows. All that a state holds follows from the features of its last w steps, and is computed anew
from these after a snapshot.

The bound is as there: over the last w steps S adds up ``γ ‖x‖ ‖B y‖ + unit`` of each product and
``κ ‖M‖ ‖X‖ (‖X‖ + ‖Y‖)`` of the window's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints
from ...base.compiled import jit
from ...base.errors import InputError
from ...base.fixed_order import power_above
from ...neighbours.references import References
from .incremental import (
    FAR,
    GROUP,
    TILE,
    ExactAnswer,
    Found,
    PreparedReferences,
    ToeplitzMetric,
    bound_of,
    dot_products,
    find,
    found_nothing,
    in_runs,
    increments,
    least_multiple,
    toeplitz_metric,
)

WIDEST = 16  # steps: of wider windows P would take much memory
FINE = 2.0**-20  # the unit, relative to the largest product of two references' steps
LARGEST = 2.0**27  # of P in units: a sum of WIDEST of them is below 2^31


@dataclass(frozen=True, eq=False, slots=True)
class LaglessState:
    """The memory of n streams.

    Attributes
    ----------
    ring : array of shape (n, w, d')
        The last features; the step after ``count`` others goes to place ``count % w``.
    count : array of shape (n,)
        Steps since the segment began.
    steps : array of shape (n, w, w + N)
        P of these steps, after w zeros.
    products : array of shape (n, N + 1)
        G of each place, after a zero.
    own : array of shape (n, 2, w)
        The product ``x · B x`` of these steps, and their squared norms.
    """

    ring: Floats
    count: Ints
    steps: NDArray[np.int32]
    products: NDArray[np.int32]
    own: Floats

    KEPT = ("ring", "count")  # the others follow from these

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that a snapshot needs, by name."""
        return {name: getattr(self, name).copy() for name in self.KEPT}

    def copy(self) -> Self:
        return type(self)(*(getattr(self, name).copy() for name in self.__slots__))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.__slots__)


class LaglessSearch:
    """The references of an expert, prepared for live streams; made by :meth:`of`.

    Attributes
    ----------
    references : PreparedReferences
        With a place for each step of a run. Those at which no reference ends are as padding.
    unit : float
        Of P.
    """

    def __init__(
        self,
        expert: References,
        metric: ToeplitzMetric,
        references: PreparedReferences,
        unit: float,
    ) -> None:
        self.references, self.unit = references, unit
        self.n_classes = len(expert.classes)
        self._metric, self._exact = metric, ExactAnswer(expert)

    @classmethod
    def of(cls, expert: References) -> LaglessSearch | None:
        """None where the metric has lags, windows are wide, or not every one is a reference."""
        windows = expert.windows
        if windows.width > WIDEST or not in_runs(windows):
            return None
        seen = expert.view(expert.steps)
        metric = toeplitz_metric(expert.metric, windows.width, seen.shape[1])
        if metric is None or len(metric.blocks) > 1:
            return None
        codes = np.asarray(expert.codes, dtype=np.int64)
        references, unit = _prepare(seen, windows.start, windows.run, codes, windows.width, metric)
        return cls(expert, metric, references, unit)

    @property
    def operations(self) -> dict[str, float]:
        """As :attr:`IncrementalSearch.operations`."""
        r, metric = self.references, self._metric
        d, w = r.n_features, r.width
        incremental = r.right.size + 4 * r.squared.size + 2 * r.causal.size
        embed = 2 * w * d * metric.n_terms if metric.n_terms > 1 else 0
        exact = embed + len(r.codes) * metric.n_coordinates
        return {"incremental": float(incremental), "exact": float(exact)}

    def start(self, n_streams: int = 1) -> LaglessState:
        """The state before the first step."""
        r = self.references
        return LaglessState(
            np.tile(r.centre, (n_streams, r.width, 1)),
            np.zeros(n_streams, np.int64),
            np.zeros((n_streams, r.width, r.width + len(r.squared)), np.int32),
            np.zeros((n_streams, len(r.squared) + 1), np.int32),
            np.zeros((n_streams, 2, r.width)),
        )

    def reset(self, state: LaglessState) -> None:
        """Begin a new segment, in place."""
        state.ring[:] = self.references.centre
        for array in (state.count, state.steps, state.products, state.own):
            array[:] = 0

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> LaglessState:
        """The state that :meth:`LaglessState.to_arrays` wrote."""
        names = LaglessState.KEPT
        if set(arrays) != set(names):
            raise InputError(f"a state has {', '.join(names)}, not {', '.join(arrays)}")
        ring, count = arrays["ring"], arrays["count"]
        n, width = len(count), self.references.width
        state = self.start(n)
        # The last steps once more: what was before them is in none of the sums.
        there = np.minimum(count, width)
        state.count[:] = count - there
        for back in range(width, 0, -1):
            owner = np.flatnonzero(there >= back)
            seen = np.ascontiguousarray(ring[owner, (count[owner] - back) % width])
            nothing = found_nothing(1, len(owner), self.n_classes, 0)[0]
            self.fill(state, seen, owner, np.ones(len(owner), np.bool_), nothing)
        return state

    def fill(
        self, state: LaglessState, seen: Floats, owner: Ints, present: Bools, found: Found
    ) -> None:
        """Take steps (t, d') in order, of the streams ``owner`` (t,); the state changes in place.

        A step that is not ``present`` ends the segment of its stream.
        """
        arrays = (state.ring, state.count, state.steps, state.products, state.own)
        _push_rows(seen, owner, present, *arrays, self.references, self.unit, found)

    def by_state(self, found: Found, some: Ints, windows: Floats) -> tuple[Floats, Ints]:
        """As :meth:`IncrementalSearch.by_state`."""
        return self._exact.by_states(windows, found.candidates[some], found.n_candidates[some])


def _prepare(
    seen: Floats, start: Ints, run: Ints, codes: Ints, width: int, metric: ToeplitzMetric
) -> tuple[PreparedReferences, float]:
    """As :func:`mlat.live.search.incremental.prepare`, and the unit of P."""
    d = seen.shape[1]
    order = np.lexsort((start, run, codes))
    of_windows = seen[np.unique((start[:, None] + np.array([0, width - 1])).ravel())]
    centre = of_windows.mean(axis=0)
    scale = power_above(np.abs(seen[np.isfinite(seen).all(axis=1)] - centre).max(initial=0.0))
    weight = power_above(np.abs(metric.blocks).max(initial=0.0))
    B = metric.blocks[0] / weight
    rows, tile_codes, squared, steps = [], [], [], []
    largest = 0.0
    for code in range(int(codes.max()) + 1):
        n_state = 0
        of_state = order[codes[order] == code]
        for members in np.split(of_state, np.flatnonzero(np.diff(run[of_state])) + 1):
            begin = start[members[0]]
            x = (seen[begin : start[members[-1]] + width] - centre) / scale
            own, energy = (x * (x @ B.T)).sum(axis=1), (x**2).sum(axis=1)
            whole = np.lib.stride_tricks.sliding_window_view
            largest = max(largest, float(np.sqrt(whole(energy, width).sum(axis=1).max())))
            rows += [np.full(width - 1, -1), members]
            squared += [np.full(width - 1, np.inf), whole(own, width).sum(axis=1)]
            steps.append(x)
            n_state += len(x)
        n_padded = least_multiple(n_state, TILE)
        rows.append(np.full(n_padded - n_state, -1))
        squared.append(np.full(n_padded - n_state, np.inf))
        steps.append(np.zeros((n_padded - n_state, d)))
        tile_codes += [code] * (n_padded // TILE)
    y = np.concatenate(steps)
    right = y @ B  # of the symmetric part of B, all that a squared distance depends on
    right = (right + y @ B.T) / 2
    part = np.sqrt((right**2).sum(axis=1).max())
    # At least what single precision holds, with room to spare.
    unit = max(power_above(FINE * part * np.sqrt((y**2).sum(axis=1).max())), 2.0**-100)
    half = metric.blocks / weight
    half[0] /= 2
    references = PreparedReferences(
        width=width,
        period=width,
        scale=scale,
        weight=weight,
        centre=centre,
        rows=np.concatenate(rows).astype(np.int64),
        codes=codes,
        tile_codes=np.array(tile_codes, dtype=np.int64),
        right=np.ascontiguousarray(right.T, dtype=np.float32),
        squared=np.concatenate(squared),
        first=np.empty(0, np.int64),
        direct=np.empty((0, width * d)),
        causal=np.ascontiguousarray(B),
        anticausal=np.empty((0, d)),
        parts=np.array([part]),
        cuts=np.empty(0),
        bound=bound_of(metric, half, width, width, largest, weight, np.float64, centre / scale),
    )
    return references, unit


@jit()
def _push_rows(  # type: ignore[no-untyped-def]
    values, owner, present, ring, count, steps, products, own, refs, unit, found
):
    """Take one step per row, in order; the arrays of the n streams' state change."""
    m, d = values.shape
    width = ring.shape[1]
    n_places = refs.right.shape[1]
    size = max(1, min(m, GROUP))
    left = np.zeros((size, d), np.float32)
    grown = np.empty((size, n_places), np.float32)
    query = np.empty((size, 3))  # xᵀ M x, error, norm of the window
    place = np.empty(size, np.int64)
    ready = np.empty(size, np.bool_)
    x, u = np.empty(d), np.empty(d)
    G = np.empty(n_places + 1)
    of_tile = np.empty(len(refs.tile_codes))
    least = np.empty(found.nearest.shape[1])
    for begin in range(0, m, size):
        n = min(size, m - begin)
        for i in range(n):
            o = owner[begin + i]
            if not present[begin + i]:
                # A window of the centre is zero around the centre: no step has entered.
                ring[o] = refs.centre
                own[o] = 0.0
                count[o] = 0
                left[i] = 0.0
                continue
            place[i] = count[o] % width
            _enter(
                values[begin + i], ring[o], own[o], place[i], refs, unit, x, u, left[i], query[i]
            )
            count[o] += 1
            ready[i] = count[o] >= width
        increments(left[:n], refs.right, 1, grown[:n])
        for i in range(n):
            o = owner[begin + i]
            if not present[begin + i]:
                steps[o] = 0
                products[o] = 0
                continue
            _move_on(products[o], grown[i], steps[o, place[i]], 1.0 / unit)
            if ready[i]:
                _distances(products[o], unit, refs.squared, G, of_tile)
                find(G, of_tile, query[i], refs, least, found, begin + i)


@jit()
def _enter(step, ring, own, place, refs, unit, x, u, left, query):  # type: ignore[no-untyped-def]
    """The query side of one step, and the error of the windows that it ends."""
    bound, part = refs.bound, refs.parts[0]
    width, d = ring.shape
    ring[place] = step
    energy = 0.0
    per_unit = 1.0 / refs.scale  # a power of two: no digit changes
    for f in range(d):
        x[f] = (step[f] - refs.centre[f]) * per_unit
        energy += x[f] * x[f]
    size = np.sqrt(energy)
    if size < FAR and size * part < 0.99 * LARGEST * unit:  # False for NaN
        dot_products(x, 0, d, refs.causal, 0, u)
        product = 0.0
        for f in range(d):
            product += x[f] * u[f]
            left[f] = x[f]
        own[0, place], own[1, place] = product, energy
    else:
        left[:] = 0.0
        own[0, place], own[1, place] = 0.0, np.inf
    query[:] = 0.0
    energy = 0.0
    for age in range(width):  # the oldest first
        at = place + 1 + age
        at = at if at < width else at - width
        query[0] += own[0, at]
        energy += own[1, at]
        query[1] += bound.gamma * np.sqrt(own[1, at]) * part + bound.tiny + unit
    size = np.sqrt(energy)
    query[1] += bound.kappa * size * (size + bound.largest)
    query[2] = size


@jit()
def _move_on(products, grown, step, per_unit):  # type: ignore[no-untyped-def]
    """The sums (N + 1,) move on by one place, with what enters and what leaves.

    ``step`` (w + N,) has P of the step that leaves, and takes that of the one that enters.
    """
    n = len(grown)
    width = len(step) - n
    scale = np.float32(per_unit)
    for j in range(n - 1, -1, -1):
        products[j + 1] = products[j] - step[j]
    entering = step[width:]
    for j in range(n):
        entering[j] = np.int32(grown[j] * scale)
        products[j + 1] += entering[j]


@jit(fastmath={"nnan", "nsz"})
def _distances(products, unit, squared, G, of_tile):  # type: ignore[no-untyped-def]
    """The sums as numbers, and the least ``squared - 2 G`` of each tile."""
    for j in range(len(products)):
        G[j] = unit * products[j]
    for tile in range(len(of_tile)):
        y, sums = squared[tile * TILE :], G[tile * TILE + 1 :]
        low = np.inf
        for j in range(TILE):
            low = min(low, y[j] - 2.0 * sums[j])
        of_tile[tile] = low
