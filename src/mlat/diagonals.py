"""The large-margin loss of a block-Toeplitz metric, straight from the runs of the stream.

Windows i+1 and j+1 of two runs share all but one step with windows i and j. Under a block-Toeplitz
metric with blocks A(m) their inner product ``G[i,j] = X_iᵀ M X_j`` therefore follows from the one
before it on the diagonal by the step that enters and the step that leaves:

    G[i,j] = G[i-1,j-1] + x_a·ũ_b + ũ_a·x_b - x_p·ṽ_q - ṽ_p·x_q,

    ũ_a = ½A(0) x_a + Σ_{m≥1} A(m) x_{a-m},     ṽ_p = ½A(0) x_p + Σ_{m≥1} A(m)ᵀ x_{p+m},

with a, b the steps that enter and p, q those that leave. So all pairs of windows cost one matrix
product with 4d columns and a running sum along diagonals, whatever the width; and the gradient,
being the adjoint of these very operations, costs the same again: a running sum back along the
diagonals, and a product with 4d columns. No window is ever laid out, and no w*d by w*d matrix is
formed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Windows per piece of a run: two tiles of this side fit into a core's cache.
PIECE = 512


class DiagonalMarginLoss:
    """The loss of Eq. 2 as a function of the blocks of a Toeplitz metric.

    Parameters
    ----------
    runs : list of arrays of shape (T, d)
        The steps of each run; run by run and step by step, its windows are the rows of
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
        targets: NDArray[np.int64],
        width: int,
        push_weight: float = 0.5,
    ) -> None:
        self.width, self.push_weight = width, push_weight
        self.targets = targets
        self.n_active = 0
        pieces, states = _cut(runs, codes, width)
        self.state = states
        self.steps = np.concatenate(pieces)
        n_steps = np.array([len(p) for p in pieces])
        # Where the steps and the windows of each piece begin.
        self.step0 = np.concatenate([[0], np.cumsum(n_steps)])
        self.window0 = np.concatenate([[0], np.cumsum(n_steps - width + 1)])
        self.n_windows = int(self.window0[-1])
        # The step at which each window starts.
        self.starts = np.concatenate([np.arange(a, b - width + 1) for a, b in pairwise(self.step0)])
        self._pairs = self._group_targets()

    def _group_targets(self) -> list[tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Target pairs by the pieces they join: (P, Q, row in P, row in Q, flat target index)."""
        flat = np.flatnonzero(self.targets.ravel() >= 0)
        i, j = flat // self.targets.shape[1], self.targets.ravel()[flat]
        piece_i = np.searchsorted(self.window0, i, side="right") - 1
        piece_j = np.searchsorted(self.window0, j, side="right") - 1
        swap = piece_i > piece_j
        i, j = np.where(swap, j, i), np.where(swap, i, j)
        P, Q = np.minimum(piece_i, piece_j), np.maximum(piece_i, piece_j)
        order = np.lexsort((Q, P))
        key = P[order] * len(self.state) + Q[order]
        groups = np.split(order, np.flatnonzero(np.diff(key)) + 1) if len(order) else []
        return [
            (
                int(P[g[0]]),
                int(Q[g[0]]),
                i[g] - self.window0[P[g[0]]],
                j[g] - self.window0[Q[g[0]]],
                flat[g],
            )
            for g in groups
        ]

    def __call__(self, blocks: Floats) -> tuple[float, Floats]:
        """The loss and its gradient in the blocks, both for ``blocks`` of shape (w, d, d)."""
        n, c = self.n_windows, self.push_weight
        forward = _Products(self, blocks)
        backward = _Adjoint(self, forward)
        squared = forward.self_products()
        distance = np.full(self.targets.size, -np.inf)
        for P, Q, i, j, flat in self._pairs:
            gram = forward.tile(P, Q)
            _accumulate_along_diagonals(gram)
            inside = gram[i, j]
            distance[flat] = (
                squared[self.window0[P] + i] + squared[self.window0[Q] + j] - 2 * inside
            )
        margin = 1.0 + distance.reshape(self.targets.shape)
        farthest = margin.max(axis=1)
        violations = np.zeros(margin.shape, np.int64)
        along = np.zeros(n)
        hinge, self.n_active = 0.0, 0
        for P in range(len(self.state)):
            for Q in range(P + 1, len(self.state)):
                if self.state[P] == self.state[Q]:
                    continue
                gram = forward.tile(P, Q)
                part, active = _push_tile(
                    gram,
                    self.window0[P],
                    self.window0[Q],
                    squared,
                    margin,
                    farthest,
                    violations,
                    c / n,
                    along,
                )
                if active:
                    hinge += part
                    self.n_active += active
                    backward.add(P, Q, gram)
        weights = ((1 - c) + c * violations.ravel()) / n
        for P, Q, i, j, flat in self._pairs:
            tile = np.zeros(self._tile_shape(P, Q))
            np.add.at(tile, (i, j), -2 * weights[flat])
            np.add.at(along, self.window0[P] + i, weights[flat])
            np.add.at(along, self.window0[Q] + j, weights[flat])
            backward.add(P, Q, tile)
        present = distance > -np.inf
        value = (1 - c) / n * distance[present].sum() + c / n * hinge
        return float(value), backward.gradient(along)

    def _tile_shape(self, P: int, Q: int) -> tuple[int, int]:
        size = np.diff(self.window0)
        return int(size[P]), int(size[Q])


class _Products:
    """Inner products of windows under a metric, in tiles of one piece against another."""

    def __init__(self, loss: DiagonalMarginLoss, blocks: Floats) -> None:
        self.loss, self.blocks = loss, blocks
        w, x = loss.width, loss.steps
        half = blocks.copy()
        half[0] /= 2
        # ũ and ṽ for all pieces at once; the few steps of a piece whose sums reach into its
        # neighbour never enter or leave a window.
        causal, anticausal = np.zeros_like(x), np.zeros_like(x)
        for m in range(min(w, len(x))):
            causal[m:] += x[: len(x) - m] @ half[m].T
            anticausal[: len(x) - m] += x[m:] @ half[m]
        self.enter, self.leave = loss.starts + w - 1, loss.starts - 1
        first = loss.window0[:-1]
        self.enter_x, self.enter_u = x[self.enter], causal[self.enter]
        self.leave_x, self.leave_v = x[self.leave], anticausal[self.leave]
        for array in (self.enter_x, self.enter_u, self.leave_x, self.leave_v):
            array[first] = 0.0  # a piece's first window has none before it
        self.left = np.concatenate(
            [self.enter_x, self.enter_u, -self.leave_x, -self.leave_v], axis=1
        )
        self.right = np.concatenate(
            [self.enter_u, self.enter_x, self.leave_v, self.leave_x], axis=1
        )
        # The first window of each piece against all windows, which the running sums begin from.
        self.firsts = x[loss.step0[:-1, None] + np.arange(w)]
        transformed = _times_metric(self.firsts, half)
        self.base = _correlate(x, transformed)[loss.starts]

    def self_products(self) -> Floats:
        """``X_iᵀ M X_i`` of every window."""
        loss = self.loss
        change = 2 * np.einsum("ij,ij->i", self.enter_x, self.enter_u)
        change -= 2 * np.einsum("ij,ij->i", self.leave_x, self.leave_v)
        first = loss.window0[:-1]
        change[first] = self.base[first, np.arange(len(first))]
        return np.concatenate([np.cumsum(change[a:b]) for a, b in pairwise(loss.window0)])

    def tile(self, P: int, Q: int) -> Floats:
        """First row and column of ``G`` between two pieces, and its increments elsewhere."""
        rows = slice(self.loss.window0[P], self.loss.window0[P + 1])
        cols = slice(self.loss.window0[Q], self.loss.window0[Q + 1])
        gram = self.left[rows] @ self.right[cols].T
        gram[0] = self.base[cols, P]
        gram[:, 0] = self.base[rows, Q]
        return gram


class _Adjoint:
    """The gradient in the blocks, from the gradients in the tiles."""

    def __init__(self, loss: DiagonalMarginLoss, forward: _Products) -> None:
        self.loss, self.forward = loss, forward
        d = loss.steps.shape[1]
        self.left = np.concatenate([forward.enter_x, -forward.leave_x], axis=1)
        self.filtered = np.zeros((loss.n_windows, 2 * d))  # in ũ of the step entering, ṽ leaving
        self.base = np.zeros((loss.n_windows, len(loss.state)))

    def add(self, P: int, Q: int, tile: Floats) -> None:
        """Take ``dE/dG`` of a tile (it is overwritten)."""
        _accumulate_back(tile)
        rows = slice(self.loss.window0[P], self.loss.window0[P + 1])
        cols = slice(self.loss.window0[Q], self.loss.window0[Q + 1])
        self.base[cols, P] += tile[0]
        self.base[rows, Q] += tile[:, 0]
        self.base[rows.start, Q] -= tile[0, 0]  # the corner belongs to both: count it once
        self.filtered[rows] += tile @ self.left[cols]
        self.filtered[cols] += tile.T @ self.left[rows]

    def gradient(self, along: Floats) -> Floats:
        """``dE/dA`` (w, d, d), with ``along`` the gradient in the windows' self-products."""
        loss, forward = self.loss, self.forward
        w, x = loss.width, loss.steps
        d = x.shape[1]
        # Self-products are running sums too: weigh each increment by all that comes after it.
        for a, b in pairwise(loss.window0):
            after = np.cumsum(along[a:b][::-1])[::-1]
            self.filtered[a:b] += 2 * after[:, None] * self.left[a:b]
            self.base[a, np.searchsorted(loss.window0, a)] += after[0]
        first = loss.window0[:-1]
        self.filtered[first] = 0.0
        in_u, in_v = np.zeros_like(x), np.zeros_like(x)
        in_u[forward.enter] = self.filtered[:, :d]
        leaving = np.ones(loss.n_windows, bool)
        leaving[first] = False
        in_v[forward.leave[leaving]] = self.filtered[leaving, d:]
        gradient = np.empty_like(forward.blocks)
        for m in range(w):
            gradient[m] = in_u[m:].T @ x[: len(x) - m] + x[m:].T @ in_v[: len(x) - m]
        gradient[0] /= 2
        return gradient + self._from_firsts()

    def _from_firsts(self) -> Floats:
        """The part of the gradient that comes through the first window of each piece."""
        loss = self.loss
        w, x = loss.width, loss.steps
        weights = np.zeros((len(x), len(loss.state)))
        weights[loss.starts] = self.base
        # Σ_j weight_j X_j for each piece's first window, one offset into the windows at a time.
        met = np.stack([weights[: len(x) - t].T @ x[t:] for t in range(w)], axis=1)
        first = self.forward.firsts
        gradient = np.empty_like(self.forward.blocks)
        for m in range(w):
            late, early = slice(m, w), slice(0, w - m)
            gradient[m] = np.tensordot(met[:, late], first[:, early], axes=([0, 1], [0, 1]))
            gradient[m] += np.tensordot(first[:, late], met[:, early], axes=([0, 1], [0, 1]))
        gradient[0] /= 2
        return gradient


def _cut(
    runs: list[Floats], codes: NDArray[Any], width: int
) -> tuple[list[Floats], NDArray[np.int64]]:
    """Runs in pieces of at most ``PIECE`` windows; pieces of one run share ``width - 1`` steps."""
    pieces, states = [], []
    for steps, code in zip(runs, codes, strict=True):
        n = len(steps) - width + 1
        n_pieces = -(-n // PIECE)
        edges = np.linspace(0, n, n_pieces + 1).astype(int)
        for a, b in pairwise(edges):
            pieces.append(steps[a : b + width - 1])
            states.append(code)
    return pieces, np.array(states)


def _times_metric(X: Floats, half: Floats) -> Floats:
    """``M X`` for windows X (R, w, d), from the blocks with A(0) halved."""
    result = np.zeros_like(X)
    w = X.shape[1]
    for m in range(w):
        result[:, m:] += X[:, : w - m] @ half[m].T
        result[:, : w - m] += X[:, m:] @ half[m]
    return result


def _correlate(x: Floats, patterns: Floats) -> Floats:
    """``Σ_t x_{s+t}·pattern_t`` at every step s for patterns (R, w, d), shape (T, R)."""
    result = np.zeros((len(x), len(patterns)))
    for t in range(min(patterns.shape[1], len(x))):
        result[: len(x) - t] += x[t:] @ patterns[:, t].T
    return result


@njit(cache=True, nogil=True)
def _accumulate_along_diagonals(tile):  # type: ignore[no-untyped-def]
    n_rows, n_cols = tile.shape
    for i in range(1, n_rows):
        for j in range(1, n_cols):
            tile[i, j] += tile[i - 1, j - 1]


@njit(cache=True, nogil=True)
def _accumulate_back(tile):  # type: ignore[no-untyped-def]
    n_rows, n_cols = tile.shape
    for i in range(n_rows - 2, -1, -1):
        for j in range(n_cols - 1):
            tile[i, j] += tile[i + 1, j + 1]


@njit(cache=True, nogil=True)
def _push_tile(tile, row0, col0, squared, margin, farthest, violations, scale, along):  # type: ignore[no-untyped-def]
    """Sum the hinges of a tile of increments, and replace it by ``dE/dG``."""
    n_rows, n_cols = tile.shape
    k = margin.shape[1]
    before = np.empty(n_cols)
    here = np.empty(n_cols)
    hinge, n_active = 0.0, 0
    for i in range(n_rows):
        window = row0 + i
        squared_i, farthest_i = squared[window], farthest[window]
        if i == 0:
            for j in range(n_cols):
                here[j] = tile[0, j]
        else:
            here[0] = tile[i, 0]
            for j in range(1, n_cols):
                here[j] = tile[i, j] + before[j - 1]
        pull_i = 0
        for begin in range(0, n_cols, 64):
            end = min(begin + 64, n_cols)
            hits = 0
            for j in range(begin, end):
                other = col0 + j
                distance = squared_i + squared[other] - 2 * here[j]
                hits += distance < max(farthest_i, farthest[other])
                tile[i, j] = 0.0
            if hits:
                for j in range(begin, end):
                    other = col0 + j
                    distance = squared_i + squared[other] - 2 * here[j]
                    if distance >= max(farthest_i, farthest[other]):
                        continue
                    weight = 0
                    for t in range(k):
                        if distance < margin[window, t]:
                            hinge += margin[window, t] - distance
                            violations[window, t] += 1
                            weight += 1
                        if distance < margin[other, t]:
                            hinge += margin[other, t] - distance
                            violations[other, t] += 1
                            weight += 1
                    tile[i, j] = 2 * scale * weight
                    along[other] -= scale * weight
                    pull_i += weight
        along[window] -= scale * pull_i
        n_active += pull_i
        before, here = here, before
    return hinge, n_active
