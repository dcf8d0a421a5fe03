"""Fewer references that decide as all of them do.

References overlap, so what is dropped is whole blocks of successive ones. Blocks are kept one after
the other, each time the one that brings the distances to a window's nearest two states nearest to
what they are with all references; where steps are what costs, for each step that it adds, since a
block beside another shares steps with it. (To choose by the decisions themselves was worse on new
streams: it fits the windows that choose.)

Training windows stand for new ones: each is compared with references of another time only. Half of
them choose the blocks, the other half says how many decisions stay the same.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.checks import Bools, Floats, Ints
from ..base.errors import InputError
from ..neighbours.references import References
from .committee import SOFT
from .held_out import held_out_gap, rows_nearby

if TYPE_CHECKING:
    from .classifier import StreamClassifier

MOST_JUDGED = 1000  # windows, evenly spaced
LEAST_BLOCK = 5  # references of a block, where windows are narrower
AT_A_TIME = 32  # judged windows that are compared with all references


class Kept(NamedTuple):
    """Which references are kept, and the fraction of decisions that stay the same."""

    rows: Ints
    agreement: float


class Thinning:
    """The order in which blocks of references are worth keeping.

    Parameters
    ----------
    clf : StreamClassifier
    by_steps : bool, default=False
        Whether the stored steps are what costs, and not the references.
    """

    def __init__(self, clf: StreamClassifier, *, by_steps: bool = False) -> None:
        if clf.n_neighbors_ > 1:
            raise InputError(
                "references are thinned for the nearest one; with several neighbours keep all"
            )
        widest = max(clf.experts_, key=lambda expert: expert.windows.width)
        windows, self._codes = widest.windows, widest.codes
        n = len(self._codes)
        size = max(windows.width, LEAST_BLOCK)
        within = np.concatenate([np.arange(len(rows)) for _, rows in windows.by_run()])
        begins = np.append(True, (np.diff(within) != 1) | (np.diff(self._codes) != 0))
        first = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
        piece = (np.arange(n) - first) // size
        self._block = np.cumsum(begins | np.append(True, np.diff(piece) != 0)) - 1
        self._state = self._codes[np.searchsorted(self._block, np.arange(self._block[-1] + 1))]
        # The steps that a block shares with the one before it.
        edge = np.searchsorted(self._block, np.arange(1, self._block[-1] + 1))
        self._shared = np.append(0, np.where(begins[edge], 0, windows.width - 1))
        self._by_steps, self._width = by_steps, windows.width
        # What looks back is computed from the beginning of a run, whose first window stays, too.
        first_of_run = np.flatnonzero(np.diff(windows.run, prepend=-1))
        self._first = first_of_run if clf.features_.lift.memory else first_of_run[:0]
        self._run = np.searchsorted(first_of_run, np.arange(n), side="right") - 1
        judged = np.arange(0, n, max(1, -(-n // MOST_JUDGED)))
        gap = held_out_gap(windows.start, self._codes, windows.width)
        away = rows_nearby(windows.start, self._codes, gap)[judged]
        self._weight, typical = clf.committee_.powers
        typical = typical * clf.confidence_.calibration.typical  # of one expert, which has it there
        self._logs = np.stack(
            [
                np.log(_to_blocks(expert, judged, away, self._block) / unit + SOFT)
                for expert, unit in zip(clf.experts_, typical, strict=True)
            ]
        ).astype(np.float32)
        # Neighbours in time are near-copies: whole blocks go to one part or another.
        block = self._block[judged]
        self._chooses = block % 2 == 0
        self._counts, self._checks = block % 4 == 1, block % 4 == 3
        self._whole = self._decisions(np.ones(self._block[-1] + 1, bool))
        self.order = self._order()

    def keep(self, n_references: int) -> Kept:
        """At most so many references, and at least a block of each state.

        For features that look back, the first window of every run that keeps some stays, too.
        """

        def size(n_blocks: int) -> int:
            return len(self._rows(n_blocks))

        least, blocks = len(np.unique(self._state)), range(len(self.order) + 1)
        n = bisect_right(blocks, n_references, least, key=size) - 1
        return self._kept(max(n, least), ~self._chooses)

    def keep_share(self, share: float) -> Kept:
        """As few references as leave this share of decisions the same.

        Some of the windows that had no part in choosing say how many that is. Of the others, which
        have no part in this either, is the agreement.
        """
        least = len(np.unique(self._state))

        def agreement(n_blocks: int) -> float:
            return self._agreement(n_blocks, self._counts)

        n = bisect_left(range(len(self.order)), share, least, key=agreement)
        return self._kept(n, self._checks)

    def _kept(self, n_blocks: int, judged: Bools) -> Kept:
        return Kept(self._rows(n_blocks), self._agreement(n_blocks, judged))

    def _rows(self, n_blocks: int) -> Ints:
        kept = self._mask(n_blocks)[self._block]
        if len(self._first):
            kept[self._first[np.unique(self._run[kept])]] = True
        return np.flatnonzero(kept)

    def _mask(self, n_blocks: int) -> Bools:
        kept = np.zeros(len(self.order), bool)
        kept[self.order[:n_blocks]] = True
        return kept

    def _agreement(self, n_blocks: int, judged: Bools) -> float:
        judged = judged if judged.any() else np.ones_like(judged)
        same = self._decisions(self._mask(n_blocks))[judged] == self._whole[judged]
        return float(same.mean())

    def _decisions(self, kept: Bools) -> Ints:
        scores = np.stack(
            [
                np.tensordot(
                    self._weight,
                    self._logs[:, :, kept & (self._state == s)].min(axis=2, initial=np.inf),
                    1,
                )
                for s in np.unique(self._state)
            ],
            axis=1,
        )
        found: Ints = scores.argmin(axis=1)
        return found

    def _order(self) -> Ints:
        """Blocks by worth: first one of each state, then whatever changes distances most.

        What a block is worth falls as others are kept. So it is computed again only where it is
        next by what it was worth before, or beside one that was kept.
        """
        states = np.unique(self._state)
        logs = self._logs[:, self._chooses]
        far = float(logs[np.isfinite(logs)].max()) if np.isfinite(logs).any() else 0.0
        logs = np.minimum(logs, far)  # (M, n, B)
        whole = np.stack([logs[:, :, self._state == s].min(axis=2) for s in states], axis=2)
        score = np.tensordot(self._weight, whole, 1)
        # Only the nearest two states of a window decide.
        counts = score <= np.sort(score, axis=1)[:, min(1, len(states) - 1), None]
        place = np.searchsorted(states, self._state)
        by_block = np.ascontiguousarray(logs.transpose(2, 0, 1))  # (B, M, n)
        now = np.full((len(states), *by_block.shape[1:]), far)

        sizes = np.bincount(self._block)
        there = np.zeros(len(place) + 2, bool)  # what is kept, with an edge on both sides
        shared = np.append(self._shared, 0)

        def cost(block: int) -> float:
            """The steps that a block adds to those kept: fewer beside a kept one."""
            if not self._by_steps:
                return 1.0
            before, after = there[block] * shared[block], there[block + 2] * shared[block + 1]
            return max(1.0, float(sizes[block] + self._width - 1 - before - after))

        def worth(block: int) -> float:
            s = place[block]
            better = np.maximum(now[s] - by_block[block], 0.0)
            return float(np.tensordot(self._weight, better, 1) @ counts[:, s]) / cost(block)

        order: list[int] = []
        fresh = np.zeros(len(place), np.int64)  # how many of its state were kept when computed
        kept = np.zeros(len(states), np.int64)

        def take(block: int) -> None:
            s = place[block]
            order.append(block)
            now[s] = np.minimum(now[s], by_block[block])
            kept[s] += 1
            there[block + 1] = True

        first = [worth(block) for block in range(len(place))]
        blocks = range(len(place))
        best = [
            max((b for b in blocks if place[b] == s), key=lambda b: first[b])
            for s in range(len(states))
        ]
        for block in sorted(best, key=lambda block: (-first[block], block)):
            take(block)
        taken = set(order)
        left = [(-first[block], block) for block in range(len(place)) if block not in taken]
        heapq.heapify(left)
        while left:
            _, block = heapq.heappop(left)
            if there[block + 1]:
                continue
            if fresh[block] == kept[place[block]]:
                take(block)
                for beside in (block - 1, block + 1):  # which may cost less now
                    if self._by_steps and 0 <= beside < len(place) and not there[beside + 1]:
                        fresh[beside] = kept[place[beside]]
                        heapq.heappush(left, (-worth(beside), beside))
                continue
            fresh[block] = kept[place[block]]
            heapq.heappush(left, (-worth(block), block))
        return np.array(order)


def _to_blocks(expert: References, judged: Ints, away: Ints, block: Ints) -> Floats:
    """The distance of each judged window to the nearest of each block, its own time left out."""
    begins = np.searchsorted(block, np.arange(block[-1] + 1))
    points = expert.embedded()
    squares = (points**2).sum(axis=1)
    result = np.empty((len(judged), len(begins)))
    for begin in range(0, len(judged), AT_A_TIME):
        some = judged[begin : begin + AT_A_TIME]
        found = squares - 2 * (points[some] @ points.T) + squares[some, None]
        for i in range(len(some)):
            found[i, slice(*away[begin + i])] = np.inf
        result[begin : begin + AT_A_TIME] = np.minimum.reduceat(found, begins, axis=1)
    return np.sqrt(np.maximum(result, 0.0))
