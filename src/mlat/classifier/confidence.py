"""From distances to predictions with probabilities, and to the unknown state.

A :class:`Confidence` holds three things that are learned from the references, each held out: judged
by references of another time only (:mod:`mlat.classifier.held_out`).

**Calibration.** The probability of a state falls with a power of the distance to its nearest
reference,

    p_c ∝ (d_c + soft · typical)^(-β),

which depends on the ratios of distances alone once they are large: for a window that is far from
every reference no state is certain. The small constant keeps a distance of 0 from being certainty.
β is fitted on held-out training windows. Averaged over a synthetic stream and held-out windows of
the development people, the log loss was lower than with exp(-β d_c), exp(-β d_c²) or exp(-β
d_c/d_min): mostly because of SCMA, where new windows are far from all references. On Vicon, and in
the calibration error, exp(-β d_c) was a little better.

**Threshold.** A window farther from every reference than a threshold is of an unknown state. The
threshold is a conformal quantile of the distances of held-out training windows.

**State filter.** A hidden Markov filter over successive predictions
(:mod:`mlat.classifier.state_filter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ..base.checks import Bools, Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..metric.forest import Forest
from ..neighbours.references import References
from ..stream.stream import Stream
from .committee import (
    LOG_BETA,
    SOFT,
    Committee,
    HeldOut,
    matched_power,
    typical_distance,
)
from .decision import probabilities_of_rows
from .held_out import held_out_gap, rows_nearby, time_blocks
from .state_filter import Belief, StateFilter, filter_proba, learn_state_filter

MOST_JUDGED = 3000  # references that are judged, evenly spaced: more cost time and change little
# Platt's correction: as if there were this many more blocks, with the states equally frequent.
# Without it β has no bound where every held-out window is right, and a metric learned on these very
# windows makes them look better separated than new ones are.
PRIOR_BLOCKS = 2.0


# Of a new window under a forest, as on held-out parts of development streams.
TYPICAL_OF_FOREST = 0.3


@dataclass(frozen=True, eq=False, repr=False)
class Confidence(ShortRepr):
    """What predicting needs beside the references.

    Attributes
    ----------
    calibration : Calibration
        From distances to probabilities.
    state_filter : StateFilter
        How states follow each other.
    threshold : float
        A window farther than this from every reference is of an unknown state; infinite for never.
    farthest : float
        The largest distance of a held-out reference to the nearest of the others; NaN where it is
        not known, as in older model files.
    """

    calibration: Calibration
    state_filter: StateFilter
    threshold: float
    farthest: float = np.nan

    def filter(
        self, starts: Bools, proba: Floats, n_neighbors: int, belief: Belief | None = None
    ) -> tuple[Floats, Belief]:
        """The probabilities (T, S) given all windows up to each step, and the belief after them.

        ``starts`` (T,) is True where a segment begins; ``belief`` is that of the steps before.
        """
        if n_neighbors > 1:  # no state is ruled out because none of k neighbours has it
            proba = (proba * n_neighbors + 1) / (n_neighbors + proba.shape[1])
        return filter_proba(proba, starts, self.state_filter, belief)


def learn_confidence(
    experts: Sequence[References],
    stream: Stream,
    *,
    committee: Committee,
    held_out: HeldOut | None = None,
    overlap: int,
    unknown_rate: float,
) -> tuple[Confidence, Committee]:
    """Learn from references that are judged by those of another time.

    Parameters
    ----------
    experts : sequence of References
        Those of the committee; all have the same references.
    stream : Stream
        The training stream.
    committee : Committee
        How the experts are weighted. Typical distances that it lacks come from the references.
    held_out : HeldOut, optional
        What the committee says of held-out steps, where it was judged.
    overlap : int
        How many steps a prediction depends on.
    unknown_rate : float
        The rate of false alarms among windows like the references.
    """
    widest = max(experts, key=lambda expert: expert.windows.width)
    of_experts, codes, blocks = _judge_references(experts, widest)
    if committee.soft:
        # A forest was grown from the references, so it tells them apart better than others.
        least = [TYPICAL_OF_FOREST * isinstance(one.metric, Forest) for one in experts]
        committee = committee.with_typical(of_experts, least)
        nearest = committee.combine(of_experts)
        calibration = Calibration(_power(nearest, codes, held_out), 1.0, soft=0.0)
        if held_out is not None:  # of the references the forests know too much
            nearest, blocks = held_out.nearest, held_out.block
    else:  # distances as they are
        nearest = committee.combine(of_experts)
        calibration = fit_calibration(nearest, codes, blocks)
    confidence = Confidence(
        calibration,
        _learn_filter(stream, widest, overlap),
        fit_threshold(nearest, unknown_rate, blocks),
        _farthest(nearest),
    )
    return confidence, committee


def enrolled_confidence(
    known: Confidence,
    experts: Sequence[References],
    stream: Stream,
    *,
    committee: Committee,
    overlap: int,
    unknown_rate: float,
) -> Confidence:
    """The confidence of a model that has the windows of another stream among its references.

    The calibration and, where there is no new state, the state filter are kept: the few runs of an
    enrolment say little of how often windows are right or how long states last.
    """
    widest = max(experts, key=lambda expert: expert.windows.width)
    of_experts, _, blocks = _judge_references(experts, widest)
    nearest = committee.combine(of_experts)
    state_filter = known.state_filter
    if len(widest.classes) > len(state_filter.transition):
        state_filter = _learn_filter(stream, widest, overlap)
    threshold = fit_threshold(nearest, unknown_rate, blocks)
    return Confidence(
        known.calibration,
        state_filter,
        # More references are nearer to each other, not to a new window; and a forest knows too much
        # of windows that it was grown from.
        max(threshold, known.threshold),
        _farthest(nearest),
    )


def _judge_references(
    experts: Sequence[References], widest: References
) -> tuple[list[Floats], Ints, Ints]:
    """What references of another time say of some references.

    That is the distances (n, S) of each expert; then the state of each, and its block of time.
    """
    codes, start, width = widest.codes, widest.windows.start, widest.windows.width
    judged = slice(None, None, max(1, -(-len(codes) // MOST_JUDGED)))
    exclude = rows_nearby(start, codes, held_out_gap(start, codes, width))[judged]
    answers = []
    for expert in experts:
        answers.append(expert.by_class.query(expert.embedded(judged), exclude=exclude))
        if len(experts) > 1:  # of searches among many references one is in memory at a time
            expert.free_search()
    return answers, codes[judged], time_blocks(start, codes, 2 * width)[judged]


def _farthest(nearest: Floats) -> float:
    distance = least_distance(nearest)
    distance = distance[np.isfinite(distance)]
    return float(distance.max()) if len(distance) else np.nan


def _power(nearest: Floats, codes: Ints, held_out: HeldOut | None) -> float:
    """The power β of a committee's distances in its probabilities, from held-out steps.

    Where nothing was held out, the references (n, S) judge each other. Their metrics were learned
    from them, so half of the power that they say is taken.
    """
    if held_out is not None:
        runs = len(np.unique(held_out.run))
        return matched_power(held_out.nearest, held_out.codes, runs)
    there = np.isfinite(nearest[np.arange(len(codes)), codes])
    if not there.any():
        return float(np.exp(LOG_BETA[0]))
    return matched_power(nearest[there], codes[there], 1) / 2


def _learn_filter(stream: Stream, references: References, overlap: int) -> StateFilter:
    classes = references.classes
    place = np.searchsorted(classes, stream.classes)
    known = classes[np.minimum(place, len(classes) - 1)] == stream.classes
    # Codes of the references, -1 where a state is none of theirs; the last is that of no state.
    codes = np.append(np.where(known, place, -1), -1)[stream.codes]
    starts = np.zeros(len(stream), bool)
    starts[stream.segments.start] = True
    return learn_state_filter(codes, starts, len(classes), overlap)


# Calibration


@dataclass(frozen=True)
class Calibration:
    """Probabilities from the distances to the nearest reference of each state.

    Attributes
    ----------
    beta : float
        How fast the probability falls with the distance.
    typical : float
        The median distance to the nearest reference.
    soft : float
        What is added to a distance in these units; 0 for a committee's, which have it in them.
    """

    beta: float
    typical: float
    soft: float = SOFT

    def proba(self, nearest: Floats) -> Floats:
        """The probability of each state, shape (T, S); NaN where there are no distances.

        No state is more probable than that of the nearest reference; states equally near are
        equally probable.
        """
        nearest = np.ascontiguousarray(nearest, dtype=np.float64)
        result = np.empty(nearest.shape)
        beta, typical, soft = float(self.beta), float(self.typical), float(self.soft)
        probabilities_of_rows(nearest, beta, typical, soft, result)
        return result


def fit_calibration(
    nearest: Floats, codes: Ints, blocks: Ints | None = None, *, soft: float = SOFT
) -> Calibration:
    """Fit β by the least log loss on held-out training windows.

    Parameters
    ----------
    nearest : array of shape (n, S)
        The distance to the nearest reference of each state, the window's own time held out (see
        :mod:`mlat.classifier.held_out`). Rows with a NaN, or without a reference of the own state,
        are skipped.
    codes : array of shape (n,)
        The state of each window.
    blocks : array of shape (n,), optional
        Windows of one block are near-copies and count as one observation against the prior.
        Default each window for itself.

    Returns
    -------
    Calibration

    Notes
    -----
    β is right as far as the held-out windows are like new ones. Where all the training windows of
    a state are of one short time, or the metric could fit them all, probabilities are too extreme.
    """
    nearest, codes = np.asarray(nearest, dtype=np.float64), np.asarray(codes)
    if nearest.ndim != 2 or len(codes) != len(nearest):
        raise InputError(
            f"nearest must have shape (n, S) and codes (n,), not {nearest.shape} and {codes.shape}"
        )
    own = nearest[np.arange(len(codes)), codes]
    use = np.isfinite(own) & ~np.isnan(nearest).any(axis=1)
    typical = typical_distance(nearest[use])
    if not use.any():  # nothing to learn from: hardly a preference
        return Calibration(float(np.exp(LOG_BETA[0])), typical, soft)
    n_blocks = int(use.sum()) if blocks is None else len(np.unique(blocks[use]))
    smoothing = PRIOR_BLOCKS / (n_blocks + PRIOR_BLOCKS)
    # In units of the typical distance, so that no scale of the data is too small or too large.
    logarithm = np.log(nearest[use] / typical + soft)
    excess = logarithm - logarithm.min(axis=1, keepdims=True)
    there = np.isfinite(excess)
    # Expected excess under the targets: the own state, and a little of every state that is there.
    everywhere = np.where(there, excess, 0.0).sum(axis=1) / there.sum(axis=1)
    of_own = excess[np.arange(len(excess)), codes[use]]
    target = (1 - smoothing) * of_own + smoothing * everywhere

    def loss(log_beta: float) -> float:
        beta = np.exp(log_beta)
        return float((beta * target + np.log(np.exp(-beta * excess).sum(axis=1))).mean())

    found = minimize_scalar(loss, bounds=LOG_BETA, method="bounded", options={"xatol": 1e-4})
    return Calibration(float(np.exp(found.x)), typical, soft)


# Unknown states


def fit_threshold(nearest_held_out: Floats, alpha: float, blocks: Ints | None = None) -> float:
    """The distance that a fraction ``alpha`` of windows like the training windows exceeds.

    Parameters
    ----------
    nearest_held_out : array of shape (n, S)
        For each training window the distance to the nearest reference of each state, those of
        its own time held out. Rows with a NaN are skipped.
    alpha : float
        The wanted false-alarm rate, from 0 to less than 1; 0 is never an alarm.
    blocks : array of shape (n,), optional
        Windows of one block are near-copies; default each window for itself.

    Returns
    -------
    threshold : float
        Alarm where the least distance is above it; infinite for no alarms.

    Notes
    -----
    Each of the K blocks weighs 1/(K+1), spread over its windows, and so does a new block, whose
    distances are assumed infinite. If the blocks and the new one are exchangeable, a window of the
    new one is a false alarm with probability at most ``alpha``: on average over training streams,
    not for each. With fewer than ``1/alpha - 1`` blocks the threshold would be infinite; the
    largest distance is returned instead, which guarantees 1/(K+1) only.

    There is no guarantee for windows of another day or person, or across a switch of states, which
    differ from the training windows; nor that alarms come singly, for they come in a row; nor
    where the metric was learned on these same windows and could fit them closely, for they are
    then nearer to each other than new ones are.

    Examples
    --------
    >>> nearest = np.array([[1.0, 9.0], [9.0, 2.0], [3.0, 9.0], [4.0, 9.0]])
    >>> fit_threshold(nearest, 0.4), fit_threshold(nearest, 0.0)
    (3.0, inf)
    """
    if not 0 <= alpha < 1:
        raise InputError(f"alpha must be from 0 to less than 1, not {alpha}")
    distance = least_distance(nearest_held_out)
    use = ~np.isnan(distance)
    if alpha == 0 or not use.any():
        return float(np.inf)
    distance = distance[use]
    owner = np.arange(len(distance)) if blocks is None else np.asarray(blocks)[use]
    _, place, size = np.unique(owner, return_inverse=True, return_counts=True)
    weight = 1.0 / (size[place] * (len(size) + 1.0))
    order = np.argsort(distance, kind="stable")
    below = np.cumsum(weight[order])
    # A sum of weights that should be the level must not miss it by its rounding.
    rank = int(np.searchsorted(below, (1 - alpha) * (1 - 1e-12)))
    return float(distance[order[min(rank, len(order) - 1)]])


def least_distance(nearest: Floats) -> Floats:
    """The distance to the nearest reference of any state, shape (T,); NaN where there is none."""
    nearest = np.asarray(nearest, dtype=np.float64)
    if nearest.ndim != 2 or not nearest.shape[1]:
        raise InputError(f"nearest must have shape (T, S), not {nearest.shape}")
    least: Floats = nearest.min(axis=1)
    return least
