"""A labelled, multivariate sensor stream, and how it is cut into segments and runs.

A segment is a maximal series of steps without a recording boundary, a time gap or a missing value.
A run is the part of a segment that is in one state. Windows lie inside runs
(:mod:`mlat.stream.windows`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.checks import Bools, Floats, Ints, ShortRepr, is_real
from ..base.errors import InputError
from .column_roles import channels_of_frame, warn_of_counters
from .conversion import (
    GAP_FACTOR,
    StepError,
    as_channels,
    as_recordings,
    as_states,
    as_time,
    as_values,
    changes,
    in_seconds,
    is_frame,
    no_state,
    no_states,
)

__all__ = ["Runs", "Stream", "no_state"]


@dataclass(frozen=True, eq=False, repr=False)
class Runs(ShortRepr):
    """Maximal intervals ``[start, stop)`` of consecutive steps, in the order of the stream.

    ``code`` indexes ``Stream.classes``. It is -1 where no state is known.
    """

    start: Ints
    stop: Ints
    code: Ints

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.start.tolist(), self.stop.tolist(), self.code.tolist(), strict=True)

    @property
    def length(self) -> Ints:
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
        and -1, ``None`` or NaN among numbers, mark an unlabelled step. Default: no step is
        labelled. Since -1 may well be meant as a state, it is refused beside 1 alone or beside
        other numbers below 0, and a warning elsewhere counts the steps, unless ``unlabelled``
        names it.
    recordings : array of shape (T,), optional
        Which recording a step belongs to. A recording begins wherever the value changes. Steps of
        different recordings never share a window.
    groups : array of shape (T,), optional
        Who or what each step is of: a person, a machine, a day. A model that learns from several is
        judged, and made, for one that it has not seen.
    time : array of shape (T,), optional
        Numbers or datetimes that increase within each recording.
    channels : sequence of d names, optional
        Default: the columns of a frame, else ``x0 … x{d-1}``. Of a frame they choose columns, or,
        if it has no such columns, rename all. A column of a frame that has the name of a time, a
        row number or a recording is a channel only if it is named here; by default it is used for
        what it is, where that is clear (see ``notes``).
    unlabelled : value or list of values, optional
        Entries of ``states`` that mean "no state".
    max_gap : number, optional
        The largest time between consecutive steps that is not a gap, in seconds where ``time``
        holds datetimes. Default: 1.5 times the median step inside recordings.

    Attributes
    ----------
    max_gap : float or None
        The bound that is used: infinite where there is no step to take the median of, None
        without time.
    gap_before : array of shape (T,)
        True at each step that does not follow the one before it: the first of a recording, or
        after a gap in time.
    notes : tuple of str
        Which columns were taken for the time, the recordings or row numbers by their names.
    n_left_out : int
        Steps without a state that were read and not kept (``past`` of :func:`mlat.read_stream`).

    Raises
    ------
    InputError
        If the input does not fit together, or it is unclear whether a column of a frame is a
        channel: one that only rises or only falls. The message names the step or the column.

    Warns
    -----
    UserWarning
        If a column of an array counts in equal steps and ``channels`` does not name it; of -1 that
        is taken for "no state".

    Examples
    --------
    >>> stream = Stream([[0.0], [1.0], [2.0], [9.0]], ["rest", "rest", "", "walk"])
    >>> [(start, stop, str(stream.classes[code])) for start, stop, code in stream.runs]
    [(0, 2, 'rest'), (3, 4, 'walk')]
    """

    values: NDArray[np.floating[Any]]
    states: NDArray[Any]
    recordings: NDArray[Any] | None
    groups: NDArray[Any] | None = None
    time: NDArray[Any] | None
    channels: tuple[str, ...]
    max_gap: float | None
    gap_before: Bools
    notes: tuple[str, ...]
    n_left_out: int = 0

    def __init__(
        self,
        values: ArrayLike,
        states: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        unlabelled: Any = None,
        max_gap: float | None = None,
    ) -> None:
        self.notes = ()
        breaks = None
        if is_frame(values):
            self.values, self.channels, settled = channels_of_frame(
                values, channels, recordings, time
            )
            recordings, time = settled.recordings, settled.time
            breaks, self.notes = settled.breaks, settled.notes
        else:
            self.values, self.channels = as_values(values, channels)
        n_steps = len(self.values)
        refuse_infinity(self.values, self.channels)
        if channels is None and not is_frame(values):
            warn_of_counters(self.values)
        if states is None:
            self.states = no_states(n_steps)
        else:
            self.states = as_states(states, n_steps, unlabelled)
        self.recordings = None if recordings is None else as_recordings(recordings, n_steps)
        self.groups = None if groups is None else as_recordings(groups, n_steps, "group")
        self.time = None if time is None else as_time(time, n_steps)
        self.max_gap = as_max_gap(max_gap, timed=self.time is not None)
        self.gap_before = changes(self.recordings, n_steps) | changes(self.groups, n_steps)
        if self.time is not None:
            gaps, self.max_gap = _time_gaps(self.gap_before, self.time, self.max_gap)
            self.gap_before |= gaps
        if breaks is not None:
            self.gap_before |= breaks

    @classmethod
    def _of_checked(cls, **attributes: Any) -> Stream:
        """A stream of arrays that were checked before, with the gaps that were found then."""
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
            f"runs, states: {', '.join(shown + more) or 'none'}"
            f"{''.join(f'; {note}' for note in self.notes)})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Steps and channels. With it scikit-learn can cut a stream into folds."""
        return len(self), self.n_channels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The values (T, d), for numpy and the transformers of scikit-learn.

        Warns
        -----
        UserWarning
            If the stream has gaps, which an array does not have.
        """
        n_gaps = int(self.gap_before[1:].sum())
        if n_gaps:
            warnings.warn(
                f"an array has the values of a stream alone: {n_gaps} starts of recordings and "
                "gaps in time are lost, and windows cross them; give recordings with the values",
                UserWarning,
                stacklevel=2,
            )
        return np.array(self.values, dtype=dtype, copy=copy)

    def __getitem__(self, steps: slice | NDArray[Any]) -> Stream:
        """A part of the stream: a slice, whose arrays are views, or steps in the order of time.

        It keeps the gaps of the whole stream: they are not searched for again. Steps that did not
        follow each other are a gap.

        Raises
        ------
        InputError
            If the steps are not in the order of time.
        """
        if isinstance(steps, tuple) and len(steps) == 2 and steps[1] is Ellipsis:
            steps = steps[0]  # as scikit-learn writes it
        if isinstance(steps, slice) and steps.step in (None, 1):
            return self._part(steps, self.gap_before[steps])
        chosen = np.asarray(None if isinstance(steps, slice) else steps)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iub":
            raise TypeError(
                "a stream is sliced as stream[start:stop], without a stride, or by an array of "
                "steps"
            )
        chosen = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen.astype(np.int64)
        jumps = np.diff(chosen)
        if (jumps < 1).any():
            raise InputError(
                f"step {chosen[int(np.argmax(jumps < 1)) + 1]} is taken after a later one: a part "
                "of a stream keeps the order of time; split it with mlat.model_selection"
            )
        gap_before = self.gap_before[chosen]
        gap_before[1:] |= jumps > 1
        return self._part(chosen, gap_before)

    def _part(self, steps: slice | Ints, gap_before: Bools) -> Stream:
        return self._of_checked(
            values=self.values[steps],
            states=self.states[steps],
            recordings=None if self.recordings is None else self.recordings[steps],
            groups=None if self.groups is None else self.groups[steps],
            time=None if self.time is None else self.time[steps],
            channels=self.channels,
            max_gap=self.max_gap,
            gap_before=gap_before,
            notes=self.notes,
        )

    def followed_by(self, piece: Stream) -> Stream:
        """This stream and the next piece of the same one; each keeps the gaps that it knows of."""
        both = {
            name: None if mine is None else np.concatenate([mine, getattr(piece, name)])
            for name in ("values", "states", "recordings", "groups", "time", "gap_before")
            for mine in [getattr(self, name)]
        }
        return self._of_checked(
            **both, channels=self.channels, max_gap=self.max_gap, notes=self.notes
        )

    def with_values(self, values: NDArray[np.floating[Any]]) -> Stream:
        """The same steps with other values (T, d), which miss what these values miss."""
        return self._of_checked(**{**self.__dict__, "values": values})

    def with_states(self, states: ArrayLike, unlabelled: Any = None) -> Stream:
        """The same steps in other states (T,)."""
        stream = self[:]
        stream.states = as_states(states, len(self), unlabelled)
        return stream

    def with_groups(self, groups: ArrayLike) -> Stream:
        """The same steps, with whose each of them (T,) is."""
        stream = self[:]
        stream.groups = as_recordings(groups, len(self), "group")
        stream.gap_before = self.gap_before | changes(stream.groups, len(self))
        return stream

    def with_order(
        self, *, recordings: ArrayLike | None = None, time: ArrayLike | None = None
    ) -> Stream:
        """The same steps, with other recordings or another time where one is given."""
        if recordings is None and time is None:
            return self
        stream = Stream(
            self.values,
            self.states,
            recordings=self.recordings if recordings is None else recordings,
            groups=self.groups,
            time=self.time if time is None else time,
            channels=self.channels,
            unlabelled=self.no_state,
        )
        stream.notes = self.notes
        stream.gap_before |= self.gap_before  # by the index of a frame
        return stream

    def with_channels(self, channels: Sequence[str]) -> Stream:
        """The same stream with other names of its channels."""
        names = as_channels(channels, self.n_channels)
        return self._of_checked(**{**self.__dict__, "channels": names})

    def without(self, values: Bools) -> Stream:
        """The same steps, of which the values where the mask (T, d) is True are missing."""
        stream = self[:]
        stream.values = np.where(values, np.nan, self.values)
        return stream

    @classmethod
    def join(cls, streams: Iterable[Stream]) -> Stream:
        """Streams one after the other, each the start of a new recording.

        Every part keeps its own gaps. Time is kept only if every part has it in the same form, and
        ``max_gap`` only if it is the same in all parts.

        Raises
        ------
        InputError
            If there is no stream, or if channels or kinds of states differ.
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
        parts = [part for part in parts if len(part)] or [first]  # an empty part has no say
        times = [part.time for part in parts if part.time is not None]
        timed = len(times) == len(parts) and len({kind_of_time(time.dtype) for time in times}) == 1
        grouped = {part.groups is not None for part in parts}
        if len(grouped) > 1:
            raise InputError(
                "some streams say whose their steps are (groups) and others do not; say it of all"
            )
        recordings, gaps, n_recordings = [], [], 0
        for part in parts:
            recordings.append(n_recordings + np.cumsum(changes(part.recordings, len(part))))
            n_recordings = recordings[-1].max(initial=-1) + 1
            gaps.append(part.gap_before.copy())
            gaps[-1][:1] = True
        return cls._of_checked(
            values=np.concatenate([part.values for part in parts]),
            states=np.concatenate(_same_kind_of_states(parts)),
            recordings=np.concatenate(recordings),
            groups=np.concatenate([p.groups for p in parts]) if True in grouped else None,
            time=np.concatenate(times) if timed else None,
            channels=first.channels,
            max_gap=parts[0].max_gap if timed and len({p.max_gap for p in parts}) == 1 else None,
            gap_before=np.concatenate(gaps),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )

    @cached_property
    def usual_step(self) -> float | None:
        """The median time between steps inside recordings; in seconds where time is datetimes.

        None without time, and where no recording has two steps.
        """
        if self.time is None:
            return None
        inside = ~changes(self.recordings, len(self))[1:]
        return _median(in_seconds(np.diff(self.time))[inside])

    @property
    def n_channels(self) -> int:
        return int(self.values.shape[1])

    @property
    def no_state(self) -> Any:
        """How this stream writes "no state": ``""`` for named states, -1 for numbered ones."""
        return no_state(self.states)

    @cached_property
    def labelled(self) -> Bools:
        """Which steps have a state."""
        return self.codes >= 0

    @cached_property
    def missing(self) -> Bools:
        """Which steps lack a value in some channel."""
        mask: Bools = np.isnan(self.values).any(axis=1)
        return mask

    @property
    def classes(self) -> NDArray[Any]:
        """The states that occur, sorted."""
        return self._classes_and_codes[0]

    @property
    def codes(self) -> Ints:
        """The index in ``classes`` of each step's state; -1 where there is none."""
        return self._classes_and_codes[1]

    @cached_property
    def _classes_and_codes(self) -> tuple[NDArray[Any], Ints]:
        # Only the steps at which the state changes are sorted: they are far fewer than all.
        begins = np.flatnonzero(changes(self.states, len(self), first=True))
        states, code = np.unique(self.states[begins], return_inverse=True)
        is_state = states != self.no_state
        code_of = np.where(is_state, np.cumsum(is_state) - 1, -1)
        lengths = np.diff(begins, append=len(self))
        return states[is_state], np.repeat(code_of[code], lengths)

    @cached_property
    def segments(self) -> Runs:
        """Maximal parts without a recording boundary, a time gap or a missing value."""
        return self._split(self.gap_before, np.full(len(self), -1))

    @cached_property
    def runs(self) -> Runs:
        """The labelled parts of segments, each in one state."""
        switch = changes(self.codes, len(self))
        parts = self._split(self.gap_before | switch, self.codes)
        keep = parts.code >= 0
        return Runs(parts.start[keep], parts.stop[keep], parts.code[keep])

    def _split(self, breaks: Bools, codes: Ints) -> Runs:
        """The parts between breaks and missing values, each with the code of its first step."""
        begins = breaks | self.missing
        begins[1:] |= self.missing[:-1]
        begins[:1] = True
        start = np.flatnonzero(begins).astype(np.int64)
        stop = np.append(start, len(self)).astype(np.int64)[1:]
        keep = ~self.missing[start]
        return Runs(start[keep], stop[keep], codes[start][keep].astype(np.int64))


