"""A labelled, multivariate sensor stream and the runs it falls into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .conversion import StepError, as_recordings, as_states, as_values, no_state, no_states
from .gaps import as_time, find_gaps

__all__ = ["Runs", "Stream", "no_state"]


@dataclass(frozen=True, eq=False)
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
    values : array or frame of shape (T, d) or (T,)
        One row per step, one column per channel. NaN is a missing value; infinity is an error.
        An array of floats is kept as it is, not copied: do not change it afterwards.
    states : array of shape (T,), optional
        The state of each step, as text or as whole numbers. ``""``, ``None`` or NaN among texts,
        and -1, ``None`` or NaN among numbers, mark an unlabelled step. Without ``states`` no step
        is labelled.
    recordings : array of shape (T,), optional
        Which recording a step belongs to. Steps of different recordings never share a window;
        wherever the value changes a recording begins.
    time : array of shape (T,), optional
        Numbers or datetimes that increase within each recording.
    channels : sequence of d names, optional
        Default the columns of a frame, else ``x0 … x{d-1}``.
    max_gap : number, optional
        The largest time between consecutive steps that is not a gap; seconds where ``time`` is a
        datetime. Default 1.5 times the median step.

    Attributes
    ----------
    max_gap : float or None
        The largest time between consecutive steps that is not a gap, given or found; None
        without time.

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
    max_gap: float | None
    _gap_before: NDArray[np.bool_]  # True at each step that does not follow the one before it

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
        self.values, self.channels = as_values(values, channels)
        n_steps = len(self.values)
        _refuse_infinity(self.values, self.channels)
        self.states = no_states(n_steps) if states is None else as_states(states, n_steps)
        self.recordings = None if recordings is None else as_recordings(recordings, n_steps)
        self.time = None if time is None else as_time(time, n_steps)
        self.max_gap = _as_max_gap(max_gap, self.time)
        self._gap_before = _changes(self.recordings, n_steps)
        if self.time is not None:
            jumps, self.max_gap = find_gaps(self._gap_before, self.time, self.max_gap)
            self._gap_before |= jumps

    @classmethod
    def _of_checked(cls, **attributes: Any) -> Stream:
        """A stream of arrays that other streams have checked, with the gaps these have found."""
        stream = cls.__new__(cls)
        stream.__dict__.update(attributes)
        return stream

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = [str(state) for state in self.classes[:10]]
        more = [f"and {len(self.classes) - 10} more"] if len(self.classes) > 10 else []
        return (
            f"Stream({len(self)} steps, {self.n_channels} channels, {len(self.runs)} labelled "
            f"runs, states: {', '.join(shown + more) or 'none'})"
        )

    def __getitem__(self, steps: slice) -> Stream:
        """A contiguous part of the stream; its arrays are views.

        Gaps stay where the whole stream has them: a part does not find a usual step of its own.
        """
        if not isinstance(steps, slice) or steps.step not in (None, 1):
            raise TypeError("a stream is sliced as stream[start:stop], without a stride")
        return self._of_checked(
            values=self.values[steps],
            states=self.states[steps],
            recordings=None if self.recordings is None else self.recordings[steps],
            time=None if self.time is None else self.time[steps],
            channels=self.channels,
            max_gap=self.max_gap,
            _gap_before=self._gap_before[steps],
        )

    @classmethod
    def join(cls, streams: Iterable[Stream]) -> Stream:
        """Streams one after the other, each the start of a new recording.

        Every part keeps its own gaps. Time itself is kept only if every part has it, and in the
        same form; ``max_gap`` only if all parts have the same.
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
        parts = [part for part in parts if len(part)] or [first]  # an empty one decides nothing
        times = [part.time for part in parts if part.time is not None]
        timed = len(times) == len(parts) and len({_form_of(time) for time in times}) == 1
        recordings, gaps, begun = [], [], 0
        for part in parts:
            recordings.append(begun + np.cumsum(_changes(part.recordings, len(part))))
            begun = recordings[-1].max(initial=-1) + 1
            gaps.append(part._gap_before.copy())
            gaps[-1][:1] = True
        return cls._of_checked(
            values=np.concatenate([part.values for part in parts]),
            states=np.concatenate(_same_kind_of_states(parts)),
            recordings=np.concatenate(recordings),
            time=np.concatenate(times) if timed else None,
            channels=first.channels,
            max_gap=parts[0].max_gap if timed and len({p.max_gap for p in parts}) == 1 else None,
            _gap_before=np.concatenate(gaps),
        )

    @property
    def n_channels(self) -> int:
        return int(self.values.shape[1])

    @property
    def no_state(self) -> Any:
        """How this stream writes "no state": ``""`` for named states, -1 for numbered ones."""
        return no_state(self.states)

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Which steps carry a state."""
        return self.codes >= 0

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which steps lack a value in some channel."""
        mask: NDArray[np.bool_] = np.isnan(self.values).any(axis=1)
        return mask

    @property
    def classes(self) -> NDArray[Any]:
        """The states that occur, sorted."""
        return self._classes_and_codes[0]

    @property
    def codes(self) -> NDArray[np.int64]:
        """The index in ``classes`` of each step's state; -1 where there is none."""
        return self._classes_and_codes[1]

    @cached_property
    def _classes_and_codes(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        # States last: to sort one step of each stretch is far less than to sort them all.
        begins = np.flatnonzero(_changes(self.states, len(self), first=True))
        states, code = np.unique(self.states[begins], return_inverse=True)
        is_state = states != self.no_state
        code_of = np.where(is_state, np.cumsum(is_state) - 1, -1)
        lengths = np.diff(begins, append=len(self))
        return states[is_state], np.repeat(code_of[code], lengths)

    @cached_property
    def segments(self) -> Runs:
        """Stretches unbroken by a recording boundary, a time gap or a missing value."""
        return self._stretches(self._gap_before, np.full(len(self), -1))

    @cached_property
    def runs(self) -> Runs:
        """Labelled stretches of one state, unbroken like ``segments``."""
        switch = _changes(self.codes, len(self))
        stretches = self._stretches(self._gap_before | switch, self.codes)
        keep = stretches.code >= 0
        return Runs(stretches.start[keep], stretches.stop[keep], stretches.code[keep])

    def _stretches(self, breaks: NDArray[np.bool_], codes: NDArray[Any]) -> Runs:
        begins = breaks | self.missing
        begins[1:] |= self.missing[:-1]
        begins[:1] = True
        start = np.flatnonzero(begins).astype(np.int64)
        stop = np.append(start, len(self)).astype(np.int64)[1:]
        keep = ~self.missing[start]
        return Runs(start[keep], stop[keep], codes[start][keep].astype(np.int64))


def _changes(
    entries: NDArray[Any] | None, n_steps: int, *, first: bool = False
) -> NDArray[np.bool_]:
    """True at each step whose entry is not that of the step before it; ``first`` at step 0."""
    changes = np.zeros(n_steps, dtype=bool)
    changes[:1] = first
    if entries is not None:
        changes[1:] = entries[1:] != entries[:-1]
    return changes


def _refuse_infinity(values: NDArray[np.floating[Any]], channels: tuple[str, ...]) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        step, channel = (int(i) for i in np.argwhere(infinite)[0])
        raise StepError(
            f"infinite value at step {step}, channel {channels[channel]!r}; "
            "mark a missing value with NaN, or correct it",
            step,
        )


def _as_max_gap(max_gap: float | None, time: NDArray[Any] | None) -> float | None:
    if max_gap is None:
        return None
    if isinstance(max_gap, bool) or not isinstance(max_gap, int | float | np.number):
        raise InputError(f"max_gap must be a number (of seconds for datetimes), not {max_gap!r}")
    if not max_gap > 0:
        raise InputError(f"max_gap must be positive, not {max_gap!r}")
    if time is None:
        raise InputError("max_gap says which steps in time are gaps, so it needs `time`")
    return float(max_gap)


def _form_of(time: NDArray[Any]) -> str:
    """Which times can stand in one array: datetimes, timedeltas or numbers."""
    return time.dtype.kind if time.dtype.kind in "Mm" else "number"


def _same_kind_of_states(parts: list[Stream]) -> list[NDArray[Any]]:
    """The states of the parts, where those without any follow the others in how to write none."""
    with_states = [part for part in parts if part.labelled.any()]
    kinds = {part.states.dtype.kind for part in with_states or parts}
    if with_states and len(kinds) > 1:
        raise InputError("some streams name their states and others number them; choose one")
    as_text = "U" in kinds
    return [
        part.states
        if (part.states.dtype.kind == "U") == as_text
        else no_states(len(part), as_text=as_text)
        for part in parts
    ]
