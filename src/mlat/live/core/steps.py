"""What goes through a session: steps as they arrive, their predictions, and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
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
    """The predictions of n successive accepted steps as columns; each is made on access.

    Attributes
    ----------
    first : int
        The number of the first step.
    names : tuple of str or int
        The states that there may be; of a session those that it knows, then the unknown one.
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
        An index of ``reasons``, of which an empty one is none.
    probabilities : array of shape (n, S)
        NaN without a complete window, and of a state that was not known yet.
    seq, time : arrays of shape (n,), optional
        Masked where only some have them.
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
    def joined(cls, parts: Iterable[Predictions]) -> Predictions:
        """Those that follow each other; states and reasons may have other places in each."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return NO_PREDICTIONS
        names, codes = _in_one_table([(part.names, part.codes) for part in parts])
        reasons, why = _in_one_table([(part.reasons, part.why) for part in parts])
        return cls(
            parts[0].first,
            names,
            codes,
            np.concatenate([part.proba for part in parts]),
            np.concatenate([part.agreement for part in parts]),
            np.concatenate([part.distance for part in parts]),
            _padded([part.neighbours for part in parts], -1),
            reasons,
            why,
            _padded([part.probabilities for part in parts], np.nan),
            _where_there([part.seq for part in parts], parts),
            _where_there([part.time for part in parts], parts),
        )

    def states(self) -> NDArray[Any]:
        """The state of each, of shape (n,): names and numbers as Python has them."""
        return np.array([*self.names, None], object)[self.codes]

    def reasoned(self, says: Callable[[str], bool]) -> Bools:
        """Of which predictions a test of the reason is true."""
        return np.array([says(reason) for reason in self.reasons], bool)[self.why]

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, at: int) -> Prediction: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Prediction]: ...
    def __getitem__(self, at: int | slice) -> Prediction | Sequence[Prediction]:
        if not isinstance(at, slice):
            i = range(len(self))[at]
            return next(self._made(i, i + 1))
        begin, end, step = at.indices(len(self))
        return self.part(begin, end) if step == 1 else [*self][at]

    def part(self, begin: int, end: int) -> Predictions:
        """Those from place ``begin`` to ``end - 1``, without a copy."""
        kept: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        rows = {name: a[begin:end] for name, a in kept.items() if isinstance(a, np.ndarray)}
        return Predictions(**kept | rows | {"first": self.first + begin})

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
            yield Prediction(  # the one NaN for every NaN: equal predictions are equal
                step,
                self.names[code],
                proba if proba == proba else np.nan,
                distance if distance == distance else np.nan,
                tuple([row for row in near if row >= 0]),
                self.reasons[why],
                seq,
                time,
                tuple([one for one in each if one == one]),
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


_NO_WHOLE, _NO_FLOATS = np.empty(0, np.int64), np.empty(0)
NO_PREDICTIONS = Predictions(
    *(0, (), _NO_WHOLE, _NO_FLOATS, _NO_FLOATS, _NO_FLOATS, _NO_WHOLE.reshape(0, 0)),
    *(("",), _NO_WHOLE, _NO_FLOATS.reshape(0, 0), None, None),
)


def _in_one_table(parts: Sequence[tuple[Sequence[Any], Ints]]) -> tuple[tuple[Any, ...], Ints]:
    """Columns of indices, each of a table of its own, as one column of one table."""
    table: dict[Any, int] = {}
    places: dict[int, Ints] = {}  # of the entries of each table; most parts have the same one
    columns = []
    for names, column in parts:
        if id(names) not in places:
            own = [table.setdefault(name, len(table)) for name in names]
            places[id(names)] = np.array(own, np.int64)
        columns.append(places[id(names)][column])
    return tuple(table), np.concatenate(columns)


def _padded(tables: Sequence[NDArray[Any]], nothing: float) -> NDArray[Any]:
    """Tables one below the other, the narrow ones filled up."""
    width = max(table.shape[1] for table in tables)
    whole = np.full((sum(map(len, tables)), width), nothing, tables[0].dtype)
    begin = 0
    for table in tables:
        whole[begin : begin + len(table), : table.shape[1]] = table
        begin += len(table)
    return whole


def _where_there(columns: Sequence[Any], parts: Sequence[Predictions]) -> Any:
    """A column that parts may lack: None where all do, masked where some do."""
    there = [column for column in columns if column is not None]
    if not there:
        return None
    if len(there) == len(columns) and not any(map(np.ma.isMaskedArray, there)):
        return np.concatenate(there)
    none = [np.ma.masked_array(np.zeros(len(part), there[0].dtype), True) for part in parts]
    every = [lacks if own is None else own for own, lacks in zip(columns, none, strict=True)]
    return np.ma.masked_array(
        np.concatenate([np.ma.getdata(one) for one in every]),
        np.concatenate([np.ma.getmaskarray(one) for one in every]),
    )


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
