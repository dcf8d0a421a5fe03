"""Figures and colours that all pictures share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..disk import atomic_write

DPI = 150
INK = "#333333"  # lines and text that carry no state
FAINT = "#d0d0d0"  # grids, edges and steps without a state
# Okabe & Ito's palette: told apart with every common colour blindness, and in print.
_STATES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#7f7f7f")


def axes_for(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """The given axes and their figure, or new ones of ``size`` inches."""
    if ax is None:
        figure = Figure(figsize=size, layout="constrained")
        return figure, figure.add_subplot()
    return ax.get_figure(root=True), ax  # type: ignore[return-value]  # axes always have one


def state_colours(n_states: int) -> NDArray[np.float64]:
    """A colour per state, (n_states, 3)."""
    if n_states <= len(_STATES):
        from matplotlib.colors import to_rgb

        return np.array([to_rgb(colour) for colour in _STATES[:n_states]]).reshape(-1, 3)
    return np.asarray(colormaps["turbo"](np.linspace(0.05, 0.95, n_states)))[:, :3]


def shorten(name: str, letters: int = 26) -> str:
    """A name that fits beside a row; a long one loses its middle, for names differ at the ends."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[len(name) - end :]}"


def in_figures(value: float) -> str:
    """A number to three digits, without an exponent where it can be read without one."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:#.3g}".rstrip(".")


def used_lags(parts: NDArray[np.float64], least: int = 8) -> int:
    """How many lags to draw of parts (w, …): up to the last that counts, but at least so many."""
    sizes = np.abs(parts).reshape(len(parts), -1).sum(axis=1)
    counting = np.flatnonzero(sizes > 1e-9 * sizes.max(initial=0.0))
    return max(int(counting[-1]) + 1 if len(counting) else 0, min(least, len(parts)))


def bare(ax: Axes, *sides: str) -> None:
    """Hide the named sides of the frame (default top and right): less ink, same facts."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)
    for spine in ax.spines.values():
        spine.set_color(FAINT)
    ax.tick_params(color=FAINT, labelcolor=INK)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(INK)


def save_figure(figure: Figure, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a figure in the format its name ends in; the file appears whole or not at all."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, **{"dpi": DPI, "facecolor": "white", **options})
