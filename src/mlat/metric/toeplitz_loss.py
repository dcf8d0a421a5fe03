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

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..checks import Floats
from . import lags
from .loss import Share, hinges

# -------------------------------------------------------------------- running_sums
# Inner products of all pairs of windows under a block-Toeplitz metric, and the adjoint.
#
# The mathematics is at the head of :mod:`mlat.metric.toeplitz_loss`. Runs are cut into pieces, and
# pairs of windows come in tiles of one piece against another: first row and column of ``G``
# exactly, the rest as increments along the diagonals.

# Windows per piece of a run: two tiles of this side fit into a core's cache.
PIECE = 512


@dataclass(frozen=True, eq=False)
class Pieces:
    """Runs in pieces of at most ``PIECE`` windows; pieces of one run share ``width - 1`` steps.

    ``steps`` (T, d) are the pieces one after the other, ``starts`` (n,) the step at which each
    window starts; the steps of piece P begin at ``step0[P]``, its windows at ``window0[P]``.
    """

    width: int
    state: NDArray[np.int64]
    steps: Floats
    starts: NDArray[np.int64]
    step0: NDArray[np.int64]
    window0: NDArray[np.int64]

    @property
    def n_windows(self) -> int:
        return int(self.window0[-1])

    def windows(self, P: int) -> slice:
        return slice(int(self.window0[P]), int(self.window0[P + 1]))


def cut(runs: list[Floats], codes: NDArray[Any], width: int) -> Pieces:
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
    return Pieces(width, np.array(states), np.concatenate(pieces), starts, step0, window0)


class Products:
    """Inner products of windows under a metric, in tiles of one piece against another."""

    def __init__(self, pieces: Pieces, blocks: Floats) -> None:
        self.pieces, self.blocks = pieces, blocks
        w, x = pieces.width, pieces.steps
        half = blocks.copy()
        half[0] /= 2
        # ũ and ṽ for all pieces at once; the few steps of a piece whose sums reach into its
        # neighbour never enter or leave a window.
        causal, anticausal = lags.causal(x, half), lags.anticausal(x, half)
        self.enter, self.leave = pieces.starts + w - 1, pieces.starts - 1
        first = pieces.window0[:-1]
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
        self.firsts = x[pieces.step0[:-1, None] + np.arange(w)]
        transformed = lags.causal(self.firsts, half) + lags.anticausal(self.firsts, half)
        against_all = lags.anticausal(x, transformed.transpose(1, 2, 0))
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
        rows = slice(self.pieces.window0[P], self.pieces.window0[P + 1])
        cols = slice(self.pieces.window0[Q], self.pieces.window0[Q + 1])
        gram = self.left[rows] @ self.right[cols].T
        gram[0] = self.base[cols, P]
        gram[:, 0] = self.base[rows, Q]
        return gram


class Adjoint:
    """The gradient in the blocks, from the gradients in the tiles."""

    def __init__(self, pieces: Pieces, forward: Products) -> None:
        self.pieces, self.forward = pieces, forward
        d = pieces.steps.shape[1]
        self.left = np.concatenate([forward.enter_x, -forward.leave_x], axis=1)
        self.filtered = np.zeros((pieces.n_windows, 2 * d))  # in ũ of the step entering, ṽ leaving
        self.base = np.zeros((pieces.n_windows, len(pieces.state)))

    def add(self, P: int, Q: int, tile: Floats) -> None:
        """Take ``dE/dG`` of a tile (it is overwritten)."""
        _accumulate_back(tile)
        rows = slice(self.pieces.window0[P], self.pieces.window0[P + 1])
        cols = slice(self.pieces.window0[Q], self.pieces.window0[Q + 1])
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
        gradient = lags.correlations(in_u, x, w) + lags.correlations(x, in_v, w)
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
        met = lags.correlations(x, weights, w).transpose(2, 0, 1)
        first = self.forward.firsts
        return lags.correlations(met, first, w) + lags.correlations(first, met, w)


