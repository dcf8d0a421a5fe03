"""Held-out training windows: what may be compared with what, to learn how good the search is.

Successive windows share all but one step, so a window's nearest reference is nearly itself. A
training window that stands for a new one is therefore compared only with windows of another time.
There are two ways. The references of a fitted model: each is compared with all references but those
near it in time (:func:`rows_nearby`). The choice of a model: the stream is divided into two sides
that judge each other (:func:`far_sides`, :func:`far_folds`). As windows come in near-copies, they
are counted by blocks of time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..metric.targets import EPISODE_WIDTHS, episodes
from ..stream.stream import Stream

# How many widths away a window of the same segment must be. Chosen on the development people: with
# nearer ones the probabilities are too high on held-out observations.
GAP_WIDTHS = 10
# Of a single run, the fraction at each end that is learned from or judged. The middle is not used,
# so that the ends are as far apart as the run allows: nearer ends would be too similar.
END_FRACTION = 1 / 3

MOST_VALUES = 20_000  # of a channel, that single values are compared with

BOTH, NEITHER, EARLY, LATE = -1, 0, 1, 2

GROUP, RECORDING, RUN = "group", "recording", "run"  # what is left out as a whole
ADAPTED = "adapted"  # whose recording a model was adapted to

# Of what is expected. One that learns from one of two runs is worse than one that learns from both:
# of what it knows beyond guessing the root is taken. Beside how runs differ, held-out runs and new
# steps differ by this deviation, and by root two of it where states have two runs. Found on the
# development people and sets.
LEARNED_FROM_ONE = 0.5
UNSEEN = 0.08
TOLD = 0.5  # how much of how groups differ is told by how sure a model is of a new one
NINE_IN_TEN = 1.645  # deviations of a normal distribution on both sides


# Around each window


def held_out_gap(start: NDArray[Any], codes: Ints, width: int) -> Ints:
    """How many steps around each window are held out, shape (n,).

    Ten widths, or half of the time over which the windows of its state extend, where that is less:
    a state with one short run is then judged by the other half of it.
    """
    gap = np.empty(len(start), np.int64)
    for code in np.unique(codes):
        rows = codes == code
        gap[rows] = max(1, min(GAP_WIDTHS * width, int(np.ptp(start[rows])) // 2))
    return gap


def rows_nearby(start: NDArray[Any], codes: Ints, gap: int | Ints) -> Ints:
    """For each window the rows ``[first, last)`` of its own state's windows at its own time.

    These are the windows around it that start fewer than ``gap`` steps away, without one of
    another state between: a missing value that cuts a run in two does not separate them.

    Parameters
    ----------
    start : array of shape (n,)
        When each window begins.
    codes : array of shape (n,)
        The state of each window; windows are in the order of the stream.
    gap : int or array of shape (n,)
        At least 1, which holds out the window itself.

    Returns
    -------
    rows : array of shape (n, 2)

    Examples
    --------
    >>> rows_nearby(np.array([0, 1, 2, 9]), np.array([0, 0, 0, 0]), 2).tolist()
    [[0, 2], [0, 3], [1, 3], [3, 4]]
    """
    gap = np.asarray(gap, dtype=np.int64)
    if not len(start):
        return np.empty((0, 2), np.int64)
    if gap.min() < 1:
        raise InputError(f"gap must be at least 1, not {gap.min()}")
    start = np.asarray(start, dtype=np.int64)
    segment = _segments(start, codes)
    # With each segment moved beyond the gaps of the others, one sorted axis serves all searches.
    place = start - start.min() + segment * (int(np.ptp(start)) + int(gap.max()) + 1)
    rows = np.empty((len(start), 2), np.int64)
    rows[:, 0] = np.searchsorted(place, place - gap, side="right")
    rows[:, 1] = np.searchsorted(place, place + gap, side="left")
    return rows


def time_blocks(start: NDArray[Any], codes: Ints, length: int) -> Ints:
    """Which block of ``length`` steps of one state each window begins in, shape (n,).

    With two widths, windows share few steps with the block after the next.

    Examples
    --------
    >>> time_blocks(np.array([0, 1, 2, 3, 9]), np.array([0, 0, 0, 1, 1]), 2).tolist()
    [0, 0, 1, 2, 3]
    """
    if length < 1:
        raise InputError(f"length must be at least 1, not {length}")
    if not len(start):
        return np.empty(0, np.int64)
    start = np.asarray(start, dtype=np.int64)
    segment = _segments(start, codes)
    first = start[np.searchsorted(segment, segment)]
    piece = (start - first) // length
    begins = (np.diff(segment) != 0) | (np.diff(piece) != 0)
    return np.append(0, np.cumsum(begins)).astype(np.int64)


def _segments(start: Ints, codes: Ints) -> Ints:
    """The number of the segment of one state that each window is in, counted from 0."""
    # Where time goes back, another recording begins, and nothing before it is near.
    begins = (np.diff(codes) != 0) | (np.diff(start) <= 0)
    return np.append(0, np.cumsum(begins)).astype(np.int64)


# Two sides


class Fold(NamedTuple):
    """A stream to learn from, and one to be judged on, of the same recordings."""

    train: Stream
    judged: Stream


def far_folds(stream: Stream, width: int, n_sides: int = 2) -> list[Fold]:
    """Each side of a stream in turn is judged, and the others are learned from.

    What is judged has the switches of the stream: where its runs follow each other, so do those of
    a side, in the order of time. Right after a switch a window and its features still look back
    into the state before, and whoever looks back far is late.

    Parameters
    ----------
    stream : Stream
    width, n_sides : int
        As for :func:`far_sides`.

    Returns
    -------
    folds : list of Fold
        Empty where fewer than two states can be judged.
    """
    sides = far_sides(stream, width, n_sides)
    part, side = cut(stream, sides)
    folds = []
    for judging in range(EARLY, EARLY + n_sides):
        learned = (side != judging) & (side != NEITHER)
        known = np.intersect1d(part.states[learned], part.states[side == judging])
        judged = np.flatnonzero((side == judging) & np.isin(part.states, known))
        if len(known) < 2:
            continue
        train = Stream(
            part.values,
            np.where(learned, part.states, part.no_state),
            recordings=part.recordings,
            groups=part.groups,
            channels=part.channels,
            unlabelled=part.no_state,
        )
        one = Stream(
            part.values[judged],
            part.states[judged],
            recordings=None if has_switches(stream) else _number(part)[judged],
            groups=None if part.groups is None else part.groups[judged],
            channels=part.channels,
        )
        folds.append(Fold(train, one))
    return folds


def told_by_one_value(stream: Stream, width: int) -> Floats:
    """How well a single value of each channel tells the state of its step, shape (d,).

    The balanced accuracy of the nearest value on the other side, from 0 to 1; NaN where fewer than
    two states can be judged. A channel that tells every state at once is hardly a sensor, but a
    trigger, a set point or the label itself.
    """
    found = []
    for train, judged in far_folds(stream, width):
        known = np.flatnonzero(train.labelled & ~train.missing)
        known = known[:: -(-len(known) // MOST_VALUES)]
        there = ~judged.missing
        for channel in range(stream.n_channels):
            order = known[np.argsort(train.values[known, channel])]
            values, asked = train.values[order, channel], judged.values[there, channel]
            after = np.searchsorted(values, asked).clip(1, len(values) - 1)
            nearest = after - (asked - values[after - 1] < values[after] - asked)
            told = train.states[order[nearest]]
            found.append(balanced_accuracy(told, judged.states[there]))
    by_channel = np.reshape(found, (-1, stream.n_channels))
    return by_channel.mean(axis=0) if found else np.full(stream.n_channels, np.nan)


def _number(stream: Stream) -> Ints:
    """The number of each step's segment, shape (T,)."""
    begins = np.zeros(len(stream), np.int64)
    begins[stream.segments.start] = 1
    return np.cumsum(begins)


