"""Predicted against true states over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..checks import Floats, Ints
from ..errors import InputError
from ..stream.conversion import as_states, no_state
from ..stream.stream import Stream
from .figure import FAINT, INK, axes_for, bare, state_colours
from .stream import state_legend

WRONG = "#b3202c"
MAX_SHAPES = 4000  # stretches, or steps, that are still drawn one by one
N_BINS = 1200  # where there are more; about a pixel each
LEAST = 0.15  # height of the smallest mark: a single mistake among thousands must still be seen
MAX_BOUNDARIES = 60


def plot_timeline(
    states_true: Stream | ArrayLike | None,
    states_predicted: ArrayLike,
    *,
    confidence: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Figure:
    """A ribbon of true states above one of predicted states, with the mistakes marked beneath.

    Parameters
    ----------
    states_true : Stream, array of shape (T,) or None
        A stream also tells where its recordings begin. Where no step has a state, only the
        predicted ones are drawn.
    states_predicted : array of shape (T,)
    confidence : array of shape (T,), optional
        Numbers from 0 to 1, such as the largest of ``predict_proba``; NaN where there is none.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    told = as_states(states_predicted, len(np.atleast_1d(states_predicted)))
    n_steps = len(told)
    true = states_true.states if isinstance(states_true, Stream) else states_true
    ribbons = {"predicted": told}
    if true is not None:
        true = as_states(true, n_steps)
        if (true != no_state(true)).any():
            ribbons = {"true": true, **ribbons}
    stretches = {name: _stretches(states) for name, states in ribbons.items()}
    classes = _classes([states for _, states in stretches.values()])
    rows = [*ribbons, *(["mistakes"] if "true" in ribbons else [])]
    rows += [] if confidence is None else ["confidence"]
    figure, ax = axes_for(ax, (11, 1.3 + 0.5 * len(rows)))
    bottoms = {name: -1.25 * i for i, name in enumerate(rows)}
    for name, (start, states) in stretches.items():
        _draw_ribbon(ax, start, _codes(states, classes), len(classes), n_steps, bottoms[name])
    if "mistakes" in bottoms:
        wrong, judged = _wrong(ribbons["true"], told)
        _draw_mistakes(ax, wrong, bottoms["mistakes"])
        text = f"{wrong.sum()} of {judged} judged steps are wrong"
        ax.set_title(text, loc="right", fontsize=10, color=INK)
    if confidence is not None:
        _draw_confidence(ax, confidence, n_steps, bottoms["confidence"])
    if isinstance(states_true, Stream):
        _draw_boundaries(ax, states_true)
    ax.set_xlim(0, max(n_steps, 1))
    ax.set_ylim(min(bottoms.values()) - 0.15, 1.1)
    ax.set_yticks([bottom + 0.5 for bottom in bottoms.values()], rows)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("step")
    ax.ticklabel_format(axis="x", style="plain")
    bare(ax, "top", "right", "left")
    state_legend(ax, classes)
    return figure


def _stretches(states: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Where the state changes, and to what: all that a ribbon is made of."""
    start = np.flatnonzero(np.append(True, states[1:] != states[:-1])[: len(states)])
    return start, states[start]


def _classes(parts: list[NDArray[Any]]) -> NDArray[Any]:
    found = []
    for states in parts:
        some = np.unique(states)
        found.append(some[some != no_state(some)])
    found = [states for states in found if len(states)]
    if len({states.dtype.kind for states in found}) > 1:
        raise InputError("some states are names and others numbers; predict with the same kind")
    return np.unique(np.concatenate(found)) if found else np.array([])


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
    """Of more stretches than a screen has pixels, the most frequent state of every pixel."""
    edges = np.linspace(0, n_steps, N_BINS + 1).astype(np.int64)
    by_step = np.repeat(codes, np.diff(start, append=n_steps)) + 1
    cell = _bin_of_steps(edges) * (n_classes + 1) + by_step
    counts = np.bincount(cell, minlength=N_BINS * (n_classes + 1)).reshape(N_BINS, -1)
    return edges[:-1], counts.argmax(axis=1) - 1


def _bin_of_steps(edges: Ints) -> Ints:
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))


def _wrong(true: NDArray[Any], told: NDArray[Any]) -> tuple[NDArray[np.bool_], int]:
    judged = (true != no_state(true)) & (told != no_state(told))
    wrong = judged.copy()
    wrong[judged] = true[judged] != told[judged]
    return wrong, int(judged.sum())


def _binned(values: NDArray[Any]) -> tuple[Ints, Floats]:
    """Edges of bins and the mean in each; NaN entries do not count, and NaN where no other is."""
    n_bins = len(values) if len(values) <= MAX_SHAPES else N_BINS
    edges = np.linspace(0, len(values), n_bins + 1).astype(np.int64)
    place = _bin_of_steps(edges)
    known = ~np.isnan(values)
    total = np.bincount(place[known], values[known], minlength=len(edges) - 1)
    count = np.bincount(place[known], minlength=len(edges) - 1)
    return edges, np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def _draw_mistakes(ax: Axes, wrong: NDArray[np.bool_], bottom: float) -> None:
    ax.axhline(bottom, color=FAINT, linewidth=0.6)
    if wrong.any():
        edges, share = _binned(wrong.astype(np.float64))
        height = np.where(share > 0, LEAST + (1 - LEAST) * share, 0.0)
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


def _draw_boundaries(ax: Axes, stream: Stream) -> None:
    if stream.recordings is None:
        return
    begins = np.flatnonzero(stream.recordings[1:] != stream.recordings[:-1]) + 1
    for boundary in begins.tolist() if len(begins) <= MAX_BOUNDARIES else ():
        ax.axvline(boundary, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
