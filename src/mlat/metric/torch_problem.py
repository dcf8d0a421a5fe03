"""The large-margin problem on PyTorch: the same loss (Eq. 2), summed in tiles on a GPU.

With ``U = X M`` the distance of two windows is ``q_i + q_l - 2 U_i·x_l``, so no factor of M is
needed, and a tile of pairs is one matrix product. Of a tile only this matters: which pairs (i, l)
violate which margins of i or of l. With W their number for each pair, the sum of all hinges is
``Σ v_ij m_ij - Σ W_il D_il``, where v_ij counts the violations of margin j of window i, and the
gradient in M is ``Xᵀ Λ X`` with Λ the Laplacian of all pair weights: a product more for each side.

Products have the accuracy of single precision. On a GPU they are made on its matrix units, which
keep 11 binary digits of a factor: a number is split into a part that they keep and the rest, which
gives 22, and the parts are columns of one product (:func:`_split`). W are small whole numbers and
need no split. Memory is bounded by the tiles, whatever the number of windows.

The module is imported where it is used: without PyTorch that raises a ``MissingPackageError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from ..base.checks import Floats
from ..base.errors import InputError, require_package
from .loss import pairs_of_different_states
from .problem import Loss, Problem

torch: Any = require_package("torch", "deep", "a fit on a device")

ROWS, COLUMNS = 4096, 16384  # of a tile: 0.3 GB in single precision
# By the fraction of pairs of a tile that are near enough to matter: few are summed one by one, more
# are entered into W for products, though nearly all of it is zero, and most fill all of W.
FEW, MOST = 0.002, 0.03
PAIRS = 2**22  # at a time
VALUES = 2**26  # of differences of windows and their targets at a time: 0.3 GB in single precision
LOST = 13  # binary digits of a number in single precision that the matrix units do not keep


def open_device(name: str) -> Any:
    """The device that PyTorch names so, such as ``"cuda"`` or ``"cpu"``.

    Raises
    ------
    InputError
        If PyTorch has no such device here.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"PyTorch cannot use the device {name!r} here: {reason}") from None
    return device


