"""What goes through a session: steps as they arrive, their predictions, and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...base.checks import Bools, Floats, Ints, ShortRepr
from ...base.errors import InputError
from ...stream.conversion import as_values, one_per_step


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Steps(ShortRepr):
    """Consecutive steps in the order of their arrival.

    Attributes
    ----------
    values : array of shape (t, d)
        NaN where a value is missing.
    seq : array of shape (t,), optional
        The source's own numbers of the steps.
    time : array of shape (t,), optional
        In seconds.
    """

    values: Floats
    seq: Ints | None = None
    time: Floats | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice | Bools) -> Steps:
        """Some of the steps."""
        seq = None if self.seq is None else self.seq[part]
        return Steps(self.values[part], seq, None if self.time is None else self.time[part])

    def pieces(self, size: int) -> Iterator[Steps]:
        """The same steps, at most ``size`` at a time."""
        return (self[begin : begin + size] for begin in range(0, len(self), size))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The state at one accepted step, its probability, and the nearest references.

    Attributes
    ----------
    step : int
        The number of the accepted step, from 0.
    state : str or int
        ``clf.unknown_`` where it is unknown; ``why`` then says why.
    proba : float
        The probability of that state; NaN where it is unknown.
    distance : float
        To the nearest reference in the learned space; NaN without a complete window.
    neighbours : tuple of int
        Rows of ``clf.windows_``, nearest first; taught windows are ``len(clf.windows_) + i``.
    why : str
        Empty where the state is known; else ``"filling"``, ``"missing"``, ``"gap"``, ``"far"`` or
        ``"dead channel NAME"``.
    seq : int or None
        The source's own number of the step.
    time : float or None
        In seconds, from the source.
    probabilities : tuple of float
        Of each state, in the order of ``session.classes``; empty without a complete window.
    agreement : float
        The weight of the experts whose own nearest state is this one, from 0 to 1; 1 for a model
        with one expert, NaN where the state is unknown.
    """

    step: int
    state: str | int
    proba: float
    distance: float
    neighbours: tuple[int, ...]
    why: str
    seq: int | None
    time: float | None
    probabilities: tuple[float, ...]
    agreement: float = 1.0


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Predictions(ShortRepr, Sequence[Prediction]):
    """The predictions of n successive accepted steps as columns; a list of them on access.

    Attributes
    ----------
    first : int
        The number of the first step.
    names : tuple of str or int
        The states that can be predicted, then the unknown one.
    codes : array of shape (n,)
        The state of each, as an index of ``names``.
    proba, agreement : arrays of shape (n,)
        NaN where the state is unknown.
    distance : array of shape (n,)
        NaN without a complete window.
    neighbours : array of shape (n, k)
        -1 for none.
    reasons : sequence of str
        Why a state may be unknown.
    why : array of shape (n,)
        An index of ``reasons``; 0 is none.
    probabilities : array of shape (n, S)
        NaN without a complete window.
    seq, time : arrays of shape (n,), optional
    """

    first: int
    names: tuple[str | int, ...]
    codes: Ints
    proba: Floats
    agreement: Floats
    distance: Floats
    neighbours: Ints
    reasons: Sequence[str]
    why: Ints
    probabilities: Floats
    seq: Ints | None
    time: Floats | None

    @classmethod
    def of(cls, predictions: Sequence[Prediction]) -> Predictions:
        """The columns of some, which belong together as those of :func:`parts_of` do."""
        first, names, reasons = predictions[0], dict[Any, int](), {"": 0}
        rows = [p.neighbours for p in predictions]
        each = [p.probabilities for p in predictions]
        return cls(
            first.step,
            codes=np.array([names.setdefault(p.state, len(names)) for p in predictions]),
            names=tuple(names),
            proba=np.array([p.proba for p in predictions]),
            agreement=np.array([p.agreement for p in predictions]),
            distance=np.array([p.distance for p in predictions]),
            neighbours=filled([row for own in rows for row in own], map(len, rows), -1),
            why=np.array([reasons.setdefault(p.why, len(reasons)) for p in predictions]),
            reasons=[*reasons],
            probabilities=filled([one for own in each for one in own], map(len, each), np.nan),
            seq=None if first.seq is None else np.array([p.seq for p in predictions]),
            time=None if first.time is None else np.array([p.time for p in predictions]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        """Those of one session that follow each other, and know the same states."""
        columns: dict[str, Any] = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(cls)
            if isinstance(getattr(parts[0], column.name), np.ndarray)
            and column.name != "neighbours"
        }
        # Of few taught windows there are fewer neighbours than where there is none at all.
        k = max(part.neighbours.shape[1] for part in parts)
        near = [(part.neighbours, k - part.neighbours.shape[1]) for part in parts]
        padded = [np.pad(own, [(0, 0), (0, lacks)], constant_values=-1) for own, lacks in near]
        return replace(parts[0], **columns | {"neighbours": np.concatenate(padded)})

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, at: int) -> Prediction: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Prediction]: ...
    def __getitem__(self, at: int | slice) -> Prediction | Sequence[Prediction]:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            return [*self._made(begin, end)] if step == 1 else [*self][at]
        i = range(len(self))[at]
        return next(self._made(i, i + 1))

    def __iter__(self) -> Iterator[Prediction]:
        return self._made(0, len(self))

    def _made(self, begin: int, end: int) -> Iterator[Prediction]:
        """The predictions from ``begin`` to ``end - 1``, column by column to Python's numbers."""
        part = slice(begin, end)
        columns = (self.codes, self.proba, self.agreement, self.distance, self.neighbours)
        none = [None] * (end - begin)
        rows = zip(
            range(self.first + begin, self.first + end),
            *(column[part].tolist() for column in (*columns, self.why, self.probabilities)),
            none if self.seq is None else self.seq[part].tolist(),
            none if self.time is None else self.time[part].tolist(),
            strict=True,
        )
        for step, code, proba, agreement, distance, near, why, each, seq, time in rows:
            there = distance == distance  # the one NaN for every NaN: equal predictions are equal
            yield Prediction(
                step,
                self.names[code],
                proba if proba == proba else np.nan,
                distance if there else np.nan,
                tuple(row for row in near if row >= 0),
                self.reasons[why],
                seq,
                time,
                tuple(each) if there else (),
                agreement if agreement == agreement else np.nan,
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == that for one, that in zip(self, other, strict=True))

    def __add__(self, other: Sequence[Prediction]) -> list[Prediction]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Prediction]) -> list[Prediction]:
        return [*other, *self]


