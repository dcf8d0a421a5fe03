"""The committee: experts with a metric each, and the product of their distances.

An *expert* is a choice of features, a width, a metric over windows of these features, and the
references under it. For a window it gives the distance ``D_m(s)`` to its nearest reference of each
state. One expert alone is a gamble: which features and which metric are right differs from stream
to stream, and a few labelled runs hardly show it. The committee multiplies what they say:

    D(s) = Π_m (D_m(s) / typical_m + SOFT)^(w_m),   Σ_m w_m = 1,   p(s) ∝ D(s)^(-β).

Only ratios of distances count, so experts need no common scale; an expert to which all states are
about equally far changes little. ``D`` is the weighted geometric mean of the distances, each in
units of its typical value. Everything that follows from distances by state (probabilities, the
unknown state, the state filter) follows from ``D``, as it does for a single expert.

**Weights.** ``β_m = β w_m`` are coefficients of ``-log(D_m(s) / typical_m + SOFT)`` in a
multinomial logistic regression on parts of the training stream that did not learn
(:mod:`mlat.classifier.held_out`): the coefficient of each expert alone, by which it earns its
weight, times a factor of all together. The windows of one run are right or wrong together, so each
run counts as one piece of evidence, and each state as much as any other. An expert with hardly any
weight is left out, and costs nothing. The power β is then such that the committee is as often right
on held-out steps as it says.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from ..base.checks import Bools, Floats, Ints
from ..base.compiled import jit
from ..metric.estimators import MarginMetric
from ..neighbours.votes import vote
from ..stream.stream import Stream
from ..stream.windows import sliding_windows
from .experts import Plan, fair_rows, learn_experts
from .held_out import (
    Evidence,
    Expected,
    Fold,
    balanced_accuracy,
    evidence,
    expect,
    far_folds,
    time_blocks,
)

# Keeps a distance of 0 from being certainty, in units of the expert's typical distance.
SOFT = 0.3

MOST_HELD_OUT = 500  # windows that an expert learns from on one side, to be judged by the other
HELD_OUT_TOL = 1e-2  # there it also stops earlier: the last per cent of the loss changes no weight
MOST_JUDGED = 2000  # steps of a side that are judged, evenly spaced
MOST_OF_OTHERS = 4000  # windows of the other sides that they are compared with, likewise
MOST_SIDES = 3  # that judge each other, where states have as many runs

# How strongly the factors of the experts are drawn together, in units of the log loss of a held-out
# run. From 0.1 to 10 it made no difference on the development people.
RIDGE = 1.0
# What learned from one run of each state does not know how runs differ: what held-out runs say of
# it is not true of what learns from several. Where a side leaves one, they change coefficients of
# development people by this factor at the most.
MOST_CHANGE = 2.0
# MLAT wants target neighbours of other runs. Where it looks as if it guessed for want of them, as
# on streams that only the order in time tells, it keeps its usual coefficient. The others, which
# may look too good beside it, are divided by this at the most, and gain nothing.
MOST_TAKEN = 8.0
LOG_BETA = (-4.0, 6.0)  # from hardly a preference to near certainty
LEAST_WEIGHT = 0.05  # an expert with less of the whole is left out
# Platt's correction: as if there were this many more runs, with the states equally frequent.
PRIOR_RUNS = 0.2
MOST_BETA = 50.0  # of the sum of the coefficients: near certainty
LEAST_BETA = 0.02
FEW_RUNS = ", which change usual ones a little: states have one or two runs"
FAR = 1e9  # in the place of an infinite logarithm, times which a weight of 0 is 0


@dataclass(frozen=True)
class Member:
    """What is known of an expert of a committee.

    Attributes
    ----------
    name : str
    weight : float
        Its share of what all say, from 0 to 1; 0 for an expert that was left out.
    accuracy : float
        Balanced accuracy of the expert alone on held-out runs, from 0 to 1; NaN where nothing
        was held out.
    typical : float
        Its median distance to the nearest reference, on held-out windows.
    power : float
        The power of its distances; those of all sum to 1. Default the weight. Distances of
        different kinds differ more or less between states, so equal powers are no equal weights.
    """

    name: str
    weight: float
    accuracy: float = np.nan
    typical: float = np.nan
    power: float = np.nan


@dataclass(frozen=True, eq=False)
class Committee:
    """Who is in a committee, with which weights, how good each is and why.

    One expert alone is a committee, too: its distances are those of the committee as they are.

    Attributes
    ----------
    members : tuple of Member
        Those that decide, in the order of ``StreamClassifier.experts_``, then those left out.
    soft : float
        What is added to each distance in units of the typical one; 0 for one expert alone.
    accuracy : float
        Balanced accuracy of all together on held-out runs, from 0 to 1, with weights from other
        runs than those judged; NaN where nothing was held out.
    n_runs : int
        How many held-out runs that was judged on: its pieces of evidence.
    why : str
    expected : Expected or None
        The balanced accuracy to expect; None where nothing can say.
    """

    members: tuple[Member, ...]
    soft: float = SOFT
    accuracy: float = np.nan
    n_runs: int = 0
    why: str = ""
    expected: Expected | None = None

    @classmethod
    def of_one(
        cls,
        name: str,
        accuracy: float = np.nan,
        n_runs: int = 0,
        expected: Expected | None = None,
    ) -> Committee:
        """A single expert."""
        member = Member(name, 1.0, accuracy, 1.0)
        return cls((member,), 0.0, accuracy, n_runs, expected=expected)

    def __str__(self) -> str:
        """The names of those that decide with their weights, the largest first."""
        named = sorted(self.deciding, key=lambda member: -member.weight)
        return ", ".join(f"{member.name} {member.weight:.0%}" for member in named)

    @property
    def deciding(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.weight > 0)

    def combine(self, nearest: Sequence[Floats] | Floats) -> Floats:
        """The committee's distance to each state, from that of every deciding expert, (T, S).

        NaN where an expert has none. Each step is computed for itself, in a fixed order.
        """
        stacked = np.stack(list(nearest))
        result = np.empty(stacked.shape[1:])
        _combine(stacked, *self.powers, self.soft, result)
        return result

    def with_typical(self, nearest: Sequence[Floats], least: Sequence[float]) -> Committee:
        """With the typical distances that experts lack, from those of held-out windows.

        ``least`` (M,) is the least that each may be.
        """
        filled = {
            member.name: replace(member, typical=max(typical_distance(D), low))
            for member, D, low in zip(self.deciding, nearest, least, strict=True)
            if np.isnan(member.typical)
        }
        return replace(self, members=tuple(filled.get(m.name, m) for m in self.members))

    def enrolled(self) -> Committee:
        """The same experts and weights with references of another stream, of which none judged."""
        return replace(
            self,
            members=tuple(replace(member, accuracy=np.nan) for member in self.members),
            accuracy=np.nan,
            n_runs=0,
            why="weights and metrics of the model before, with references of another stream, too",
            expected=None,
        )

    @property
    def powers(self) -> tuple[Floats, Floats]:
        """The powers and the typical distances of those that decide, (M,) each."""
        deciding = self.deciding
        return (
            np.array([m.weight if np.isnan(m.power) else m.power for m in deciding]),
            np.array([member.typical for member in deciding]),
        )


@jit()
def _combine(nearest, weights, typical, soft, result):  # type: ignore[no-untyped-def]
    for t in range(result.shape[0]):
        for s in range(result.shape[1]):
            result[t, s] = combined_distance(nearest[:, t, s].copy(), weights, typical, soft)


@jit()
def combined_distance(own, weights, typical, soft):  # type: ignore[no-untyped-def]
    """The committee's distance to a state from those of its experts, (M,)."""
    if len(weights) == 1:  # the same without the rounding of a logarithm
        return own[0] / typical[0] + soft
    total = 0.0
    for m in range(len(weights)):
        total += weights[m] * np.log(own[m] / typical[m] + soft)
    return np.exp(total)


