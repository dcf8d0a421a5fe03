"""A labelled, multivariate sensor stream and the runs it falls into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

# A step without a state, and a prediction that cannot be made, are the same thing: no state.
# Named states write it as the empty text, numbered states as -1 (scikit-learn's convention).
NO_STATE_NAME = ""
NO_STATE_NUMBER = -1

# A step later than this many usual steps after the one before it is a gap: one lost sample makes
# the distance 2, ordinary clock jitter stays below 1.5.
GAP_FACTOR = 1.5


@dataclass(frozen=True)
class Runs:
    """Maximal stretches ``[start, stop)`` of consecutive steps, in the order of the stream.

    ``code`` indexes ``Stream.classes``; it is -1 for an unlabelled stretch.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    code: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.start.tolist(), self.stop.tolist(), self.code.tolist(), strict=True)

    @property
    def length(self) -> NDArray[np.int64]:
        return self.stop - self.start


class Stream:
    """Sensor values by step, with the state of each step where it is known.

    Parameters
    ----------
    values : array of shape (T, d) or (T,)
        One row per step, one column per channel. NaN is a missing value; infinity is an error.
    states : array of shape (T,), optional
        The state of each step, as text or as whole numbers. ``""``, ``None`` or NaN among texts,
        and -1 or NaN among numbers, mark an unlabelled step. Without ``states`` no step is
        labelled.
    recordings : array of shape (T,), optional
        Which recording a step belongs to. Steps of different recordings never share a window.
    time : array of shape (T,), optional
        Numbers or datetimes that increase within each recording.
    channels : sequence of d names, optional
        Default ``x0 … x{d-1}``.
    max_gap : number, optional
        The largest time between consecutive steps that is not a gap; seconds where ``time`` is a
        datetime. Default 1.5 times the median step.

    Examples
    --------
    >>> stream = Stream([[0.0], [1.0], [2.0], [9.0]], ["rest", "rest", "", "walk"])
    >>> [(start, stop, str(stream.classes[code])) for start, stop, code in stream.runs]
    [(0, 2, 'rest'), (3, 4, 'walk')]
    """

    values: NDArray[np.floating[Any]]
    states: NDArray[Any]
    recordings: NDArray[Any] | None
    time: NDArray[Any] | None
    channels: tuple[str, ...]

    def __init__(
        self,
        values: ArrayLike,
        states: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        max_gap: float | None = None,
    ) -> None:
        self.values = _as_values(values)
        n_steps, n_channels = self.values.shape
        self.channels = _as_channels(channels, n_channels)
        bad = np.isinf(self.values)
        if bad.any():
            step, channel = np.argwhere(bad)[0]
            raise InputError(
                f"infinite value at step {step}, channel {self.channels[channel]!r}; "
                "mark a missing value with NaN, or correct it"
            )
        if states is None:
            self.states = np.full(n_steps, NO_STATE_NAME)
        else:
            self.states = _as_states(_one_per_step(states, n_steps, "states"))
        self.recordings = (
            None if recordings is None else _one_per_step(recordings, n_steps, "recordings")
        )
        self.time = None if time is None else _as_time(_one_per_step(time, n_steps, "time"))
        if max_gap is not None and not max_gap > 0:
            raise InputError(f"max_gap must be positive, not {max_gap!r}")
        self.max_gap = max_gap
        self._gap_before = self._find_gaps()

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        names = ", ".join(str(c) for c in self.classes) or "none"
        return (
            f"Stream({len(self)} steps, {self.n_channels} channels, {len(self.runs)} labelled "
            f"runs, states: {names})"
        )

    def __getitem__(self, steps: slice) -> Stream:
        """A contiguous part of the stream; its arrays are views."""
        if not isinstance(steps, slice) or steps.step not in (None, 1):
            raise TypeError("a stream is sliced as stream[start:stop], without a stride")
        return Stream(
            self.values[steps],
            self.states[steps],
            recordings=None if self.recordings is None else self.recordings[steps],
            time=None if self.time is None else self.time[steps],
            channels=self.channels,
            # The usual step is a property of the whole stream: a part must not find its own.
            max_gap=self.max_gap if self.time is None else self._largest_step(),
        )

    @classmethod
    def join(cls, streams: Iterable[Stream]) -> Stream:
        """Streams one after the other, each the start of a new recording.

        Time is kept only if every part has it and all have the same gap rule.
        """
        parts = list(streams)
        if not parts:
            raise InputError("no streams to join")
        first = parts[0]
        for i, part in enumerate(parts):
            if part.channels != first.channels:
                raise InputError(
                    f"stream {i} has channels {', '.join(part.channels)}, stream 0 has "
                    f"{', '.join(first.channels)}: only streams of the same channels can be joined"
                )
        texts = {part.states.dtype.kind == "U" for part in parts if part.labelled.any()}
        if len(texts) > 1:
            raise InputError("some streams name their states and others number them; choose one")
        as_text = texts != {False}
        states = [p.states if p.labelled.any() else _no_states(len(p), as_text) for p in parts]
        timed = all(part.time is not None for part in parts)
        recordings = np.concatenate([p._recording_index() for p in parts])
        breaks = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        pair = np.stack([breaks, recordings], axis=1)
        return cls(
            np.concatenate([p.values for p in parts]),
            np.concatenate(states),
            recordings=np.unique(pair, axis=0, return_inverse=True)[1].ravel(),
            time=np.concatenate([p.time for p in parts if p.time is not None]) if timed else None,
            channels=first.channels,
            max_gap=first.max_gap,
        )

    @property
    def n_channels(self) -> int:
        return self.values.shape[1]

    @property
    def no_state(self) -> Any:
        """How this stream writes "no state": ``""`` for named states, -1 for numbered ones."""
        return no_state(self.states)

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Which steps carry a state."""
        mask: NDArray[np.bool_] = self.states != self.no_state
        return mask

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which steps lack a value in some channel."""
        return np.isnan(self.values).any(axis=1)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The states that occur, sorted."""
        return np.unique(self.states[self.labelled])

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The index in ``classes`` of each step's state; -1 where there is none."""
        codes = np.full(len(self), -1, dtype=np.int64)
        codes[self.labelled] = np.searchsorted(self.classes, self.states[self.labelled])
        return codes

    @cached_property
    def segments(self) -> Runs:
        """Stretches unbroken by a recording boundary, a time gap or a missing value."""
        return self._stretches(np.zeros(len(self), dtype=bool), np.full(len(self), -1))

    @cached_property
    def runs(self) -> Runs:
        """Labelled stretches of one state, unbroken like ``segments``."""
        switch = np.zeros(len(self), dtype=bool)
        switch[1:] = self.codes[1:] != self.codes[:-1]
        stretches = self._stretches(switch, self.codes)
        keep = stretches.code >= 0
        return Runs(stretches.start[keep], stretches.stop[keep], stretches.code[keep])

    def _stretches(self, switch: NDArray[np.bool_], codes: NDArray[Any]) -> Runs:
        begins = switch | self._gap_before | self.missing
        begins[1:] |= self.missing[:-1]
        if len(begins):
            begins[0] = True
        start = np.flatnonzero(begins).astype(np.int64)
        stop = np.append(start[1:], len(self)).astype(np.int64) if len(start) else start
        keep = ~self.missing[start]
        return Runs(start[keep], stop[keep], codes[start][keep].astype(np.int64))

    def _recording_index(self) -> NDArray[np.int64]:
        """0, 1, … by recording, counting every change of the given value as a boundary."""
        if self.recordings is None or not len(self):
            return np.zeros(len(self), dtype=np.int64)
        change = self.recordings[1:] != self.recordings[:-1]
        return np.concatenate([[0], np.cumsum(change)]).astype(np.int64)

    def _find_gaps(self) -> NDArray[np.bool_]:
        """True at each step that does not follow the one before it."""
        recording = self._recording_index()
        gap = np.zeros(len(self), dtype=bool)
        if len(self) < 2:
            return gap
        boundary = recording[1:] != recording[:-1]
        gap[1:] = boundary
        if self.time is not None:
            elapsed = _seconds(np.diff(self.time))
            back = ~boundary & ~(elapsed > 0)
            if back.any():
                step = int(np.flatnonzero(back)[0]) + 1
                raise InputError(
                    f"time does not increase at step {step} ({self.time[step]} after "
                    f"{self.time[step - 1]}); sort the steps, or give `recordings`"
                )
            gap[1:] |= elapsed > self._largest_step()
        return gap

    def _largest_step(self) -> float:
        if self.max_gap is not None:
            return self.max_gap
        assert self.time is not None
        recording = self._recording_index()
        inside = recording[1:] == recording[:-1]
        elapsed = _seconds(np.diff(self.time))[inside]
        return GAP_FACTOR * float(np.median(elapsed)) if len(elapsed) else np.inf