@njit(cache=True, nogil=True)
def accumulate_along_diagonals(tile):  # type: ignore[no-untyped-def]
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
    share : Share, optional
        Which part of the loss to sum; a run must then lie in one cell. Default all of it.
    """

    def __init__(
        self,
        runs: list[Floats],
        codes: NDArray[Any],
        targets: NDArray[np.int64],
        width: int,
        push_weight: float = 0.5,
        share: Share | None = None,
    ) -> None:
        self.push_weight, self.targets = push_weight, targets
        self.pieces = cut(runs, codes, width)
        self.share = Share.whole(self.pieces.n_windows) if share is None else share
        self.n_active = 0
        self._tiles = self._tiles_of_pieces()
        self._pairs = self._group_targets()

    def _tiles_of_pieces(self) -> list[tuple[int, int]]:
        """The pieces of different states whose windows are compared here."""
        state, cell = self.pieces.state, self.share.cell[self.pieces.window0[:-1]]
        wanted = set(self.share.tiles) | {(b, a) for a, b in self.share.tiles}
        return [
            (P, Q)
            for P in range(len(state))
            for Q in range(P + 1, len(state))
            if state[P] != state[Q] and (cell[P], cell[Q]) in wanted
        ]

    def _group_targets(self) -> list[tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Target pairs by the pieces they join: (P, Q, row in P, row in Q, flat target index)."""
        flat = np.flatnonzero(self.targets.ravel() >= 0)
        i, j = flat // self.targets.shape[1], self.targets.ravel()[flat]
        piece_i = np.searchsorted(self.pieces.window0, i, side="right") - 1
        piece_j = np.searchsorted(self.pieces.window0, j, side="right") - 1
        swap = piece_i > piece_j
        i, j = np.where(swap, j, i), np.where(swap, i, j)
        P, Q = np.minimum(piece_i, piece_j), np.maximum(piece_i, piece_j)
        order = np.lexsort((Q, P))
        key = P[order] * len(self.pieces.state) + Q[order]
        groups = np.split(order, np.flatnonzero(np.diff(key)) + 1) if len(order) else []
        return [
            (
                int(P[g[0]]),
                int(Q[g[0]]),
                i[g] - self.pieces.window0[P[g[0]]],
                j[g] - self.pieces.window0[Q[g[0]]],
                flat[g],
            )
            for g in groups
        ]

    def __call__(self, blocks: Floats) -> tuple[float, Floats]:
        """The loss and its gradient in the blocks, both for ``blocks`` of shape (w, d, d)."""
        n, c = self.share.n_windows, self.push_weight
        forward = Products(self.pieces, blocks)
        backward = Adjoint(self.pieces, forward)
        squared = forward.self_products()
        distance = np.full(self.targets.size, -np.inf)
        for P, Q, i, j, flat in self._pairs:
            gram = forward.tile(P, Q)
            accumulate_along_diagonals(gram)
            inside = gram[i, j]
            distance[flat] = (
                squared[self.pieces.window0[P] + i]
                + squared[self.pieces.window0[Q] + j]
                - 2 * inside
            )
        margin = 1.0 + distance.reshape(self.targets.shape)
        farthest = margin.max(axis=1)
        violations = np.zeros(margin.shape, np.int64)
        along = np.zeros(self.pieces.n_windows)
        hinge, self.n_active = 0.0, 0
        for P, Q in self._tiles:
            gram = forward.tile(P, Q)
            part, active = _push_tile(
                gram,
                self.pieces.window0[P],
                self.pieces.window0[Q],
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
        pulled = np.repeat(self.share.pulled, margin.shape[1])
        weights = (np.where(pulled, 1 - c, 0.0) + c * violations.ravel()) / n
        for P, Q, i, j, flat in self._pairs:
            tile = np.zeros(self._tile_shape(P, Q))
            np.add.at(tile, (i, j), -2 * weights[flat])
            np.add.at(along, self.pieces.window0[P] + i, weights[flat])
            np.add.at(along, self.pieces.window0[Q] + j, weights[flat])
            backward.add(P, Q, tile)
        present = pulled & (distance > -np.inf)
        value = (1 - c) / n * distance[present].sum() + c / n * hinge
        return float(value), backward.gradient(along)

    def _tile_shape(self, P: int, Q: int) -> tuple[int, int]:
        size = np.diff(self.pieces.window0)
        return int(size[P]), int(size[Q])


@njit(cache=True, nogil=True)
def _push_tile(tile, row0, col0, squared, margin, farthest, violations, scale, along):  # type: ignore[no-untyped-def]
    """Sum the hinges of a tile of increments, and replace it by ``dE/dG``."""
    n_rows, n_cols = tile.shape
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
                    part, weight = hinges(distance, window, other, margin, violations)
                    hinge += part
                    tile[i, j] = 2 * scale * weight
                    along[other] -= scale * weight
                    pull_i += weight
        along[window] -= scale * pull_i
        n_active += pull_i
        before, here = here, before
    return hinge, n_active
