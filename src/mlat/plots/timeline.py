"""A stream and its states over time, and predicted against true states, as ribbons of colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..stream.conversion import as_states, changes, no_state
from ..stream.stream import Stream
from .figure import (
    FAINT,
    INK,
    axes_below_legend,
    bare,
    draw_boundaries,
    ink_on,
    shorten,
    state_colours,
    state_pattern,
    states_in,
    step_axis,
    text_width,
)

MAX_SHAPES = 4000  # intervals, or steps, that are drawn one by one
N_BINS = 1200  # if there are more; about a pixel each
NAME_SIZE = 7  # points of the name in an interval
RIBBON = 0.9  # height of a ribbon beside channels, of which each has 1
WRONG = "#b3202c"
LEAST = 0.15  # height of the smallest bar: a single mistake among thousands must be visible
MAX_BOUNDARIES = 60


def plot_stream(
    stream: Stream,
    *,
    predicted: Mapping[str, ArrayLike] | None = None,
    max_channels: int = 12,
    ax: Axes | None = None,
) -> Figure:
    """The channels, and below them the state of every step as a coloured ribbon.

    Parameters
    ----------
    stream : Stream
        Each channel has its own scale. A missing value is a gap in the line.
    predicted : mapping of names to arrays of shape (T,), optional
        Further ribbons: predicted states, one per step.
    max_channels : int, default=12
        How many channels to draw, the first ones.
    ax : Axes, optional
        Where to draw; default a new figure.
    """
    ribbons = {"state": stream.states} if stream.labelled.any() else {}
    for name, states in (predicted or {}).items():
        ribbons[name] = as_states(states, len(stream), ours=True)
    shown = stream.channels[:max_channels]
    classes = states_in(ribbons.values())
    height = 1.0 + 0.38 * (len(shown) + len(ribbons))
    figure, ax, width, legend = axes_below_legend(ax, height, classes)
    heights = np.arange(len(shown))[::-1].astype(float)
    for channel, height in enumerate(heights):
        line = _to_unit_range(stream.values[:, channel])
        ax.plot(np.arange(len(stream)) + 0.5, line + height, color=INK, linewidth=0.6)
    ticks = dict(zip(heights, map(shorten, shown), strict=True))
    for i, (name, states) in enumerate(ribbons.items()):
        bottom = -0.75 - 1.05 * i - RIBBON
        ribbon = Ribbon(len(stream))
        ribbon.add(states)
        draw_ribbon(
            ax, *ribbon.intervals(), classes, len(stream), bottom, width=width, height=RIBBON
        )
        ticks[bottom + RIBBON / 2] = shorten(name)
    draw_boundaries(ax, np.flatnonzero(changes(stream.recordings, len(stream))))
    step_axis(ax, len(stream), stream.usual_step, bool(stream.gap_before[1:].any()))
    ax.set_ylim(-0.9 - 1.05 * len(ribbons), len(shown) - 0.3)
    ax.set_yticks(list(ticks), list(ticks.values()))
    ax.tick_params(axis="y", length=0)
    bare(ax, "top", "right", "left")
    if len(shown) < stream.n_channels:
        ax.set_ylabel(f"{len(shown)} of {stream.n_channels} channels", color=INK)
    legend.draw(ax)
    return figure


def _to_unit_range(values: NDArray[np.floating]) -> Floats:
    """Scale values so that 99% of them lie in a range of length 1, and clip the others."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.full(len(values), np.nan)
    low, middle, high = np.quantile(known.astype(float), [0.005, 0.5, 0.995])
    spread = high - low
    return np.clip((values - middle) / (spread or 1.0), -0.7, 0.7)


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
    if true is not None:
        true = as_states(true, n_steps, ours=True)
    if confidence is not None:
        confidence = np.asarray(confidence, dtype=np.float64)
        if confidence.shape != (n_steps,):
            raise InputError(f"confidence must be of shape ({n_steps},), not {confidence.shape}")
    timeline = Timeline(n_steps)
    recordings = states_true.recordings if isinstance(states_true, Stream) else None
    timeline.add(true, predicted, confidence=confidence, recordings=recordings)
    if isinstance(states_true, Stream):
        timeline.usual_step = states_true.usual_step
    return timeline.draw(ax)