def no_state(states: NDArray[Any]) -> Any:
    """The value that stands for "no state" among states of this type."""
    return NO_STATE_NAME if states.dtype.kind == "U" else NO_STATE_NUMBER


def _no_states(n: int, as_text: bool) -> NDArray[Any]:
    return np.full(n, NO_STATE_NAME if as_text else NO_STATE_NUMBER)


def _as_values(values: ArrayLike) -> NDArray[np.floating[Any]]:
    try:
        array = np.asarray(values)
        if array.dtype not in (np.float32, np.float64):
            if array.dtype.kind not in "iufbO":
                raise TypeError(array.dtype)
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"values must be numbers in rows of equal length, one row per step ({error})"
        ) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"values must have shape (steps, channels), not {array.shape}")
    return array


def _as_channels(channels: Sequence[str] | None, n_channels: int) -> tuple[str, ...]:
    if channels is None:
        return tuple(f"x{i}" for i in range(n_channels))
    names = tuple(str(name) for name in channels)
    if len(names) != n_channels:
        raise InputError(f"{len(names)} channel names for {n_channels} channels of values")
    if len(set(names)) != len(names):
        raise InputError(f"channel names must differ: {', '.join(names)}")
    return names


def _one_per_step(array: ArrayLike, n_steps: int, what: str) -> NDArray[Any]:
    result = np.asarray(array)
    if result.shape != (n_steps,):
        raise InputError(f"{what} must have one entry per step ({n_steps}), not {result.shape}")
    return result


