"""Phase I: sliding-window augmentation (section 4.1 of the paper)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .errors import InputError
from .stream import Stream


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of ``width`` steps, held as where they start in the stream they view.

    Attributes
    ----------
    values : array of shape (T, d)
        The stream's values, shared and not copied.
    width : int
    start : array of shape (n,)
        The step each window begins at; it ends at ``start + width - 1``.
    run : array of shape (n,)
        Which of the stream's runs each window lies in.
    y : array of shape (n,)
        The state of each window.
    """

    values: NDArray[Any]
    width: int
    start: NDArray[np.int64]
    run: NDArray[np.int64]
    y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def view(self) -> NDArray[Any]:
        """Every window of the stream, shape (T-w+1, w, d), as a read-only strided view.

        Window ``i`` of this object is ``view[start[i]]``.
        """
        if len(self.values) < self.width:
            return np.empty((0, self.width, self.values.shape[1]), self.values.dtype)
        return sliding_window_view(self.values, self.width, axis=0).transpose(0, 2, 1)

    @cached_property
    def X(self) -> NDArray[Any]:  # noqa: N802
        """The windows, shape (n, w, d).

        A strided view while the windows are evenly spaced (one run); otherwise the rows are
        gathered from the view, once. Read-only in either case: copy it to change it.
        """
        stride = np.diff(self.start)
        if len(self) and (stride > 0).all() and (stride == stride[:1]).all():
            every = int(stride[0]) if len(stride) else 1
            return self.view[self.start[0] : self.start[-1] + 1 : every]
        rows = np.ascontiguousarray(self.view[self.start])
        rows.flags.writeable = False
        return rows

    def by_run(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each run's number and the positions of its windows."""
        order = np.argsort(self.run, kind="stable")
        edges = np.flatnonzero(np.diff(self.run[order])) + 1
        for rows in np.split(order, edges):
            if len(rows):
                yield int(self.run[rows[0]]), rows

    def take(self, rows: NDArray[Any]) -> Windows:
        """Some of the windows, by position (in any order) or mask."""
        return Windows(self.values, self.width, self.start[rows], self.run[rows], self.y[rows])


def sliding_windows(
    stream: Stream,
    width: int,
    *,
    step: int = 1,
    per_state: int | None = None,
    random_state: int | np.random.Generator | None = None,
    labelled: bool = True,
) -> Windows:
    """All windows that do not cross a state switch.

    No window crosses a recording boundary, a time gap or a missing value either. A run of length
    ``T`` gives ``T - width + 1`` windows.

    Parameters
    ----------
    stream : Stream
    width : int
        Steps per window, the paper's w.
    step : int, default=1
        Keep every ``step``-th window of each run.
    per_state : int, optional
        Keep this many windows of each state, drawn without replacement (the paper gives its
        rivals 100). A state with fewer keeps all of its own, with a warning.
    random_state : int or Generator, optional
        For ``per_state``; the same number gives the same draw.
    labelled : bool, default=True
        False takes every complete window, whatever its states; ``y`` is then the state of each
        window's last step, and ``run`` counts the stream's segments. A stream too short for a
        window gives none, and no error.

    Returns
    -------
    Windows
        In the order of the stream.

    Examples
    --------
    >>> import mlat
    >>> stream = mlat.Stream([0.0, 1.0, 2.0, 7.0, 8.0, 9.0], ["a"] * 3 + ["b"] * 3)
    >>> windows = mlat.sliding_windows(stream, width=2)
    >>> windows.start.tolist(), windows.y.tolist()
    ([0, 1, 3, 4], ['a', 'a', 'b', 'b'])
    """
    width = _whole(width, "width", "steps")
    step = _whole(step, "step", "steps")
    if per_state is not None:
        per_state = _whole(per_state, "per_state", "windows")
        if not labelled:
            raise InputError("per_state counts windows by their state, so it needs labelled=True")
    if labelled:
        _check_width(stream, width)
    runs = stream.runs if labelled else stream.segments
    start, run = starts_in_runs(runs.start, runs.length, width, step)
    windows = Windows(stream.values, width, start, run, stream.states[start + width - 1])
    if per_state is not None:
        rng = np.random.default_rng(random_state)
        windows = windows.take(_draw(stream, runs.code[run], per_state, rng))
    return windows


def starts_in_runs(
    start: NDArray[np.int64], length: NDArray[np.int64], width: int, step: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the windows of runs begin, and the run of each; runs are given by start and length."""
    count = np.maximum(length - width, -step) // step + 1
    run = np.repeat(np.arange(len(start)), count)
    rank = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)  # within its run
    return start[run] + step * rank, run


def _whole(value: Any, name: str, unit: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of {unit}, at least 1, not {value!r}")
    return int(value)


def _check_width(stream: Stream, width: int) -> None:
    runs = stream.runs
    if not len(stream):
        raise InputError("the stream is empty: it has no steps to take windows of")
    if not stream.labelled.any():
        raise InputError(
            "the stream has no states; say which state each step is in, or take windows of any "
            "state with labelled=False"
        )
    if not len(runs):
        missing = np.isnan(stream.values[stream.labelled]).mean(axis=0)
        worst = int(np.argmax(missing))
        raise InputError(
            f"every labelled step misses a value, {missing[worst]:.0%} of them in channel "
            f"{stream.channels[worst]!r}; fill the values in, or leave that channel out"
        )
    longest = int(np.argmax(runs.length))
    if runs.length[longest] < width:
        raise InputError(
            f"width {width} is longer than every run; the longest is {runs.length[longest]} steps "
            f"of {stream.classes[runs.code[longest]]!s} at step {runs.start[longest]}; "
            f"choose a width of at most {runs.length[longest]}"
        )
    left = np.setdiff1d(np.arange(len(stream.classes)), runs.code[runs.length >= width])
    if len(left):
        names = ", ".join(str(stream.classes[code]) for code in left)
        warnings.warn(
            f"no run of {names} is {width} steps long, so it gives no window and cannot be "
            "predicted; choose a smaller width to include it",
            stacklevel=3,
        )


def _draw(
    stream: Stream, codes: NDArray[np.int64], per_state: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    chosen = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if len(rows) < per_state:
            warnings.warn(
                f"state {stream.classes[code]!s} has only {len(rows)} windows of the {per_state} "
                "asked for; all are taken",
                stacklevel=3,
            )
        chosen.append(rng.choice(rows, min(per_state, len(rows)), replace=False))
    return np.sort(np.concatenate(chosen))