@contextmanager
def products(accuracy: Literal["highest", "high"]) -> Iterator[None]:
    """Products of single precision: ``"high"`` may use matrix units, which keep fewer digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(accuracy)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class TorchProblem(Problem):
    """A problem in memory, its loss on a device of PyTorch.

    Parameters
    ----------
    problem : Problem
    device : str
        As PyTorch names it: ``"cuda"``, ``"cpu"``.
    """

    def __init__(self, problem: Problem, device: str) -> None:
        self.device = open_device(device)
        super().__init__(**{f.name: getattr(problem, f.name) for f in fields(Problem)})
        order = np.argsort(problem.codes, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        states = problem.codes[order]
        targets = problem.targets[order]
        self._X = self._tensor(problem.flat(order, np.float32))
        self._there = self._tensor(targets >= 0, torch.bool)
        # The windows that have a target at a place, these places, and the targets.
        rows, places = np.nonzero(targets >= 0)
        of_rows = (rows, places, place[targets[rows, places]])
        size = max(1, VALUES // self._X.shape[1])
        self._targets = [
            tuple(self._tensor(one[begin : begin + size], torch.int64) for one in of_rows)
            for begin in range(0, len(rows), size)
        ]
        self.split = self.device.type == "cuda"
        self._tiles = [
            (i, min(i + ROWS, b), j, min(j + COLUMNS, d))
            for a, b, c, d in pairs_of_different_states(states)
            for i in range(a, b, ROWS)
            for j in range(c, d, COLUMNS)
        ]

    def linear_loss(self) -> Loss:
        def loss(L: Floats) -> tuple[float, Floats]:
            value, gradient = self.of_matrix(L.T @ L)
            return value, 2 * L @ gradient

        return loss

    def filter_loss(self) -> Loss:
        return lambda H: self._run(self._sum_taps, H)

    def of_matrix(self, M: Floats) -> tuple[float, Floats]:
        """``E(M)`` and ``dE/dM`` for a symmetric M (w*d, w*d)."""
        return self._run(self._sum, M)

    def _run(self, function: Callable[[Any], tuple[Any, Any]], x: Floats) -> tuple[float, Floats]:
        with torch.no_grad(), products("high" if self.split else "highest"):
            value, gradient = function(self._tensor(x, torch.float64))
        return float(value), gradient.double().cpu().numpy()

    def _sum_taps(self, H: Any) -> tuple[Any, Any]:
        """``E`` and ``dE/dH`` of filter taps (q, r, d)."""
        q, w = len(H), self.width
        size = 2 * (q + w)
        spectrum = torch.fft.rfft(H, size, dim=0)
        # As in mlat.metric.toeplitz, autocorrelation and its gradient.
        blocks = torch.fft.irfft(spectrum.mH @ spectrum, size, dim=0)[:w]
        value, in_blocks = self._sum_blocks(blocks)
        in_blocks[1:] *= 2  # each block stands above the diagonal, too
        G = torch.fft.rfft(in_blocks, size, dim=0)
        return value, torch.fft.irfft(spectrum @ (G + G.mH), size, dim=0)[:q]

    def _sum_blocks(self, A: Any) -> tuple[Any, Any]:
        """The same for the blocks (w, d, d) of a block Toeplitz M, of the lower ones alone."""
        w, d = self.width, self.n_channels
        both = torch.cat([A.flip(0)[:-1].transpose(1, 2), A])
        steps = torch.arange(w, device=self.device)
        M = both[steps[:, None] - steps + w - 1].permute(0, 2, 1, 3).reshape(w * d, w * d)
        value, gradient = self._sum(M)
        grid = gradient.view(w, d, w, d)
        diagonals = [grid.diagonal(-m, 0, 2).sum(dim=-1, dtype=torch.float64) for m in range(w)]
        return value, torch.stack(diagonals)

    def _sum(self, M: Any) -> tuple[Any, Any]:
        X, there, M = self._X, self._there, M.to(torch.float32)
        n, c = len(X), self.push_weight
        U = self._product(X, M)
        q = (U * X).sum(dim=1, keepdim=True)
        ones = torch.ones_like(q)
        # One product gives q_i + q_l - 2 U_i·x_l, and one W X with the sums of W beside it.
        left, right = torch.cat([-2 * U, q, ones], dim=1), torch.cat([X, ones, q], dim=1)
        beside = torch.cat([X, ones], dim=1)
        if self.split:
            left, right = _beside_each_other(left, right)
        to_targets = torch.full(there.shape, -torch.inf, device=self.device, dtype=X.dtype)
        for rows, places, targets in self._targets:
            apart = self._apart(rows, targets)
            moved = self._product(apart, M)
            to_targets[rows, places] = (moved * apart).sum(dim=1).clamp(min=0)
        margin = 1 + to_targets
        violations, sums = self._push(left, right.T, margin, beside)
        force = sums[:, -1:] * X - sums[:, :-1]
        pushed = (force * U).double().sum()  # Σ W_il D_il
        # The margins hold a distance to a target each: pull and push weigh it together.
        hinges = torch.where(there, violations * margin.double(), 0.0).sum()
        pulled = torch.where(there, to_targets.double(), 0.0).sum()
        value = (1 - c) / n * pulled + c / n * (hinges - pushed)
        weight = ((1 - c) / n + c / n * violations.double()).to(X.dtype)
        force *= -c / n
        for rows, places, targets in self._targets:
            pull = weight[rows, places, None] * self._apart(rows, targets)
            force.index_add_(0, rows, pull)
            force.index_add_(0, targets, -pull)
        gradient = self._product(X.T, force)
        return value, (gradient + gradient.T) / 2

    def _apart(self, rows: Any, targets: Any) -> Any:
        return self._X[rows] - self._X[targets]

    def _push(self, left: Any, right: Any, margin: Any, beside: Any) -> tuple[Any, Any]:
        """Violations of each margin (n, k), and W times ``beside``, tile by tile."""
        violations = torch.zeros(self._there.shape, device=self.device, dtype=torch.int32)
        farthest = margin.max(dim=1).values
        sums = torch.zeros_like(beside)
        for i, i_end, j, j_end in self._tiles:
            rows, columns = slice(i, i_end), slice(j, j_end)
            D = left[rows] @ right[:, columns]
            near = (farthest[rows, None] > D) | (farthest[columns] > D)
            fraction = int(near.count_nonzero()) / near.numel()
            if fraction > MOST:
                W = _violated(margin[rows], D, violations[rows])
                W += _violated(margin[columns], D.T, violations[columns]).T
            else:
                W = torch.zeros_like(D) if fraction > FEW else None
                a, b = near.nonzero(as_tuple=True)
                for begin in range(0, len(a), PAIRS):
                    p, o = a[begin : begin + PAIRS], b[begin : begin + PAIRS]
                    distance = D[p, o, None]
                    of_p, of_o = margin[rows][p] > distance, margin[columns][o] > distance
                    violations[rows] += _counts(p, of_p, i_end - i)
                    violations[columns].index_add_(0, o, of_o.int())
                    weight = (of_p.sum(dim=1) + of_o.sum(dim=1)).to(D.dtype)
                    if W is not None:
                        W[p, o] = weight
                        continue
                    sums.index_add_(0, p + i, weight[:, None] * beside[o + j])
                    sums.index_add_(0, o + j, weight[:, None] * beside[p + i])
            if W is not None:
                sums[rows] += self._times(W, beside[columns])
                sums[columns] += self._times(W.T, beside[rows])
        return violations, sums

    def _times(self, W: Any, b: Any) -> Any:
        """``W @ b`` in the accuracy of single precision, for small whole numbers W."""
        W = W.to(b.dtype)
        if not self.split:
            return W @ b
        # Both factors with their sums along memory, which the matrix units read fastest.
        both = W @ torch.cat(_split(b.T)).T
        return both[:, : b.shape[1]] + both[:, b.shape[1] :]

    def _product(self, a: Any, b: Any) -> Any:
        """``a @ b`` in the accuracy of single precision."""
        if not self.split:
            return a @ b
        a, b = _beside_each_other(a, b.T)
        return a @ b.T

    def _tensor(self, values: Any, kind: Any = None) -> Any:
        return torch.as_tensor(
            np.ascontiguousarray(values), dtype=kind or torch.float32, device=self.device
        )


def _violated(margin: Any, D: Any, violations: Any) -> Any:
    """How many margins (n, k) of its row each distance (n, m) violates; counted by margin, too."""
    # Twice the margins at most, once the other side is added; a byte is read and written fastest.
    few = 2 * margin.shape[1] <= torch.iinfo(torch.int8).max
    W = torch.zeros_like(D, dtype=torch.int8 if few else torch.int32)
    for m in range(margin.shape[1]):
        of_rows = margin[:, m, None] > D
        violations[:, m] += of_rows.sum(dim=1, dtype=torch.int32)
        W += of_rows.view(torch.int8)
    return W


def _counts(rows: Any, violated: Any, n: int) -> Any:
    """How often each of n rows violates each margin; rows ascend, so that no sum is shared."""
    sums = violated.T.int().contiguous().cumsum(dim=1, dtype=torch.int32)
    sums = torch.nn.functional.pad(sums, (1, 0))
    edges = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return (sums[:, edges[1:]] - sums[:, edges[:-1]]).T


def _split(a: Any) -> tuple[Any, Any]:
    """Two numbers with the sum a, the first of which the matrix units keep whole."""
    kept = (a.contiguous().view(torch.int32) & (-1 << LOST)).view(torch.float32)
    return kept, a - kept


def _beside_each_other(a: Any, b: Any) -> tuple[Any, Any]:
    """Columns for which ``a bᵀ`` is the same, but for the product of the two rests."""
    (a_kept, a_rest), (b_kept, b_rest) = _split(a), _split(b)
    left = torch.cat([a_kept, a_kept, a_rest], dim=1)
    return left, torch.cat([b_kept, b_rest, b_kept], dim=1)
