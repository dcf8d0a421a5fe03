"""Inner products of all pairs of windows under a block-Toeplitz metric, and the adjoint.

The mathematics is at the head of :mod:`mlat.diagonals`. Runs are cut into pieces, and pairs of
windows come in tiles of one piece against another: first row and column of ``G`` exactly, the rest
as increments along the diagonals.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from . import lags

Floats = NDArray[np.float64]

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
