"""The large-margin loss (Eq. 2) of an embedding, and its gradient.

    E = (1-c) Σ_{i, j∈targets(i)} D(i,j) + c Σ_{i, j∈targets(i), l: y_l≠y_i} [1 + D(i,j) - D(i,l)]₊

with ``D(i,j) = ‖z_i - z_j‖²`` (Eq. 1 for ``z = L x`` and ``M = LᵀL``), divided by the number of
windows so that it means the same for any number of them. (The paper prints a plus before D(i,l);
the large margin needs the minus.) The first term pulls targets, the second pushes impostors. The
gradient in the embedding is ``2 Λ Z`` with Λ the Laplacian of the signed pair weights. It is summed
pair by pair, and only pairs that violate a margin are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints
from ..base.compiled import jit
from .impostors import ImpostorSearch

COLUMNS = 65536  # per rectangle of pairs: the products of a block of rows with it stay small


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
    part : LossPart, optional
        Which part of the loss to sum; default all of it.

    Attributes
    ----------
    n_active : int
        How many margins the last embedding violated.
    impostors : ImpostorSearch
        It remembers which pairs can matter. That makes later calls faster and never changes a
        result: all pairs that violate a margin are visited, always in the same order.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        targets: Ints,
        push_weight: float = 0.5,
        part: LossPart | None = None,
    ) -> None:
        part = LossPart.whole(len(codes)) if part is None else part
        # Sorted by state, the windows of other states are contiguous.
        self._order = np.lexsort((codes, part.cell))
        self._targets = np.ascontiguousarray(targets)
        self.push_weight = push_weight
        self.n_windows = part.n_windows
        pull = np.where(part.pulled, (1 - push_weight) / part.n_windows, 0.0)
        self._pull_weights = np.repeat(pull[:, None], self._targets.shape[1], axis=1)
        cells, states = part.cell[self._order], np.asarray(codes)[self._order]
        self.impostors = ImpostorSearch(pairs_of_different_states(cells, states, part.tiles))
        self.n_active = 0

    def __call__(self, Z: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, of shape (n, r), at the embedding Z (n, r)."""
        hinge, rows, force = self.push(Z)
        gradient = np.zeros_like(Z)
        gradient[rows] = force
        distance = self._pull(Z, self._pull_weights, gradient)
        return hinge + distance, 2 * gradient

    def push(self, Z: Floats) -> tuple[float, Ints, Floats]:
        """The second term of the loss, and half of its gradient where it is not zero.

        Returns the value, the rows with a gradient, and half of the gradient at these rows.
        """
        Z = np.ascontiguousarray(Z)
        margin = 1.0 + target_distances(Z, self._targets)
        sorted_Z, sorted_margin = Z[self._order], margin[self._order]
        # -inf where a window has no target, and so no margin.
        farthest = sorted_margin.max(axis=1)
        violations = np.zeros(margin.shape, np.int64)
        sorted_force = np.zeros_like(Z)
        hinge, self.n_active = 0.0, 0
        for block in self.impostors.candidates(sorted_Z, np.sqrt(np.maximum(farthest, 0.0))):
            hinges_of_block, active = _push(
                sorted_Z,
                block.first,
                block.ptr,
                block.cols,
                sorted_margin,
                farthest,
                violations,
                sorted_force,
            )
            hinge += hinges_of_block
            self.n_active += active
        weight = self.push_weight / self.n_windows
        force = np.empty_like(sorted_force)
        force[self._order] = weight * sorted_force
        weights = np.empty(margin.shape)
        weights[self._order] = weight * violations
        self._pull(Z, weights, force)
        rows = np.flatnonzero(force.any(axis=1))
        return weight * hinge, rows, force[rows]

    def pull_force(self, X: Floats) -> Floats:
        """``Λ X`` for the Laplacian Λ of the target pairs; the pull of ``Z`` is ``<Z, Λ Z>``."""
        force = np.zeros_like(X)
        self._pull(np.ascontiguousarray(X), self._pull_weights, force)
        return force

    def pull_matrix(self, X: Floats) -> Floats:
        """``C`` (D, D) such that the first term of the loss is ``tr(L C Lᵀ)`` for ``Z = X Lᵀ``."""
        return X.T @ self.pull_force(X)

    def _pull(self, Z: Floats, weights: Floats, force: Floats) -> float:
        """Add ``Σ_j weights (z_i - z_j)`` of the targets to ``force``; return ``Σ weights D``."""
        total: float = pull(Z, self._targets, weights, force)
        return total


