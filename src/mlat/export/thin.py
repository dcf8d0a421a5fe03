"""Fewer references that decide as all of them do.

References overlap, so what is dropped is whole blocks of successive ones. Blocks are kept one after
the other, each time the one that brings the distances to a window's nearest two states nearest to
what they are with all references, for each step that it adds: a block beside another shares steps
with it. (To choose by the decisions themselves was worse on new streams: it fits the windows that
choose.) Training windows stand for new ones: each is compared with
references of another time only. Half of them choose the blocks, the other half says how many
decisions stay the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..checks import Bools, Floats, Ints
from ..classifier.classifier import StreamClassifier
from ..classifier.committee import SOFT
from ..classifier.held_out import held_out_gap, rows_nearby
from ..errors import InputError

MOST_JUDGED = 1000  # windows, evenly spaced
LEAST_BLOCK = 5  # references of a block, where windows are narrower


class Thinned(NamedTuple):
    """Which references are kept, and the fraction of decisions that stay the same."""

    rows: Ints
    agreement: float


class Thinning:
    """The order in which blocks of references are worth keeping."""

    def __init__(self, clf: StreamClassifier) -> None:
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
        self._width = windows.width
        piece = (np.arange(n) - first) // size
        self._block = np.cumsum(begins | np.append(True, np.diff(piece) != 0)) - 1
        # Whether a block shares steps with the one before it.
        edge = np.searchsorted(self._block, np.arange(1, self._block[-1] + 1))
        self._follows = np.append(False, ~begins[edge])
        self._state = self._codes[np.searchsorted(self._block, np.arange(self._block[-1] + 1))]
        judged = np.arange(0, n, max(1, -(-n // MOST_JUDGED)))
        gap = held_out_gap(windows.start, self._codes, windows.width)
        away = rows_nearby(windows.start, self._codes, gap)[judged]
        committee = clf.committee_
        self._weight: Floats = np.ones(1)
        typical: Floats = np.array([clf.confidence_.calibration.typical])
        if committee is not None:
            self._weight, typical = committee.powers
        self._logs = np.stack(
            [
                np.log(_to_blocks(expert.embedded(), judged, away, self._block) / unit + SOFT)
                for expert, unit in zip(clf.experts_, typical, strict=True)
            ]
        )
        # Neighbours in time are near-copies: whole blocks go to one half or the other.
        self._chooses = self._block[judged] % 2 == 0
        self.order = self._order()

    def keep(self, n_references: int) -> Thinned:
        """At most so many references, and at least a block of each state."""
        sizes = np.bincount(self._block)
        total = np.cumsum(sizes[self.order])
        least = len(np.unique(self._state))
        n_blocks = max(least, int(np.searchsorted(total, n_references, side="right")))
        kept = np.zeros(len(sizes), bool)
        kept[self.order[:n_blocks]] = True
        rows = np.flatnonzero(kept[self._block])
        judged = ~self._chooses if (~self._chooses).any() else self._chooses
        same = self._decisions(kept)[judged] == self._decisions(np.ones_like(kept))[judged]
        return Thinned(rows, float(same.mean()))

    def _decisions(self, kept: Bools) -> Ints:
        logs = np.where(kept, self._logs, np.inf)
        scores = np.stack(
            [
                np.tensordot(self._weight, logs[:, :, self._state == s].min(axis=2), 1)
                for s in np.unique(self._state)
            ],
            axis=1,
        )
        found: Ints = scores.argmin(axis=1)
        return found

    def _order(self) -> Ints:
        """Blocks by worth: first one of each state, then whatever changes distances most."""
        states = np.unique(self._state)
        logs = self._logs[:, self._chooses]
        far = float(logs[np.isfinite(logs)].max()) if np.isfinite(logs).any() else 0.0
        logs = np.minimum(logs, far)  # (M, n, B)
        whole = np.stack([logs[:, :, self._state == s].min(axis=2) for s in states], axis=2)
        score = np.tensordot(self._weight, whole, 1)
        # Only the nearest two states of a window decide.
        counts = score <= np.sort(score, axis=1)[:, min(1, len(states) - 1), None]
        now = np.full_like(whole, far)
        place = np.searchsorted(states, self._state)
        left = np.ones(len(self._state), bool)
        sizes = np.bincount(self._block)
        order: list[int] = []
        while left.any():
            gain = np.full(len(left), -1.0)
            for s in range(len(states)):
                mine = np.flatnonzero(left & (place == s))
                if len(mine):
                    better = np.maximum(now[:, :, s, None] - logs[:, :, mine], 0.0)
                    gain[mine] = np.tensordot(self._weight, better, 1)[counts[:, s]].sum(axis=0)
            if len(order) < len(states):  # one of each state comes first
                gain[np.isin(place, place[order])] = -1.0
            best = int((gain / self._steps_added(~left, sizes)).argmax())
            order.append(best)
            left[best] = False
            s = place[best]
            now[:, :, s] = np.minimum(now[:, :, s], logs[:, :, best])
        return np.array(order)

    def _steps_added(self, kept: Bools, sizes: Ints) -> Floats:
        """How many steps each block adds to those kept: fewer beside a kept one."""
        before = self._follows & np.append(False, kept[:-1])
        after = np.append(self._follows[1:], False) & np.append(kept[1:], False)
        shared = self._width - 1
        added = sizes + shared * (1.0 - before - after)
        return np.maximum(added, 1.0)


def _to_blocks(points: Floats, judged: Ints, away: Ints, block: Ints) -> Floats:
    """The distance of each judged point to the nearest of each block, its own time left out."""
    begins = np.searchsorted(block, np.arange(block[-1] + 1))
    squares = (points**2).sum(axis=1)
    result = np.empty((len(judged), len(begins)))
    rows = np.arange(len(points))
    for i, row in enumerate(judged):
        found = squares - 2 * points @ points[row] + squares[row]
        found[(rows >= away[i, 0]) & (rows < away[i, 1])] = np.inf
        result[i] = np.minimum.reduceat(found, begins)
    return np.sqrt(np.maximum(result, 0.0))
