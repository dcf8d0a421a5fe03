"""Impostors: every pair of windows that may violate a margin of Eq. 2, and provably no fewer.

For an embedding ``z`` a pair (i, l) of different states matters only while
``‖z_i - z_l‖ < max(h_i, h_l)``, with ``h_i`` the radius of the farthest margin of i. From one
evaluation of the loss to the next the embedding moves a little; by the triangle inequality

    ‖z_i - z_l‖ ≥ ‖z⁰_i - z⁰_l‖ - ‖z_i - z⁰_i‖ - ‖z_l - z⁰_l‖,

so a list of the pairs closer than ``max(h⁰_i, h⁰_l) + s_i + s_l`` at z⁰ holds every pair that
matters while no window has used up its slack: ``‖z_i - z⁰_i‖ + max(h_i - h⁰_i, 0) ≤ s_i``. A pair
that is not on the list is *provably* inactive. The search over all pairs runs in single precision,
with its rounding error added to the radius.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.compiled import jit

ROWS = 512  # windows per block of the all-pairs search
KEPT_PAIRS = 6_000_000  # a longer list (4 bytes a pair) is not kept: the search runs every time
KEPT_FRACTION = 0.1  # nor is one that holds a larger fraction of all pairs
FORESIGHT = (16.0, 8.0, 4.0, 2.0, 1.0)  # slack tried, in units of each window's last movement
SEARCH_COST = 0.3  # of a new search, in visits of listed pairs, per pair of windows
SAMPLED_PAIRS = 3_000


@dataclass(frozen=True)
class PairBlock:
    """Pairs (first + r, cols[p]) for p in ptr[r] … ptr[r+1], each pair once, in order."""

    first: int
    ptr: Ints
    cols: NDArray[np.int32]


@dataclass(frozen=True)
class _Anchor:
    Z: Floats
    radius: Floats
    slack: Floats
    blocks: list[PairBlock]
    n_pairs: int


class ImpostorSearch:
    """Candidate pairs for a sequence of embeddings of the same windows.

    Parameters
    ----------
    rectangles : array of shape (m, 4)
        The pairs: rows ``[first, second)`` against columns ``[third, fourth)``.

    Attributes
    ----------
    n_searches : int
        How many times all pairs have been searched.
    """

    def __init__(self, rectangles: Ints) -> None:
        self.rectangles = rectangles
        rows, cols = (rectangles[:, i + 1] - rectangles[:, i] for i in (0, 2))
        self.n_pairs = int((rows * cols).sum())
        self._widest = int(cols.max(initial=0))
        self._sample = _sample_pairs(rectangles)
        self._anchor: _Anchor | None = None
        self._last: tuple[Floats, Floats] | None = None
        self._visited = 0
        self.n_searches = 0

    def candidates(self, Z: Floats, radius: Floats) -> Iterator[PairBlock]:
        """Blocks of pairs that hold every (i, l) with ``‖z_i - z_l‖ < max(radius_i, radius_l)``."""
        anchor = self._anchor
        # A list serves until it may miss a pair, or until visiting it has cost as much as finding a
        # shorter one.
        if (
            anchor is not None
            and self._visited <= SEARCH_COST * self.n_pairs
            and (_movement(Z, radius, anchor.Z, anchor.radius) <= anchor.slack).all()
        ):
            self._last = (Z, radius)
            self._visited += anchor.n_pairs
            yield from anchor.blocks
        else:
            yield from self._search(Z, radius)

    def _search(self, Z: Floats, radius: Floats) -> Iterator[PairBlock]:
        self.n_searches += 1
        slack = self._choose_slack(Z, radius)
        self._last, self._anchor, self._visited = (Z, radius), None, 0
        kept: list[PairBlock] | None = []
        n_kept = 0
        Z32 = Z.astype(np.float32)
        squared = np.einsum("ij,ij->i", Z, Z)
        # |fl(z_i·z_l) - z_i·z_l| ≤ γ_r ‖z_i‖‖z_l‖ ≤ γ_r (‖z_i‖² + ‖z_l‖²)/2, doubled by the factor
        # 2 of the expansion; a few more roundings for the norms and the sum.
        rounding = (Z.shape[1] + 16) * float(np.finfo(np.float32).eps) * squared
        buffer = np.empty(ROWS * self._widest, np.int32)
        sides = [a.astype(np.float32) for a in (squared, radius, slack, rounding)]
        for low, high, left, right in self.rectangles.tolist():
            for first in range(low, high, ROWS):
                last = min(first + ROWS, high)
                gram = Z32[first:last] @ Z32[left:right].T
                ptr = np.empty(last - first + 1, np.int64)
                _closer_than(gram, first, left, *sides, buffer, ptr)
                block = PairBlock(first, ptr, buffer[: ptr[-1]].copy())
                n_kept += len(block.cols)
                if kept is not None and n_kept <= KEPT_PAIRS:
                    kept.append(block)
                else:
                    kept = None
                yield block
        if kept is not None:
            self._anchor = _Anchor(Z, radius, slack, kept, n_kept)

    def _choose_slack(self, Z: Floats, radius: Floats) -> Floats:
        """As much slack as keeps the list short, judged on a sample of pairs."""
        if self._last is None:
            return np.zeros(len(Z))
        moved = _movement(Z, radius, *self._last)
        i, l = self._sample  # noqa: E741
        apart = Z[i] - Z[l]
        free = np.sqrt(np.einsum("ij,ij->i", apart, apart)) - np.maximum(radius[i], radius[l])
        limit = min(KEPT_FRACTION, KEPT_PAIRS / max(self.n_pairs, 1))
        for foresight in FORESIGHT:
            if (free < foresight * (moved[i] + moved[l])).mean() <= limit:
                return foresight * moved
        return np.zeros(len(Z))


def _sample_pairs(
    rectangles: Ints,
) -> tuple[Ints, Ints]:
    """Random pairs of the rectangles."""
    rng = np.random.default_rng(0)
    low, high, left, right = rectangles.T
    until = np.cumsum((high - low) * (right - left))
    if not len(until) or not until[-1]:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pair = rng.integers(0, until[-1], SAMPLED_PAIRS)
    of = np.searchsorted(until, pair, side="right")
    rank = pair - until[of] + (high - low)[of] * (right - left)[of]
    return low[of] + rank // (right - left)[of], left[of] + rank % (right - left)[of]


def _movement(Z: Floats, radius: Floats, Z0: Floats, radius0: Floats) -> Floats:
    """How much of its slack each window has used between two embeddings."""
    moved = Z - Z0
    distance: Any = np.sqrt(np.einsum("ij,ij->i", moved, moved))
    return distance + np.maximum(radius - radius0, 0)


@jit()
def _closer_than(gram, first, offset, squared, radius, slack, rounding, cols, ptr):  # type: ignore[no-untyped-def]
    """Collect the columns closer than the radius of either side plus both slacks."""
    n_rows, n_cols = gram.shape
    found = 0
    for r in range(n_rows):
        ptr[r] = found
        i = first + r
        sq_i, radius_i, slack_i, rounding_i = squared[i], radius[i], slack[i], rounding[i]
        for begin in range(0, n_cols, 64):
            end = min(begin + 64, n_cols)
            hits = 0
            # A branch-free pass over 64 pairs, which the compiler vectorises; most blocks hold no
            # such pair and end here.
            for c in range(begin, end):
                l = offset + c  # noqa: E741
                reach = max(radius_i, radius[l]) + slack_i + slack[l]
                bound = reach * reach * np.float32(1.00001) + rounding_i + rounding[l]
                hits += sq_i + squared[l] - np.float32(2) * gram[r, c] < bound
            if hits:
                for c in range(begin, end):
                    l = offset + c  # noqa: E741
                    reach = max(radius_i, radius[l]) + slack_i + slack[l]
                    bound = reach * reach * np.float32(1.00001) + rounding_i + rounding[l]
                    if sq_i + squared[l] - np.float32(2) * gram[r, c] < bound:
                        cols[found] = l
                        found += 1
    ptr[n_rows] = found
