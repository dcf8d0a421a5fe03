"""Phase I: from a stream to windows (sliding-window augmentation, section 4.1 of the paper).

:func:`sliding_windows` finds where windows lie and gives them as :class:`Windows`, which views the
stream instead of copying it. The functions below it handle windows as arrays: (n, w, d) for the
mathematics, (n, w*d) for scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints, check_whole
from ..base.errors import InputError
from .stream import Stream

BLOCK = 512  # windows laid out at a time
# Windows that are looked at for a wrong fold, and the roughness of a wrong and of the right one.
FEWEST_LOOKED_AT, MOST_LOOKED_AT = 20, 500
ROUGH, SMOOTH = 0.5, 0.1
OFFSETS = 0.05  # of the variance: channels of different level


LEAST_WIDTH, MOST_WIDTH = 10, 100  # where nobody says how many steps a window has
RUN_PARTS = 6


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of ``width`` steps, stored as their start steps in the stream.

    Attributes
    ----------
    values : array of shape (T, d)
        The stream's values, shared and not copied.
    width : int
    start : array of shape (n,)
        The first step of each window; the last is ``start + width - 1``.
    run : array of shape (n,)
        Which of the stream's runs each window lies in.
    y : array of shape (n,)
        The state of each window.
    since : array of shape (n,), optional
        The step from which each window's run is lifted, where that is before its first window.
    """

    values: NDArray[Any]
    width: int
    start: Ints
    run: Ints
    y: NDArray[Any]
    since: Ints | None = None

    @classmethod
    def of_array(
        cls, X: NDArray[Any], y: NDArray[Any], start: NDArray[Any], run: NDArray[Any]
    ) -> Windows:
        """Windows (n, w, d), each in a state and a run, over the steps that they share.

        Those that follow each other in a run share their steps, but only if their values overlap,
        whatever ``start`` and ``run`` say. ``start`` becomes the place in these steps.
        """
        n, w, d = X.shape
        order = np.lexsort((start, run))
        before, after = order[:-1], order[1:]
        follows = (run[after] == run[before]) & (start[after] == start[before] + 1)
        candidates = np.flatnonzero(follows)
        for begin in range(0, len(candidates), BLOCK):
            some = candidates[begin : begin + BLOCK]
            follows[some] = (X[after[some], :-1] == X[before[some], 1:]).all(axis=(1, 2))
        if not follows.any():
            return cls(X.reshape(n * w, d), w, w * np.arange(n), run, y)
        first = np.concatenate([[True], ~follows])
        at = np.arange(n) + (w - 1) * (np.cumsum(first) - 1)
        steps = np.empty((int(at[-1]) + w, d), X.dtype)
        steps[at[first, None] + np.arange(w)] = X[order[first]]
        steps[at + w - 1] = X[order, -1]
        place = np.empty_like(at)
        place[order] = at
        return cls(steps, w, place, run, y)

    def followed_by(self, more: Windows, *, led: bool) -> Windows:
        """These windows and more, over steps put one after the other.

        ``led`` says whether runs are lifted from before their first windows.
        """
        first_run = int(self.run.max()) + 1 if len(self) else 0
        before = len(self.values)
        since = np.concatenate([self.first_needed(), before + more.first_needed()])
        return Windows(
            np.concatenate([self.values, more.values]),
            self.width,
            np.concatenate([self.start, before + more.start]),
            np.concatenate([self.run, first_run + more.run]),
            np.concatenate([self.y, more.y]),
            since if led else None,
        )

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        states = np.unique(self.y)
        shown = [str(state) for state in states[:10]]
        more = [f"and {len(states) - 10} more"] if len(states) > 10 else []
        return (
            f"Windows({len(self)} of {self.width} steps, {self.values.shape[1]} channels, states: "
            f"{', '.join(shown + more) or 'none'})"
        )

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

        A strided view if the windows are evenly spaced (one run), otherwise a copy, made once.
        Read-only in both cases.
        """
        stride = np.diff(self.start)
        if len(self) and (stride > 0).all() and (stride == stride[:1]).all():
            every = int(stride[0]) if len(stride) else 1
            return self.view[self.start[0] : self.start[-1] + 1 : every]
        rows = np.ascontiguousarray(self.view[self.start])
        rows.flags.writeable = False
        return rows

    def blocks(self) -> Iterator[NDArray[Any]]:
        """The windows in their order, shape (m, w, d), some at a time."""
        for begin in range(0, len(self), BLOCK):
            yield self.view[self.start[begin : begin + BLOCK]]

    def by_run(self) -> Iterator[tuple[int, Ints]]:
        """Each run's number and the positions of its windows."""
        order = np.argsort(self.run, kind="stable")
        edges = np.flatnonzero(np.diff(self.run[order])) + 1
        for rows in np.split(order, edges):
            if len(rows):
                yield int(self.run[rows[0]]), rows

    def first_needed(self) -> Ints:
        """The step from which each window's run is lifted: that of its first window, or earlier."""
        if self.since is not None:
            return self.since
        first = np.empty_like(self.start)
        for _, rows in self.by_run():
            first[rows] = self.start[rows].min()
        return first

    def take(self, rows: NDArray[Any]) -> Windows:
        """Some of the windows, by position (in any order) or mask."""
        since = None if self.since is None else self.since[rows]
        return Windows(
            self.values, self.width, self.start[rows], self.run[rows], self.y[rows], since
        )

    def last(self, width: int) -> Windows:
        """Narrower windows that end where these end."""
        return replace(self, width=width, start=self.start + self.width - width)

    def compact(self, inside: Bools | None = None) -> Windows:
        """The same windows over some of the steps only; default those that are in a window."""
        inside = windows_per_step(self) > 0 if inside is None else inside
        place = np.cumsum(inside) - 1
        return replace(
            self,
            values=self.values[inside].astype(np.float64),
            start=place[self.start].astype(np.int64),
            since=None if self.since is None else place[self.since].astype(np.int64),
        )


