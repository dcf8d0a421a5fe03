"""Which windows a system learns from, and which it is tested on.

A segment of consecutive steps is *given* for each label. Under ``holdout`` the test windows come
from the other steps of the same person, farther than a window from every given step. Under
``within`` the windows of the given steps themselves are split at random, so that a test window
overlaps training windows: leaky, and kept because the field's figures are often of this kind.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlat.base.checks import Bools, Floats, Ints
from mlat.base.errors import InputError
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows, sliding_windows

PROTOCOLS = ("holdout", "within")

# The fraction of each label's windows that is for training under ``within``.
WITHIN_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test windows, with every channel scaled.

    Attributes
    ----------
    train : Windows
        All training windows, in the order of the stream; ``start`` and ``run`` are the stream's.
    few : array of shape (m,)
        Rows of ``train``: ``n_few`` random windows of each label.
    test : Windows
        At most ``n_test`` random windows of each label.
    given : dict of label to (start, stop)
        The given steps of each label.
    mean, scale : arrays of shape (d,)
        Of the training observations alone; both kinds of windows are ``(x - mean) / scale``.
    apart : array of shape (T,)
        Which steps of the stream are farther than a window from every given step of their
        recording; test windows of ``holdout`` lie on these.
    gap_before : array of shape (T,)
        Where a recording begins, or a gap in time lies before a step.
    left_out : dict of label to str
        The labels without given steps or test windows, and why.
    """

    train: Windows
    few: Ints
    test: Windows
    given: dict[Any, tuple[int, int]]
    mean: Floats
    scale: Floats
    apart: Bools
    gap_before: Bools
    left_out: dict[Any, str]


def split_seed(*parts: str | int) -> list[int]:
    """A seed from names: the same on every machine, whatever else is computed before or beside."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return [int(word) for word in np.frombuffer(digest[:16], dtype="<u4")]


def split(
    stream: Stream,
    protocol: str,
    seed: int | Sequence[int],
    *,
    width: int = 10,
    given: int | None = 510,
    n_few: int = 100,
    n_test: int = 500,
) -> Split:
    """Draw given steps for each label, and the windows for training and test.

    Parameters
    ----------
    stream : Stream
        One person's labelled steps.
    protocol : {"holdout", "within"}
    seed : int or sequence of int
        Nothing else is random: equal arguments give equal splits.
    width : int
        Steps per window, w. Under ``holdout`` at least w steps lie between a given step and any
        test step of the same recording.
    given : int, optional
        Consecutive steps, of one recording and one state, that are given for each label. A step
        with a missing value counts, but no window lies over it. None gives one whole recording.
    n_few : int
        Training windows per label for those who train on few. The given steps are drawn among
        the segments that have as many.
    n_test : int
        Test windows per label, at most.

    Raises
    ------
    InputError
        If fewer than two labels have both training and test windows.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
    rng = np.random.default_rng(seed)
    windows = all_windows(stream, width)
    recording = recording_numbers(stream)
    needed = n_few if protocol == "holdout" else int(np.ceil(n_few / WITHIN_SHARE))
    drawn, left_out = _draw_given(stream, recording, windows, given, needed, rng)
    inside = _cover(drawn, len(stream))
    # Of one state and one recording: a window that begins and ends inside lies inside.
    of_given = inside[windows.start] & inside[windows.start + width - 1]
    near = widened(inside, recording, width)
    if protocol == "holdout":
        train = np.flatnonzero(of_given)
        far = ~any_inside(near, windows.start, width)
        test = _sample(windows.y, np.flatnonzero(far), n_test, rng)
    else:
        train, test = _split_at_random(windows.y, np.flatnonzero(of_given), rng)
        test = _sample(windows.y, test, n_test, rng)
    for label in [label for label in drawn if not (windows.y[test] == label).any()]:
        left_out[label] = "no test windows"
        del drawn[label]
    if len(drawn) < 2:
        reasons = "; ".join(f"{label}: {why}" for label, why in left_out.items())
        raise InputError(f"fewer than two labels have training and test windows ({reasons})")
    train = train[np.isin(windows.y[train], list(drawn))]
    test = test[np.isin(windows.y[test], list(drawn))]
    few = _sample(windows.y, train, n_few, rng)
    mean, scale = scaling(stream.values, windows.start[train], width)
    scaled = (stream.values - mean) / scale
    everything = Windows(scaled, width, windows.start, windows.run, windows.y)
    return Split(
        everything.take(train),
        np.searchsorted(train, few),
        everything.take(test),
        drawn,
        mean,
        scale,
        ~near,
        stream.gap_before,
        left_out,
    )


class SplitStreams(NamedTuple):
    """A split under ``holdout`` as two streams, for systems that take streams and not windows.

    Such a system may look further back from a step than the window that ends there. So the given
    steps of each label are a recording of their own, and so is every segment of the other steps
    that lies farther than a window from them: nothing reaches from one into the other, or across a
    gap in time.

    Attributes
    ----------
    train : Stream
        The given steps, with their states.
    test : Stream
        Without states.
    ends : array of shape (n_test,)
        The steps of ``test`` at which the test windows end, in their order.
    """

    train: Stream
    test: Stream
    ends: Ints


