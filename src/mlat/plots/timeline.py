"""Predicted against true states over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..checks import Bools, Floats, Ints
from ..errors import InputError
from ..stream.conversion import as_states, no_state
from ..stream.stream import Stream
from .figure import (
    FAINT,
    INK,
    axes_for,
    bare,
    draw_boundaries,
    recording_starts,
    state_colours,
    state_legend,
    states_in,
)

WRONG = "#b3202c"
MAX_SHAPES = 4000  # intervals, or steps, that are drawn one by one
N_BINS = 1200  # if there are more; about a pixel each
LEAST = 0.15  # height of the smallest bar: a single mistake among thousands must be visible
MAX_BOUNDARIES = 60


def plot_timeline(
    states_true: Stream | ArrayLike | None,
    states_predicted: ArrayLike,
    *,
    confidence: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Figure:
    """A ribbon of true states, one of predicted states, and the mistakes below them.

    Parameters
    ----------
    states_true : Stream, array of shape (T,) or None
        With a stream the beginnings of its recordings are drawn, too. If no step has a state, only
        the predicted states are drawn.
    states_predicted : array of shape (T,)
    confidence : array of shape (T,), optional
        Numbers from 0 to 1, such as the largest of ``predict_proba``; NaN where there is none.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    predicted = as_states(states_predicted, len(np.atleast_1d(states_predicted)), ours=True)
    n_steps = len(predicted)
    true = states_true.states if isinstance(states_true, Stream) else states_true
    ribbons = {"predicted": predicted}
    if true is not None:
        true = as_states(true, n_steps, ours=True)
        if (true != no_state(true)).any():
            ribbons = {"true": true, **ribbons}
    intervals = {name: _intervals(states) for name, states in ribbons.items()}
    classes = states_in(states for _, states in intervals.values())
    rows = [*ribbons, *(["mistakes"] if "true" in ribbons else [])]
    rows += [] if confidence is None else ["confidence"]
    figure, ax = axes_for(ax, (11, 1.3 + 0.5 * len(rows)))
    bottoms = {name: -1.25 * i for i, name in enumerate(rows)}
    for name, (start, states) in intervals.items():
        _draw_ribbon(ax, start, _codes(states, classes), len(classes), n_steps, bottoms[name])
    if "mistakes" in bottoms:
        wrong, judged = _wrong(ribbons["true"], predicted)
        _draw_mistakes(ax, wrong, bottoms["mistakes"])
        text = f"{wrong.sum()} of {judged} judged steps are wrong"
        ax.set_title(text, loc="right", fontsize=10, color=INK)
    if confidence is not None:
        _draw_confidence(ax, confidence, n_steps, bottoms["confidence"])
    if isinstance(states_true, Stream):
        starts = recording_starts(states_true)
        draw_boundaries(ax, starts.tolist() if len(starts) <= MAX_BOUNDARIES else ())
    ax.set_xlim(0, max(n_steps, 1))
    ax.set_ylim(min(bottoms.values()) - 0.15, 1.1)
    ax.set_yticks([bottom + 0.5 for bottom in bottoms.values()], rows)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("step")
    ax.ticklabel_format(axis="x", style="plain")
    bare(ax, "top", "right", "left")
    state_legend(ax, classes)
    return figure


def _intervals(states: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """The steps at which the state changes, and the state from there on."""
    start = np.flatnonzero(np.append(True, states[1:] != states[:-1])[: len(states)])
    return start, states[start]


def _codes(states: NDArray[Any], classes: NDArray[Any]) -> Ints:
    known = states != no_state(states)
    codes = np.full(len(states), -1, np.int64)
    codes[known] = np.searchsorted(classes, states[known])
    return codes


def _draw_ribbon(
    ax: Axes, start: Ints, codes: Ints, n_classes: int, n_steps: int, bottom: float
) -> None:
    if len(start) > MAX_SHAPES:
        start, codes = _coarse(start, codes, n_classes, n_steps)
    length = np.diff(start, append=n_steps)
    colours = state_colours(n_classes)
    for code in np.unique(codes):
        mine = codes == code
        spans = list(zip(start[mine].tolist(), length[mine].tolist(), strict=True))
        colour: Any = FAINT if code < 0 else colours[code]
        ax.broken_barh(spans, (bottom, 1.0), facecolors=[colour], linewidth=0)


def _coarse(start: Ints, codes: Ints, n_classes: int, n_steps: int) -> tuple[Ints, Ints]:
    """The most frequent state of every bin, for more intervals than a screen has pixels."""
    edges = np.linspace(0, n_steps, N_BINS + 1).astype(np.int64)
    by_step = np.repeat(codes, np.diff(start, append=n_steps)) + 1
    cell = _bin_of_steps(edges) * (n_classes + 1) + by_step
    counts = np.bincount(cell, minlength=N_BINS * (n_classes + 1)).reshape(N_BINS, -1)
    return edges[:-1], counts.argmax(axis=1) - 1


def _bin_of_steps(edges: Ints) -> Ints:
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))


def _wrong(true: NDArray[Any], predicted: NDArray[Any]) -> tuple[Bools, int]:
    judged = (true != no_state(true)) & (predicted != no_state(predicted))
    wrong = judged.copy()
    wrong[judged] = true[judged] != predicted[judged]
    return wrong, int(judged.sum())


def _binned(values: NDArray[Any]) -> tuple[Ints, Floats]:
    """Edges of bins and the mean of each, without NaN entries; NaN for a bin without others."""
    n_bins = len(values) if len(values) <= MAX_SHAPES else N_BINS
    edges = np.linspace(0, len(values), n_bins + 1).astype(np.int64)
    place = _bin_of_steps(edges)
    known = ~np.isnan(values)
    total = np.bincount(place[known], values[known], minlength=len(edges) - 1)
    count = np.bincount(place[known], minlength=len(edges) - 1)
    return edges, np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def _draw_mistakes(ax: Axes, wrong: Bools, bottom: float) -> None:
    ax.axhline(bottom, color=FAINT, linewidth=0.6)
    if wrong.any():
        edges, fraction = _binned(wrong.astype(np.float64))
        height = np.where(fraction > 0, LEAST + (1 - LEAST) * fraction, 0.0)
        ax.stairs(bottom + height, edges, baseline=bottom, fill=True, color=WRONG, linewidth=0)


def _draw_confidence(ax: Axes, confidence: ArrayLike, n_steps: int, bottom: float) -> None:
    values = np.asarray(confidence, dtype=np.float64)
    if values.shape != (n_steps,):
        raise InputError(f"confidence must be of shape ({n_steps},), not {values.shape}")
    known = values[~np.isnan(values)]
    if len(known) and not 0 <= known.min() <= known.max() <= 1:
        raise InputError("confidence must be from 0 to 1, NaN where there is none")
    for level in (0, 1):
        ax.axhline(bottom + level, color=FAINT, linewidth=0.6)
    if len(known):
        edges, mean = _binned(values)
        ax.stairs(bottom + mean, edges, baseline=bottom, fill=True, color=INK, alpha=0.2)
        ax.stairs(bottom + mean, edges, baseline=None, color=INK, linewidth=0.8)
