"""The large-margin loss (Eq. 2) of an embedding, and its gradient.

    E = (1-c) Σ_{i, j∈targets(i)} D(i,j) + c Σ_{i, j∈targets(i), l: y_l≠y_i} [1 + D(i,j) - D(i,l)]₊

with ``D(i,j) = ‖z_i - z_j‖²``, divided by the number of windows so that it means the same for any
number of them. (The paper prints a plus before D(i,l); the large margin needs the minus.) The
gradient in the embedding is ``2 Λ Z`` with Λ the Laplacian of the signed pair weights; it is
summed pair by pair, and only pairs that violate a margin are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..checks import Floats, Ints
from .impostors import ImpostorSearch

# -------------------------------------------------------------------- shares
# Which part of the loss is summed where, when the windows are divided among machines.
#
# The loss is a sum over pairs of windows. Divide the windows into cells, and the pairs fall into
# tiles of one cell against another; a share is some of the tiles, with all the windows they need.

# Windows on one side of a rectangle: the products of a block of rows with it stay small.
COLUMNS = 65536


@dataclass(frozen=True, eq=False)
class Share:
    """A part of the loss.

    Attributes
    ----------
    n_windows : int
        How many windows the whole problem has; the loss is divided by it.
    cell : array of shape (n,)
        The cell of each window that is here; -1 for one that is here as a target only.
    tiles : tuple of (int, int)
        The pairs of cells, each in one share only, whose windows are compared here.
    pulled : array of shape (n,)
        The windows whose pull towards their targets is summed here.
    """

    n_windows: int
    cell: Ints
    tiles: tuple[tuple[int, int], ...]
    pulled: NDArray[np.bool_]

    @classmethod
    def whole(cls, n: int) -> Share:
        """All of the loss of n windows."""
        return cls(n, np.zeros(n, np.int64), ((0, 0),), np.ones(n, bool))

    def take(self, rows: Ints) -> Share:
        """The same share of windows in another order."""
        return Share(self.n_windows, self.cell[rows], self.tiles, self.pulled[rows])


def rectangles_of(cells: Ints, states: Ints, tiles: Sequence[tuple[int, int]]) -> Ints:
    """The pairs of windows of different states in the tiles, as (m, 4) rectangles.

    ``cells`` and ``states`` (n,) are of windows sorted by cell, and by state within a cell. A
    rectangle is rows ``[first, second)`` against columns ``[third, fourth)``; together they hold
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
    share : Share, optional
        Which part of the loss to sum; default all of it.

    Notes
    -----
    The object remembers which pairs can matter (:mod:`mlat.metric.impostors`). That makes later
    calls faster and never changes a result: the pairs that violate a margin are always all visited,
    in the same order.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        targets: NDArray[np.int64],
        push_weight: float = 0.5,
        share: Share | None = None,
    ) -> None:
        share = Share.whole(len(codes)) if share is None else share
        # Sorted by state, the windows of other states are contiguous.
        self._order = np.lexsort((codes, share.cell))
        self._targets = np.ascontiguousarray(targets)
        self.push_weight = push_weight
        self.n_windows = share.n_windows
        pull = np.where(share.pulled, (1 - push_weight) / share.n_windows, 0.0)
        self._pull_weights = np.repeat(pull[:, None], self._targets.shape[1], axis=1)
        cells, states = share.cell[self._order], np.asarray(codes)[self._order]
        self._search = ImpostorSearch(rectangles_of(cells, states, share.tiles))
        self.n_active = 0

    def __call__(self, Z: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, of shape (n, r), at the embedding Z (n, r)."""
        hinge, rows, force = self.push(Z)
        gradient = np.zeros_like(Z)
        gradient[rows] = force
        distance = self._pull(Z, self._pull_weights, gradient)
        return hinge + distance, 2 * gradient

    def push(self, Z: Floats) -> tuple[float, NDArray[np.int64], Floats]:
        """The second term of the loss, and half its gradient at the windows that feel it.

        Returns the value, the rows with a gradient, and the gradient's half at these rows.
        """
        Z = np.ascontiguousarray(Z)
        margin = 1.0 + _target_distances(Z, self._targets)
        sorted_Z, sorted_margin = Z[self._order], margin[self._order]
        # -inf where a window has no target, and so no margin.
        farthest = sorted_margin.max(axis=1)
        violations = np.zeros(margin.shape, np.int64)
        sorted_force = np.zeros_like(Z)
        hinge, self.n_active = 0.0, 0
        for block in self._search.candidates(sorted_Z, np.sqrt(np.maximum(farthest, 0.0))):
            part, active = _push(
                sorted_Z,
                block.first,
                block.ptr,
                block.cols,
                sorted_margin,
                farthest,
                violations,
                sorted_force,
            )
            hinge += part
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
        total: float = _pull(Z, self._targets, weights, force)
        return total


# Sums may be reordered into vector lanes; no NaN or infinity is lost by it, since the inputs are
# checked to be finite. "-inf" marks an absent margin and is only ever compared.
_SUM = {"reassoc", "contract"}


@njit(cache=True, nogil=True, fastmath=_SUM)
def _target_distances(Z, targets):  # type: ignore[no-untyped-def]
    n, k = targets.shape
    distances = np.full((n, k), -np.inf)
    for i in range(n):
        for j in range(k):
            t = targets[i, j]
            if t >= 0:
                total = 0.0
                for f in range(Z.shape[1]):
                    difference = Z[i, f] - Z[t, f]
                    total += difference * difference
                distances[i, j] = total
    return distances


@njit(cache=True, nogil=True, fastmath=False)
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


@njit(cache=True, nogil=True, fastmath=_SUM)
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


@njit(cache=True, nogil=True, fastmath=_SUM)
def _pull(Z, targets, weights, force):  # type: ignore[no-untyped-def]
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