class Timeline:
    """The timeline of a stream that comes in pieces; see :func:`plot_timeline`.

    What is kept is what is drawn, so memory does not grow with the stream.

    Parameters
    ----------
    n_steps : int
        Of all pieces together.

    Attributes
    ----------
    usual_step : float or None
        Seconds of a step, to name the axis; may be set before it is drawn.
    """

    def __init__(self, n_steps: int) -> None:
        self._n_steps, self._done = n_steps, 0
        self.usual_step: float | None = None
        self._ribbons = {"true": Ribbon(n_steps), "predicted": Ribbon(n_steps)}
        self._labelled = False
        self._wrong, self._confidence = _Bins(n_steps), _Bins(n_steps)
        self._n_wrong = self._n_judged = 0
        self._with_confidence = False
        self._boundaries: list[int] = []
        self._recording: Any = None

    def add(
        self,
        true: NDArray[Any] | None,
        predicted: NDArray[Any],
        *,
        confidence: Floats | None = None,
        recordings: NDArray[Any] | None = None,
    ) -> None:
        """The next steps: their states, and where they are known their recordings, all (T,)."""
        self._ribbons["predicted"].add(predicted)
        if true is not None:
            self._labelled |= bool((true != no_state(true)).any())
            self._ribbons["true"].add(true)
            judged = (true != no_state(true)) & (predicted != no_state(predicted))
            wrong = judged.copy()
            wrong[judged] = true[judged] != predicted[judged]
            self._wrong.add(wrong.astype(np.float64))
            self._n_wrong += int(wrong.sum())
            self._n_judged += int(judged.sum())
        if confidence is not None:
            known = confidence[~np.isnan(confidence)]
            if len(known) and not 0 <= known.min() <= known.max() <= 1:
                raise InputError("confidence must be from 0 to 1, NaN where there is none")
            self._with_confidence = True
            self._confidence.add(confidence)
        if recordings is not None and len(recordings):
            starts = np.flatnonzero(recordings[1:] != recordings[:-1]) + 1
            first = [0] if self._done and recordings[0] != self._recording else []
            self._boundaries += [self._done + at for at in (*first, *starts.tolist())]
            del self._boundaries[MAX_BOUNDARIES + 1 :]  # too many to draw
            self._recording = recordings[-1]
        self._done += len(predicted)

    def draw(self, ax: Axes | None = None) -> Figure:
        """The figure of all steps so far."""
        ribbons = {
            name: ribbon
            for name, ribbon in self._ribbons.items()
            if name == "predicted" or self._labelled
        }
        intervals = {name: ribbon.intervals() for name, ribbon in ribbons.items()}
        classes = states_in(states for _, states in intervals.values())
        rows = [*ribbons, *(["mistakes"] if self._labelled else [])]
        rows += ["confidence"] if self._with_confidence else []
        figure, ax, width, legend = axes_below_legend(ax, 1.1 + 0.5 * len(rows), classes)
        bottoms = {name: -1.25 * i for i, name in enumerate(rows)}
        for name, (start, states) in intervals.items():
            draw_ribbon(ax, start, states, classes, self._n_steps, bottoms[name], width=width)
        if self._labelled:
            _draw_mistakes(ax, self._wrong, bottoms["mistakes"])
        if self._with_confidence:
            _draw_confidence(ax, self._confidence, bottoms["confidence"])
        few = len(self._boundaries) <= MAX_BOUNDARIES
        draw_boundaries(ax, self._boundaries if few else ())
        step_axis(ax, self._n_steps, self.usual_step, bool(self._boundaries))
        ax.set_ylim(min(bottoms.values()) - 0.15, 1.1)
        ax.set_yticks([bottom + 0.5 for bottom in bottoms.values()], rows)
        ax.tick_params(axis="y", length=0)
        bare(ax, "top", "right", "left")
        legend.draw(ax)
        if self._labelled:
            text = f"{self._n_wrong} of {self._n_judged} judged steps are wrong"
            ax.set_title(text, loc="right", fontsize=10, color=INK, pad=legend.height + 4)
        return figure


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


class _Bins:
    """Values over time: the mean of every bin, without NaN entries; NaN of a bin without others."""

    def __init__(self, n_steps: int) -> None:
        n_bins = n_steps if n_steps <= MAX_SHAPES else N_BINS
        self.edges = bin_edges(n_steps, n_bins)
        self._done = 0
        self._total, self._count = np.zeros(n_bins), np.zeros(n_bins, np.int64)

    def add(self, values: Floats) -> None:
        """The next values (T,)."""
        steps = self._done + np.flatnonzero(~np.isnan(values))
        place = np.searchsorted(self.edges, steps, side="right") - 1
        np.add.at(self._total, place, values[steps - self._done])
        np.add.at(self._count, place, 1)
        self._done += len(values)

    @property
    def mean(self) -> Floats:
        empty = np.full(len(self._total), np.nan)
        return np.divide(self._total, self._count, out=empty, where=self._count > 0)


def _draw_mistakes(ax: Axes, wrong: _Bins, bottom: float) -> None:
    ax.axhline(bottom, color=FAINT, linewidth=0.6)
    fraction = wrong.mean
    if (fraction > 0).any():
        height = np.where(fraction > 0, LEAST + (1 - LEAST) * fraction, 0.0)
        ax.stairs(
            bottom + height, wrong.edges, baseline=bottom, fill=True, color=WRONG, linewidth=0
        )


def _draw_confidence(ax: Axes, confidence: _Bins, bottom: float) -> None:
    for level in (0, 1):
        ax.axhline(bottom + level, color=FAINT, linewidth=0.6)
    mean = confidence.mean
    if not np.isnan(mean).all():
        edges = confidence.edges
        ax.stairs(bottom + mean, edges, baseline=bottom, fill=True, color=INK, alpha=0.2)
        ax.stairs(bottom + mean, edges, baseline=None, color=INK, linewidth=0.8)
