"""Some steps of a stream as they arrive, with what their source says about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..stream_arrays import as_values, one_per_step


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
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

    values: NDArray[np.float64]
    seq: NDArray[np.int64] | None = None
    time: NDArray[np.float64] | None = None

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


def join(parts: Sequence[Steps]) -> Steps:
    """Steps one after the other, all of them or none with a number, and with a time."""
    if len(parts) == 1:
        return parts[0]
    seqs = [part.seq for part in parts if part.seq is not None]
    times = [part.time for part in parts if part.time is not None]
    return Steps(
        np.concatenate([part.values for part in parts]),
        np.concatenate(seqs) if seqs else None,
        np.concatenate(times) if times else None,
    )


def as_steps(chunk: Any, seq: Any = None, time: Any = None, *, n_channels: int) -> Steps:
    """Whatever is pushed as checked steps; nothing of it is kept when it is refused.

    Parameters
    ----------
    chunk : Steps, or array or frame of shape (t, d) or (d,)
        One row is one step.
    seq, time : arrays of shape (t,), or one number for one step, optional
    n_channels : int
        How many channels the model was learned on.
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


def _as_rows(chunk: Any, n_channels: int) -> NDArray[np.float64]:
    if type(chunk) is np.ndarray and chunk.dtype == np.float64 and chunk.ndim == 2:
        rows = chunk
    else:
        rows = as_values(chunk)[0].astype(np.float64)
        if _is_flat(chunk) and not len(rows):
            return np.empty((0, n_channels))
        # A row of numbers is one step here, where a Stream would take it for one channel.
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


def _as_seq(seq: Any, n_steps: int) -> NDArray[np.int64]:
    array = one_per_step(np.atleast_1d(seq), n_steps, "seq")
    if array.dtype.kind not in "iu" and n_steps:
        raise InputError(f"seq must hold whole numbers, not {array.dtype}")
    return array.astype(np.int64)


def _as_time(time: Any, n_steps: int) -> NDArray[np.float64]:
    array = one_per_step(np.atleast_1d(time), n_steps, "time")
    if array.dtype.kind not in "iuf" and n_steps:
        raise InputError(f"time must hold seconds as numbers, not {array.dtype}")
    seconds = array.astype(np.float64)
    if not np.isfinite(seconds).all():
        step = int(np.argmin(np.isfinite(seconds)))
        raise InputError(f"time is {seconds[step]} at step {step} of the chunk; leave it out")
    return seconds