def width_of_a_second(step: float | None) -> int:
    """The steps of a second, from 10 to 100; 10 where nobody knows how long a step takes."""
    return LEAST_WIDTH if not step else int(np.clip(round(1 / step), LEAST_WIDTH, MOST_WIDTH))


def fitting_width(width: int, stream: Stream) -> int:
    """At most a sixth of the usual run of a labelled stream, which is lost before its first window.

    On the development sets that is as good as ten steps or better; a second in runs of one is not.
    """
    runs = stream.runs
    usual = [float(np.median(runs.length[runs.code == code])) for code in np.unique(runs.code)]
    most = int(np.median(usual)) // RUN_PARTS if usual else width
    return min(width, max(most, LEAST_WIDTH))


def windows_per_step(windows: Windows) -> Ints:
    """In how many windows each step is, shape (T,)."""
    return counts_inside(windows.start, windows.start + windows.width, len(windows.values))


def counts_inside(start: Ints, stop: Ints, n: int) -> Ints:
    """How many of the stretches ``[start, stop)`` each of n steps is in, shape (n,)."""
    edges = np.zeros(n + 1, np.int64)
    np.add.at(edges, start, 1)
    np.add.at(edges, stop, -1)
    return np.cumsum(edges[:-1])


def sliding_windows(
    stream: Stream, width: int, *, stride: int = 1, labelled: bool = True
) -> Windows:
    """All windows that lie inside runs: a run of ``T`` steps gives ``T - width + 1`` windows.

    So no window crosses a change of state, a recording boundary, a time gap or a missing value.

    Parameters
    ----------
    stream : Stream
    width : int
        Steps per window, the paper's w.
    stride : int, default=1
        Keep every ``stride``-th window of each run.
    labelled : bool, default=True
        False takes every window that lies inside a segment, whatever its states; ``y`` is then the
        state of each window's last step, and ``run`` the number of its segment. A stream that is
        too short then gives no window, and no error.

    Returns
    -------
    Windows
        In the order of the stream.

    Raises
    ------
    InputError
        If a parameter is wrong, or if ``labelled`` and no run is ``width`` steps long.

    Examples
    --------
    >>> import mlat
    >>> stream = mlat.Stream([0.0, 1.0, 2.0, 7.0, 8.0, 9.0], ["a"] * 3 + ["b"] * 3)
    >>> windows = mlat.sliding_windows(stream, width=2)
    >>> windows.start.tolist(), windows.y.tolist()
    ([0, 1, 3, 4], ['a', 'a', 'b', 'b'])
    """
    width = check_whole(width, "width", unit="steps")
    stride = check_whole(stride, "stride", unit="steps")
    if labelled:
        _check_width(stream, width)
    runs = stream.runs if labelled else stream.segments
    start, run = starts_in_runs(runs.start, runs.length, width, stride)
    return Windows(stream.values, width, start, run, stream.states[start + width - 1])


