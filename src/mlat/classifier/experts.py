"""Experts: a choice of features, a width, a metric over windows of these features.

A :class:`Design` is an expert before it has learned, a :class:`Plan` the designs of a classifier
with the features that they share. An expert that has learned is
:class:`mlat.neighbours.References`: its references under its metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ..base import work
from ..base.checks import Ints
from ..base.errors import InputError
from ..features.features import Features, View, learn_features, whitening
from ..features.lifts import Lift
from ..metric.embedding import fit_windows
from ..metric.estimators import MLAT, MarginMetric
from ..metric.forest import Forest
from ..neighbours.references import References, steps_inside
from ..stream.stream import Stream
from ..stream.windows import Windows

# The reach of running features, in steps. After a switch they still look back into the state
# before, so it is bounded by a fraction of a run.
REACH = 100
REACH_OF_RUN = 1 / 5

# A metric of the default experts is learned from at most this many windows; all of them stay
# references. Neighbours in time are near-copies, and learning takes the square of their number.
MOST_IN_FIT = 1000
MOST_IN_FOREST = 20_000  # a forest learns from many in no time, but not from hundreds of thousands
N_TARGETS = 3

DOMINANT = 2  # times the references of a state that the usual group has
APART = 1000  # widths between two groups, as if it were time: further than any gap of targets

NARROW = 10  # the width of MLAT over many channels
MOST_VALUES = 400  # of a window, for MLAT over the channels to learn all of its lags

ENERGIES = ("running_deviation", "running_difference")
EVERYTHING = ("identity", "difference", "low_pass", *ENERGIES)


@dataclass(frozen=True)
class Design:
    """An expert before it has learned.

    Attributes
    ----------
    name : str
    width : int
    maps : tuple of str
        The features it sees, as the maps of a :class:`~mlat.Lift`; empty for all.
    whiten : bool
    metric : unfitted estimator over windows, or None for the Euclidean distance
    most : int, optional
        How many windows its metric is learned from at the most; default all.
    power : float
        The coefficient of its distances where little is known: what held-out runs of development
        people said of such an expert.
    """

    name: str
    width: int
    maps: tuple[str, ...] = ()
    whiten: bool = False
    metric: Any = None
    most: int | None = None
    power: float = 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """How windows will be compared: the experts of a classifier, one or several.

    Attributes
    ----------
    designs : tuple of Design
    lift : Lift
        The features that they share.
    scale : bool
        Whether channels and features are scaled.
    n_neighbors : int
    device : str, optional
        Of PyTorch, to learn on.
    """

    designs: tuple[Design, ...]
    lift: Lift
    scale: bool = True
    n_neighbors: int = 1
    device: str | None = None

    @property
    def width(self) -> int:
        """Of the widest expert."""
        return max(design.width for design in self.designs)

    def keeping(self, kept: Sequence[bool]) -> Plan:
        """The same with some of the experts, and only the features that these see."""
        designs = tuple(d for d, keep in zip(self.designs, kept, strict=True) if keep)
        if len(designs) == len(self.designs):
            return self
        return replace(self, designs=designs, lift=Lift(_maps_of(designs), self.lift.reach))


def default_plan(stream: Stream, width: int, reach: int | None, scale: bool) -> Plan:
    """The experts of ``metric="auto"``.

    MLAT over the channels sees the order of steps. The others see features of the last step, which
    look back by themselves: a forest and whitened distances, which are wrong at different steps,
    see levels and how much a channel moves. A second forest sees no levels: an offset that marks a
    run, as of a sensor put on anew, does not decide alone. Found on the development people and
    sets (docs/guide/committee.md).
    """
    # A wide window has more values than MLAT over the channels could learn from.
    channels = width if width * stream.n_channels <= MOST_VALUES else min(NARROW, width)
    # More taps than steps took half as long again, and made nothing better.
    order = MLAT(n_taps=channels, n_targets=N_TARGETS)
    designs = (
        Design("MLAT over channels", channels, ("identity",), False, order, MOST_IN_FIT, 4.0),
        Design("forest", 1, EVERYTHING, False, Forest(), MOST_IN_FOREST, 0.8),
        Design("forest without levels", 1, ENERGIES, False, Forest(), MOST_IN_FOREST, 1.5),
        Design("whitened features", 1, EVERYTHING, True, power=10.0),
    )
    reach = default_reach(stream, width) if reach is None else reach
    return Plan(designs, Lift(_maps_of(designs), reach), scale)


def _maps_of(designs: Sequence[Design]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for design in designs for name in design.maps))


def learn_experts(
    stream: Stream,
    windows: Windows,
    plan: Plan,
    *,
    most: int | None = None,
    tol: float | None = None,
) -> list[References]:
    """Learn the experts from a labelled stream.

    All have the same references: an expert that is narrower than the windows sees their last steps.
    ``most`` and ``tol`` replace those of the designs and their metrics; a forest, which learns from
    many windows in no time, always has all of them.
    """
    features, steps, codes = learn_features(stream, plan.lift, scale=plan.scale)
    groups, in_run = groups_of(stream), steps[codes >= 0]
    within = np.unique(codes[codes >= 0], return_inverse=True)[1]
    steps[~steps_inside(windows, between=True)] = np.nan  # as a model file has it
    experts = []
    for number, design in enumerate(plan.designs):
        columns = _columns_of(design, plan.lift, stream.n_channels)
        view = View(columns)
        if design.whiten:
            view = View(columns, whitening(view(in_run), within))
        own = windows.last(design.width)
        seen = replace(own, values=view(steps))
        try:
            limit = design.most if isinstance(design.metric, Forest) else most or design.most
            of_windows = None if groups is None else groups[seen.start]
            metric = learn_metric(design, seen, limit, tol, plan.device, of_windows)
        except InputError as error:
            raise InputError(
                f"{design.name}: {error}" if len(plan.designs) > 1 else str(error)
            ) from None
        experts.append(References(own, features, metric, steps, view))
        work.report("experts", number + 1, len(plan.designs), {})
    return experts


def _columns_of(design: Design, lift: Lift, n_channels: int) -> Ints | None:
    """Which of the shared features an expert sees; None for all. Its maps are of all channels."""
    if not design.maps:
        return None
    names = list(lift.maps)
    places = [names.index(name) * n_channels for name in design.maps]
    return np.concatenate([np.arange(place, place + n_channels) for place in places])


def learn_metric(
    design: Design,
    windows: Windows,
    most: int | None = None,
    tol: float | None = None,
    device: str | None = None,
    groups: Ints | None = None,
) -> Any:
    """The expert's metric, learned from at most ``most`` of the windows.

    Of several ``groups`` (n,) each gives as many windows of a state as another, as far as it has
    them, and the target neighbours of MLAT are of other groups: the metric learns to ignore what
    marks a group. Where not all windows are used, states with a single window, which have no
    target neighbours, are left out. None, which is the Euclidean distance, if the expert learns
    none or if fewer than two states remain.
    """
    if design.metric is None:
        return None
    metric = clone(design.metric)
    if most is not None or isinstance(metric, Forest):
        states, counts = np.unique(windows.y, return_counts=True)
        if (counts >= 2).sum() < 2:
            return None
        rows = np.flatnonzero(np.isin(windows.y, states[counts >= 2]))
        groups = None if groups is None else groups[rows]
        chosen = fair_rows(windows.y[rows], len(rows) if most is None else most, groups)
        windows, groups = windows.take(rows[chosen]), None if groups is None else groups[chosen]
        fewest = int(np.unique(windows.y, return_counts=True)[1].min())
        if isinstance(metric, MarginMetric) and metric.n_targets is not None:
            metric.set_params(n_targets=max(1, min(metric.n_targets, fewest - 1)))
    if tol is not None and isinstance(metric, MarginMetric):
        metric.set_params(tol=max(tol, metric.tol))
    if isinstance(metric, MarginMetric):
        if groups is None or metric.target_gap != "run":
            return metric.fit(windows, windows.y, device=device)
        # A run and its time are those of a group: what is of the same group is no target.
        start = windows.start + groups * (int(np.ptp(windows.start)) + APART * windows.width)
        return metric.fit(windows, windows.y, start=start, run=groups, device=device)
    return fit_windows(metric, windows.X, windows.y, start=windows.start, run=windows.run)


def groups_of(stream: Stream) -> Ints | None:
    """The number of each step's group (T,), where the usual state is in several groups."""
    if stream.groups is None:
        return None
    group: Ints = np.unique(stream.groups, return_inverse=True)[1]
    counts = [len(np.unique(group[stream.codes == code])) for code in range(len(stream.classes))]
    return group if np.median(counts) >= 2 else None


