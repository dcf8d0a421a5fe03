"""Whole recordings with every switch: what is given at their beginning, and the rest as a stream.

Under ``stream`` the first steps of each state are given, in the order of time. The rest of the
recording, less a window on either side of what was given, is the test stream. It is cut where steps
were taken out, so nothing reaches across. Under ``second`` somebody's first recording is given, and
the second is the test stream. Every labelled step with a full window counts, those just after a
switch too, because a live stream has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlat.base.checks import Bools, Ints
from mlat.base.errors import InputError
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows, sliding_windows

from .delay import SwitchDelay, switch_delay
from .protocol import (
    SplitStreams,
    all_windows,
    any_inside,
    evenly,
    recording_numbers,
    scaling,
    widened,
)

STREAM, SECOND = "stream", "second"
STREAM_PROTOCOLS = (STREAM, SECOND)

MOST_GIVEN = 0.35  # of a state's steps
LEAST_WINDOWS = 4  # of a state, among what is given
AFTER_SWITCH = 50  # steps after each switch that are judged one by one, for the delay


@dataclass(frozen=True, eq=False)
class StreamSplit:
    """What is given, and the test stream, with every channel scaled by what is given.

    Attributes
    ----------
    train : Windows
        All windows of the given steps; ``start`` and ``run`` are the whole stream's.
    test : Windows
        The windows that end at a judged step, in the order of time; ``y`` is the state of that
        step. They may lie across a switch.
    counts : array of shape (n_test,)
        Which of ``test`` count for accuracy. The others are only for the delay.
    streams : SplitStreams
        The same as streams; ``streams.ends`` are the judged steps of the test stream.
    states : array of shape (S,)
        The states that have both training and test windows, sorted.
    codes : array of shape (T_test,)
        The state of each test step, as an index of ``states``; that of the step before where it has
        none. -1 where there is no window yet.
    left_out : dict of state to str
        The other states, and why. Their steps are in the test stream, and do not count.
    """

    train: Windows
    test: Windows
    counts: Bools
    streams: SplitStreams
    states: NDArray[Any]
    codes: Ints
    left_out: dict[Any, str]

    def delay(self, predicted: NDArray[Any]) -> SwitchDelay:
        """How late the predicted states (n_test,) of the judged steps are at a switch.

        The first steps after a switch are all judged, and later ones as densely as accuracy is. A
        pause without a state between two states counts as neither.
        """
        place = np.searchsorted(self.states, predicted).clip(max=len(self.states) - 1)
        known = np.where(self.states[place] == predicted, place, -1)
        codes = np.full(len(self.codes), -1)
        codes[self.streams.ends] = known
        return switch_delay(self.codes, codes, self.streams.test.gap_before)


def split_stream(
    stream: Stream,
    protocol: str = STREAM,
    *,
    width: int = 10,
    given: int = 510,
    n_test: int | None = None,
    scale: bool = True,
) -> StreamSplit:
    """Take what is given out of a recording, and make a stream of the rest.

    Nothing is drawn: equal arguments give equal splits.

    Parameters
    ----------
    stream : Stream
        Everything of one person.
    protocol : {"stream", "second"}
    width : int
        Steps per window. Under ``stream`` at least as many lie between a given step and any test
        step of the same recording.
    given : int
        Under ``stream``: how many steps of each state are given, but at most 35 % of them.
    n_test : int, optional
        Judge at most so many steps of each state, evenly spaced; default all.
    scale : bool
        Scale every channel by what is given.

    Raises
    ------
    InputError
        If fewer than two states have both training and test windows, or if there is no second
        recording.
    """
    if protocol not in STREAM_PROTOCOLS:
        there = ", ".join(STREAM_PROTOCOLS)
        raise InputError(f"unknown protocol {protocol!r} of streams; there are {there}")
    recording = recording_numbers(stream)
    if protocol == SECOND and not (recording == 1).any():
        raise InputError("there is no second recording to test on")
    first = recording == 0 if protocol == SECOND else first_steps(stream.codes, given)
    inside_runs = all_windows(stream, width)
    every = sliding_windows(stream, width, labelled=False)
    left_out: dict[Any, str] = {}
    while True:
        kept = ~np.isin(stream.states, [stream.no_state, *left_out])
        taken = first & kept
        in_train = taken[inside_runs.start] & taken[inside_runs.start + width - 1]
        if protocol == SECOND:
            of_train, of_test = first, recording == 1
        else:
            of_train, of_test = taken, ~widened(taken, recording, width)
        in_test = kept[every.start + width - 1] & ~any_inside(~of_test, every.start, width)
        lacking = _lacking(stream, kept, inside_runs.y[in_train], every.y[in_test])
        if not lacking:
            break
        left_out |= lacking
    states = np.unique(stream.states[kept])
    if len(states) < 2:
        reasons = "; ".join(f"{state}: {why}" for state, why in left_out.items())
        raise InputError(f"fewer than two states have training and test windows ({reasons})")
    scaled = stream.values
    if scale:
        mean, deviation = scaling(stream.values, inside_runs.start[in_train], width)
        scaled = (stream.values - mean) / deviation
    train, _ = _part(stream, scaled, of_train, np.where(kept, stream.states, stream.no_state))
    test, at = _part(stream, scaled, of_test)
    ends = np.searchsorted(at, every.start[in_test] + width - 1)
    codes = _followed(test, ends, np.searchsorted(states, every.y[in_test]))
    counts = _thinned(codes[ends], n_test)
    judged = counts | _after_switch(codes, test.gap_before)[ends]
    rows = np.flatnonzero(in_test)[judged]
    return StreamSplit(
        Windows(scaled, width, inside_runs.start, inside_runs.run, inside_runs.y).take(in_train),
        Windows(scaled, width, every.start, every.run, every.y).take(rows),
        counts[judged],
        SplitStreams(train, test, ends[judged]),
        states,
        codes,
        left_out,
    )


def first_steps(codes: Ints, given: int) -> Bools:
    """The first steps of each state, in the order of time, from as many runs as that takes."""
    taken = np.zeros(len(codes), dtype=bool)
    for code in range(codes.max(initial=-1) + 1):
        steps = np.flatnonzero(codes == code)
        taken[steps[: min(given, int(MOST_GIVEN * len(steps)))]] = True
    return taken


def _lacking(
    stream: Stream, kept: Bools, trained: NDArray[Any], tested: NDArray[Any]
) -> dict[Any, str]:
    """The states that do not suffice. Who gives too little is said first: it changes the test."""
    states = np.unique(stream.states[kept])
    few = [s for s in states.tolist() if (trained == s).sum() < LEAST_WINDOWS]
    if few:
        return dict.fromkeys(few, f"fewer than {LEAST_WINDOWS} windows are given")
    return dict.fromkeys([s for s in states.tolist() if not (tested == s).any()], "no test steps")


def _part(
    stream: Stream, scaled: NDArray[Any], mask: Bools, states: NDArray[Any] | None = None
) -> tuple[Stream, Ints]:
    """The steps of a mask as a stream, cut where steps are missing between them; and which."""
    at = np.flatnonzero(mask)
    begins = (np.diff(at) != 1) | stream.gap_before[at[1:]]
    part = Stream(
        scaled[at],
        None if states is None else states[at],
        recordings=np.concatenate([[0], np.cumsum(begins)]),
        channels=stream.channels,
    )
    return part, at


def _followed(test: Stream, ends: Ints, codes: Ints) -> Ints:
    """The code of every step: of its own state, or of the last one in its segment; else -1."""
    followed = np.full(len(test), -1)
    for start, stop, _ in test.segments:
        first, last = np.searchsorted(ends, [start, stop])
        lengths = np.diff(ends[first:last], append=stop)
        if first < last:
            followed[ends[first] : stop] = np.repeat(codes[first:last], lengths)
    return followed


def _thinned(codes: Ints, n_test: int | None) -> Bools:
    """At most ``n_test`` of each state, evenly spaced."""
    kept = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        kept[rows if n_test is None else evenly(rows, n_test)] = True
    return kept


def _after_switch(codes: Ints, gap_before: Bools) -> Bools:
    """The first steps of every run that follows another state in its segment."""
    after = np.zeros(len(codes), dtype=bool)
    changes = np.flatnonzero((np.diff(codes) != 0) | gap_before[1:]) + 1
    for begin, end in zip(changes, np.append(changes[1:], len(codes)), strict=False):
        if not gap_before[begin] and codes[begin - 1] >= 0 and codes[begin] >= 0:
            after[begin : min(end, begin + AFTER_SWITCH)] = True
    return after