def starts_in_runs(start: Ints, length: Ints, width: int, stride: int = 1) -> tuple[Ints, Ints]:
    """The start of each window in runs of given start and length, and the run it lies in."""
    count = np.maximum(length - width, -stride) // stride + 1
    run = np.repeat(np.arange(len(start)), count)
    rank = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)  # in its run
    return start[run] + stride * rank, run


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
        rate = ", have them resampled (rate)" if stream.time is not None else ""
        raise InputError(
            f"every labelled step misses a value, {missing[worst]:.0%} of them in channel "
            f"{stream.channels[worst]!r}; fill the values in{rate}, or leave that channel out"
        )
    longest = int(np.argmax(runs.length))
    if runs.length[longest] < width:
        n_gaps = int(stream.gap_before[1:].sum()) if stream.usual_step else 0
        n_missing = int(stream.missing.sum())
        why = [f"the time has {n_gaps} gaps"] if n_gaps else []
        why += [f"{n_missing} steps miss a value"] if n_missing else []
        rate = ": have it resampled (rate)" if stream.usual_step else ": fill them in"
        gaps = f", and {' and '.join(why)}{rate}, or" if why else ""
        raise InputError(
            f"width {width} is longer than every run; the longest is {runs.length[longest]} steps "
            f"of {stream.classes[runs.code[longest]]!s} at step {runs.start[longest]}"
            f"{gaps or ';'} choose a width of at most {runs.length[longest]}"
        )
    absent = np.setdiff1d(np.arange(len(stream.classes)), runs.code[runs.length >= width])
    if len(absent):
        names = ", ".join(str(stream.classes[code]) for code in absent)
        warnings.warn(
            f"no run of {names} is {width} steps long, so it gives no window and cannot be "
            "predicted; choose a smaller width to include it",
            stacklevel=3,
        )


# ------------------------------------------------------------------ windows as arrays