def has_switches(stream: Stream) -> bool:
    """Whether a state follows another without a gap."""
    codes = stream.codes
    follows = (codes[1:] != codes[:-1]) & (codes[1:] >= 0) & (codes[:-1] >= 0)
    return bool((follows & ~stream.gap_before[1:]).any())


def far_sides(stream: Stream, width: int, n_sides: int = 2) -> Ints:
    """Divide the labelled steps into sides, each of which is judged by the others.

    Never by random windows: they would overlap. Whole groups or recordings go to one side or
    another, where states are in several; else whole runs, where a state has several far apart; of
    a single run the two ends do.

    Parameters
    ----------
    stream : Stream
    width : int
        Steps of the narrowest window that is tried.
    n_sides : int
        A state with fewer runs is on some of the sides only.

    Returns
    -------
    sides : array of shape (T,)
        ``EARLY``, ``LATE`` and further sides; ``NEITHER`` between them and without a state;
        ``BOTH`` for a state too short to be cut, which is learned from on every side and judged on
        none.
    """
    sides = np.full(len(stream), NEITHER, np.int64)
    unit, of, _ = evidence(stream, width)
    inside = np.flatnonzero(unit >= 0)
    if of in (GROUP, RECORDING):
        sides[inside] = _share_out(unit[inside], stream.codes[inside], n_sides)
        return sides
    for code in np.unique(stream.codes[inside]):
        steps = inside[stream.codes[inside] == code]
        third = int(END_FRACTION * len(steps))
        if unit[steps].max() > 0:
            sides[steps] = _share_out(unit[steps], stream.codes[steps], n_sides)
        elif third < 2 * width:
            sides[steps] = BOTH
        else:
            sides[steps[:third]] = EARLY
            sides[steps[-third:]] = LATE
    return sides


