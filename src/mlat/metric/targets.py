"""Target neighbours: the windows that each window is pulled towards (η of Eq. 2).

These are the k nearest windows of the same state under the Euclidean metric, as in LMNN. Windows of
Phase I overlap, so the nearest is almost always the same window one step later, which teaches
nothing. The rules here exclude such neighbours; a gap of 0 is the paper.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Ints, Limits
from ..base.errors import InputError
from ..stream.windows import Windows
from .nearest import Places, nearest_windows

Gap = Annotated[int, Limits(0)] | Literal["run"]

# How many widths apart two windows of one run must be to teach as much as another run does.
EPISODE_WIDTHS = 5


def select_targets(
    windows: Windows,
    n_targets: int,
    *,
    gap: Gap = 0,
    start: NDArray[Any] | None = None,
    run: NDArray[Any] | None = None,
    names: NDArray[Any] | None = None,
) -> Ints:
    """The nearest permitted windows of the same state.

    Parameters
    ----------
    windows : Windows
        Their states ``y`` are indices from 0.
    n_targets : int
    gap : int or "run"
        An int excludes windows of the same run that start fewer than ``gap`` steps away (0 excludes
        none). ``"run"`` takes targets from another run of the state, where runs with fewer than
        ``5 * width`` steps between them count as one. Where the state has only one run, targets
        come from it, at least ``5 * width`` steps away or, if it is shorter than twice that, half
        its length.
    start, run : arrays of shape (n,), optional
        The step each window begins at in time, and the run it lies in; default as in ``windows``.
    names : array, optional
        Names of the states, for messages.

    Returns
    -------
    targets : array of shape (n, n_targets)
        Row numbers, nearest first, filled up with -1 where fewer are permitted.

    Raises
    ------
    InputError
        If a state has too few windows, or none of its windows has a target.
    """
    codes = windows.y
    start, run = windows.start if start is None else start, windows.run if run is None else run
    check_enough(codes, n_targets, names)
    places = places_of(codes, start, run, gap=gap, width=windows.width)
    targets = np.full((len(codes), n_targets), -1, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        rows = rows[np.argsort(windows.start[rows], kind="stable")]
        found = nearest_windows(windows.take(rows), n_targets, rows=rows, places=places.take(rows))
        targets[rows] = found.rows
    check_found(codes, targets, gap, names)
    return targets


def places_of(
    codes: NDArray[Any], start: NDArray[Any], run: NDArray[Any], *, gap: Gap, width: int
) -> Places:
    """The rule of :func:`select_targets` for all windows of a problem."""
    episode, least = run.astype(np.int64), np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if gap != "run":
            least[rows] = gap
            continue
        episode[rows] = episodes(start[rows], run[rows], EPISODE_WIDTHS * width)
        several = (episode[rows] != episode[rows[0]]).any()
        near = min(EPISODE_WIDTHS * width, int(np.ptp(start[rows])) // 2)
        least[rows] = np.iinfo(np.int64).max if several else near
    return Places(np.arange(len(codes)), start.astype(np.int64), episode, least)


def episodes(start: NDArray[Any], run: NDArray[Any], gap: int) -> Ints:
    """The runs of one state, numbered; a run fewer than ``gap`` steps after another joins it.

    A lost sample cuts a run in two, but what follows is the same episode.
    """
    runs, inverse = np.unique(run, return_inverse=True)
    first = np.full(len(runs), np.iinfo(np.int64).max)
    last = np.full(len(runs), np.iinfo(np.int64).min)
    np.minimum.at(first, inverse, start)
    np.maximum.at(last, inverse, start)
    order = np.argsort(first, kind="stable")
    between = first[order[1:]] - last[order[:-1]]
    # Runs that overlap in `start` are of different timelines: neither continues the other.
    begins = np.concatenate([[0], ~((between > 0) & (between < gap))])
    episode = np.empty(len(runs), np.int64)
    episode[order] = np.cumsum(begins)
    return episode[inverse]


def when_of(codes: NDArray[Any], start: Any = None, run: Any = None) -> tuple[Ints, Ints]:
    """The step each window begins at and the run it lies in, checked; arrays of shape (n,).

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window.
    start : array of shape (n,), optional
        Whole numbers; default the row number.
    run : array of shape (n,), optional
        Values of any kind; by default neighbouring rows of one state are a run.
    """
    n = len(codes)
    starts = np.asarray(np.arange(n) if start is None else start)
    runs = np.asarray(np.cumsum(np.diff(codes, prepend=codes[:1]) != 0) if run is None else run)
    for name, array in (("start", starts), ("run", runs)):
        if array.shape != (n,):
            raise InputError(f"{name} must have one entry per window ({n}), not {array.shape}")
    if starts.dtype.kind not in "iu":
        raise InputError(f"start must hold whole numbers, not {starts.dtype}")
    if runs.dtype.kind not in "iu":
        runs = np.unique(runs, return_inverse=True)[1]
    return starts.astype(np.int64), runs.astype(np.int64)


def check_enough(codes: NDArray[Any], n_targets: int, names: NDArray[Any] | None = None) -> None:
    """Refuse a state with too few windows."""
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        if count < max(n_targets, 2):
            raise InputError(
                f"state {_name(code, names)} has fewer windows ({count}) than n_targets "
                f"({n_targets}) needs; label more of it, leave it out, or lower n_targets"
            )


def check_found(
    codes: NDArray[Any], targets: Ints, gap: Gap, names: NDArray[Any] | None = None
) -> None:
    """Refuse a state none of whose windows has a target."""
    without = np.setdiff1d(codes, codes[(targets >= 0).any(axis=1)])
    if len(without):
        raise InputError(
            f"no two windows of state {_name(without[0], names)} are {gap} steps apart; "
            "lower target_gap, or label more of the state"
        )


def _name(code: Any, names: NDArray[Any] | None) -> str:
    return str(code if names is None else names[code])
