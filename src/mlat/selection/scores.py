"""How well windows tell their states by the windows of another part of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..voting import vote

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# How steeply a relative margin counts: at 1/20 nearer to its own state a window counts 73 %.
STEEPNESS = 20.0
# How many standard errors count as its error. Blocks are few and not wholly independent; between
# 1 and 1.5 the development persons fare alike.
ERRORS = 1.25
LEAST_LEAD = 1e-3


@dataclass(frozen=True, eq=False)
class Marks:
    """What each judged window got, its state and its block.

    Attributes
    ----------
    soft : array of shape (n,)
        Between 0 and 1: how much nearer the nearest of its own state is than the nearest of
        another. Where nearly all windows are right, this still tells which choice is safer.
    right : array of shape (n,)
    codes, block : arrays of shape (n,)
    """

    soft: Floats
    right: Floats
    codes: Ints
    block: Ints

    @classmethod
    def join(cls, parts: Sequence[Marks]) -> Marks:
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("soft", "right", "codes", "block")
            )
        )

    @property
    def score(self) -> float:
        return float(_by_state(self.soft, self.codes).mean())

    @property
    def accuracy(self) -> float:
        """In percent, every state counting the same."""
        return 100 * float(_by_state(self.right, self.codes).mean())

    def error(self, other: Marks) -> float:
        """The standard error of how far the score is from another's, over blocks.

        Windows of one block are near-copies of each other, so a block counts as one.
        """
        block = np.unique(self.block, return_inverse=True)[1]
        apart = np.bincount(block, self.soft - other.soft) / np.bincount(block)
        if len(apart) < 2:
            return float("inf")
        return float(apart.std(ddof=1) / np.sqrt(len(apart)))


def is_ahead(rival: Marks, best: Marks) -> bool:
    """Whether a rival's score is higher by more than its error, and by what anyone would notice."""
    return rival.score - best.score > max(ERRORS * rival.error(best), LEAST_LEAD)


def judge(
    references: Floats, known: Ints, windows: Floats, codes: Ints, block: Ints, n_neighbors: int
) -> Marks:
    """Marks for windows (n, D) by references (m, D) and their states."""
    squared = (
        np.einsum("ij,ij->i", windows, windows)[:, None]
        + np.einsum("ij,ij->i", references, references)
        - 2 * windows @ references.T
    )
    distance = np.sqrt(np.maximum(squared, 0))
    own = codes[:, None] == known
    k = min(n_neighbors, len(references))
    # With more neighbours a state is as far as the k-th of its windows on average.
    same = _mean_of_nearest(np.where(own, distance, np.inf), k)
    other = _mean_of_nearest(np.where(own, np.inf, distance), k)
    margin = (other - same) / np.maximum(other + same, 1e-300)
    soft = 1 / (1 + np.exp(-STEEPNESS * margin))
    nearest = np.argpartition(distance, k - 1, axis=1)[:, :k]
    voted, _ = vote(
        known[nearest], np.take_along_axis(distance, nearest, axis=1), int(known.max()) + 1
    )
    return Marks(soft, (voted == codes).astype(np.float64), codes, block)


def _mean_of_nearest(distance: Floats, k: int) -> Floats:
    if k == 1:
        nearest: Floats = distance.min(axis=1)
        return nearest
    few = np.partition(distance, k - 1, axis=1)[:, :k]
    finite = np.isfinite(few)
    return np.where(finite, few, 0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)


def _by_state(values: Floats, codes: Ints) -> Floats:
    states = np.unique(codes, return_inverse=True)[1]
    return np.bincount(states, values) / np.bincount(states)
