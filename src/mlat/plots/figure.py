"""What all pictures share: axes, colours, the legend of states, number formats, saving."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..base.checks import Floats
from ..base.disk import atomic_write
from ..base.errors import InputError
from ..stream.conversion import no_state

DPI = 150
INK = "#333333"  # lines and text that carry no state
FAINT = "#d0d0d0"  # grids, edges and steps without a state
# The palette of Okabe & Ito, with wine for black: distinct with every common colour blindness.
_STATES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#882255")
BLUE, GREEN, ORANGE = _STATES[0], _STATES[2], _STATES[3]
# Further states have the same colours darker or lighter, and a pattern as the second cue.
_PATTERNS = ("", "//", "..", "\\\\", "||", "xx")
LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue (Rec. 709)
MAX_LEGEND = 40  # states; with more names a legend does not help
MAX_LETTERS = 44  # of a name beside a row or in a legend
LEGEND_SIZE = 9  # points
# Of an axis of time: the name, its seconds, and from how many seconds on it is used.
UNITS = (("hours", 3600.0, 10800.0), ("minutes", 60.0, 300.0), ("seconds", 1.0, 0.0))


def axes_for(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """The given axes and their figure, or new ones of ``size`` inches."""
    if ax is None:
        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.add_subplot()
    # Not get_figure(root=True), which matplotlib before 3.10 does not have.
    return ax.figure.figure, ax


def state_colours(n_states: int) -> Floats:
    """A colour per state, shape (n_states, 3)."""
    base = np.array([to_rgb(colour) for colour in _STATES])
    n_levels = max(-(-n_states // len(base)), 1)
    levels = [base]
    for level in range(1, n_levels):  # darker and lighter in turn
        strength = ((level + 1) // 2) / (n_levels // 2)
        mixed, share = (0.0, 0.55) if level % 2 else (1.0, 0.5)
        levels.append(base + share * strength * (mixed - base))
    return np.concatenate(levels)[:n_states]


def state_pattern(code: int) -> str:
    """The hatching of a state: none of the first eight, then one for every further eight."""
    return _PATTERNS[code // len(_STATES) % len(_PATTERNS)]


def ink_on(colour: Any) -> str:
    """The colour of text that is readable on a colour."""
    return INK if np.dot(to_rgb(colour), LUMINANCE) > 0.45 else "white"


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """How wide a text is, in points."""
    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width)


def names_width(names: Iterable[str], size: float) -> float:
    """How wide the widest of some names is, in inches."""
    return max((text_width(name, size) for name in names), default=0.0) / 72


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


class StateLegend:
    """The colour and pattern of each state, above axes; nothing of no states, or of too many.

    Parameters
    ----------
    states : array of shape (S,)
    width : float
        Of the axes, in inches; the legend is not wider.

    Attributes
    ----------
    height : float
        In points, with the space around it; 0 without a legend.
    """

    def __init__(self, states: NDArray[Any], width: float) -> None:
        shown = states if len(states) <= MAX_LEGEND else states[:0]
        self._names = [shorten(str(state), MAX_LETTERS) for state in shown]
        self._n_columns = _legend_columns(self._names, width)
        n_rows = -(-len(self._names) // self._n_columns)
        self.height = (n_rows * 1.75 + 1) * LEGEND_SIZE if n_rows else 0.0

    def draw(self, ax: Axes) -> None:
        """Draw it above the axes."""
        patches = [
            Patch(facecolor=c, edgecolor=ink_on(c), linewidth=0, hatch=state_pattern(i), label=name)
            for i, (c, name) in enumerate(
                zip(state_colours(len(self._names)), self._names, strict=True)
            )
        ]
        if patches:
            ax.legend(
                handles=patches,
                loc="lower left",
                bbox_to_anchor=(0, 1),
                ncols=self._n_columns,
                frameon=False,
                fontsize=LEGEND_SIZE,
                handlelength=1.4,
                borderaxespad=0.2,
            )


def _legend_columns(names: list[str], width: float) -> int:
    """As many columns as are not wider than ``width`` inches together."""
    for n_columns in range(min(len(names), 10), 1, -1):
        columns = np.array_split(np.array(names), n_columns)  # as a legend divides them
        widest = [max(text_width(name, LEGEND_SIZE) for name in column) for column in columns]
        # A square, what is between it and the name, and what is between two columns.
        if 1.05 * sum(widest) + n_columns * 4.4 * LEGEND_SIZE <= 72 * width:
            return n_columns
    return 1


def axes_below_legend(
    ax: Axes | None, height: float, states: NDArray[Any]
) -> tuple[Figure, Axes, float, StateLegend]:
    """The given axes, or new ones with room for the legend of states above ``height`` inches.

    Returns
    -------
    figure, axes, float, StateLegend
        How wide the axes are before the layout, in inches: with short names about what they get;
        and the legend.
    """
    is_new = ax is None
    figure, ax = axes_for(ax, (11, height))
    width = float(ax.get_window_extent().width / figure.dpi)
    legend = StateLegend(states, width)
    if is_new:
        figure.set_figheight(height + legend.height / 72)
    return figure, ax, width, legend


def draw_boundaries(ax: Axes, places: Iterable[float]) -> None:
    """Dashed vertical lines."""
    for place in places:
        ax.axvline(place, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))


def frame_bars(ax: Axes, title: str, *, horizontal: bool) -> None:
    """Zero line, grid, title and frame of a bar chart."""
    if horizontal:
        ax.axvline(0, color=INK, linewidth=0.6)
        ax.xaxis.grid(True, color=FAINT, linewidth=0.5)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5))  # small numbers have many digits
    else:
        ax.axhline(0, color=INK, linewidth=0.6)
        ax.yaxis.grid(True, color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8)
    ax.set_title(title, fontsize=9, color=INK, loc="left")
    bare(ax, "top", "right", "left" if horizontal else "bottom")


def step_axis(ax: Axes, n_steps: int, usual_step: float | None, has_gaps: bool = False) -> None:
    """Name an axis of steps: in seconds, minutes or hours, where it is known how long a step is."""
    ax.set_xlim(0, max(n_steps, 1))
    total = n_steps * (usual_step or 0.0)
    if not usual_step or not total:
        ax.set_xlabel("step")
        ax.ticklabel_format(axis="x", style="plain")
        return
    name, unit = next(one for one in UNITS if total >= one[2] or one is UNITS[-1])[:2]
    ticks: Floats = np.asarray(MaxNLocator(10).tick_values(0, total / unit))
    ticks = ticks[(ticks >= 0) & (ticks <= total / unit)]
    ax.set_xticks(ticks * unit / usual_step, [f"{tick:g}" for tick in ticks])
    ax.set_xlabel(f"{name} recorded, without gaps" if has_gaps else name)


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
