"""States over time as a ribbon of colours."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..base.checks import Ints
from ..stream.conversion import no_state
from .figure import FAINT, ink_on, state_colours, state_pattern, text_width

MAX_SHAPES = 4000  # intervals, or steps, that are drawn one by one
N_BINS = 1200  # if there are more; about a pixel each
NAME_SIZE = 7  # points of the name in an interval


class Ribbon:
    """States over time: every interval, or for many the most frequent state of every bin."""

    def __init__(self, n_steps: int) -> None:
        self._edges = bin_edges(n_steps)
        self._done = 0
        self._start: list[int] = []
        self._states: list[Any] = []
        self._many = False
        self._last: Any = None
        self._counts: dict[Any, Ints] = {}  # of each state, in every bin
        self._dtype: Any = None

    def add(self, states: NDArray[Any]) -> None:
        """The next states (T,)."""
        if not len(states):
            return
        start = np.flatnonzero(np.append(True, states[1:] != states[:-1]))
        self._dtype = np.result_type(states.dtype, self._dtype or states.dtype)
        for state in np.unique(states[start]).tolist():
            counts = self._counts.setdefault(state, np.zeros(len(self._edges) - 1, np.int64))
            steps = self._done + np.flatnonzero(states == state)
            counts += np.histogram(steps, self._edges)[0]
        if states[0] == self._last:
            start = start[1:]
        self._last = states[-1]
        if not self._many:
            self._start += (self._done + start).tolist()
            self._states += states[start].tolist()
            self._many = len(self._start) > MAX_SHAPES
        self._done += len(states)

    def intervals(self) -> tuple[Ints, NDArray[Any]]:
        """The steps at which the state changes, and the state from there on."""
        if not self._many:
            return np.array(self._start, np.int64), np.array(self._states, dtype=self._dtype)
        names = sorted(self._counts)
        counts = np.stack([self._counts[name] for name in names])
        return self._edges[:-1], np.array(names, dtype=self._dtype)[counts.argmax(axis=0)]


def bin_edges(n_steps: int, n_bins: int = N_BINS) -> Ints:
    return np.linspace(0, n_steps, n_bins + 1).astype(np.int64)


def draw_ribbon(
    ax: Axes,
    start: Ints,
    states: NDArray[Any],
    classes: NDArray[Any],
    n_steps: int,
    bottom: float,
    *,
    width: float,
    height: float = 1.0,
) -> None:
    """Intervals in the colours and patterns of their states, named where there is room.

    Parameters
    ----------
    ax : Axes
    start, states : arrays of shape (n,)
        The steps at which the state changes, and the state from there on.
    classes : array
        All states, sorted.
    n_steps : int
        Where the last interval ends.
    bottom : float
    width : float
        Of the axes, in inches.
    height : float, default=1.0
    """
    codes = _codes(states, classes)
    length = np.diff(start, append=n_steps)
    colours = state_colours(len(classes))
    points = 72 * width * length / max(n_steps, 1)
    for code in np.unique(codes).tolist():
        mine = codes == code
        spans = list(zip(start[mine].tolist(), length[mine].tolist(), strict=True))
        colour: Any = FAINT if code < 0 else colours[code]
        look: dict[str, Any] = (
            {} if code < 0 else {"hatch": state_pattern(code), "edgecolor": ink_on(colour)}
        )
        ax.broken_barh(spans, (bottom, height), facecolors=[colour], linewidth=0, **look)
        if code < 0:
            continue
        name = str(classes[code])
        for at in np.flatnonzero(mine & (points > text_width(name, NAME_SIZE) + NAME_SIZE)):
            ax.text(
                start[at] + length[at] / 2,
                bottom + height / 2,
                name,
                ha="center",
                va="center",
                fontsize=NAME_SIZE,
                color=ink_on(colour),
                # On a pattern a name needs a ground of its own.
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.0},
                clip_on=True,
            )


def _codes(states: NDArray[Any], classes: NDArray[Any]) -> Ints:
    known = states != no_state(states)
    codes = np.full(len(states), -1, np.int64)
    codes[known] = np.searchsorted(classes, states[known])
    return codes
