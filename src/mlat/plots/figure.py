"""What all pictures share: axes, colours, the legend of states, number formats, saving."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..checks import Floats, Ints
from ..disk import atomic_write
from ..errors import InputError
from ..stream.conversion import no_state
from ..stream.stream import Stream

DPI = 150
INK = "#333333"  # lines and text that carry no state
FAINT = "#d0d0d0"  # grids, edges and steps without a state
# The palette of Okabe & Ito: distinct with every common colour blindness, and in print.
_STATES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#7f7f7f")
BLUE, GREEN, ORANGE = _STATES[0], _STATES[2], _STATES[3]
MAX_LEGEND = 20  # states; with more names a legend does not help


def axes_for(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """The given axes and their figure, or new ones of ``size`` inches."""
    if ax is None:
        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.add_subplot()
    # Not get_figure(root=True), which matplotlib before 3.10 does not have.
    return ax.figure.figure, ax


def state_colours(n_states: int) -> Floats:
    """A colour per state, shape (n_states, 3)."""
    if n_states <= len(_STATES):
        return np.array([to_rgb(colour) for colour in _STATES[:n_states]]).reshape(-1, 3)
    return np.asarray(colormaps["turbo"](np.linspace(0.05, 0.95, n_states)))[:, :3]


def states_in(ribbons: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """The states that occur in any of some arrays of states, sorted; without "no state".

    Raises
    ------
    InputError
        If some are names and others numbers.
    """
    found = []
    for states in ribbons:
        some = np.unique(states)
        some = some[some != no_state(some)]
        if len(some):
            found.append(some)
    if len({states.dtype.kind for states in found}) > 1:
        raise InputError("some states are names and others numbers; predict with the same kind")
    return np.unique(np.concatenate(found)) if found else np.array([])


def state_legend(ax: Axes, states: NDArray[Any]) -> None:
    """The colour of each state, above the axes."""
    if not 0 < len(states) <= MAX_LEGEND:
        return
    colours = state_colours(len(states))
    patches = [Patch(color=c, label=str(s)) for c, s in zip(colours, states, strict=True)]
    ax.legend(
        handles=patches,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(states), 8),
        frameon=False,
        handlelength=1,
        borderaxespad=0.2,
    )


def recording_starts(stream: Stream) -> Ints:
    """The steps at which a new recording begins, without the first."""
    if stream.recordings is None:
        return np.array([], np.int64)
    return np.flatnonzero(stream.recordings[1:] != stream.recordings[:-1]) + 1


def draw_boundaries(ax: Axes, places: Iterable[float]) -> None:
    """Dashed vertical lines."""
    for place in places:
        ax.axvline(place, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))


def frame_bars(ax: Axes, title: str, *, horizontal: bool) -> None:
    """Zero line, grid, title and frame of a bar chart."""
    if horizontal:
        ax.axvline(0, color=INK, linewidth=0.6)
        ax.xaxis.grid(True, color=FAINT, linewidth=0.5)
    else:
        ax.axhline(0, color=INK, linewidth=0.6)
        ax.yaxis.grid(True, color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8)
    ax.set_title(title, fontsize=9, color=INK, loc="left")
    bare(ax, "top", "right", "left" if horizontal else "bottom")


def shorten(name: str, letters: int = 26) -> str:
    """A name that fits beside a row. A long one loses its middle: names differ at the ends."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[len(name) - end :]}"


def format_number(value: float) -> str:
    """A number with three digits, without an exponent if it is below a million."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:#.3g}".rstrip(".")


def used_lags(parts: Floats, least: int = 8) -> int:
    """How many lags of parts (w, …) to draw: up to the last that is not 0, at least ``least``."""
    sizes = np.abs(parts).reshape(len(parts), -1).sum(axis=1)
    used = np.flatnonzero(sizes > 1e-9 * sizes.max(initial=0.0))
    return max(int(used[-1]) + 1 if len(used) else 0, min(least, len(parts)))


def bare(ax: Axes, *sides: str) -> None:
    """Hide some sides of the frame, by default top and right, and draw the others faintly."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)
    for spine in ax.spines.values():
        spine.set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(INK)


def save_figure(figure: Figure, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a figure in the format of the file's suffix, completely or not at all."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, **{"dpi": DPI, "facecolor": "white", **options})