def _time_gaps(boundary: Bools, time: NDArray[Any], max_gap: float | None) -> tuple[Bools, float]:
    """Where time jumps by more than ``max_gap``, shape (T,), and the ``max_gap`` that is used.

    ``boundary`` (T,) is True where a recording begins. Time may go back there.
    """
    elapsed = in_seconds(np.diff(time))
    inside = ~boundary[1:]
    back = inside & ~(elapsed > 0)
    if back.any():
        step = int(np.argmax(back)) + 1
        raise goes_back(step, time[step], time[step - 1])
    if max_gap is None:
        usual = _median(elapsed[inside])
        max_gap = np.inf if usual is None else GAP_FACTOR * usual
    gap_before = np.zeros(len(time), dtype=bool)
    gap_before[1:] = elapsed > max_gap
    return gap_before, max_gap


def goes_back(step: int, now: Any, before: Any) -> StepError:
    """The error of a time that does not increase."""
    same = "have the steps resampled (rate), " if now == before else ""
    return StepError(
        f"time does not increase at step {step} ({now} after {before}); {same}"
        "sort the steps, say which recording each belongs to, or leave the time out",
        step,
    )


def _median(elapsed: Floats) -> float | None:
    return float(np.median(elapsed)) if len(elapsed) else None


def refuse_infinity(
    values: NDArray[np.floating[Any]], channels: tuple[str, ...], first: int = 0
) -> None:
    """Raise InputError if a value (T, d) is infinite; ``first`` is the number of the first step."""
    infinite = np.isinf(values)
    if infinite.any():
        step, channel = (int(i) for i in np.argwhere(infinite)[0])
        raise StepError(
            f"infinite value at step {first + step}, channel {channels[channel]!r}; "
            "mark a missing value with NaN, or correct it",
            first + step,
        )


def as_max_gap(max_gap: float | None, *, timed: bool) -> float | None:
    """The longest time that is not a gap, as given; ``timed`` is whether there is a time."""
    if max_gap is None:
        return None
    if not is_real(max_gap):
        raise InputError(f"max_gap must be a number (of seconds for datetimes), not {max_gap!r}")
    if not max_gap > 0:
        raise InputError(f"max_gap must be positive, not {max_gap!r}")
    if not timed:
        raise InputError("max_gap is a length of time, so it needs the time of the steps (time)")
    return float(max_gap)


def kind_of_time(dtype: Any) -> str:
    """Datetimes, timedeltas or numbers: only times of one kind fit in one array."""
    return dtype.kind if dtype.kind in "Mm" else "number"


def _same_kind_of_states(parts: list[Stream]) -> list[NDArray[Any]]:
    """The states of the parts; parts without states write "no state" as the others do."""
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
