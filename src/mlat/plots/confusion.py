"""The confusion matrix as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..base.checks import Floats
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..explain.confusions import Confusions, count_confusions
from ..stream.stream import Stream
from .figure import BLUE, FAINT, INK, axes_for, bare, shorten

MAX_COUNTS = 12  # up to so many states a cell has room for its count
MAX_FRACTIONS = 20  # and up to so many for its fraction
MAX_NAMES = 40
# From white to the blue of the other pictures.
_BLUES = LinearSegmentedColormap.from_list("blues", ["#ffffff", "#9cc4de", BLUE])


def plot_confusion(
    found: Confusions | StreamClassifier | ArrayLike,
    stream: Stream | ArrayLike | None = None,
    *,
    known: ArrayLike = (),
    ax: Axes | None = None,
) -> Figure:
    """How often each true state (row) was predicted as each state (column).

    Colours and percentages are fractions of a row, so that rare states are as visible as frequent
    ones. Small cells have no text.

    Parameters
    ----------
    found : Confusions, fitted StreamClassifier, or array of shape (T,)
        What was counted, a model that predicts, or the predicted states.
    stream : Stream, or array of shape (T,)
        The stream with its true states, or the true states alone; not with ``Confusions``.
    known : array, optional
        States that are drawn even if no step has them; with a classifier, its states.
    ax : Axes, optional
        Where to draw; default a new figure.

    Raises
    ------
    InputError
        If no step has a true state.
    """
    if not isinstance(found, Confusions):
        found = _counted(found, stream, known)
    size = len(found.states)
    side = min(max(3.2, 0.75 * size), 10.0)
    figure, ax = axes_for(ax, (side + 1.6, side + 1.2))
    totals = found.n_steps[:, None]
    fractions = np.divide(found.counts, totals, out=np.zeros((size, size)), where=totals > 0)
    # On a square-root scale: on a linear one rare confusions would look white.
    ax.imshow(fractions, cmap=_BLUES, norm=PowerNorm(0.5, 0, 1))
    ax.set_xticks(np.arange(size + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(size + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=FAINT, linewidth=0.6 if size <= MAX_NAMES else 0.2)
    ax.tick_params(which="both", length=0)
    bare(ax, "top", "right", "bottom", "left")
    if size <= MAX_FRACTIONS:
        _write_numbers(ax, found, fractions)
    _name_states(ax, found.states)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.set_title(_summary(found), loc="left", fontsize=10, color=INK)
    return figure


def _counted(predicted: StreamClassifier | ArrayLike, stream: Any, known: ArrayLike) -> Confusions:
    if stream is None:
        raise InputError("the stream with the true states is missing; give it as well")
    if not isinstance(predicted, StreamClassifier):
        return count_confusions(stream, predicted, known=known)
    clf = predicted
    return count_confusions(
        stream, clf.predict(stream), known=clf.classes_, complete=clf.ends_window(stream)
    )


def _write_numbers(ax: Axes, found: Confusions, fractions: Floats) -> None:
    counted = len(fractions) <= MAX_COUNTS
    for row, column in np.argwhere(found.counts > 0):
        fraction, count = fractions[row, column], found.counts[row, column]
        ax.text(
            column,
            row,
            f"{fraction:.0%}\n{count}" if counted else f"{fraction:.0%}",
            ha="center",
            va="center",
            fontsize=8 if counted else 7,
            linespacing=1.35,
            color="white" if fraction > 0.55 else INK,
        )


def _name_states(ax: Axes, states: NDArray[Any]) -> None:
    size = len(states)
    every = -(-size // MAX_NAMES) or 1  # of more, every second, third, … is named
    places = range(0, size, every)
    names = [shorten(str(states[place])) for place in places]
    fontsize = 9 if size <= MAX_COUNTS else 7
    # Names wider than their column would run into each other.
    is_long = max(len(name) for name in names) > 9 or size > MAX_COUNTS
    slant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(places, names, fontsize=fontsize, **(slant if is_long else {}))
    ax.set_yticks(places, names, fontsize=fontsize)


def _summary(found: Confusions) -> str:
    if not found.n_judged:
        return f"None of {found.n_unjudged} steps was given a state"
    text = (
        f"Accuracy {found.accuracy:.1%}: {found.n_right} of {found.n_judged} steps\n"
        f"Balanced accuracy {found.balanced_accuracy:.1%}, guessing {found.guessing:.1%}"
    )
    if found.unknown.any():
        text += f"\n{found.unknown.sum()} were given the unknown state"
    return text + (f"\n{found.n_unjudged} were not judged" if found.n_unjudged else "")