def filled(flat: Any, lengths: Iterable[int], nothing: float) -> NDArray[Any]:
    """Rows of some lengths, one after the other, as an array that is filled up."""
    lengths = np.array([*lengths], np.int64)
    table = np.full((len(lengths), lengths.max(initial=0)), nothing)
    table[np.arange(table.shape[1]) < lengths[:, None]] = flat
    return table


def parts_of(predictions: Sequence[Prediction]) -> list[Predictions]:
    """Predictions as columns; apart where steps do not follow each other, or have other fields."""
    if isinstance(predictions, Predictions):
        return [predictions]
    parts: list[list[Prediction]] = []
    n_states = 0  # of this part
    for p in predictions:
        last, n_own = parts[-1][-1] if parts else None, len(p.probabilities)
        follows = last is not None and p.step == last.step + 1 and n_own in (0, n_states or n_own)
        if (
            last is not None
            and follows
            and (p.seq is None, p.time is None) == (last.seq is None, last.time is None)
        ):
            parts[-1].append(p)
            n_states = n_states or n_own
        else:
            parts.append([p])
            n_states = n_own
    return [Predictions.of(part) for part in parts]


COUNTED = {  # name of each counter: what it counts
    "accepted": "steps that were numbered and got a prediction",
    "missing": "accepted steps that lacked a value",
    "held": "accepted steps in which a missing value was replaced by the channel's last",
    "rejected": "steps that were refused, for a missing or an infinite value",
    "infinite": "those of them with an infinite value",
    "extreme": "steps with a value too extreme to be compared, which counts as missing",
    "late": "steps that came after their place was given up",
    "duplicate": "steps that came a second time",
    "gaps": "places where steps are missing between two that were accepted",
    "dead": "accepted steps at which some channel was constant for too long",
    "far": "accepted steps whose window is far from every reference",
    "unknown": "accepted steps whose state is unknown, for any reason",
    "taught": "windows that were taught",
    "undone": "windows of examples that were undone",
    "wrong_unit": "1 if time does not seem to be in seconds",
}