class Evidence(NamedTuple):
    """What of a labelled stream may stand for something new, as it stays together.

    Attributes
    ----------
    unit : array of shape (T,)
        The number of the group or recording that each step is in, or of the episode of its state;
        -1 without a window.
    of : str
        ``GROUP`` or ``RECORDING``, where the usual state is in several; else ``RUN``, where it has
        several runs far apart; else empty.
    per_state : float
        How many units a state has, in the median over states.
    """

    unit: Ints
    of: str
    per_state: float


def evidence(stream: Stream, width: int) -> Evidence:
    """Groups or recordings where states are in several, else runs that are far apart."""
    runs = stream.runs
    long = runs.length >= width
    number = np.full(len(stream), -1, np.int64)
    for i in np.flatnonzero(long):
        number[runs.start[i] : runs.start[i] + runs.length[i]] = i
    labelled = number >= 0
    codes = np.unique(runs.code[long])
    for of, names in ((GROUP, stream.groups), (RECORDING, stream.recordings)):
        if names is None or not labelled.any():
            continue
        unit = np.where(labelled, np.unique(names, return_inverse=True)[1], -1)
        counts = [len(np.unique(unit[labelled & (stream.codes == code)])) for code in codes]
        if np.median(counts) >= 2:
            return Evidence(unit, of, float(np.median(counts)))
    unit, counts = np.full(len(stream), -1, np.int64), []
    for code in codes:
        steps = np.flatnonzero(labelled & (stream.codes == code))
        own = episodes(steps, number[steps], EPISODE_WIDTHS * width)
        unit[steps] = np.unique(own, return_inverse=True)[1]
        counts.append(int(unit[steps].max()) + 1)
    per_state = float(np.median(counts)) if counts else 0.0
    return Evidence(unit, RUN if per_state >= 2 else "", per_state)


def _share_out(unit: Ints, codes: Ints, n_sides: int) -> Ints:
    """A side for each step: the longest unit first, to where its states have the fewest steps."""
    sides = np.empty(len(unit), np.int64)
    totals = np.zeros((n_sides, int(codes.max()) + 1))
    sizes = np.bincount(unit)
    for number in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]:
        mine = unit == number
        steps = np.bincount(codes[mine], minlength=totals.shape[1])
        side = int((totals[:, steps > 0].sum(axis=1)).argmin())
        totals[side] += steps
        sides[mine] = EARLY + side
    return sides


def cut(stream: Stream, sides: Ints) -> tuple[Stream, Ints]:
    """The labelled runs with a break after every early side, and the side of each step.

    So no feature that is computed from past steps carries values from one side to the other; a
    late side may still look back at the steps between them.
    """
    run = np.full(len(stream), -1, np.int64)
    for number, (start, stop, _) in enumerate(stream.runs):
        run[start:stop] = number
    kept = np.flatnonzero(run >= 0)
    early = sides[kept] == EARLY
    begins = (np.diff(kept) != 1) | (np.diff(run[kept]) != 0) | (early[:-1] & ~early[1:])
    part = Stream(
        stream.values[kept],
        stream.states[kept],
        recordings=np.concatenate([[0], np.cumsum(begins)]),
        groups=None if stream.groups is None else stream.groups[kept],
        channels=stream.channels,
    )
    return part, sides[kept]