def fair_rows(labels: NDArray[Any], most: int, groups: Ints | None = None) -> Ints:
    """At most ``most`` rows, evenly spaced within each state; small states are kept whole.

    Of ``groups`` (n,) each has as many rows of a state as another, as far as there are.
    """
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    remaining, left = most, len(names)
    parts = []
    for code in np.argsort(counts, kind="stable"):
        n = min(int(counts[code]), max(remaining // left, 2))
        rows = np.flatnonzero(inverse == code)
        if groups is None:
            parts.append(rows[np.linspace(0, len(rows) - 1, n).round().astype(np.int64)])
        else:
            parts.append(rows[fair_rows(groups[rows], n)])
        remaining, left = remaining - n, left - 1
    return np.sort(np.concatenate(parts))


def fair_references(windows: Windows, stream: Stream) -> Windows:
    """The same, of which no group has more than twice as many of a state as the usual one."""
    groups = groups_of(stream)
    if groups is None:
        return windows
    own, kept = groups[windows.start], np.ones(len(windows), bool)
    for state in np.unique(windows.y):
        mine = windows.y == state
        counts = np.bincount(own[mine])
        most = DOMINANT * int(np.median(counts[counts > 0]))
        for group in np.flatnonzero(counts > most):
            rows = np.flatnonzero(mine & (own == group))
            kept[rows] = False
            kept[rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]] = True
    return windows.take(kept)


# Reach


def default_reach(stream: Stream, width: int) -> int:
    """100 steps or two widths, but at most a fifth of the median run (or a width)."""
    of_run = max(width, int(REACH_OF_RUN * run_length(stream)))
    return max(1, min(max(REACH, 2 * width), of_run))


def run_length(stream: Stream) -> float:
    """The median length of the runs of a labelled stream; a missing value does not end one."""
    ends = np.flatnonzero(stream.gap_before[1:] | (np.diff(stream.codes) != 0)) + 1
    begins = np.concatenate([[0], ends])
    lengths = np.diff(np.append(begins, len(stream)))
    labelled = stream.codes[begins] >= 0
    return float(np.median(lengths[labelled])) if labelled.any() else 0.0


# Other references


def experts_with(
    experts: Sequence[References], windows: Windows, features: Features | None = None
) -> list[References]:
    """The same experts with other references, windows of the widest expert's width.

    ``features`` are those of channels in other units, default the same.
    """
    features = experts[0].features if features is None else features
    steps = features.of_runs(windows)
    return [
        References(windows.last(expert.windows.width), features, expert.metric, steps, expert.view)
        for expert in experts
    ]