class LinearLoss:
    """``E(LᵀL)`` and its gradient in L, for windows ``flat`` of shape (n, w*d).

    The pull towards targets is a fixed quadratic form ``tr(L C Lᵀ)``; only the push depends on
    which margins are violated, and its gradient only on the windows that violate them.
    """

    def __init__(self, flat: Floats, margin: LargeMarginLoss) -> None:
        self.flat, self.margin = flat, margin
        self.pull = margin.pull_matrix(flat)

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        pushed, rows, force = self.margin.push(self.flat @ L.T)
        pulled = L @ self.pull
        value = pushed + float(np.vdot(pulled, L))
        return value, 2 * (pulled + force.T @ self.flat[rows])


@dataclass(frozen=True, eq=False)
class LossPart:
    """A part of the loss, for windows that are divided among machines.

    The loss is a sum over pairs of windows. The windows are divided into cells, and so the pairs
    into tiles: one cell against another. A part is some of the tiles, with all windows they need.

    Attributes
    ----------
    n_windows : int
        Windows of the whole problem; the loss is divided by it.
    cell : array of shape (n,)
        The cell of each window of this part; -1 for a window that is only a target.
    tiles : tuple of (int, int)
        The pairs of cells whose windows are compared here. Each pair is in one part only.
    pulled : array of shape (n,)
        The windows whose pull towards their targets is summed here.
    """

    n_windows: int
    cell: Ints
    tiles: tuple[tuple[int, int], ...]
    pulled: Bools

    @classmethod
    def whole(cls, n: int) -> LossPart:
        """The whole loss of n windows."""
        return cls(n, np.zeros(n, np.int64), ((0, 0),), np.ones(n, bool))

    def take(self, rows: Ints) -> LossPart:
        """The same part for windows in another order."""
        return LossPart(self.n_windows, self.cell[rows], self.tiles, self.pulled[rows])


def pairs_of_different_states(cells: Ints, states: Ints, tiles: Sequence[tuple[int, int]]) -> Ints:
    """The pairs of windows of different states in the tiles, as (m, 4) rectangles.

    ``cells`` and ``states`` (n,) are those of windows sorted by cell, and by state within a cell. A
    rectangle is rows ``[first, second)`` against columns ``[third, fourth)``; the rectangles hold
    every pair once.
    """
    found: list[tuple[int, int, int, int]] = []
    for a, b in tiles:
        end = int(np.searchsorted(cells, b, side="right"))
        for low, high, state in _segments(cells, states, a):
            if a == b:
                found += _columns(low, high, high, end)
                continue
            begin = int(np.searchsorted(cells, b))
            left, right = (
                begin + int(np.searchsorted(states[begin:end], state, side=side))
                for side in ("left", "right")
            )
            found += _columns(low, high, begin, left) + _columns(low, high, right, end)
    return np.array(found, np.int64).reshape(-1, 4)


def _segments(cells: Ints, states: Ints, cell: int) -> list[tuple[int, int, int]]:
    """Where the windows of each state of a cell begin and end."""
    begin, end = (int(np.searchsorted(cells, cell, side=side)) for side in ("left", "right"))
    edges = [begin, *(begin + 1 + np.flatnonzero(np.diff(states[begin:end]))).tolist(), end]
    return [(a, b, int(states[a])) for a, b in pairwise(edges) if a < b]


def _columns(low: int, high: int, left: int, right: int) -> list[tuple[int, int, int, int]]:
    return [(low, high, at, min(at + COLUMNS, right)) for at in range(left, right, COLUMNS)]


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


@jit()
def hinges(distance, i, l, margin, violations):  # type: ignore[no-untyped-def]  # noqa: E741
    """The violated margins of both sides of a pair: their sum and number, each also counted."""
    total, count = 0.0, 0
    for j in range(margin.shape[1]):
        if distance < margin[i, j]:
            total += margin[i, j] - distance
            violations[i, j] += 1
            count += 1
        if distance < margin[l, j]:
            total += margin[l, j] - distance
            violations[l, j] += 1
            count += 1
    return total, count


@jit(fastmath=_SUM)
def _push(Z, first, ptr, cols, margin, farthest, violations, force):  # type: ignore[no-untyped-def]
    """Add up the hinges of a block of pairs; each pair serves the margins of both its sides."""
    hinge, n_active = 0.0, 0
    for r in range(len(ptr) - 1):
        i = first + r
        for p in range(ptr[r], ptr[r + 1]):
            l = cols[p]  # noqa: E741
            distance = 0.0
            for f in range(Z.shape[1]):
                difference = Z[i, f] - Z[l, f]
                distance += difference * difference
            if distance >= farthest[i] and distance >= farthest[l]:
                continue
            part, weight = hinges(distance, i, l, margin, violations)
            hinge += part
            n_active += weight
            for f in range(Z.shape[1]):
                difference = weight * (Z[i, f] - Z[l, f])
                force[i, f] -= difference
                force[l, f] += difference
    return hinge, n_active


@jit(fastmath=_SUM)
def pull(Z, targets, weights, force):  # type: ignore[no-untyped-def]
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
