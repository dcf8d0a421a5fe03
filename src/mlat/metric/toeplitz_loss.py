"""The large-margin loss of a block-Toeplitz metric, computed directly on the runs of the stream.

Windows i+1 and j+1 of two runs share all but one step with windows i and j. Under a block-Toeplitz
metric (Definition 5) with blocks A(m) their inner product ``G[i,j] = X_iᵀ M X_j`` therefore follows
from the previous one on the diagonal, by the step that enters and the step that leaves:

    G[i,j] = G[i-1,j-1] + x_a·ũ_b + ũ_a·x_b - x_p·ṽ_q - ṽ_p·x_q,

    ũ_a = ½A(0) x_a + Σ_{m≥1} A(m) x_{a-m},     ṽ_p = ½A(0) x_p + Σ_{m≥1} A(m)ᵀ x_{p+m},

with a, b the steps that enter and p, q those that leave. So all pairs of windows cost one matrix
product with 4d columns and a running sum along diagonals, whatever the width. The gradient is the
adjoint of these operations and costs the same: a running sum back along the diagonals, and a
product with 4d columns. No window is copied out of its run, and no w*d by w*d matrix is formed.

The file goes from the whole to its parts: the loss; the inner products of all pairs of windows, in
tiles of one piece of a run against another, and their adjoint; sums over lags, which give ũ and ṽ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from .loss import Margins, push_tile

PIECE = 512  # windows per piece of a run: two tiles of this side fit into a core's cache


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


# Sums over lags. A few lags are summed directly, by one matrix product each; many by the Fourier
# transform, whose cost hardly grows with their number. Series have shape (…, T, channels); before
# the first step and after the last they are zero.


def causal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m] x[t-m]`` for x (…, T, d) and taps (q, r, d)."""
    T, q = x.shape[-2], min(len(taps), x.shape[-2])
    if q <= _direct_lags(x.shape[-1]):
        result = x @ taps[0].T
        for m in range(1, q):
            result[..., m:, :] += x[..., : T - m, :] @ taps[m].T
        return result
    size = fft.next_fast_len(T + q, real=True)
    spectrum = fft.rfft(taps[:q], size, axis=0).transpose(0, 2, 1)
    x_hat = fft.rfft(x.reshape(-1, *x.shape[-2:]), size, axis=1).transpose(1, 0, 2)
    lagged: Floats = fft.irfft((x_hat @ spectrum).transpose(1, 0, 2), size, axis=1)
    return lagged[:, :T].reshape(*x.shape[:-1], taps.shape[1])


def anticausal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m]ᵀ x[t+m]`` for x (…, T, r) and taps (q, r, d)."""
    return causal(x[..., ::-1, :], taps.transpose(0, 2, 1))[..., ::-1, :]


def correlations(y: Floats, x: Floats, n_lags: int) -> Floats:
    """``Σ_t y[t+m] ⊗ x[t]`` for m below ``n_lags``, summed over leading axes; (n_lags, dy, dx)."""
    T = x.shape[-2]
    y, x = y.reshape(-1, *y.shape[-2:]), x.reshape(-1, *x.shape[-2:])
    if n_lags <= _direct_lags(max(x.shape[-1], y.shape[-1])):
        both = ([0, 1], [0, 1])
        result = np.zeros((n_lags, y.shape[-1], x.shape[-1]))
        for m in range(min(n_lags, T)):
            result[m] = np.tensordot(y[:, m:], x[:, : T - m], axes=both)
        return result
    size = fft.next_fast_len(T + n_lags, real=True)
    y_hat = fft.rfft(y, size, axis=1).transpose(1, 2, 0)
    x_hat = fft.rfft(x, size, axis=1).transpose(1, 0, 2)
    lagged: Floats = fft.irfft(y_hat @ x_hat.conj(), size, axis=0)
    return lagged[:n_lags]


def _direct_lags(n_channels: int) -> int:
    """Up to how many lags are summed directly.

    A product per lag grows with the channels as the transform's product per frequency does, but
    the transform pays for complex numbers and strides. Timed on series of 2,500 steps, the two
    meet at about 14 lags of 3 channels, 60 to 180 of 8, 120 to 140 of 27 and 130 to 190 of 81.
    """
    return min(128, max(12, n_channels**2))
