"""What goes through a session: steps as they arrive, their predictions, and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.checks import Floats, Ints, ShortRepr
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

    def pieces(self, size: int) -> Iterator[Steps]:
        """The same steps, at most ``size`` at a time."""
        for begin in range(0, len(self), size):
            part = slice(begin, begin + size)
            yield Steps(
                self.values[part],
                None if self.seq is None else self.seq[part],
                None if self.time is None else self.time[part],
            )


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
    if type(chunk) is np.ndarray and chunk.dtype == np.float64 and chunk.ndim == 2:
        rows = chunk
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
