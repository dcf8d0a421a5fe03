"""The large-margin problem on PyTorch: the same loss (Eq. 2), summed in tiles on a GPU.

With ``U = X M`` the distance of two windows is ``q_i + q_l - 2 U_i·x_l``, so no factor of M is
needed, and a tile of pairs is one matrix product. Of a tile only this matters: which pairs (i, l)
violate which margins of i or of l. With W their number for each pair, the sum of all hinges is
``Σ v_ij m_ij - Σ W_il D_il``, where v_ij counts the violations of margin j of window i, and the
gradient in M is ``Xᵀ Λ X`` with Λ the Laplacian of all pair weights: a product more for each side.

Products are in single precision. Memory is bounded by the tiles, whatever the number of windows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..checks import Floats
from ..errors import InputError, require_package
from . import toeplitz
from .loss import pairs_of_different_states
from .problem import Loss, MarginProblem, Problem

ROWS, COLUMNS = 4096, 16384  # of a tile: 0.3 GB in single precision
DENSE = 0.005  # with more than this fraction of pairs near enough, a tile is summed by products
PAIRS = 2**18  # at a time, otherwise


class TorchProblem(MarginProblem):
    """A problem in memory, its loss on a device of PyTorch.

    Parameters
    ----------
    problem : Problem
        The whole problem.
    device : str
        As PyTorch names it: ``"cuda"``, ``"cpu"``.
    """

    def __init__(self, problem: Problem, device: str) -> None:
        require_package("torch", "deep", "a fit on a device")
        import torch

        try:
            self.device = torch.device(device)
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"PyTorch cannot use the device {device!r} here: {reason}") from None
        if problem.part is not None:
            raise InputError("a part of a problem cannot be on a device")
        self.problem, self.shrinkage = problem, problem.shrinkage
        order = np.argsort(problem.codes, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        states = problem.codes[order]
        targets = problem.targets[order]
        self._X = self._tensor(problem.flat[order])
        self._targets = self._tensor(np.where(targets >= 0, place[targets], -1), torch.int64)
        rectangles = pairs_of_different_states(np.zeros(len(order), np.int64), states, [(0, 0)])
        self._tiles = [
            (i, min(i + ROWS, b), j, min(j + COLUMNS, d))
            for a, b, c, d in rectangles.tolist()
            for i in range(a, b, ROWS)
            for j in range(c, d, COLUMNS)
        ]

    @property
    def width(self) -> int:
        return self.problem.width

    @property
    def n_channels(self) -> int:
        return self.problem.n_channels

    @property
    def scale(self) -> float:
        return self.problem.scale

    @property
    def step_moments(self) -> Floats:
        return self.problem.step_moments

    @cached_property
    def initial_loss(self) -> float:
        return self.of_matrix(self.scale * np.eye(self.width * self.n_channels))[0]

    def linear_loss(self) -> Loss:
        def loss(L: Floats) -> tuple[float, Floats]:
            value, gradient = self.of_matrix(L.T @ L)
            return value, 2 * L @ gradient

        return loss

    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        w, d = self.width, self.n_channels

        def loss(H: Floats) -> tuple[float, Floats]:
            value, gradient = self.of_matrix(toeplitz.to_matrix(toeplitz.autocorrelation(H, w)))
            grid = gradient.reshape(w, d, w, d)
            blocks = np.zeros((w, d, d))
            for lag in range(w):
                for t in range(w - lag):
                    blocks[lag] += grid[t + lag, :, t]
            blocks[1:] *= 2  # each block stands above the diagonal, too
            return value, toeplitz.autocorrelation_gradient(H, blocks)

        return loss

    def of_matrix(self, M: Floats) -> tuple[float, Floats]:
        """``E(M)`` and ``dE/dM`` for a symmetric M (w*d, w*d)."""
        import torch

        with torch.no_grad():
            value, gradient = self._sum(self._tensor(M))
        return value, gradient.double().cpu().numpy()

    def _sum(self, M: Any) -> tuple[float, Any]:
        import torch

        X, targets = self._X, self._targets
        n, c = len(X), self.problem.push_weight
        there = targets >= 0
        U = X @ M
        q = (U * X).sum(dim=1, keepdim=True)
        ones = torch.ones_like(q)
        # One product gives q_i + q_l - 2 U_i·x_l, and one W X with the sums of W beside it.
        left, right = torch.cat([-2 * U, q, ones], dim=1), torch.cat([X, ones, q], dim=1).T
        beside = torch.cat([X, ones], dim=1)
        k = targets.shape[1]
        to_targets = torch.full(targets.shape, -torch.inf, device=self.device, dtype=X.dtype)
        for j in range(k):
            rows = there[:, j].nonzero()[:, 0]
            apart = X[rows] - X[targets[rows, j]]
            to_targets[rows, j] = ((apart @ M) * apart).sum(dim=1).clamp(min=0)
        margin = 1 + to_targets
        violations = torch.zeros(targets.shape, device=self.device, dtype=torch.float64)
        sums = torch.zeros_like(beside)  # W X of both sides, and the sums of W
        farthest = margin.max(dim=1).values
        for i, i_end, j, j_end in self._tiles:
            rows, columns = slice(i, i_end), slice(j, j_end)
            D = left[rows] @ right[:, columns]
            near = (farthest[rows, None] > D) | (farthest[columns] > D)
            a, b = near.nonzero(as_tuple=True)
            if len(a) > DENSE * near.numel():
                W = torch.zeros(D.shape, device=self.device, dtype=torch.int8)
                for m in range(k):
                    of_rows = margin[rows, m, None] > D
                    of_columns = margin[columns, m] > D
                    violations[rows, m] += of_rows.sum(dim=1)
                    violations[columns, m] += of_columns.sum(dim=0)
                    W += of_rows
                    W += of_columns
                weights = W.to(X.dtype)
                sums[rows] += weights @ beside[columns]
                sums[columns] += weights.T @ beside[rows]
                continue
            for begin in range(0, len(a), PAIRS):  # few pairs: one by one
                p, o = i + a[begin : begin + PAIRS], j + b[begin : begin + PAIRS]
                distance = D[p - i, o - j, None]
                of_p, of_o = margin[p] > distance, margin[o] > distance
                violations.index_add_(0, p, of_p.double())
                violations.index_add_(0, o, of_o.double())
                weight = (of_p.sum(dim=1) + of_o.sum(dim=1)).to(X.dtype)[:, None]
                sums.index_add_(0, p, weight * beside[o])
                sums.index_add_(0, o, weight * beside[p])
        force = sums[:, -1:] * X - sums[:, :-1]
        pushed = (force * U).double().sum()  # Σ W_il D_il
        # The margins hold a distance to a target each: pull and push weigh it together.
        hinges = torch.where(there, violations * margin.double(), 0.0).sum()
        pulled = torch.where(there, to_targets.double(), 0.0).sum()
        value = (1 - c) / n * pulled + c / n * (hinges - pushed)
        weight = torch.where(there, (1 - c) / n + c / n * violations, 0.0).to(X.dtype)
        force *= -c / n
        for m in range(k):
            rows = there[:, m].nonzero()[:, 0]
            pull = weight[rows, m, None] * (X[rows] - X[targets[rows, m]])
            force.index_add_(0, rows, pull)
            force.index_add_(0, targets[rows, m], -pull)
        gradient = X.T @ force
        return float(value), (gradient + gradient.T) / 2

    def _tensor(self, values: Any, kind: Any = None) -> Any:
        import torch

        return torch.as_tensor(
            np.ascontiguousarray(values), dtype=kind or torch.float32, device=self.device
        )
