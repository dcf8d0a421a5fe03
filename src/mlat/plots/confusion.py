"""Which states are taken for which."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..classifier.classifier import StreamClassifier
from ..explain.confusions import Confusions, count_confusions
from ..stream.stream import Stream
from .figure import FAINT, INK, axes_for, bare, shorten

MAX_COUNTS = 12  # states up to which a cell has room for its count
MAX_SHARES = 20  # and for its share
MAX_NAMES = 40
# From white to the blue of the other pictures.
_BLUES = LinearSegmentedColormap.from_list("blues", ["#ffffff", "#9cc4de", "#0072b2"])


def plot_confusion(
    clf_or_states: StreamClassifier | ArrayLike,
    stream: Stream | ArrayLike,
    *,
    known: ArrayLike = (),
    ax: Axes | None = None,
) -> Figure:
    """How often each true state (row) was taken for each (column).

    Colours and percentages are shares of a row, so that a rare state is seen as well as a
    frequent one; in small cells only the colours remain.

    Parameters
    ----------
    clf_or_states : fitted StreamClassifier, or array of shape (T,)
        What predicts, or the states that were predicted.
    stream : Stream, or array of shape (T,)
        The stream with its true states, or these alone. Without any there is nothing to compare.
    known : array, optional
        States that are drawn even if no step is in them; a classifier names its own.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    predicted: Any = clf_or_states
    if isinstance(clf_or_states, StreamClassifier):
        known, predicted = clf_or_states.classes_, clf_or_states.predict(stream)
    found = count_confusions(stream, predicted, known=known)
    size = len(found.states)
    side = min(max(3.2, 0.75 * size), 10.0)
    figure, ax = axes_for(ax, (side + 1.6, side + 1.2))
    totals = found.counts.sum(axis=1, keepdims=True)
    shares = np.divide(found.counts, totals, out=np.zeros((size, size)), where=totals > 0)
    # By the square root, or rare confusions would be as white as none.
    ax.imshow(shares, cmap=_BLUES, norm=PowerNorm(0.5, 0, 1))
    _draw_grid(ax, size)
    if size <= MAX_SHARES:
        _write_figures(ax, found, shares)
    _name_states(ax, found.states)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(_in_words(found), loc="left", fontsize=10, color=INK)
    return figure


def _draw_grid(ax: Axes, size: int) -> None:
    ax.set_xticks(np.arange(size + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(size + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=FAINT, linewidth=0.6 if size <= MAX_NAMES else 0.2)
    ax.tick_params(which="both", length=0)
    bare(ax, "top", "right", "bottom", "left")


def _write_figures(ax: Axes, found: Confusions, shares: NDArray[np.float64]) -> None:
    counted = len(shares) <= MAX_COUNTS
    for row, column in np.argwhere(found.counts > 0):
        share, count = shares[row, column], found.counts[row, column]
        ax.text(
            column,
            row,
            f"{share:.0%}\n{count}" if counted else f"{share:.0%}",
            ha="center",
            va="center",
            fontsize=8 if counted else 7,
            linespacing=1.35,
            color="white" if share > 0.55 else INK,
        )


def _name_states(ax: Axes, states: NDArray[Any]) -> None:
    size = len(states)
    if size > MAX_NAMES:
        ax.set_xticks([])
        ax.set_yticks([])
        return
    names = [shorten(str(state)) for state in states]
    letters = 9 if size <= MAX_COUNTS else 7
    # Names wider than their column would run into each other.
    aslant = max(len(name) for name in names) > 9 or size > MAX_COUNTS
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(size), names, fontsize=letters, **(turned if aslant else {}))
    ax.set_yticks(range(size), names, fontsize=letters)


def _in_words(found: Confusions) -> str:
    if not found.n_judged:
        return f"None of {found.n_unjudged} steps was given a state"
    text = f"{found.accuracy:.1%} right: {found.n_right} of {found.n_judged} steps"
    return text + (f"\n{found.n_unjudged} were given no state" if found.n_unjudged else "")
