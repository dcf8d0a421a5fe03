"""The margin loss of DECADE, along paths that are drawn anew in each epoch, in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from .deep_alignment import Draws, draw_paths, meeting_root
from .deep_training import batches
from .deep_validation import Division
from .lanes import FloatArray, IntArray

PULL = 0.1  # weight of the distance to the targets beside the hinges
ROWS = 512  # windows per block of an all-pairs search
PAIR_BYTES = 64 << 20  # of the meeting weights of a part of a batch, which is taken in parts


class MarginLearner:
    """``[1 + d(i, target) − d(i, impostor)]₊ + 0.1 d(i, target)``, d along paths drawn anew."""

    def __init__(
        self,
        torch: Any,
        network: Any,
        X: Any,
        codes: IntArray,
        division: Division,
        targets: IntArray,
        rng: np.random.RandomState,
        *,
        n_impostors: int,
        n_draws: int,
        batch_size: int,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        self.torch, self.network, self.rng = torch, network, rng
        self.learn, self.judge = (X[torch.as_tensor(rows, device=X.device)] for rows in division)
        self.codes = torch.as_tensor(codes[division.learn], device=X.device)
        self.targets = targets
        others = len(self.codes) - int(self.codes.bincount().max())
        self.n_impostors = min(n_impostors, others)
        self.n_draws, self.batch_size = n_draws, batch_size
        self.root = torch.as_tensor(meeting_root(X.shape[1]), dtype=X.dtype, device=X.device)
        self.optimiser = torch.optim.Adam(
            network.parameters(), lr=learning_rate, weight_decay=weight_decay
        )

    def epoch(self) -> float:
        impostors = self._impostors()
        neighbours = np.concatenate([self.targets, impostors], axis=1)
        n, width, _ = self.learn.shape
        draws = draw_paths(n, width, self.n_draws, self.rng)
        pairs = max(1, PAIR_BYTES // (4 * width**2 * neighbours.shape[1]))
        total = 0.0
        for batch in batches(n, self.batch_size, self.rng):
            self.optimiser.zero_grad()
            for begin in range(0, len(batch), pairs):
                part = batch[begin : begin + pairs]
                loss = self._loss(part, neighbours[part], draws) / len(batch)
                loss.backward()
                total += loss.item() * len(batch)
            self.optimiser.step()
        return total / n

    def neighbours(self, k: int) -> tuple[FloatArray, IntArray]:
        torch = self.torch
        with torch.inference_mode():
            references, scatter = self._centres(self.learn)
            queries, own = self._centres(self.judge)
            found = []
            for part, s in zip(queries.split(ROWS), own.split(ROWS), strict=True):
                squared = torch.cdist(part, references) ** 2 + scatter + s[:, None]
                found.append(squared.topk(k, largest=False))
            distances = torch.cat([f.values for f in found]).sqrt()
            nearest = torch.cat([f.indices for f in found])
            return distances.cpu().numpy().astype(np.float64), nearest.cpu().numpy()

    def _loss(self, rows: IntArray, neighbours: IntArray, draws: Draws) -> Any:
        """Summed over the windows ``rows``."""
        torch, device = self.torch, self.learn.device
        used, where = np.unique(np.append(rows, neighbours), return_inverse=True)
        F = self.network(self.learn[torch.as_tensor(used, device=device)])
        of_rows = F[torch.as_tensor(where[: len(rows)], device=device)]
        of_neighbours = F[
            torch.as_tensor(where[len(rows) :].reshape(neighbours.shape), device=device)
        ]
        meet = meetings(torch, draws, rows, neighbours, device)
        d = aligned(of_rows, of_neighbours, meet)
        n_targets = self.targets.shape[1]
        there = torch.as_tensor(neighbours[:, :n_targets] >= 0, device=device)
        to_targets, to_impostors = d[:, :n_targets], d[:, n_targets:]
        hinges = (1.0 + to_targets[:, :, None] - to_impostors[:, None, :]).clamp(min=0.0).mean(2)
        kept = there.sum(1).clamp(min=1)
        return (((hinges + PULL * to_targets) * there).sum(1) / kept).sum()

    def _impostors(self) -> IntArray:
        """The nearest windows of other labels under the expected distance, (n, n_impostors)."""
        torch = self.torch
        with torch.inference_mode():
            centres, scatter = self._centres(self.learn)
            found = []
            for begin in range(0, len(centres), ROWS):
                part = slice(begin, begin + ROWS)
                squared = torch.cdist(centres[part], centres) ** 2 + scatter
                squared[self.codes[part, None] == self.codes] = torch.inf
                found.append(squared.topk(self.n_impostors, largest=False).indices)
            nearest: IntArray = torch.cat(found).cpu().numpy()
            return nearest

    def _centres(self, X: Any) -> tuple[Any, Any]:
        """Expected aligned series, flat, and their scatters, as ``ExpectedAlignment`` has them."""
        F = self.network(X)
        centres = (self.root @ F).flatten(1)
        scatter = (F**2).sum((1, 2)) / F.shape[1] - (centres**2).sum(1)
        return centres, scatter.clamp(min=0.0)


def meetings(torch: Any, draws: Draws, rows: IntArray, neighbours: IntArray, device: Any) -> Any:
    """How much each pair of steps of a window (b,) and its neighbours (b, m) meet, (b, m, w, w).

    What is summed along the paths of all draws, ``Σ_l weight_l [p_l = a][q_l = b]``: many places
    of a path have the same pair, and no more than w² distances are needed, whatever the draws.
    """
    b, m = neighbours.shape
    width = (draws.steps.shape[2] + 1) // 2
    own = torch.as_tensor(draws.steps[rows].reshape(b, 1, -1), device=device)
    theirs = torch.as_tensor(draws.steps[neighbours].reshape(b, m, -1), device=device)
    weights = torch.as_tensor(draws.weights.ravel(), dtype=torch.float32, device=device)
    meet = torch.zeros(b, m, width * width, device=device)
    meet.scatter_add_(2, own * width + theirs, weights.expand(b, m, -1))
    return meet.view(b, m, width, width)


def aligned(F: Any, G: Any, meet: Any) -> Any:
    """Squared distances (b, m) of series F (b, w, k) to G (b, m, w, k), steps meeting as given."""
    b, m, width, _ = G.shape
    products = (F @ G.flatten(1, 2).transpose(1, 2)).view(b, width, m, width).transpose(1, 2)
    own = ((F**2).sum(2)[:, None] * meet.sum(3)).sum(2)
    theirs = ((G**2).sum(3) * meet.sum(2)).sum(2)
    return own + theirs - 2.0 * (products * meet).sum((2, 3))
