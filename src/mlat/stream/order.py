"""Signs that rows are not what a stream or its windows need: every step, in the order of time.

A window of steps that did not follow each other means nothing. A random part of the steps, such as
scikit-learn's ``KFold(shuffle=True)`` and ``train_test_split`` take, gives such windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Ints
from .conversion import GAP_FACTOR, StepError

FEW_STEPS = 20  # fewer show nothing
MANY_BACK = 0.1  # of the steps of an index that go back; parts put together have few
MANY_HOLES = 0.05  # of the steps of an index that leave rows out; blocks put together have few
LIKE_RANDOM = 0.8  # of the switches of states, or the roughness, that a random order has

WHOLE = (
    "give a stream whole and in order (frame.sort_index()), keep missing values as NaN, and split "
    "it into blocks or by recordings, not row by row; if the rows do follow each other, number "
    "them anew (frame.reset_index(drop=True))"
)


def breaks_of_index(frame: Any, begins: Bools) -> Bools | None:
    """Where rows of a pandas frame do not follow each other by its index, shape (T,).

    Parameters
    ----------
    frame : frame
        Of any other kind than pandas' it has no index.
    begins : array of shape (T,)
        True where a recording begins: the index may start anew there.

    Returns
    -------
    breaks : array of shape (T,), or None
        None where there are none, or the index has no order.

    Raises
    ------
    InputError
        If the rows are shuffled, or so many are missing that few windows would be whole.
    """
    index = index_of(frame)
    if index.dtype.kind not in "iufMm" or len(index) < FEW_STEPS:
        return None
    steps = np.diff(index).astype(np.float64)
    inside = ~begins[1:]
    usual = float(np.median(steps[inside])) if inside.any() else 0.0
    back = inside & (steps < 0)
    if back.mean() > MANY_BACK:
        raise StepError(
            f"the index of the frame goes back at {int(back.sum())} of {len(index)} steps: its "
            f"rows are not in the order of time; {WHOLE}"
        )
    holes = inside & (steps > GAP_FACTOR * usual) & (usual > 0)
    if holes.mean() > MANY_HOLES:
        raise StepError(
            f"the index of the frame leaves rows out at {int(holes.sum())} of {len(index)} steps, "
            f"and windows would join steps that do not follow each other; {WHOLE}"
        )
    breaks = np.concatenate([[False], back | holes])
    return breaks if breaks.any() else None


def index_of(frame: Any) -> NDArray[Any]:
    """The index of a pandas frame, shape (T,); of dates with a time zone in UTC."""
    index = getattr(frame, "index", ())
    dtype = getattr(index, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(index, dtype=f"datetime64[{getattr(dtype, 'unit', 'ns')}]")
    return np.asarray(index)


def switches_at_random(codes: Ints) -> bool:
    """Whether states (n,) switch about as often as in a random order. Negative codes are none."""
    known = codes[codes >= 0]
    if len(known) < FEW_STEPS:
        return False
    shares = np.bincount(known) / len(known)
    random = 1 - float((shares**2).sum())
    return bool(random > 0 and (np.diff(known) != 0).mean() > LIKE_RANDOM * random)


def is_rough(values: NDArray[np.floating[Any]]) -> bool:
    """Whether values (T, d) differ from step to step about as much as any two of them do."""
    known = values[~np.isnan(values).any(axis=1)].astype(np.float64)
    if len(known) < FEW_STEPS:
        return False
    variance = known.var(axis=0)
    varies = variance > 0
    if not varies.any():
        return False
    successive = (np.diff(known[:, varies], axis=0) ** 2).mean(axis=0) / (2 * variance[varies])
    return bool(np.median(successive) > LIKE_RANDOM)