def as_streams(split: Split) -> SplitStreams:
    """The two streams of a split under ``holdout``."""
    values = split.train.values
    given = list(split.given.items())
    steps = np.concatenate([np.arange(start, stop) for _, (start, stop) in given])
    states = np.repeat([label for label, _ in given], [stop - start for _, (start, stop) in given])
    gap_before = split.gap_before.copy()
    gap_before[[start for _, (start, _) in given]] = True
    train = Stream(values[steps], states, recordings=_stretches(steps, gap_before))
    apart = np.flatnonzero(split.apart)
    test = Stream(values[apart], recordings=_stretches(apart, gap_before))
    return SplitStreams(
        train, test, np.searchsorted(apart, split.test.start + split.test.width - 1)
    )


def _stretches(steps: Ints, gap_before: Bools) -> Ints:
    """The number of the stretch that each step lies in: of steps in a row, without a gap."""
    begins = (np.diff(steps) != 1) | gap_before[steps[1:]]
    return np.concatenate([[0], np.cumsum(begins)])


def all_windows(stream: Stream, width: int) -> Windows:
    with warnings.catch_warnings():
        # That a state has no window is part of what a split reports.
        warnings.simplefilter("ignore", UserWarning)
        return sliding_windows(stream, width)


def recording_numbers(stream: Stream) -> Ints:
    """The number of each step's recording, counted by where one begins."""
    if stream.recordings is None:
        return np.zeros(len(stream), dtype=np.int64)
    begins = stream.recordings[1:] != stream.recordings[:-1]
    return np.concatenate([[0], np.cumsum(begins)]).astype(np.int64)


def _draw_given(
    stream: Stream,
    recording: Ints,
    windows: Windows,
    given: int | None,
    needed: int,
    rng: np.random.Generator,
) -> tuple[dict[Any, tuple[int, int]], dict[Any, str]]:
    """Each label's given steps [start, stop), and why a label has none."""
    codes, width = stream.codes, windows.width
    breaks = np.flatnonzero((np.diff(codes) != 0) | (np.diff(recording) != 0)) + 1
    begins = np.concatenate([[0], breaks])
    ends = np.concatenate([breaks, [len(stream)]])
    starts_here = np.zeros(len(stream) + 1, dtype=np.int64)
    starts_here[windows.start + 1] = 1
    before = np.cumsum(starts_here)  # windows that start before each step
    drawn: dict[Any, tuple[int, int]] = {}
    left_out: dict[Any, str] = {}
    for code, label in enumerate(stream.classes.tolist()):
        of_label = codes[begins] == code
        start, stop = _candidates(begins[of_label], ends[of_label], given)
        if not len(start):
            left_out[label] = f"no {given} observations in a row"
            continue
        count = before[np.maximum(stop - width + 1, start)] - before[start]
        enough = count >= max(needed, 1)
        if not enough.any():
            left_out[label] = f"no given observations with {needed} complete windows"
            continue
        choice = rng.choice(np.flatnonzero(enough))
        drawn[label] = (int(start[choice]), int(stop[choice]))
    return drawn, left_out


def _candidates(begins: Ints, ends: Ints, given: int | None) -> tuple[Ints, Ints]:
    """Every segment [start, stop) that could be the given steps of a label."""
    if given is None:
        return begins, ends
    parts = [np.arange(b, e - given + 1) for b, e in zip(begins, ends, strict=True)]
    start = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return start, start + given


def _cover(given: dict[Any, tuple[int, int]], n_steps: int) -> Bools:
    inside = np.zeros(n_steps, dtype=bool)
    for start, stop in given.values():
        inside[start:stop] = True
    return inside


def widened(inside: Bools, recording: Ints, width: int) -> Bools:
    """The steps inside, and those of the same recording at most ``width`` away from one."""
    near = inside.copy()
    for shift in range(1, width + 1):
        same = recording[shift:] == recording[:-shift]
        near[shift:] |= inside[:-shift] & same
        near[:-shift] |= inside[shift:] & same
    return near


def any_inside(mask: Bools, start: Ints, width: int) -> Bools:
    before = np.concatenate([[0], np.cumsum(mask)])
    overlap: Bools = before[start + width] > before[start]
    return overlap


def _split_at_random(
    labels: NDArray[Any], rows: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    train, test = [], []
    for label in np.unique(labels[rows]):
        order = rng.permutation(rows[labels[rows] == label])
        cut = int(np.ceil(WITHIN_SHARE * len(order)))
        train.append(order[:cut])
        test.append(order[cut:])
    none = np.empty(0, dtype=np.int64)
    return np.sort(np.concatenate([none, *train])), np.sort(np.concatenate([none, *test]))


def _sample(labels: NDArray[Any], rows: Ints, n: int, rng: np.random.Generator) -> Ints:
    """At most ``n`` of the rows for each label, in order."""
    parts = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels[rows]):
        own = rows[labels[rows] == label]
        parts.append(rng.choice(own, min(n, len(own)), replace=False))
    return np.sort(np.concatenate(parts))


def evenly(rows: Ints, n: int) -> Ints:
    """At most ``n`` of the rows, evenly spaced, the first and the last among them."""
    return rows[np.linspace(0, len(rows) - 1, min(n, len(rows))).round().astype(np.int64)]


def scaling(values: NDArray[Any], start: Ints, width: int) -> tuple[Floats, Floats]:
    """Mean and deviation of every step that a training window covers."""
    seen = np.zeros(len(values), dtype=bool)
    for t in range(width):
        seen[start + t] = True
    steps = values[seen].astype(np.float64)
    deviation = steps.std(axis=0)
    # A channel that never moves says nothing: centred it is 0, whatever it is divided by.
    still = deviation <= 1e-12 * np.abs(steps).max(axis=0)
    return steps.mean(axis=0), np.where(still, 1.0, deviation)