def fold(X: NDArray[Any], width: int | None = None) -> NDArray[Any]:
    """Windows as (n, w, d), from an array of that shape or a flat (n, w*d) one.

    A flat array is folded time-major into ``width`` steps; without a width it is one channel.
    """
    if X.ndim == 3:
        if width is not None and X.shape[1] != width:
            raise InputError(
                f"windows have {X.shape[1]} steps but width is {width}; X must have shape "
                f"(windows, {width}, channels), not {X.shape}"
            )
        return X
    if X.ndim != 2:
        raise InputError(f"X must have shape (n, w, d) or (n, w*d), not {X.shape}")
    if width is None:
        return X[:, :, None]
    if X.shape[1] % width:
        raise InputError(
            f"{X.shape[1]} features do not fold into windows of width {width}; "
            "X must have shape (n, width * channels)"
        )
    return X.reshape(len(X), width, X.shape[1] // width)


def warn_if_misfolded(X: Any, windows: Floats) -> None:
    """Warn where windows (n, w, d) seem to have been folded in another way than they were laid out.

    X is what was given: an array of three axes, which may be transposed, or a flat one, whose
    width may be wrong or whose channels may stand one after the other. Two signs tell: the next
    window goes on one step later, and successive steps of a channel are alike.
    """
    n, w, d = windows.shape
    if n < FEWEST_LOOKED_AT or w == 1 or w * d < 4:
        return
    flat = windows.reshape(n, w * d)
    if _goes_on(flat, w, d):
        return
    layouts = _layouts(w, d, transposed_only=np.ndim(X) == 3)
    for steps, channels, is_turned in layouts:
        if _goes_on(flat, steps, channels, is_turned):
            _warn_of_fold(X, windows, steps, channels, is_turned)
            return
    sample = flat[:: max(1, n // MOST_LOOKED_AT)]
    if roughness(sample, w, d) < ROUGH:
        return
    for steps, channels, is_turned in layouts:
        smooth = roughness(sample, steps, channels, is_turned) < SMOOTH and steps >= 4
        if smooth and (d > 1 or is_turned or not _is_periodic(sample, channels)):
            _warn_of_fold(X, windows, steps, channels, is_turned)
            return


def _layouts(w: int, d: int, *, transposed_only: bool) -> list[tuple[int, int, bool]]:
    """Other ways to lay out w*d values: steps, channels, and whether channels come first."""
    if transposed_only:
        return [(d, w, True)] if d > 1 else []
    sizes = [size for size in range(1, w * d // 2 + 1) if (w * d) % size == 0]
    by_step = [(w * d // size, size, False) for size in sizes if size != d]
    return by_step + [(w * d // size, size, True) for size in sizes[1:]]


def _laid_out(flat: Floats, steps: int, channels: int, is_turned: bool) -> Floats:
    if is_turned:
        return flat.reshape(-1, channels, steps).transpose(0, 2, 1)
    return flat.reshape(-1, steps, channels)


def _goes_on(flat: Floats, steps: int, channels: int, is_turned: bool = False) -> bool:
    """Whether most windows are the ones before them, one step later."""
    windows = _laid_out(flat[:MOST_LOOKED_AT], steps, channels, is_turned)
    same = (windows[1:, :-1] == windows[:-1, 1:]).all(axis=(1, 2))
    return bool(same.mean() > 0.5)


def roughness(flat: Floats, steps: int, channels: int, is_turned: bool = False) -> float:
    """1 where successive steps are like any two values, 0 where they are equal."""
    variance = float(flat.var())
    change = np.diff(_laid_out(flat, steps, channels, is_turned), axis=1)
    return float((change**2).mean()) / (2 * variance) if variance else 0.0


def _is_periodic(flat: Floats, period: int) -> bool:
    """Whether one channel with a period would look as several channels do.

    Over many windows a channel has the same mean at every step, and values half a period apart are
    opposite.
    """
    if float(flat.mean(axis=0).var()) > OFFSETS * float(flat.var()):
        return False
    lags = [flat[:, lag:] - flat[:, :-lag] for lag in range(1, period)]
    return max(float((lag**2).mean()) for lag in lags) > 1.4 * 2 * float(flat.var())


def _warn_of_fold(X: Any, windows: Floats, steps: int, channels: int, is_turned: bool) -> None:
    _, w, d = windows.shape
    if np.ndim(X) == 3:
        message = (
            f"X has shape {windows.shape} and seems to be transposed; give windows as (n, steps, "
            "channels), X.transpose(0, 2, 1)"
        )
    elif is_turned:
        message = (
            f"the rows of X seem to hold {channels} channels one after the other, {steps} steps "
            "each, and are folded as steps one after the other; give windows as (n, steps, "
            f"channels), X.reshape(-1, {channels}, {steps}).transpose(0, 2, 1)"
        )
    else:
        message = (
            f"the rows of X seem to hold {steps} steps of {channels} channels, and are folded into "
            f"{w} of {d}; give width={steps}, or windows as (n, steps, channels)"
        )
    warnings.warn(message, UserWarning, stacklevel=5)


def as_windows(X: Any) -> Any:
    """Windows and nested lists as an array; anything else unchanged, to be checked later."""
    if isinstance(X, Windows):
        return X.X
    return np.asarray(X) if isinstance(X, list | tuple) else X


def window_width(X: Any, width: int | None) -> int | None:
    """The width of ``X`` if it has shape (n, w, d), otherwise the given width."""
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return int(fold(X, width).shape[1])
    return width


def flatten(X: Any) -> Any:
    """An array (n, w, d) as (n, w*d), time-major; anything else unchanged, to be checked later."""
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.reshape(len(X), X.shape[1] * X.shape[2])
    return X


def check_finite(windows: Floats) -> Floats:
    """Return the windows (n, w, d), or raise InputError if a value is NaN or infinite."""
    bad = ~np.isfinite(windows)
    if bad.any():
        window, step, channel = np.argwhere(bad)[0]
        kind = "NaN" if np.isnan(windows[window, step, channel]) else "inf"
        raise InputError(
            f"X holds {kind} in window {window}, step {step}, channel {channel}; leave out windows "
            "with missing values, or fill them in"
        )
    return windows


def check_finite_steps(steps: Floats, of: Ints) -> None:
    """Refuse steps (T, d) of windows, of which each is ``of`` (T,) a stream."""
    bad = np.argwhere(~np.isfinite(steps))
    if len(bad):
        raise InputError(
            f"the windows hold NaN or infinity at step {of[bad[0, 0]]}, channel {bad[0, 1]}; leave "
            "out windows with missing values, or fill them in"
        )
