"""The large-margin loss (Eq. 2) of an embedding, and its gradient.

    E = (1-c) Σ_{i, j∈targets(i)} D(i,j) + c Σ_{i, j∈targets(i), l: y_l≠y_i} [1 + D(i,j) - D(i,l)]₊

with ``D(i,j) = ‖z_i - z_j‖²`` (Eq. 1 for ``z = L x`` and ``M = LᵀL``), divided by the number of
windows so that it means the same for any number of them. (The paper prints a plus before D(i,l);
the large margin needs the minus.) The first term pulls targets, the second pushes impostors. The
gradient in the embedding is ``2 Λ Z`` with Λ the Laplacian of the signed pair weights.

The pairs of windows of different states are summed in tiles: a matrix product gives the distances
of a tile, a loop finds the pairs that violate margins, and a second product sums their forces. All
that differs between the ways to sum the loss is where the products come from: from an embedding
(:class:`LargeMarginLoss`), or from running sums along the runs of the stream.

**Along runs** (:class:`ToeplitzLoss`). Windows i+1 and j+1 of two runs share all but one step with
windows i and j. Under a block-Toeplitz metric (Definition 5) with blocks A(m) their inner product
``G[i,j] = X_iᵀ M X_j`` therefore follows from the previous one on the diagonal, by the step that
enters and the step that leaves:

    G[i,j] = G[i-1,j-1] + x_a·ũ_b + ũ_a·x_b - x_p·ṽ_q - ṽ_p·x_q,

    ũ_a = ½A(0) x_a + Σ_{m≥1} A(m) x_{a-m},     ṽ_p = ½A(0) x_p + Σ_{m≥1} A(m)ᵀ x_{p+m},

with a, b the steps that enter and p, q those that leave. So all pairs of windows cost one matrix
product with 4d columns and a running sum along diagonals, whatever the width. The gradient is the
adjoint of these operations and costs the same: a running sum back along the diagonals, and a
product with 4d columns. No window is copied out of its run, and no w*d by w*d matrix is formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..base.work import n_threads, run_each
from .toeplitz import anticausal, causal, correlations

PIECE = 512  # windows per piece of a run: two tiles of this side fit into a core's cache
TILE = 1024  # windows a side: a tile of products stays in a core's cache
MANY_TILES = 8  # from which threads share them
DENSE = 0.15  # of the pairs of a tile, from which a matrix product sums their forces sooner


class LargeMarginLoss:
    """The loss of any embedding of the same labelled windows.

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window, as an index from 0.
    targets : array of shape (n, k)
        From :func:`mlat.metric.targets.select_targets`; -1 stands for no target.
    push_weight : float
        The paper's c.
    weight : array of shape (n,), optional
        How many windows each stands for, where these are a sample; 0 for one that is a target only.
        Default 1.
    n_windows : int, optional
        Windows of the whole problem, by which the loss is divided; default n.

    Attributes
    ----------
    order : array of shape (n,)
        The windows in the order that :meth:`push` takes them in: the windows of a state are side by
        side, so that all pairs of two states are tiles.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        targets: Ints,
        push_weight: float = 0.5,
        weight: Floats | None = None,
        n_windows: int | None = None,
    ) -> None:
        weight = np.ones(len(codes)) if weight is None else weight
        n_windows = len(codes) if n_windows is None else n_windows
        self.order = np.lexsort((codes, weight > 0))
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        targets = targets[self.order]
        self._targets = np.where(targets >= 0, place[targets], -1)
        self._weight = weight[self.order]
        self._push_weight = push_weight / n_windows
        self._pull_weights = np.full(targets.shape, (1 - push_weight) / n_windows)
        only_targets = int(np.count_nonzero(weight == 0))
        pairs = pairs_of_different_states(np.asarray(codes)[self.order], only_targets)
        self.tiles = [
            (a, min(a + TILE, high), b, min(b + TILE, right))
            for low, high, left, right in pairs
            for a in range(low, high, TILE)
            for b in range(left, right, TILE)
        ]

    def __call__(self, Z: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, of shape (n, r), at the embedding Z (n, r)."""
        Z = Z[self.order]
        pushed = self.push(Z)
        pulled = pull(Z, self._targets, self._pull_weights, pushed.force)
        gradient = np.empty_like(pushed.force)
        gradient[self.order] = 2 * pushed.force
        return pushed.value + pulled, gradient

    def pull_force(self, X: Floats) -> Floats:
        """``Λ X`` for the Laplacian Λ of the target pairs; the pull of ``Z`` is ``<Z, Λ Z>``.

        X and the result are in ``order``.
        """
        force = np.zeros_like(X)
        pull(X, self._targets, self._pull_weights, force)
        return force

    def push(self, Z: NDArray[Any], *, forces: bool = True) -> Pushed:
        """The second term of the loss at an embedding (n, r) in ``order``, and its forces."""
        margins = Margins(target_distances(Z, self._targets))
        weight = self._weight.astype(Z.dtype)
        squared = np.einsum("ij,ij->i", Z, Z)
        n = n_threads() if len(self.tiles) >= MANY_TILES else 1
        parts = [Pushed.none(Z, margins, forces) for _ in range(n)]

        def add(number: int) -> None:
            part = parts[number]
            for low, high, left, right in self.tiles[number::n]:
                tile = Z[low:high] @ Z[left:right].T
                value, active = push_tile(
                    tile, low, left, squared, weight, *margins.sorted, part.met, part.pairs
                )
                part.value += value
                if not active or not forces:
                    continue
                if active < DENSE * tile.size:
                    _force_of_few(tile, Z, low, left, part.force)
                    continue
                # Σ_l weight (z_l - z_i), and the same from the other side.
                part.force[low:high] += tile @ Z[left:right]
                part.force[left:right] += tile.T @ Z[low:high]
                part.force[low:high] -= tile.sum(axis=1)[:, None] * Z[low:high]
                part.force[left:right] -= tile.sum(axis=0)[:, None] * Z[left:right]

        run_each(add, range(n), n)
        total = parts[0]
        for part in parts[1:]:
            total.add(part)
        total.value *= self._push_weight
        if forces:
            total.force *= np.asarray(self._push_weight, Z.dtype)
            violations = margins.violations(total.met) * weight[:, None]
            pull(Z, self._targets, self._push_weight * violations, total.force)
        return total


@dataclass(eq=False)
class Pushed:
    """What pairs of windows that violate margins add up to.

    Attributes
    ----------
    value : float
        The second term of the loss.
    met : array of shape (n, k + 1)
        As in :class:`Margins`.
    pairs : array of shape (n,)
        How many margins each window violates or sees violated, weighted by the weights of both.
    force : array of shape (n, r)
        Half of the gradient; of no rows where no forces were wanted.
    """

    value: float
    met: Floats
    pairs: Floats
    force: NDArray[Any]

    @classmethod
    def none(cls, Z: NDArray[Any], margins: Margins, forces: bool) -> Pushed:
        return cls(0.0, margins.none_met(), np.zeros(len(Z)), np.zeros_like(Z[: len(Z) * forces]))

    def add(self, other: Pushed) -> None:
        self.value += other.value
        self.met += other.met
        self.pairs += other.pairs
        self.force += other.force


class Margins:
    """The margins ``1 + D(i, j)`` of the targets j of windows i, the largest first.

    Sorted, the number of margins that a pair violates says which they are. So a pair adds to one
    number of each of its sides: the windows (or their weights) that violate so many margins.

    Parameters
    ----------
    distances : array of shape (n, k)
        To each target; -inf where there is none.
    """

    def __init__(self, distances: NDArray[Any]) -> None:
        n, k = distances.shape
        margin = 1 + distances
        self._order = np.argsort(-margin, axis=1)
        margin = np.take_along_axis(margin, self._order, axis=1)
        sums = np.zeros((n, k + 1))
        np.cumsum(np.where(margin > 0, margin, 0.0), axis=1, out=sums[:, 1:])
        # What push_tile takes: the margins, the sum of the first 0 to k of them, the largest.
        self.sorted = margin, sums, np.ascontiguousarray(margin[:, 0])

    def none_met(self) -> Floats:
        """Room for the windows that violate 0 to k margins of each window, (n, k + 1)."""
        return np.zeros(self.sorted[1].shape)

    def violations(self, met: Floats) -> Floats:
        """How many windows violate each margin, (n, k), from how many violate so many of them."""
        at_least = np.cumsum(met[:, :0:-1], axis=1)[:, ::-1]
        found = np.empty_like(at_least)
        np.put_along_axis(found, self._order, at_least, axis=1)
        return found


class LinearLoss:
    """``E(LᵀL)`` and its gradient as a function of L (r, w*d).

    The pull towards targets is a fixed quadratic form ``tr(L C Lᵀ)``; only the push depends on
    which margins are violated, and its gradient only on the windows that violate them.

    Parameters
    ----------
    X : array of shape (n, w*d)
        The windows, in ``margin.order``; the products over pairs have their precision.
    margin : LargeMarginLoss
    pull : array of shape (w*d, w*d)
        C.
    """

    def __init__(self, X: NDArray[Any], margin: LargeMarginLoss, pull: Floats) -> None:
        self.X, self.margin, self.pull = X, margin, pull

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        """The value and the gradient (r, w*d)."""
        pushed = self.margin.push(self.X @ L.T.astype(self.X.dtype))
        rows = np.flatnonzero(pushed.force.any(axis=1))
        in_L = pushed.force[rows].T @ self.X[rows]
        pulled = L @ self.pull
        return pushed.value + float(np.vdot(pulled, L)), 2 * (pulled + in_L)

    def value(self, L: Floats) -> tuple[float, Floats]:
        """The value alone, and ``Pushed.pairs`` in the order of the windows."""
        pushed = self.margin.push(self.X @ L.T.astype(self.X.dtype), forces=False)
        pairs = np.empty_like(pushed.pairs)
        pairs[self.margin.order] = pushed.pairs
        return pushed.value + float(np.vdot(L @ self.pull, L)), pairs


def pairs_of_different_states(states: Ints, begin: int = 0) -> list[tuple[int, int, int, int]]:
    """The pairs of windows of different states, as rectangles that hold every pair once.

    ``states`` (n,) are those of windows that are sorted by state from ``begin`` on. A rectangle is
    rows ``[first, second)`` against columns ``[third, fourth)``.
    """
    n = len(states)
    edges = [begin, *(begin + 1 + np.flatnonzero(np.diff(states[begin:]))).tolist(), n]
    return [(low, high, high, n) for low, high in pairwise(edges) if high < n]


# Sums may be reordered into vector lanes. The inputs are checked to be finite, so this loses no NaN
# or infinity; "-inf" marks an absent margin and is only compared.
_SUM = {"reassoc", "contract"}


@jit(fastmath=_SUM)
def target_distances(Z, targets):  # type: ignore[no-untyped-def]
    n, k = targets.shape
    distances = np.full((n, k), -np.inf, Z.dtype)
    for i in range(n):
        for j in range(k):
            t = targets[i, j]
            if t >= 0:
                total = Z.dtype.type(0)
                for f in range(Z.shape[1]):
                    difference = Z[i, f] - Z[t, f]
                    total += difference * difference
                distances[i, j] = total
    return distances


@jit(fastmath=_SUM)
def push_tile(tile, low, left, squared, weight, margin, sums, farthest, met, pairs):  # type: ignore[no-untyped-def]
    """The hinges of a tile of inner products, in whose place comes the weight of each pair.

    The rows of the tile are windows from ``low`` on, its columns from ``left`` on. ``margin``,
    ``sums`` and ``farthest`` are ``Margins.sorted``; ``met`` and ``pairs`` are added to, as in
    :class:`Pushed`. Returns the sum of the hinges, and of how many pairs.
    """
    hinge, active = 0.0, 0
    n_rows, n_cols = tile.shape
    k, zero = margin.shape[1], tile.dtype.type(0)
    squared_of, farthest_of = squared[left : left + n_cols], farthest[left : left + n_cols]
    distance = np.empty(n_cols, tile.dtype)
    for r in range(n_rows):
        i, row = low + r, tile[r]
        squared_i, farthest_i, weight_i = squared[i], farthest[i], weight[i]
        hits = 0
        for c in range(n_cols):  # without a branch: it becomes vector code
            D = squared_i + squared_of[c] - 2 * row[c]
            hits += max(farthest_i, farthest_of[c]) > D
            distance[c], row[c] = D, zero
        if not hits:
            continue
        active += hits
        of_row = 0.0
        for c in range(n_cols):
            D = distance[c]
            if max(farthest_i, farthest_of[c]) <= D:
                continue
            l = left + c  # noqa: E741
            of_i, of_l = 0, 0  # margins of either side that are violated
            while of_i < k and margin[i, of_i] > D:
                of_i += 1
            while of_l < k and margin[l, of_l] > D:
                of_l += 1
            both = weight_i * weight[l]
            hinge += both * (sums[i, of_i] + sums[l, of_l] - (of_i + of_l) * D)
            met[i, of_i] += weight[l]
            met[l, of_l] += weight_i
            row[c] = (of_i + of_l) * both
            of_row += row[c]
            pairs[l] += row[c]
        pairs[i] += of_row
    return hinge, active


@jit(fastmath=_SUM)
def _force_of_few(tile, Z, low, left, force):  # type: ignore[no-untyped-def]
    n_rows, n_cols = tile.shape
    for r in range(n_rows):
        i = low + r
        for c in range(n_cols):
            weight = tile[r, c]
            if weight == 0:
                continue
            l = left + c  # noqa: E741
            for f in range(Z.shape[1]):
                difference = weight * (Z[i, f] - Z[l, f])
                force[i, f] -= difference
                force[l, f] += difference


@jit(fastmath=_SUM)
def pull(Z, targets, weights, force):  # type: ignore[no-untyped-def]
    """Add ``Σ_j weights (z_i - z_j)`` of the targets to ``force``; return ``Σ weights D``."""
    n, k = targets.shape
    total = 0.0
    for i in range(n):
        for j in range(k):
            t = targets[i, j]
            weight = weights[i, j]
            if t >= 0 and weight != 0:
                distance = 0.0
                for f in range(Z.shape[1]):
                    difference = Z[i, f] - Z[t, f]
                    distance += difference * difference
                    force[i, f] += weight * difference
                    force[t, f] -= weight * difference
                total += weight * distance
    return total


# The loss of a block-Toeplitz metric, from its blocks, along the runs.


class ToeplitzLoss:
    """The loss (Eq. 2) as a function of the blocks of a Toeplitz metric.

    Parameters
    ----------
    runs : list of arrays of shape (T, d)
        The steps of each run. Its windows, run by run and step by step, are the rows of
        ``targets``.
    codes : sequence of int
        The state of each run.
    targets : array of shape (n, k)
        Row numbers of the target windows; -1 stands for no target.
    width : int
    push_weight : float
        The paper's c.
    """

    def __init__(
        self,
        runs: list[Floats],
        codes: NDArray[Any],
        targets: Ints,
        width: int,
        push_weight: float = 0.5,
    ) -> None:
        self.push_weight, self.targets = push_weight, targets
        self.pieces = RunPieces.of(runs, codes, width)
        numbered = enumerate(self.pieces.state.tolist())
        self._tiles = [(P, Q) for (P, one), (Q, other) in combinations(numbered, 2) if one != other]
        self._pairs = self._group_targets()

    def __call__(self, blocks: Floats) -> tuple[float, Floats]:
        """The loss and its gradient in the blocks, both for ``blocks`` of shape (w, d, d)."""
        n, c = self.pieces.n_windows, self.push_weight
        one_each = np.ones(n)
        forward = Products(self.pieces, blocks)
        backward = Adjoint(self.pieces, forward)
        squared = forward.self_products()
        distance = np.full(self.targets.size, -np.inf)
        for P, Q, i, j, flat in self._pairs:
            gram = forward.tile(P, Q)
            _accumulate(gram)
            inside = gram[i, j]
            distance[flat] = (
                squared[self.pieces.window0[P] + i]
                + squared[self.pieces.window0[Q] + j]
                - 2 * inside
            )
        margins = Margins(distance.reshape(self.targets.shape))
        met, pairs, hinge = margins.none_met(), np.zeros(n), 0.0
        for P, Q in self._tiles:
            tile, low, left = forward.tile(P, Q), self.pieces.window0[P], self.pieces.window0[Q]
            _accumulate(tile)
            value, active = push_tile(
                tile, low, left, squared, one_each, *margins.sorted, met, pairs
            )
            if active:
                hinge += value
                tile *= 2 * c / n
                backward.add(P, Q, tile)
        along = -c / n * pairs
        weights = (1 - c + c * margins.violations(met).ravel()) / n
        size = np.diff(self.pieces.window0)
        for P, Q, i, j, flat in self._pairs:
            tile = np.zeros((size[P], size[Q]))
            np.add.at(tile, (i, j), -2 * weights[flat])
            np.add.at(along, self.pieces.window0[P] + i, weights[flat])
            np.add.at(along, self.pieces.window0[Q] + j, weights[flat])
            backward.add(P, Q, tile)
        value = (1 - c) / n * distance[distance > -np.inf].sum() + c / n * hinge
        return float(value), backward.gradient(along)

    def _group_targets(self) -> list[tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Target pairs by the pieces they join: (P, Q, row in P, row in Q, flat target index)."""
        flat = np.flatnonzero(self.targets.ravel() >= 0)
        i, j = flat // self.targets.shape[1], self.targets.ravel()[flat]
        i, j = np.minimum(i, j), np.maximum(i, j)  # pieces are in the order of their windows
        window0 = self.pieces.window0
        P, Q = (np.searchsorted(window0, one, side="right") - 1 for one in (i, j))
        key = P * len(window0) + Q
        order = np.argsort(key, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []
        return [
            (int(P[g[0]]), int(Q[g[0]]), i[g] - window0[P[g[0]]], j[g] - window0[Q[g[0]]], flat[g])
            for g in groups
        ]


@dataclass(frozen=True, eq=False)
class RunPieces:
    """Runs in pieces of at most ``PIECE`` windows; pieces of one run share ``width - 1`` steps.

    ``steps`` (T, d) are the pieces one after the other, ``starts`` (n,) the step at which each
    window starts; the steps of piece P begin at ``step0[P]``, its windows at ``window0[P]``.
    """

    width: int
    state: Ints
    steps: Floats
    starts: Ints
    step0: Ints
    window0: Ints

    @classmethod
    def of(cls, runs: list[Floats], codes: NDArray[Any], width: int) -> RunPieces:
        """Cut runs of steps (T, d), with a state each, into pieces."""
        pieces, states = [], []
        for steps, code in zip(runs, codes, strict=True):
            n = len(steps) - width + 1
            edges = np.linspace(0, n, -(-n // PIECE) + 1).astype(int)
            for a, b in pairwise(edges):
                pieces.append(steps[a : b + width - 1])
                states.append(code)
        n_steps = np.array([len(p) for p in pieces])
        step0 = np.concatenate([[0], np.cumsum(n_steps)])
        starts = np.concatenate([np.arange(a, b - width + 1) for a, b in pairwise(step0)])
        window0 = np.concatenate([[0], np.cumsum(n_steps - width + 1)])
        return cls(width, np.array(states), np.concatenate(pieces), starts, step0, window0)

    @property
    def n_windows(self) -> int:
        return int(self.window0[-1])

    def windows(self, P: int) -> slice:
        return slice(int(self.window0[P]), int(self.window0[P + 1]))


class Products:
    """Inner products of windows under a metric, in tiles of one piece against another."""

    def __init__(self, pieces: RunPieces, blocks: Floats) -> None:
        self.pieces, self.blocks = pieces, blocks
        w, x = pieces.width, pieces.steps
        half = blocks.copy()
        half[0] /= 2
        # ũ and ṽ for all pieces at once; the few steps of a piece whose sums reach into the piece
        # beside it never enter or leave a window.
        u, v = causal(x, half), anticausal(x, half)
        self.enter, self.leave = pieces.starts + w - 1, pieces.starts - 1
        first = pieces.window0[:-1]
        self.enter_x, self.enter_u = x[self.enter], u[self.enter]
        self.leave_x, self.leave_v = x[self.leave], v[self.leave]
        for array in (self.enter_x, self.enter_u, self.leave_x, self.leave_v):
            array[first] = 0.0  # a piece's first window has none before it
        self.left = np.concatenate(
            [self.enter_x, self.enter_u, -self.leave_x, -self.leave_v], axis=1
        )
        self.right = np.concatenate(
            [self.enter_u, self.enter_x, self.leave_v, self.leave_x], axis=1
        )
        # The first window of each piece against all windows, which the running sums begin from.
        self.firsts = x[pieces.step0[:-1, None] + np.arange(w)]
        transformed = causal(self.firsts, half) + anticausal(self.firsts, half)
        against_all = anticausal(x, transformed.transpose(1, 2, 0))
        self.base = against_all[pieces.starts]

    def self_products(self) -> Floats:
        """``X_iᵀ M X_i`` of every window."""
        pieces = self.pieces
        change = 2 * np.einsum("ij,ij->i", self.enter_x, self.enter_u)
        change -= 2 * np.einsum("ij,ij->i", self.leave_x, self.leave_v)
        first = pieces.window0[:-1]
        change[first] = self.base[first, np.arange(len(first))]
        return np.concatenate([np.cumsum(change[a:b]) for a, b in pairwise(pieces.window0)])

    def tile(self, P: int, Q: int) -> Floats:
        """First row and column of ``G`` between two pieces, and its increments elsewhere."""
        rows, cols = self.pieces.windows(P), self.pieces.windows(Q)
        gram = self.left[rows] @ self.right[cols].T
        gram[0] = self.base[cols, P]
        gram[:, 0] = self.base[rows, Q]
        return gram


class Adjoint:
    """The gradient in the blocks, from the gradients in the tiles."""

    def __init__(self, pieces: RunPieces, forward: Products) -> None:
        self.pieces, self.forward = pieces, forward
        d = pieces.steps.shape[1]
        self.left = np.concatenate([forward.enter_x, -forward.leave_x], axis=1)
        self.filtered = np.zeros((pieces.n_windows, 2 * d))  # in ũ of the step entering, ṽ leaving
        self.base = np.zeros((pieces.n_windows, len(pieces.state)))

    def add(self, P: int, Q: int, tile: Floats) -> None:
        """Add ``dE/dG`` of a tile, which is overwritten."""
        _accumulate_back(tile)
        rows, cols = self.pieces.windows(P), self.pieces.windows(Q)
        self.base[cols, P] += tile[0]
        self.base[rows, Q] += tile[:, 0]
        self.base[rows.start, Q] -= tile[0, 0]  # the corner belongs to both: count it once
        self.filtered[rows] += tile @ self.left[cols]
        self.filtered[cols] += tile.T @ self.left[rows]

    def gradient(self, along: Floats) -> Floats:
        """``dE/dA`` (w, d, d), with ``along`` the gradient in the windows' self-products."""
        pieces, forward = self.pieces, self.forward
        w, x = pieces.width, pieces.steps
        d = x.shape[1]
        # Self-products are running sums too: weigh each increment by all that comes after it.
        for a, b in pairwise(pieces.window0):
            after = np.cumsum(along[a:b][::-1])[::-1]
            self.filtered[a:b] += 2 * after[:, None] * self.left[a:b]
            self.base[a, np.searchsorted(pieces.window0, a)] += after[0]
        first = pieces.window0[:-1]
        self.filtered[first] = 0.0
        in_u, in_v = np.zeros_like(x), np.zeros_like(x)
        in_u[forward.enter] = self.filtered[:, :d]
        leaving = np.ones(pieces.n_windows, bool)
        leaving[first] = False
        in_v[forward.leave[leaving]] = self.filtered[leaving, d:]
        gradient = correlations(in_u, x, w) + correlations(x, in_v, w)
        gradient += self._from_firsts()
        gradient[0] /= 2
        return gradient

    def _from_firsts(self) -> Floats:
        """The part of the gradient that comes through the first window of each piece."""
        pieces = self.pieces
        w, x = pieces.width, pieces.steps
        weights = np.zeros((len(x), len(pieces.state)))
        weights[pieces.starts] = self.base
        # Σ_j weight_j X_j for each piece's first window: (w, R, d), then (R, w, d).
        met = correlations(x, weights, w).transpose(2, 0, 1)
        first = self.forward.firsts
        return correlations(met, first, w) + correlations(first, met, w)


@jit()
def _accumulate(tile):  # type: ignore[no-untyped-def]
    """Running sums along the diagonals."""
    n_rows, n_cols = tile.shape
    for i in range(1, n_rows):
        for j in range(1, n_cols):
            tile[i, j] += tile[i - 1, j - 1]


@jit()
def _accumulate_back(tile):  # type: ignore[no-untyped-def]
    """The adjoint: running sums back along the diagonals."""
    n_rows, n_cols = tile.shape
    for i in range(n_rows - 2, -1, -1):
        for j in range(n_cols - 1):
            tile[i, j] += tile[i + 1, j + 1]
