"""Which states the unlabelled steps may have, and with which confidence.

A recording is cut into cells of a few steps. Two opinions give each cell a state:

- the quick one compares summaries of windows (mean, spread and change of each channel) with those
  of the labelled spans. It takes a fraction of a second, so every label has its effect at once;
- the learned one is that of a classifier, which takes longer and knows more.

The learned one counts, but where a cell is nearest to a span that its classifier has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints, ShortRepr, Singles
from ..base.compiled import jit
from ..stream.conversion import changes
from ..stream.stream import Stream
from .span_list import Stretch, runs_of

MOST_CELLS = 16_384
MOST_REFERENCES = 512  # cells that stand for all labelled spans
MOST_SMOOTHED = 25  # cells of the shortest run that is proposed, at most
BLOCK = 2048  # cells compared at once


class Proposal(NamedTuple):
    """Steps ``start`` to ``end - 1`` may be in a state; ``confidence`` is from 0 to 1."""

    start: int
    end: int
    state: str
    confidence: float


class Cells:
    """The cells of all recordings, one after the other, and their summaries.

    Parameters
    ----------
    streams : sequence of Stream
        Of the same channels.
    width : int
        Steps of the window around a cell that is summarised.

    Attributes
    ----------
    size : int
        Steps of a cell.
    first : array of shape (R + 1,)
        The first cell of each recording.
    summaries : array of shape (n, 3d)
        In units of their spread over all cells.
    """

    def __init__(self, streams: Sequence[Stream], width: int) -> None:
        self.width = width
        self.lengths = [len(stream) for stream in streams]
        self.size = max(1, -(-sum(self.lengths) // MOST_CELLS))
        self.first: Ints = np.cumsum([0, *(-(-n // self.size) for n in self.lengths)])
        every = max(1, sum(self.lengths) // 200_000)
        sample = np.concatenate([stream.values[::every] for stream in streams])
        known = ~np.isnan(sample)
        counts = np.maximum(known.sum(axis=0), 1)  # a channel may miss all its values
        mean = np.where(known, sample, 0).sum(axis=0, dtype=np.float64) / counts
        away = np.where(known, sample - mean, 0)
        spread = np.sqrt((away**2).sum(axis=0) / counts)
        spread[~(spread > 0)] = 1.0
        made = [self._summaries(stream.values, mean, spread) for stream in streams]
        self.summaries: Singles = np.concatenate(made)
        scale = self.summaries.std(axis=0)
        scale[~(scale > 0)] = 1.0
        self.summaries -= self.summaries.mean(axis=0)
        self.summaries /= scale

    def __len__(self) -> int:
        return len(self.summaries)

    def _summaries(self, values: NDArray[Any], mean: Floats, spread: Floats) -> Singles:
        T, d = values.shape
        middle = np.arange(0, T, self.size) + self.size // 2
        low = np.clip(middle - self.width // 2, 0, max(0, T - self.width))
        made = np.empty((len(middle), 3 * d), np.float32)
        _summarise(values, mean, spread, low, np.minimum(low + self.width, T), made)
        return made

    def inside(self, recording: int, start: int, end: int) -> tuple[int, int]:
        """The cells whose middle is in a span; at least the one that it begins in."""
        first, half = int(self.first[recording]), self.size // 2
        low = -(-(start - half) // self.size)
        high = -(-(end - half) // self.size)
        if high <= low:
            low = min(start // self.size, int(self.first[recording + 1]) - first - 1)
            high = low + 1
        return first + max(low, 0), first + min(high, int(self.first[recording + 1]) - first)

    def steps(self, recording: int, low: int, high: int) -> tuple[int, int]:
        """The steps of some cells."""
        first = int(self.first[recording])
        return (low - first) * self.size, min((high - first) * self.size, self.lengths[recording])


@jit()
def _summarise(values, mean, spread, low, high, made):  # type: ignore[no-untyped-def]
    """Mean, deviation and mean change of each channel in some windows; a missing value is usual."""
    for i in range(len(low)):
        n = max(1, high[i] - low[i])
        for c in range(values.shape[1]):
            total = squares = change = before = 0.0
            for t in range(low[i], high[i]):
                z = (values[t, c] - mean[c]) / spread[c]
                z = min(max(z, -1e3), 1e3) if z == z else 0.0
                total += z
                squares += z * z
                if t > low[i]:
                    change += abs(z - before)
                before = z
            made[i, 3 * c] = total / n
            made[i, 3 * c + 1] = np.sqrt(max(squares / n - (total / n) ** 2, 0.0))
            made[i, 3 * c + 2] = change / n


@dataclass(frozen=True, eq=False, repr=False)
class CellStates(ShortRepr):
    """A state for each cell: an index of ``states``, -1 where there is none; and the confidence."""

    states: list[str]
    codes: Ints
    confidence: Singles
    nearest: Ints  # which labelled span is nearest, -1 if that is not known

    @classmethod
    def nothing(cls, n: int) -> CellStates:
        none = np.full(n, -1)
        return cls([], none, np.zeros(n, np.float32), none)


def quick_opinion(cells: Cells, spans: Sequence[Sequence[Stretch]]) -> CellStates:
    """What the labelled spans of all recordings say at once; nothing of fewer than two states."""
    flat = [(r, piece) for r, pieces in enumerate(spans) for piece in pieces]
    states = sorted({piece.state for _, piece in flat})
    if len(states) < 2:
        return CellStates.nothing(len(cells))
    # Each has one cell at least, so not all of very many can be heard.
    heard = _spread(0, len(flat), MOST_REFERENCES)
    most = max(1, MOST_REFERENCES // len(heard))
    rows, owner, codes = [], [], []
    code_of = {state: code for code, state in enumerate(states)}
    for i in heard.tolist():
        recording, piece = flat[i]
        chosen = _spread(*cells.inside(recording, piece.start, piece.end), most)
        rows.append(chosen)
        owner.append(np.full(len(chosen), i))
        codes.append(np.full(len(chosen), code_of[piece.state]))
    row, own, code = np.concatenate(rows), np.concatenate(owner), np.concatenate(codes)
    order = np.argsort(code, kind="stable")
    row, own, code = row[order], own[order], code[order]
    X = cells.summaries * _weights(cells.summaries[row], code)
    R = X[row]
    squares, own_squares = (R * R).sum(axis=1), (X * X).sum(axis=1)
    usual, n = _usual_distance(R, code), len(X)
    at, confidence = np.empty(n, np.int64), np.empty(n, np.float32)
    begins = np.flatnonzero(changes(code, len(code), first=True))
    for low in range(0, n, BLOCK):
        part = slice(low, low + BLOCK)
        D = own_squares[part, None] - 2 * (X[part] @ R.T)
        D += squares
        at[part] = D.argmin(axis=1)
        to_states = np.maximum(np.minimum.reduceat(D, begins, axis=1), 1e-6)
        two = np.partition(to_states, min(1, len(begins) - 1), axis=1)[:, :2]
        first, second = two[:, 0], two[:, -1]
        # The odds of the nearest state; less where even that is farther than usual.
        odds = second / first * np.minimum(1.0, usual / first)
        confidence[part] = odds / (1 + odds)
    least = np.float32(1 / len(states))
    return CellStates(states, code[at], np.maximum(confidence, least), own[at])


def _spread(low: int, high: int, most: int) -> Ints:
    """At most so many of the numbers from ``low`` to ``high - 1``, evenly spread."""
    return np.unique(np.linspace(low, high - 1, min(most, high - low)).round().astype(np.int64))


def _weights(R: Singles, code: Ints) -> Singles:
    """Summaries count by how little they vary within a state."""
    within = np.zeros(R.shape[1])
    for one in np.unique(code):
        mine = R[code == one]
        within += len(mine) * mine.var(axis=0)
    return (1 / np.sqrt(within / len(R) + 0.1)).astype(np.float32)


def _usual_distance(R: Singles, code: Ints) -> float:
    """The squared distance to the nearest of the same state that most references are within."""
    found = []
    for one in np.unique(code):
        mine = R[code == one][:256]
        if len(mine) > 1:
            D = ((mine[:, None] - mine[None]) ** 2).sum(axis=2)
            np.fill_diagonal(D, np.inf)
            found.append(D.min(axis=1))
    return max(float(np.quantile(np.concatenate(found), 0.9)), 1e-3) * 4 if found else np.inf


def without_short_runs(codes: Ints, shortest: int) -> Ints:
    """Runs of fewer cells take the state of the longer neighbour."""
    codes = codes.copy()
    for least in range(2, shortest + 1):  # the shortest first
        begins, ends = runs_of(codes)
        lengths = ends - begins
        if len(begins) < 2:
            break
        short = np.flatnonzero(lengths < least)
        for i in short.tolist():
            left = lengths[i - 1] if i else -1
            right = lengths[i + 1] if i + 1 < len(lengths) else -1
            codes[begins[i] : ends[i]] = codes[begins[i] - 1 if left >= right else ends[i]]
    return codes


def merged_opinions(
    quick: CellStates, learned: CellStates | None, seen: Sequence[bool] | None
) -> CellStates:
    """The learned opinion where its classifier has seen what counts there, else the quick one.

    Parameters
    ----------
    seen : sequence of bool, or None
        Which labelled spans the classifier was learned from, as they are now. None for one that
        was learned from another recording: then the more confident opinion counts.
    """
    if learned is None:
        return quick
    states = sorted({*quick.states, *learned.states})
    code_of = {state: code for code, state in enumerate(states)}
    as_ours = np.array([*(code_of[state] for state in quick.states), -1])
    as_learned = np.array([*(code_of[state] for state in learned.states), -1])
    known = learned.codes >= 0
    if quick.states and seen is None:
        known &= learned.confidence >= quick.confidence
    elif quick.states and seen is not None:
        known &= np.array([*seen, False])[quick.nearest]
        gone = np.array([*(state not in quick.states for state in learned.states), False])
        known &= ~gone[learned.codes]  # of a state that no span has any more
    return CellStates(
        states,
        np.where(known, as_learned[learned.codes], as_ours[quick.codes]),
        np.where(known, learned.confidence, quick.confidence).astype(np.float32),
        quick.nearest,
    )


def proposals(cells: Cells, opinion: CellStates, recording: int) -> list[Proposal]:
    """The runs of cells of one state, as spans of steps."""
    low, high = int(cells.first[recording]), int(cells.first[recording + 1])
    if low == high:
        return []
    # Runs shorter than a window are seldom states.
    shortest = min(MOST_SMOOTHED, max(1, cells.width // cells.size))
    codes = without_short_runs(opinion.codes[low:high], shortest)
    confidence = opinion.confidence[low:high]
    begins, ends = runs_of(codes)
    means = np.add.reduceat(confidence, begins) / (ends - begins)
    return [
        Proposal(*cells.steps(recording, low + a, low + b), opinion.states[codes[a]], float(mean))
        for a, b, mean in zip(begins.tolist(), ends.tolist(), means.tolist(), strict=True)
        if codes[a] >= 0
    ]


def opinion_of_steps(
    cells: Cells, states: Sequence[str], codes: Sequence[Ints], confidence: Sequence[Floats]
) -> CellStates:
    """The state that most steps of each cell have, from codes (T,) and certainties by recording."""
    made, means = [], []
    for c, p in zip(codes, confidence, strict=True):
        begins = np.arange(0, len(c), cells.size)
        votes = np.array([np.add.reduceat(c == k, begins) for k in range(len(states))])
        best = votes.argmax(axis=0) if len(states) else np.full(len(begins), -1)
        none = votes.sum(axis=0) == 0 if len(states) else np.ones(len(begins), bool)
        steps = np.minimum(cells.size, len(c) - begins)
        means.append(np.add.reduceat(np.nan_to_num(p), begins) / steps)
        made.append(np.where(none, -1, best))
    found, sure = np.concatenate(made), np.concatenate(means).astype(np.float32)
    return CellStates(list(states), found, sure, np.full(len(found), -1))