# What is expected


class Expected(NamedTuple):
    """The balanced accuracy that is expected, with the interval that has it nine times in ten.

    ``of`` is what was left out to find it: ``GROUP`` or ``RECORDING``, so that it is of another
    one, or ``RUN``, so that it is of more of the same recording. Or it is ``ADAPTED``.
    """

    of: str
    accuracy: float
    low: float
    high: float


def expect(
    found: Evidence, predicted: Ints, codes: Ints, run: Ints, group: NDArray[Any]
) -> Expected | None:
    """What held-out steps say of steps to come; None where no whole runs were left out.

    Parameters
    ----------
    found : Evidence
    predicted, codes, run, group : arrays of shape (n,)
        The state that is predicted for each held-out step, its own, its run and its group.
    """
    if not found.of:
        return None
    _, first, place = np.unique(run, return_index=True, return_inverse=True)
    right = np.bincount(place, predicted == codes) / np.bincount(place)
    _, state = np.unique(codes[first], return_inverse=True)
    n = np.bincount(state)
    recall = np.bincount(state, right) / n
    guessing = 1 / len(n)
    known = max((float(recall.mean()) - guessing) / (1 - guessing), 0.0) if len(n) > 1 else 1.0
    few = found.per_state < 3
    accuracy = guessing + (1 - guessing) * (known**LEARNED_FROM_ONE if few else known)
    unseen = (2 if few else 1) * UNSEEN**2
    if found.of == GROUP:  # another one is as different as these are from each other
        own = [
            balanced_accuracy(predicted[mine], codes[mine])
            for name in np.unique(group)
            for mine in [group == name]
        ]
        spread = float(np.var(own, ddof=1)) * (1 + 1 / len(own)) if len(own) > 1 else 1.0
        off = float(student.ppf(0.95, max(len(own) - 1, 1)) * np.sqrt(spread + unseen))
    else:  # the runs of all states are as different as those of one, of which there are few
        of_run = ((right - recall[state]) ** 2).sum() / max(len(right) - len(n), 1)
        off = NINE_IN_TEN * float(np.sqrt(of_run * (1 / n).sum() / len(n) ** 2 + unseen))
    return Expected(found.of, accuracy, max(accuracy - off, 0.0), min(accuracy + off, 1.0))


def expect_adapted(expected: Expected | None, before: Floats, after: Ints) -> Expected | None:
    """What is expected of a recording that a model was adapted to; None where nothing says so.

    Parameters
    ----------
    expected : Expected or None
        Of another group or recording.
    before : array of shape (n, S)
        The probabilities for steps of this one by what is known of others.
    after : array of shape (n,)
        The states that are predicted then.
    """
    if expected is None or expected.of == RUN or not len(before):
        return None
    state, guessing = before.argmax(axis=1), 1 / before.shape[1]
    total = before.sum(axis=0)
    sure = np.bincount(state, before.max(axis=1), before.shape[1])
    recall = float((sure[total > 0] / total[total > 0]).mean())
    accuracy = (1 - TOLD) * expected.accuracy + TOLD * recall
    # What changes was a guess, and is then right as often as what stays.
    changed = min(float((state != after).mean()), 1 - guessing)
    accuracy = min(max((accuracy - changed * guessing) / (1 - changed), guessing), 1.0)
    off = max(expected.accuracy - expected.low, expected.high - expected.accuracy)
    off *= float(np.sqrt(1 - TOLD))
    return Expected(ADAPTED, accuracy, max(accuracy - off, 0.0), min(accuracy + off, 1.0))


def balanced_accuracy(predicted: NDArray[Any], states: NDArray[Any]) -> float:
    """The mean over states of the fraction of steps that are predicted right."""
    right = (predicted == states).astype(np.float64)
    _, state = np.unique(states, return_inverse=True)
    return float((np.bincount(state, right) / np.bincount(state)).mean())
