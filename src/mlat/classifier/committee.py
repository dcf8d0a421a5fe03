"""The committee: several experts with a metric each, and the product of their distances.

An *expert* is a choice of features, a width, a metric over windows of these features, and the
references under it. For a window it gives the distance ``D_m(s)`` to its nearest reference of each
state. One expert alone is a gamble: which features and which metric are right differs from stream
to stream, and a few labelled runs hardly show it. The committee multiplies what they say:

    D(s) = Π_m (D_m(s) / typical_m + SOFT)^(w_m),   Σ_m w_m = 1,   p(s) ∝ D(s)^(-β).

Only ratios of distances count, so experts need no common scale; an expert to which all states are
about equally far changes little. ``D`` is the weighted geometric mean of the distances, each in
units of its typical value. Everything that follows from distances by state (probabilities, the
unknown state, the state filter) follows from ``D``, as it does for a single expert.

**Weights.** ``β_m = β w_m`` are the coefficients of a multinomial logistic regression on
``-log(D_m(s) / typical_m + SOFT)``, fitted on parts of the training stream that did not learn
(:mod:`mlat.classifier.held_out`). The windows of one run are right or wrong together, so each run
counts as one piece of evidence, and each state as much as any other. A ridge draws the weights
towards equal ones, so that little evidence changes little. An expert with hardly any weight is left
out, and costs nothing. The power β is then such that the committee is as often right on held-out
steps as it says.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from ..base import progress
from ..base.checks import Bools, Floats, Ints
from ..base.compiled import jit
from ..base.errors import InputError
from ..features.features import Features, Lifted, View, lift_runs
from ..features.lifts import Lift
from ..features.whitening import whitening
from ..metric.estimators import MLAT
from ..neighbours.references import References, steps_inside
from ..stream.stream import Stream
from ..stream.windows import Windows, sliding_windows
from .held_out import Fold, far_folds, n_episodes

# Keeps a distance of 0 from being certainty, in units of the expert's typical distance.
SOFT = 0.3

# The reach of running features, in steps. After a switch they still look back into the state
# before, so it is bounded by a fraction of a run.
REACH = 100
REACH_OF_RUN = 1 / 5

# A metric is learned from at most this many windows; all of them stay references. Neighbours in
# time are near-copies, and learning grows with the square of their number.
MOST_IN_FIT = 1000
MOST_HELD_OUT = 500  # the same, where an expert learns from one side to be judged by the other
HELD_OUT_TOL = 1e-2  # there it also stops earlier: the last per cent of the loss changes no weight
MOST_JUDGED = 2000  # steps of a side that are judged, the first of each run
MOST_SIDES = 3  # that judge each other, where states have as many runs

NARROW = 10  # the width of experts over running features, which look back further by themselves
MOST_VALUES = 400  # of a window, for MLAT over the channels to learn all of its lags

# How strongly weights are drawn together. A metric that learned from one run of each state does not
# know how runs differ: what held-out runs say of it is not true of one that learns from several.
# So they count only where each side leaves more than one run to learn from.
RIDGE, STRONG_RIDGE = 0.03, 30.0
LOG_BETA = (-4.0, 6.0)  # from hardly a preference to near certainty
LEAST_WEIGHT = 0.02  # an expert with less of the whole is left out
# Platt's correction: as if there were this many more runs, with the states equally frequent.
PRIOR_RUNS = 0.2
MOST_BETA = 50.0  # of the sum of the coefficients: near certainty

LEVELS = ("identity", "low_pass", "running_deviation", "difference")
ENERGIES = ("running_magnitude", "running_deviation", "running_difference")


@dataclass(frozen=True)
class Design:
    """An expert before it has learned.

    Attributes
    ----------
    name : str
    maps : tuple of str
        The features it sees, as the maps of a :class:`~mlat.Lift`.
    width : int
    whiten : bool
    metric : unfitted MLAT, or None for the Euclidean distance
    """

    name: str
    maps: tuple[str, ...]
    width: int
    whiten: bool = False
    metric: MLAT | None = None


@dataclass(frozen=True)
class Member:
    """What is known of an expert of a committee.

    Attributes
    ----------
    name : str
    weight : float
        From 0 to 1; 0 for an expert that was left out.
    accuracy : float
        Balanced accuracy of the expert alone on held-out runs, from 0 to 1; NaN where nothing
        could be held out.
    typical : float
        Its median distance to the nearest reference, on held-out windows.
    """

    name: str
    weight: float
    accuracy: float
    typical: float


@dataclass(frozen=True, eq=False)
class Committee:
    """Who is in a committee, with which weights, how good each is and why.

    Attributes
    ----------
    members : tuple of Member
        Those that decide, in the order of ``StreamClassifier.experts_``, then those left out.
    beta : float
        The power of the committee's distances in its probabilities.
    accuracy : float
        Balanced accuracy of all together on held-out runs, from 0 to 1; NaN where nothing could be
        held out.
    expected : float
        The balanced accuracy to expect on new steps of this kind of stream: somewhat more than on
        held-out runs, for it then learned from fewer.
    n_runs : int
        How many held-out runs that was judged on: its pieces of evidence.
    why : str
    seconds : float
        What judging the experts took.
    """

    members: tuple[Member, ...]
    beta: float
    accuracy: float = np.nan
    expected: float = np.nan
    n_runs: int = 0
    why: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """The names of those that decide with their weights, the largest first."""
        named = sorted(self.deciding, key=lambda member: -member.weight)
        return ", ".join(f"{member.name} {member.weight:.0%}" for member in named)

    @property
    def deciding(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.weight > 0)

    def combine(self, nearest: Sequence[Floats]) -> Floats:
        """The committee's distance to each state, from that of every deciding expert, (T, S).

        NaN where an expert has none. Each step is computed for itself, in a fixed order.
        """
        result = np.empty(nearest[0].shape)
        _combine(np.stack(nearest), *self.powers, result)
        return result

    def with_typical(self, nearest: Sequence[Floats]) -> Committee:
        """With the typical distances that experts lack, from those of held-out windows."""
        members = iter(zip(self.deciding, nearest, strict=True))
        filled = {
            member.name: replace(member, typical=typical_distance(D))
            for member, D in members
            if np.isnan(member.typical)
        }
        return replace(self, members=tuple(filled.get(m.name, m) for m in self.members))

    def enrolled(self, accuracy: float, n_runs: int) -> Committee:
        """The same experts and weights over references of another stream, of so many runs, judged
        by each other with this balanced accuracy."""
        members = tuple(replace(member, accuracy=np.nan) for member in self.members)
        return replace(
            self,
            members=members,
            accuracy=accuracy,
            expected=np.nan,
            n_runs=n_runs,
            why="weights and metrics of the model that was enrolled, references of another stream",
            seconds=0.0,
        )

    @property
    def powers(self) -> tuple[Floats, Floats]:
        """The weights and the typical distances of those that decide, (M,) each."""
        deciding = self.deciding
        return (
            np.array([member.weight for member in deciding]),
            np.array([member.typical for member in deciding]),
        )


@jit()
def _combine(nearest, weights, typical, result):  # type: ignore[no-untyped-def]
    for t in range(result.shape[0]):
        for s in range(result.shape[1]):
            total = 0.0
            for m in range(len(weights)):
                total += weights[m] * np.log(nearest[m, t, s] / typical[m] + SOFT)
            result[t, s] = np.exp(total)


# Experts


def default_experts(stream: Stream, width: int) -> list[Design]:
    """The experts of ``metric="auto"``.

    MLAT over the channels sees the order of steps, and MLAT of one tap over the channels with their
    running mean, deviation and difference sees levels without their noise; energies see how much a
    channel moves, whatever its level. Found on the development people and sets: of ten candidates
    these three were the best three together; a fourth added nothing (docs/guide/committee.md).
    """
    narrow = min(NARROW, width)
    # A wide window has more values than MLAT over the channels could learn from.
    channels = width if width * stream.n_channels <= MOST_VALUES else narrow
    return [
        # More taps than steps took half as long again, and made nothing better.
        Design("MLAT over channels", ("identity",), channels, metric=MLAT(n_taps=channels)),
        Design("MLAT over levels", LEVELS, narrow, whiten=True, metric=MLAT(n_taps=1, shrinkage=1)),
        Design("energies", ENERGIES, narrow, whiten=True),
    ]


class SharedFeatures(NamedTuple):
    """The lifted runs of a stream, for all experts: each map is computed once."""

    lifted: Lifted
    columns: tuple[Ints, ...]  # of each expert

    @classmethod
    def of(
        cls, stream: Stream, designs: Sequence[Design], reach: int, scale: bool
    ) -> SharedFeatures:
        maps = tuple(dict.fromkeys(name for design in designs for name in design.maps))
        lifted = lift_runs(stream, Lift(maps, reach), scale=scale)
        d = stream.n_channels
        place = {name: np.arange(i * d, (i + 1) * d) for i, name in enumerate(maps)}
        columns = tuple(np.concatenate([place[name] for name in one.maps]) for one in designs)
        return cls(lifted, columns)

    def view(self, design: int, features: Features, whiten: bool) -> View:
        """What an expert sees; the whitening is learned."""
        columns = self.columns[design]
        if not whiten:
            return View(columns)
        inside = self.lifted.codes >= 0
        codes = np.unique(self.lifted.codes[inside], return_inverse=True)[1]
        scaled = features.lifted(self.lifted.values[inside])
        return View(columns, whitening(scaled[:, columns], codes))


def learn_experts(
    stream: Stream,
    windows: Windows,
    designs: Sequence[Design],
    reach: int,
    scale: bool,
    most: int = MOST_IN_FIT,
    tol: float | None = None,
) -> list[References]:
    """Learn the experts from a labelled stream, their metrics from at most ``most`` windows.

    ``tol`` replaces that of their metrics.

    All have the same references: an expert that is narrower than the windows sees their last steps.
    """
    shared = SharedFeatures.of(stream, designs, reach, scale)
    features = shared.lifted.features(scale=scale)
    plain = features.lifted(shared.lifted.values)
    plain[~steps_inside(windows, between=True)] = np.nan
    experts = []
    for number, design in enumerate(designs):
        view = shared.view(number, features, design.whiten)
        own = last_steps(windows, design.width)
        metric = learn_metric(design, replace(own, values=view(plain)), most, tol)
        experts.append(References(own, features, metric, plain, view))
        progress.report("experts", number + 1, len(designs), {})
    return experts


def designs_of(
    experts: Sequence[References], committee: Committee, n_channels: int
) -> tuple[Design, ...]:
    """The designs of experts that have learned, to learn them again from another stream."""
    maps = np.array(list(experts[0].features.lift.maps))
    found = []
    for expert, member in zip(experts, committee.deciding, strict=True):
        metric, columns = expert.metric, expert.view.columns
        assert columns is not None
        found.append(
            Design(
                member.name,
                tuple(maps[np.unique(columns // n_channels)].tolist()),
                expert.windows.width,
                expert.view.mixing is not None,
                None if metric is None else MLAT(**metric.get_params()),
            )
        )
    return tuple(found)


def last_steps(windows: Windows, width: int) -> Windows:
    """Narrower windows that end where the given ones end."""
    return replace(windows, width=width, start=windows.start + windows.width - width)


def learn_metric(
    design: Design, windows: Windows, most: int, tol: float | None = None
) -> MLAT | None:
    """The expert's metric, learned from at most ``most`` of the windows.

    States with a single window have no target neighbours and are not used. None, which is the
    Euclidean distance, if the expert learns none or if fewer than two states remain.
    """
    if design.metric is None:
        return None
    states, counts = np.unique(windows.y, return_counts=True)
    if counts.min() < 2:
        if (counts >= 2).sum() < 2:
            return None
        windows = windows.take(np.isin(windows.y, states[counts >= 2]))
    windows = windows.take(fair_rows(windows.y, most))
    fewest = int(np.unique(windows.y, return_counts=True)[1].min())
    n_targets = max(1, min(N_TARGETS, fewest - 1))
    metric = MLAT(**{**design.metric.get_params(), "n_targets": n_targets})
    if tol is not None:
        metric.set_params(tol=tol)
    try:
        return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    except InputError as error:
        raise InputError(f"{design.name}: {error}") from None


N_TARGETS = 3


def fair_rows(labels: NDArray[Any], most: int) -> Ints:
    """At most ``most`` rows, evenly spaced within each state; small states are kept whole."""
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    remaining, left = most, len(names)
    parts = []
    for code in np.argsort(counts, kind="stable"):
        n = min(int(counts[code]), max(remaining // left, 2))
        rows = np.flatnonzero(inverse == code)
        parts.append(rows[np.linspace(0, len(rows) - 1, n).round().astype(np.int64)])
        remaining, left = remaining - n, left - 1
    return np.sort(np.concatenate(parts))


# Judging


class Judged(NamedTuple):
    """Held-out steps and what each expert says of them.

    Attributes
    ----------
    nearest : array of shape (M, n, S)
        The distance to the nearest reference of each state; infinite where there is none.
    codes, run : arrays of shape (n,)
        The state of each step, and its run, which is its piece of evidence.
    starts : array of shape (n,)
        Where a segment begins: the others follow the step before them.
    """

    nearest: Floats
    codes: Ints
    run: Ints
    starts: Bools


class HeldOut(NamedTuple):
    """What the committee says of held-out steps: distances (n, S), and of each its state, its run
    and whether a segment starts there (n,)."""

    nearest: Floats
    codes: Ints
    run: Ints
    starts: Bools


def judge_experts(
    stream: Stream,
    designs: Sequence[Design],
    reach: int,
    *,
    scale: bool,
    budget: float,
    classes: NDArray[Any],
) -> Judged | None:
    """Let parts of the stream judge what was learned from others; None if there is too little."""
    began = time.monotonic()
    width = max(design.width for design in designs)
    n_sides = MOST_SIDES if n_episodes(stream, width) >= MOST_SIDES else 2
    parts: list[Judged] = []
    n_runs = 0
    for fold in far_folds(stream, width, n_sides, MOST_JUDGED):
        if time.monotonic() - began > budget:
            return None
        judged = _judge(fold, designs, reach, scale, classes)
        if judged is not None:
            parts.append(judged._replace(run=judged.run + n_runs))
            n_runs += len(fold.judged.runs.start)
    if not parts:
        return None
    return Judged(
        np.concatenate([part.nearest for part in parts], axis=1),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.run for part in parts]),
        np.concatenate([part.starts for part in parts]),
    )


def _judge(
    fold: Fold, designs: Sequence[Design], reach: int, scale: bool, classes: NDArray[Any]
) -> Judged | None:
    """What experts that learn from one part say of another; None where it has too few windows."""
    width = max(design.width for design in designs)
    lengths, codes = fold.train.runs.length, fold.train.runs.code
    if len(np.unique(codes[lengths >= width])) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a state has no window
        windows = sliding_windows(fold.train, width)
        ends = sliding_windows(fold.judged, width, labelled=False).start + width - 1
    experts = learn_experts(
        fold.train, windows, designs, reach, scale, most=MOST_HELD_OUT, tol=HELD_OUT_TOL
    )
    known = experts[0].classes
    run = np.repeat(np.arange(len(fold.judged.runs.start)), fold.judged.runs.length)
    ends = ends[np.isin(fold.judged.states[ends], known)]
    if not len(ends):
        return None
    features = experts[0].features(fold.judged)
    nearest = np.full((len(designs), len(ends), len(classes)), np.inf)
    for number, expert in enumerate(experts):
        distances = expert.class_distances(fold.judged, features)[ends]
        nearest[number][:, np.searchsorted(classes, known)] = distances
        expert.free_search()  # so that there is one at a time
    # What is too far for its features or distances to be computed cannot be judged.
    there = np.isfinite(nearest.min(axis=2)).all(axis=0)
    if not there.any():
        return None
    nearest, ends = nearest[:, there], ends[there]
    starts = np.append(True, np.diff(ends) > 1)
    return Judged(nearest, np.searchsorted(classes, fold.judged.states[ends]), run[ends], starts)


# Weights


def learn_committee(
    stream: Stream,
    designs: Sequence[Design],
    reach: int,
    *,
    scale: bool,
    budget: float,
    classes: NDArray[Any],
) -> tuple[list[Design], Committee, HeldOut | None]:
    """Judge the experts on held-out parts of the stream, weigh them, and leave out the useless.

    Returns
    -------
    designs : list of Design
        Of the experts that decide.
    committee : Committee
        Its typical distances are those of the held-out windows.
    held_out : HeldOut or None
        What it says of these; None where nothing could be held out.
    """
    began = time.monotonic()
    several = n_episodes(stream, max(design.width for design in designs)) >= MOST_SIDES
    judged = judge_experts(stream, designs, reach, scale=scale, budget=budget, classes=classes)
    why = "fewer than two states have runs far enough apart to learn from some and judge by others"
    if time.monotonic() - began > budget:
        why = f"the budget of {budget:g} s ended before the experts were judged"
    if judged is None:
        equal = 1.0 / len(designs)
        members = tuple(Member(design.name, equal, np.nan, np.nan) for design in designs)
        committee = Committee(members, np.nan, why=f"all weigh the same: {why}")
        return list(designs), replace(committee, seconds=time.monotonic() - began), None
    typical = np.array([typical_distance(nearest) for nearest in judged.nearest])
    beta = fit_weights(judged, typical, RIDGE if several else STRONG_RIDGE)
    weight = beta / beta.sum()
    kept = weight >= LEAST_WEIGHT
    weight = np.where(kept, weight, 0.0) / weight[kept].sum()
    found = [
        Member(
            design.name,
            float(weight[m]),
            balanced_accuracy(judged.nearest[m], judged.codes),
            float(typical[m]),
        )
        for m, design in enumerate(designs)
    ]
    n_runs = len(np.unique(judged.run))
    committee = Committee(
        tuple(sorted(found, key=lambda member: member.weight == 0)),
        np.nan,
        n_runs=n_runs,
        why=f"weights from {n_runs} held-out runs"
        + ("" if several else ", drawn together: states have too few runs to tell experts apart"),
    )
    together = committee.combine([judged.nearest[m] for m in np.flatnonzero(kept)])
    committee = replace(
        committee,
        beta=matched_power(together, judged.codes, n_runs),
        accuracy=balanced_accuracy(together, judged.codes),
        seconds=time.monotonic() - began,
    )
    held_out = HeldOut(together, judged.codes, judged.run, judged.starts)
    return [design for m, design in enumerate(designs) if kept[m]], committee, held_out


def typical_distance(nearest: Floats) -> float:
    """The median distance to the nearest reference; 1 where that says nothing."""
    least = nearest.min(axis=1)
    typical = float(np.median(least[np.isfinite(least)])) if np.isfinite(least).any() else 0.0
    if typical > 0:
        return typical
    positive = nearest[np.isfinite(nearest) & (nearest > 0)]
    return float(np.median(positive)) if len(positive) else 1.0


def balanced_accuracy(nearest: Floats, codes: Ints) -> float:
    """The mean over states of the fraction of windows that are nearest to their own state."""
    right = (nearest.argmin(axis=1) == codes).astype(np.float64)
    _, state = np.unique(codes, return_inverse=True)
    return float((np.bincount(state, right) / np.bincount(state)).mean())


def matched_power(nearest: Floats, codes: Ints, n_runs: int) -> float:
    """The power β with which the probability of the nearest state is, on average, how often it is
    right.

    Not that of the least log loss: steps after a switch are wrong and sure of it, and would make
    all the others too unsure.

    Parameters
    ----------
    nearest : array of shape (n, S)
        Distances of a committee; infinite where there is no reference.
    codes : array of shape (n,)
    n_runs : int
        Of so many: a few runs that are all right do not make it certain.
    """
    right = float((nearest.argmin(axis=1) == codes).mean())
    right = (n_runs * right + PRIOR_RUNS / nearest.shape[1]) / (n_runs + PRIOR_RUNS)
    excess = np.log(nearest) - np.log(nearest).min(axis=1, keepdims=True)

    def too_sure(log_beta: float) -> float:
        return float((1.0 / np.exp(-np.exp(log_beta) * excess).sum(axis=1)).mean()) - right

    low, high = LOG_BETA
    if too_sure(low) >= 0:
        return float(np.exp(low))
    return float(np.exp(high if too_sure(high) <= 0 else brentq(too_sure, low, high)))


def fit_weights(judged: Judged, typical: Floats, ridge: float) -> Floats:
    """The coefficients β_m ≥ 0 of the experts, shape (M,): a convex problem with few parameters.

    The log loss of the windows of a run counts as much as that of any other run of the state, and
    every state the same. To it is added ``ridge · Σ (β_m - mean β)²``.
    """
    logits = -np.log(judged.nearest / typical[:, None, None] + SOFT)
    there = np.asarray(np.isfinite(logits).all(axis=0))
    own = there[np.arange(len(judged.codes)), judged.codes]
    logits, there = np.where(there, logits, 0.0)[:, own], there[own]
    codes, run = judged.codes[own], np.unique(judged.run[own], return_inverse=True)[1]
    n_experts, n, _ = logits.shape
    start = np.full(n_experts, 1.0 / n_experts)
    if not n:
        return start
    n_runs = int(run.max()) + 1
    weight = _evidence(run, codes)
    smoothing = PRIOR_RUNS / (n_runs + PRIOR_RUNS)
    target = smoothing * there / there.sum(axis=1, keepdims=True)
    target[np.arange(n), codes] += 1 - smoothing

    def loss(beta: Floats) -> tuple[float, Floats]:
        score = np.where(there, np.tensordot(beta, logits, 1), -np.inf)
        score -= score.max(axis=1, keepdims=True)
        proba = np.exp(score)
        total = proba.sum(axis=1, keepdims=True)
        log_proba = np.where(there, score - np.log(total), 0.0)
        slope = np.tensordot(logits, weight[:, None] * (proba / total - target), 2)
        apart = beta - beta.mean()
        value = -float(weight @ (target * log_proba).sum(axis=1)) + ridge * float(apart @ apart)
        return value, slope + 2 * ridge * apart

    bounds = [(0.0, MOST_BETA / n_experts)] * n_experts
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    beta: Floats = found.x
    # Where no expert is better than guessing, all weigh the same, and say little.
    least = LEAST_BETA / n_experts
    return beta if beta.sum() > LEAST_BETA else np.full(n_experts, least)


LEAST_BETA = 0.02


def _evidence(run: Ints, codes: Ints) -> Floats:
    """The weight of each window: every state's sum to one S-th of the number of runs."""
    of_run = 1.0 / np.bincount(run)[run]
    totals = np.bincount(codes, of_run)
    share = (totals > 0).sum() / totals.sum()
    return of_run / (totals[codes] * share)


# Reach


def longest_reach(width: int) -> int:
    """100 steps, or two widths where that is more."""
    return max(REACH, 2 * width)


def default_reach(stream: Stream, width: int) -> int:
    """The longest, but no more than a fifth of the median run, or the width if that is more."""
    of_run = max(width, int(REACH_OF_RUN * run_length(stream)))
    return max(1, min(longest_reach(width), of_run))


def run_length(stream: Stream) -> float:
    """The median length of the runs of a labelled stream; a missing value does not end one."""
    ends = np.flatnonzero(stream.gap_before[1:] | (np.diff(stream.codes) != 0)) + 1
    begins = np.concatenate([[0], ends])
    lengths = np.diff(np.append(begins, len(stream)))
    labelled = stream.codes[begins] >= 0
    return float(np.median(lengths[labelled])) if labelled.any() else 0.0