def _as_states(states: NDArray[Any]) -> NDArray[Any]:
    kind = states.dtype.kind
    if kind in "iub":
        return states.astype(np.int64)
    if kind == "f":
        unlabelled = np.isnan(states)
        fraction = ~unlabelled & (states != np.floor(states))
        if fraction.any():
            step = int(np.flatnonzero(fraction)[0])
            raise InputError(
                f"state {states[step]} at step {step} is not a whole number; "
                "name the states, or number them 0, 1, 2, …"
            )
        return np.where(unlabelled, NO_STATE_NUMBER, states).astype(np.int64)
    if kind == "U":
        return states
    if kind != "O" and kind != "T":
        raise InputError(f"states must be texts or whole numbers, not {states.dtype}")
    absent = np.array([s is None or s != s or s is _pandas_na(s) for s in states], dtype=bool)
    present = np.flatnonzero(~absent)
    is_text = np.array([isinstance(states[i], str) for i in present], dtype=bool)
    if not is_text.any():
        if any(not isinstance(states[i], int | float | np.number | np.bool_) for i in present):
            raise InputError("states must be texts or whole numbers")
        numbers = np.full(len(states), np.nan)
        numbers[present] = [float(states[i]) for i in present]
        return _as_states(numbers) if len(present) else _no_states(len(states), True)
    if not is_text.all():
        text, other = present[is_text][0], present[~is_text][0]
        raise InputError(
            f"states mix texts and numbers: {states[text]!r} at step {text}, {states[other]!r} "
            f"at step {other}; write them all as texts or all as whole numbers"
        )
    return np.array([NO_STATE_NAME if a else s for s, a in zip(states, absent, strict=True)], "U")


def _pandas_na(value: Any) -> Any:
    """``value`` itself if it is pandas' NA (which refuses to be compared), else a new object."""
    return value if type(value).__name__ == "NAType" else object()


def _as_time(time: NDArray[Any]) -> NDArray[Any]:
    if time.dtype.kind not in "iufM":
        raise InputError(f"time must be numbers or datetimes, not {time.dtype}")
    bad = np.isnat(time) if time.dtype.kind == "M" else ~np.isfinite(time)
    if bad.any():
        raise InputError(f"time is missing at step {int(np.flatnonzero(bad)[0])}")
    return time.astype(np.int64) if time.dtype.kind == "u" else time


def _seconds(elapsed: NDArray[Any]) -> NDArray[np.float64]:
    if elapsed.dtype.kind == "m":
        return elapsed / np.timedelta64(1, "s")
    return elapsed.astype(np.float64)
