"""Signs that a score will say nothing: rows out of order, windows that overlap, copied stretches.

A window of steps that did not follow each other means nothing. A random part of the steps, such as
scikit-learn's ``KFold(shuffle=True)`` and ``train_test_split`` take, gives such windows.

A splitter that does not know of time puts windows that follow each other on both sides of a split.
They share all steps but one, so a score says nothing. Nothing in the training part shows it; the
test part does, once it comes: a window that goes on where a training window ends, and is none.

A recording that was copied, or that begins before the one before it ends, has the same steps twice.
One of them predicts the other, and noise looks learnable. A stretch of the stream is a copy where
it equals an earlier one, value for value, and its quarters are found nowhere else. Equality alone
is no sign: sensors at rest, values of few digits and machines in a cycle repeat themselves, but of
these a quarter of a stretch is found more often than the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints
from .stream import Stream

FEWEST_STEPS = 4  # of a window; fewer values may be equal by chance
FEWEST_COPIED = 8  # steps of a copied stretch
FEW_STEPS = 20  # fewer show nothing
LIKE_RANDOM = 0.8  # of the switches of states, or the roughness, that a random order has
PERIOD_WIDTHS = 10  # a segment that repeats itself after fewer widths is periodic, not copied

Keys = NDArray[np.uint64]


class SeenWindows:
    """What is needed to know the neighbours in time of windows again, given in blocks (m, w, d)."""

    def __init__(self, blocks: Iterable[Floats]) -> None:
        keys = []
        for windows in blocks:
            self._width = windows.shape[1]
            keys.append((_keys(windows), *_ends(windows)))
        whole, heads, tails = (np.sort(np.concatenate(one)) for one in zip(*keys, strict=True))
        self._whole, self._heads, self._tails = whole, heads, tails

    def __len__(self) -> int:
        return len(self._whole)

    def neighbours(self, windows: Floats) -> Bools:
        """Which windows come one step before or after a seen one, and are none of them, (n,)."""
        if self._width < FEWEST_STEPS or not len(windows) or not len(self):
            return np.zeros(len(windows), dtype=bool)
        heads, tails = _ends(windows)
        near = _in(heads, self._tails) | _in(tails, self._heads)
        rows = np.flatnonzero(near)
        # Values that do not change are equal to those of any other time.
        inner = windows[rows, 1:-1]
        near[rows] = (inner != inner[:, :1]).any(axis=(1, 2))
        rows = np.flatnonzero(near)
        near[rows] = ~_in(_keys(windows[rows]), self._whole)
        return near


def warn_of_neighbours(seen: SeenWindows, windows: Floats) -> None:
    """Warn if windows come one step before or after those that a metric was learned from."""
    count = int(seen.neighbours(windows).sum())
    if count:
        warnings.warn(
            f"{count} of {len(windows)} windows overlap with windows that the metric was learned "
            "from, all but one step: a score on them says nothing; split by whole runs or "
            "recordings, or into blocks with a gap (mlat.model_selection)",
            UserWarning,
            stacklevel=3,
        )


def without_copies(stream: Stream, width: int) -> Stream:
    """The stream, where copies of labelled steps in the same state have no state.

    So nothing is both learned from and judged, in whatever way the stream is divided later. The
    nearest neighbours of a window stay as near as they are.

    Parameters
    ----------
    stream : Stream
    width : int
        Steps of a window: about as many are the fewest that are recognised.

    Warns
    -----
    UserWarning
        Of copies among the labelled steps.
    """
    first = first_equal(stream.values, _segment_of(stream), width)
    again = copied_again(first, stream.codes)
    if not again.any():
        return stream
    step, labelled = int(np.argmax(again)), int(stream.labelled.sum())
    of = stream.recordings
    place = [str(i) if of is None else f"{i} ({of[i]!s})" for i in (first[step], step)]
    warnings.warn(
        f"{int(again.sum())} of {labelled} labelled steps are copies of earlier ones: those from "
        f"step {place[1]} on equal those from step {place[0]} on; they are learned from once, for "
        "copies predict each other and make even noise look learnable",
        UserWarning,
        stacklevel=3,
    )
    states = stream.states.copy()
    states[again] = stream.no_state
    return stream.with_states(states, stream.no_state)


def copied_again(first: Ints, codes: Ints) -> Bools:
    """Which labelled steps are copies of an earlier one that has the same state, shape (T,).

    Parameters
    ----------
    first : array of shape (T,)
        By :func:`first_equal`.
    codes : array of shape (T,)
        The states; -1 for none.
    """
    again = codes >= 0
    pairs = np.where(again, first * (codes.max(initial=0) + 1) + codes, -1)
    again[np.unique(pairs, return_index=True)[1]] = False
    return again


def count_seen(seen: Floats, stream: Stream, width: int) -> int:
    """How many steps of a stream are copies of steps (T, d) that were seen before."""
    own = _segment_of(stream)
    segment = np.concatenate([-np.isnan(seen).any(axis=1).astype(np.int64), own + (own >= 0)])
    first = first_equal(np.concatenate([seen, stream.values]), segment, width)
    return int((first[len(seen) :] < len(seen)).sum())


def first_equal(values: NDArray[Any], segment: Ints, width: int = 1) -> Ints:
    """The first step that each step is a copy of, shape (T,); itself for one that is none.

    Parameters
    ----------
    values : array of shape (T, d)
    segment : array of shape (T,)
        Steps of one segment follow each other; -1 for a step in none, which misses a value.
    width : int
        Steps of a window. Copied stretches of about as many are found, and of more where values
        have few digits.
    """
    n = len(values)
    step, first = np.arange(n), np.arange(n)
    left = _steps_left(segment)
    keys = _keys(values[:, None, :])
    length = 1
    counts: list[Ints] = []  # how often the stretch that starts here is there, of three lengths
    while True:
        keys = _joined(keys, length)
        length *= 2
        start = np.flatnonzero(left >= length)
        order = start[np.argsort(keys[start], kind="stable")]
        equal = keys[order[1:]] == keys[order[:-1]]
        if not equal.any():  # no longer stretch is there twice
            break
        group = np.cumsum(np.append(False, ~equal))
        count = np.zeros(n, np.int64)
        count[order] = np.bincount(group)[group]
        counts = [*counts[-2:], count]
        if length < FEWEST_COPIED or 2 * length <= width:
            continue
        copy, earlier = order[1:][equal], order[:-1][equal]
        is_copy = (segment[copy] != segment[earlier]) | (copy - earlier >= PERIOD_WIDTHS * width)
        for part in range(0, length, length // 4):
            is_copy &= counts[0][copy + part] == count[copy]
        last = np.full(n, -1)
        last[copy[is_copy]] = copy[is_copy]
        last = np.maximum.accumulate(last)  # the last copy that starts here or before
        inside = (last >= 0) & (step - last < length) & (first == step)
        lag = np.zeros(n, np.int64)
        lag[copy] = copy - earlier
        first[inside] -= lag[last[inside]]
    while (first[first] != first).any():
        first = first[first]
    return first


def _joined(keys: Keys, length: int) -> Keys:
    """The keys of stretches of twice the length, from those of ``length`` steps; 0 at the end."""
    factors = np.random.default_rng(length).integers(1, 2**64, 2, np.uint64) | np.uint64(1)
    joined = np.zeros_like(keys)
    joined[:-length] = keys[:-length] * factors[0] + keys[length:] * factors[1]
    return joined ^ (joined >> np.uint64(29))


def _steps_left(segment: Ints) -> Ints:
    """How many steps of its segment follow each step, itself included; 0 for one in none."""
    n = len(segment)
    ends = np.append(np.flatnonzero(np.diff(segment)), n - 1)
    left = ends[np.searchsorted(ends, np.arange(n))] - np.arange(n) + 1
    return np.where(segment < 0, 0, left)


def _segment_of(stream: Stream) -> Ints:
    """The number of the segment of each step, shape (T,); -1 for a step that misses a value."""
    segment = np.full(len(stream), -1, np.int64)
    for number, (start, stop, _) in enumerate(stream.segments):
        segment[start:stop] = number
    return segment


def _ends(windows: Floats) -> tuple[Keys, Keys]:
    """The keys of the first and of the last w - 1 steps of each window."""
    return _keys(windows[:, :-1]), _keys(windows[:, 1:])


def _keys(windows: Floats) -> Keys:
    """A number for each window that equal windows share, and hardly any others, shape (n,)."""
    _, w, d = windows.shape
    factors = np.random.default_rng(0).integers(1, 2**64, (w, d), np.uint64) | np.uint64(1)
    bits = (np.ascontiguousarray(windows, dtype=np.float64) + 0.0).view(np.uint64)  # -0 is 0
    mixed = bits ^ (bits >> np.uint64(32))  # the high bits alone hold whole numbers
    keys: Keys = np.einsum("nwd,wd->n", mixed, factors)
    return keys


def _in(keys: Keys, known: Any) -> Bools:
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: Bools = known[place] == keys
    return found


def switches_at_random(codes: Ints) -> bool:
    """Whether states (n,) switch about as often as in a random order. Negative codes are none."""
    known = codes[codes >= 0]
    if len(known) < FEW_STEPS:
        return False
    shares = np.bincount(known) / len(known)
    random = 1 - float((shares**2).sum())
    return bool(random > 0 and (np.diff(known) != 0).mean() > LIKE_RANDOM * random)


def is_rough(values: NDArray[np.floating[Any]]) -> bool:
    """Whether values (T, d) differ from step to step about as much as any two of them do."""
    known = values[~np.isnan(values).any(axis=1)].astype(np.float64)
    if len(known) < FEW_STEPS:
        return False
    variance = known.var(axis=0)
    varies = variance > 0
    if not varies.any():
        return False
    successive = (np.diff(known[:, varies], axis=0) ** 2).mean(axis=0) / (2 * variance[varies])
    return bool(np.median(successive) > LIKE_RANDOM)