class Counters(dict[str, int]):
    """A count for each of ``COUNTED``, from 0."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        super().__init__(dict.fromkeys(COUNTED, 0) if counts is None else counts)

    def copy(self) -> Counters:
        return Counters(self)


def as_steps(chunk: Any, seq: Any = None, time: Any = None, *, n_channels: int) -> Steps:
    """Check and convert what is pushed; a float array is not copied.

    Parameters
    ----------
    chunk : Steps, or array or frame of shape (t, d) or (d,)
        One row is one step.
    seq, time : arrays of shape (t,), or one number for one step, optional
    n_channels : int
        How many channels the model was learned on.

    Raises
    ------
    InputError
    """
    if isinstance(chunk, Steps):
        if seq is not None or time is not None:
            raise InputError("the steps have seq and time of their own; give them alone")
        chunk, seq, time = chunk.values, chunk.seq, chunk.time
    values = _as_rows(chunk, n_channels)
    return Steps(
        values,
        None if seq is None else _as_seq(seq, len(values)),
        None if time is None else _as_time(time, len(values)),
    )


def _as_rows(chunk: Any, n_channels: int) -> Floats:
    plain = type(chunk) is np.ndarray and chunk.dtype == np.float64
    if plain and chunk.ndim == 2:
        rows = chunk
    elif plain and chunk.shape == (n_channels,) and n_channels > 1:  # one step
        return np.array(chunk[None])
    else:
        rows = as_values(chunk)[0].astype(np.float64)
        if _is_flat(chunk) and not len(rows):
            return np.empty((0, n_channels))
        # A row of numbers is one step here; a Stream would take it for one channel.
        if _is_flat(chunk) and n_channels > 1:
            rows = rows.T
    if rows.shape[1] != n_channels:
        raise InputError(
            f"the steps have {rows.shape[1]} channels, the model was learned on {n_channels}; "
            "give every step the same channels in the same order, with NaN for a missing value"
        )
    return rows


def _is_flat(chunk: Any) -> bool:
    ndim = getattr(chunk, "ndim", None)
    return ndim == 1 if ndim is not None else not any(hasattr(row, "__len__") for row in chunk)


def _as_seq(seq: Any, n_steps: int) -> Ints:
    array = one_per_step(np.atleast_1d(seq), n_steps, "seq")
    if array.dtype.kind not in "iu" and n_steps:
        raise InputError(f"seq must hold whole numbers, not {array.dtype}")
    return array.astype(np.int64)


def _as_time(time: Any, n_steps: int) -> Floats:
    array = one_per_step(np.atleast_1d(time), n_steps, "time")
    if array.dtype.kind not in "iuf" and n_steps:
        raise InputError(f"time must hold seconds as numbers, not {array.dtype}")
    seconds = array.astype(np.float64)
    if not np.isfinite(seconds).all():
        step = int(np.argmin(np.isfinite(seconds)))
        raise InputError(f"time is {seconds[step]} at step {step} of the chunk; leave it out")
    return seconds


def join(parts: Sequence[Steps]) -> Steps:
    """Concatenate steps, of which all or none have ``seq``, and ``time``."""
    if len(parts) == 1:
        return parts[0]
    seqs = [part.seq for part in parts if part.seq is not None]
    times = [part.time for part in parts if part.time is not None]
    return Steps(
        np.concatenate([part.values for part in parts]),
        np.concatenate(seqs) if seqs else None,
        np.concatenate(times) if times else None,
    )