# Judging


class HeldOut(NamedTuple):
    """What is said of steps of a training stream that were held out.

    Attributes
    ----------
    nearest : array of shape (M, n, S), or (n, S) of all together
        The distance of each expert to the nearest reference of each state; infinite where there is
        none.
    codes, run, fold : arrays of shape (n,)
        The state of each step, its run, which is its piece of evidence, and its fold.
    block : array of shape (n,)
        Of steps so near in time that they are one observation.
    predicted : array of shape (n,)
        The state that is decided, with weights from other runs; of one expert by the vote of its
        neighbours.
    group : array of shape (n,)
        Whose it is; the fold where nobody says so.
    """

    nearest: Floats
    codes: Ints
    run: Ints
    fold: Ints
    block: Ints
    predicted: Ints
    group: NDArray[Any]

    def take(self, rows: Bools) -> HeldOut:
        more: list[Any] = [field[rows] for field in self[1:]]
        return HeldOut(self.nearest[:, rows], *more)


def judge_experts(
    stream: Stream, plan: Plan, classes: NDArray[Any], several: bool
) -> HeldOut | None:
    """Let parts of the stream judge what was learned from others; None if there is too little."""
    width = plan.width
    n_sides = MOST_SIDES if several else 2
    parts: list[HeldOut] = []
    n_runs = n_blocks = 0
    for number, fold in enumerate(far_folds(stream, width, n_sides)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a state has no window
            judged = _judge(fold, plan, classes)
        if judged is not None:
            run, block = judged.run + n_runs, judged.block + n_blocks
            parts.append(judged._replace(run=run, block=block, fold=judged.fold + number))
            n_runs += len(fold.judged.runs.start)
            n_blocks = int(block[-1]) + 1
    if not parts:
        return None
    fields = zip(*(part[1:] for part in parts), strict=True)
    more: list[Any] = [np.concatenate(field) for field in fields]
    return HeldOut(np.concatenate([part.nearest for part in parts], axis=1), *more)


def _judge(fold: Fold, plan: Plan, classes: NDArray[Any]) -> HeldOut | None:
    """What experts that learn from one part say of another; None where it has too few windows."""
    width = plan.width
    lengths, codes = fold.train.runs.length, fold.train.runs.code
    if len(np.unique(codes[lengths >= width])) < 2:
        return None
    windows = sliding_windows(fold.train, width)
    if len(windows) > MOST_OF_OTHERS:
        windows = windows.take(fair_rows(windows.y, MOST_OF_OTHERS))
    ends = sliding_windows(fold.judged, width, labelled=False).start + width - 1
    try:
        experts = learn_experts(fold.train, windows, plan, most=MOST_HELD_OUT, tol=HELD_OUT_TOL)
    except ValueError:  # an estimator that learns from many windows may refuse few
        return None
    known = experts[0].classes
    run = np.repeat(np.arange(len(fold.judged.runs.start)), fold.judged.runs.length)
    ends = ends[np.isin(fold.judged.states[ends], known)]
    ends = ends[:: max(1, -(-len(ends) // MOST_JUDGED))]
    if not len(ends) or len(windows) < plan.n_neighbors:
        return None
    features = experts[0].features(fold.judged)
    place = np.searchsorted(classes, known)
    nearest = np.full((len(experts), len(ends), len(classes)), np.inf)
    voted = np.full(len(ends), -1)
    for number, expert in enumerate(experts):
        nearest[number][:, place] = expert.distances_at(features, ends)
        if plan.n_neighbors > 1:
            distances, rows = expert.neighbours(fold.judged, plan.n_neighbors, features)
            voted = place[vote(expert.codes[rows[ends]], distances[ends], len(known))[0]]
        expert.free_search()  # so that there is one at a time
    # What is too far for its features or distances to be computed cannot be judged.
    there = np.isfinite(nearest.min(axis=2)).all(axis=0)
    if not there.any():
        return None
    nearest, ends, voted = nearest[:, there], ends[there], voted[there]
    if plan.n_neighbors == 1:
        voted = nearest[0].argmin(axis=1)
    codes = np.searchsorted(classes, fold.judged.states[ends])
    block = time_blocks(ends, codes, 2 * width)
    of_fold = np.zeros(len(ends), np.int64)
    group = of_fold if fold.judged.groups is None else fold.judged.groups[ends]
    return HeldOut(nearest, codes, run[ends], of_fold, block, voted, group)


# Weights


class Prior(NamedTuple):
    """What is known of the experts (M,) without looking at held-out steps.

    Attributes
    ----------
    power : array of shape (M,)
        Their usual coefficients.
    waits : array of shape (M,)
        Whether an expert learns from one run of each state only if it is judged: a metric of Phase
        II then lacks target neighbours of another run, and may look as if it guessed.
    several : bool
        Whether states have so many runs that nothing of this counts.
    """

    power: Floats
    waits: Bools
    several: bool

    @classmethod
    def of(cls, plan: Plan, units: Evidence) -> Self:
        power = np.array([design.power for design in plan.designs])
        phase_two = [isinstance(design.metric, MarginMetric) for design in plan.designs]
        several = units.per_state >= MOST_SIDES
        return cls(power, np.array(phase_two) & bool(units.of) & (not several), several)


class Learned(NamedTuple):
    """A committee that was weighed.

    Attributes
    ----------
    plan : Plan
        With the experts that decide.
    committee : Committee
        Its typical distances are those of the held-out windows.
    held_out : HeldOut or None
        What it says of these; None where nothing was held out, or nothing could be.
    """

    plan: Plan
    committee: Committee
    held_out: HeldOut | None


def learn_committee(
    stream: Stream, plan: Plan, classes: NDArray[Any], *, held_out: bool
) -> Learned:
    """Judge the experts on held-out parts of the stream, weigh them, and leave out the useless."""
    names = [design.name for design in plan.designs]
    units: Evidence = evidence(stream, plan.width)
    prior = Prior.of(plan, units)
    judged = judge_experts(stream, plan, classes, prior.several) if held_out else None
    if judged is None:
        if len(names) == 1:
            return Learned(plan, Committee.of_one(names[0]), None)
        why = (
            "usual weights: fewer than two states have runs far enough apart to learn from some "
            "and judge by others"
            if held_out
            else "usual weights: nothing was held out to judge them by"
        )
        members = tuple(
            Member(name, 1.0 / len(names), power=float(power))
            for name, power in zip(names, prior.power / prior.power.sum(), strict=True)
        )
        return Learned(plan, Committee(members, why=why), None)
    n_runs = len(np.unique(judged.run))
    typical = np.array([typical_distance(nearest) for nearest in judged.nearest])
    one = len(names) == 1
    predicted = judged.predicted if one else _cross_fitted(judged, typical, prior)
    accuracy = balanced_accuracy(predicted, judged.codes)
    expected = expect(units, predicted, judged.codes, judged.run, judged.group)
    if one:
        committee = Committee.of_one(names[0], accuracy, n_runs, expected)
        together = judged.nearest[0]
    else:
        beta, waiting = fit_weights(judged, typical, prior)
        if waiting and expected is not None:
            expected = expected._replace(high=1.0)  # nothing says what it may tell after two runs
        power, weight = _shares(beta, _logs(judged, typical))
        alone = [balanced_accuracy(own.argmin(axis=1), judged.codes) for own in judged.nearest]
        columns = names, weight.tolist(), alone, typical.tolist(), power.tolist()
        found = [Member(*told) for told in zip(*columns, strict=True)]
        parts = "parts of runs" if expected is None else "runs"
        little = "" if prior.several else FEW_RUNS
        committee = Committee(
            tuple(sorted(found, key=lambda member: member.weight == 0)),
            accuracy=accuracy,
            n_runs=n_runs,
            why=f"weights from {n_runs} held-out {parts}{little}",
            expected=expected,
        )
        together = committee.combine(judged.nearest[power > 0])
        plan = plan.keeping((power > 0).tolist())
    return Learned(plan, committee, judged._replace(nearest=together, predicted=predicted))


def _shares(beta: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Powers and weights, (M,) each, which sum to 1, from coefficients; 0 for those hardly heard.

    A weight is a share of what the experts say: of how far the logarithms (M, n, S) of their
    distances, to their powers, are apart between states.
    """
    apart = np.ptp(logs, axis=2)
    said = beta * [one[one < FAR / 2].mean() if (one < FAR / 2).any() else 1.0 for one in apart]
    kept = said >= LEAST_WEIGHT * said.sum()
    power, weight = np.where(kept, beta, 0.0), np.where(kept, said, 0.0)
    return power / power.sum(), weight / weight.sum()


def _cross_fitted(judged: HeldOut, typical: Floats, prior: Prior) -> Ints:
    """The states (n,) of held-out steps, each fold decided with weights from the other folds."""
    predicted = np.empty(len(judged.codes), np.int64)
    logs = _logs(judged, typical)
    for fold in np.unique(judged.fold):
        mine = judged.fold == fold
        beta, _ = fit_weights(judged.take(~mine), typical, prior)
        power, _ = _shares(beta, logs[:, ~mine])
        predicted[mine] = np.tensordot(power, logs[:, mine], 1).argmin(axis=1)
    return predicted


def _logs(judged: HeldOut, typical: Floats) -> Floats:
    logs = np.log(judged.nearest / typical[:, None, None] + SOFT)
    return np.where(np.isfinite(logs), logs, FAR)


def typical_distance(nearest: Floats) -> float:
    """The median distance to the nearest reference; 1 where that says nothing."""
    least = nearest.min(axis=1)
    typical = float(np.median(least[np.isfinite(least)])) if np.isfinite(least).any() else 0.0
    if typical > 0:
        return typical
    positive = nearest[np.isfinite(nearest) & (nearest > 0)]
    return float(np.median(positive)) if len(positive) else 1.0


def matched_power(nearest: Floats, codes: Ints, n_runs: int) -> float:
    """The power β with which the probability of the nearest state is, on average, how often it is
    right.

    Not that of the least log loss: steps after a switch are wrong with confidence, and would make
    all the others too uncertain.

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


def fit_weights(judged: HeldOut, typical: Floats, prior: Prior) -> tuple[Floats, bool]:
    """The coefficients β_m ≥ 0 of the experts, shape (M,), and whether one waits for more runs.

    First that of each expert alone, by the log loss of held-out steps: distances of different kinds
    differ more or less between states, and of an expert that only guesses nothing is left. Then a
    factor for each, of all together, which are drawn to each other by ``RIDGE``. Unless states have
    several runs, those of each alone change the usual coefficients a little.
    """
    logits = -np.log(judged.nearest / typical[:, None, None] + SOFT)
    there = np.asarray(np.isfinite(logits).all(axis=0))
    own = there[np.arange(len(judged.codes)), judged.codes]
    logits, there = np.where(there, logits, 0.0)[:, own], there[own]
    codes, run = judged.codes[own], np.unique(judged.run[own], return_inverse=True)[1]
    n_experts = len(logits)
    if not len(codes):
        return prior.power, False
    alone = np.array([_coefficients(one[None], there, codes, run)[0] for one in logits])
    if not prior.several:
        waits = prior.waits & (alone < prior.power / MOST_CHANGE)
        waiting = bool(waits.any())
        low, high = (1 / MOST_TAKEN, 1.0) if waiting else (1 / MOST_CHANGE, MOST_CHANGE)
        kept = waits if waiting else alone <= LEAST_BETA  # it may not guess after two runs
        telling = (alone > LEAST_BETA) & ~kept
        if not telling.any():
            return prior.power, waiting
        change = np.maximum(alone, LEAST_BETA) / prior.power
        change /= np.exp(np.log(change[telling]).mean())
        return prior.power * np.where(kept, 1.0, change.clip(low, high)), waiting
    beta = alone * _coefficients(alone[:, None, None] * logits, there, codes, run)
    # Where no expert is better than guessing, all weigh the same, and say little.
    if beta.sum() <= LEAST_BETA:
        beta = np.full(n_experts, LEAST_BETA / n_experts)
    return beta, False


def _coefficients(logits: Floats, there: Bools, codes: Ints, run: Ints) -> Floats:
    """The factors (M,) of logits (M, n, S) with the least log loss, a convex problem.

    The windows of a run count as much as those of any other run of the state, and every state the
    same. To the loss is added ``RIDGE · Σ (β_m - mean β)²``.
    """
    n_experts, n, _ = logits.shape
    n_runs = int(run.max()) + 1
    weight = 1.0 / np.bincount(run)[run]
    totals = np.bincount(codes, weight)
    weight /= totals[codes] * ((totals > 0).sum() / totals.sum())
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
        value = -float(weight @ (target * log_proba).sum(axis=1)) + RIDGE * float(apart @ apart)
        return value, slope + 2 * RIDGE * apart

    start, bounds = np.full(n_experts, 1.0 / n_experts), [(0.0, MOST_BETA)] * n_experts
    found: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
