"""How sure a classifier is, how its states persist, and when a window is like none of them.

All three are learned from the references, each judged by references of another time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ..checks import Floats, Ints
from ..errors import InputError
from ..neighbours.search import ClassDistances
from ..neighbours.votes import vote
from ..stream.stream import Stream
from ..stream.windows import Windows
from .held_out import leave_out_gap, rows_nearby, time_blocks
from .state_filter import Persistence, filter_proba, learn_persistence

# -------------------------------------------------------------------- novelty
# When a window is like no state that was ever labelled.
#
# A window farther from every reference than a threshold is of an unknown state. The threshold is a
# conformal quantile: of how far the training windows are from the references when those of their
# own time are left out (see :mod:`mlat.classifier.held_out`).


def fit_threshold(nearest_left_out: Floats, alpha: float, blocks: Ints | None = None) -> float:
    """The distance that a share ``alpha`` of windows like the training windows exceed.

    Parameters
    ----------
    nearest_left_out : array of shape (n, S)
        For each training window the distance to the nearest reference of each state, those of
        its own time left out. Rows with a NaN are passed over.
    alpha : float
        The false-alarm rate asked for, from 0 to less than 1; 0 is never an alarm.
    blocks : array of shape (n,), optional
        Windows of one block are near-copies; default each window for itself.

    Returns
    -------
    threshold : float
        Alarm where the least distance is above it; infinite for no alarms.

    Notes
    -----
    Each of the K blocks weighs 1/(K+1), spread over its windows, and so does the one to come, of
    which the worst is assumed. If the blocks and a new one are exchangeable, a window of the new
    one is a false alarm with probability at most ``alpha``: on average over training streams, not
    for each. With fewer than ``1/alpha - 1`` blocks this would be infinite; the largest distance
    seen is given instead, which promises 1/(K+1) only.

    Not promised: anything for windows of another day or person, or across a switch of states,
    which are unlike the training windows; that alarms come singly, for they come in a row; and
    the rate where the metric was learned on these same windows and could fit them closely, for
    they are then nearer to each other than new ones are.

    Examples
    --------
    >>> nearest = np.array([[1.0, 9.0], [9.0, 2.0], [3.0, 9.0], [4.0, 9.0]])
    >>> fit_threshold(nearest, 0.4), fit_threshold(nearest, 0.0)
    (3.0, inf)
    """
    if not 0 <= alpha < 1:
        raise InputError(f"alpha must be from 0 to less than 1, not {alpha}")
    distance = least_distance(nearest_left_out)
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


def is_unknown(nearest: Floats, threshold: float) -> NDArray[np.bool_]:
    """Where a window is farther than the threshold from every reference, shape (T,).

    False where there are no distances: no window, no alarm.
    """
    unknown: NDArray[np.bool_] = least_distance(nearest) > threshold
    return unknown


def least_distance(nearest: Floats) -> Floats:
    """The distance to the nearest reference of any state, shape (T,); NaN where there is none."""
    nearest = np.asarray(nearest, dtype=np.float64)
    if nearest.ndim != 2 or not nearest.shape[1]:
        raise InputError(f"nearest must have shape (T, S), not {nearest.shape}")
    least: Floats = nearest.min(axis=1)
    return least


# -------------------------------------------------------------------- calibration
# How sure a prediction is: from distances to probabilities that come true as often as they say.
#
# The probability of a state falls with a power of the distance to its nearest reference,
#
#     p_c ∝ (d_c + soft · typical)^(-β),
#
# which depends on the ratios of distances alone once they are large: a window that is far from
# every reference is not sure of any state. The small constant keeps equal references (d = 0) from
# being certain. β is fitted on left-out training windows. Averaged over a synthetic stream and
# held-out windows of the development persons the log loss was less than with exp(-β d_c), exp(-β
# d_c²) or exp(-β d_c/d_min): mostly by SCMA, where new windows are far from all references. On
# Vicon, and in the calibration error, exp(-β d_c) was a little better.

SOFT = 0.3
# Platt's correction: as if there were this many more blocks, of each state alike. Without it β has
# no bound where every left-out window is right, and a metric learned on these very windows makes
# them look better separated than new ones are.
PRIOR_BLOCKS = 2.0
LOG_BETA = (-4.0, 6.0)  # hardly a preference, to all but certainty


@dataclass(frozen=True)
class Calibration:
    """Probabilities from the distances to the nearest reference of each state.

    Attributes
    ----------
    beta : float
        How fast the probability falls with the distance.
    typical : float
        The median distance to the nearest reference.
    """

    beta: float
    typical: float

    def proba(self, nearest: Floats) -> Floats:
        """The probability of each state, shape (T, S); NaN where there are no distances.

        No state is more probable than that of the nearest reference; states equally near are
        equally probable.
        """
        nearest = np.asarray(nearest, dtype=np.float64)
        result = np.full(nearest.shape, np.nan)
        known = ~np.isnan(nearest).any(axis=1) & np.isfinite(nearest).any(axis=1)
        weights = np.exp(-self.beta * _excess(nearest[known], self.typical))
        result[known] = weights / weights.sum(axis=1, keepdims=True)
        return result


def fit_calibration(nearest: Floats, codes: Ints, blocks: Ints | None = None) -> Calibration:
    """Fit β by the least log loss on left-out training windows.

    Parameters
    ----------
    nearest : array of shape (n, S)
        The distance to the nearest reference of each state, the window's own time left out (see
        :mod:`mlat.classifier.held_out`). Rows with a NaN, or without a reference of the own state,
        are passed over.
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
    β is only as good as the left-out windows are like new ones. Where all the training windows of
    a state are of one short time, or the metric could fit them all, probabilities are too sure.
    """
    nearest, codes = np.asarray(nearest, dtype=np.float64), np.asarray(codes)
    if nearest.ndim != 2 or len(codes) != len(nearest):
        raise InputError(
            f"nearest must have shape (n, S) and codes (n,), not {nearest.shape} and {codes.shape}"
        )
    own = nearest[np.arange(len(codes)), codes]
    use = np.isfinite(own) & ~np.isnan(nearest).any(axis=1)
    typical = _typical(nearest[use])
    if not use.any():  # nothing learned: the nearest, but hardly
        return Calibration(float(np.exp(LOG_BETA[0])), typical)
    n_blocks = int(use.sum()) if blocks is None else len(np.unique(blocks[use]))
    smoothing = PRIOR_BLOCKS / (n_blocks + PRIOR_BLOCKS)
    excess = _excess(nearest[use], typical)
    there = np.isfinite(excess)
    # Expected excess under the targets: the own state, and a little of every one there is.
    everywhere = np.where(there, excess, 0.0).sum(axis=1) / there.sum(axis=1)
    of_own = excess[np.arange(len(excess)), codes[use]]
    target = (1 - smoothing) * of_own + smoothing * everywhere

    def loss(log_beta: float) -> float:
        beta = np.exp(log_beta)
        return float((beta * target + np.log(np.exp(-beta * excess).sum(axis=1))).mean())

    found = minimize_scalar(loss, bounds=LOG_BETA, method="bounded", options={"xatol": 1e-4})
    return Calibration(float(np.exp(found.x)), typical)


def _excess(nearest: Floats, typical: float) -> Floats:
    """By how much the logarithm of each distance exceeds the row's least, softened near 0."""
    # In units of the typical distance, so that no scale of the data is too small or too large.
    logarithm = np.log(nearest / typical + SOFT)
    excess: Floats = logarithm - logarithm.min(axis=1, keepdims=True, initial=np.inf)
    return excess


def _typical(nearest: Floats) -> float:
    """The median least distance; of all positive distances, where most windows have an equal."""
    if len(nearest):
        least = float(np.median(nearest.min(axis=1)))
        if least > 0:
            return least
    positive = nearest[np.isfinite(nearest) & (nearest > 0)]
    return float(np.median(positive)) if len(positive) else 1.0


# Which of T steps have a window, the states of these, the probabilities (T, S) of each state, and
# which steps are like no reference.
Told = tuple[NDArray[np.bool_], Ints, Floats, NDArray[np.bool_]]

MOST_JUDGED = 3000  # references that are judged, evenly spaced: more would cost and tell no more


@dataclass(frozen=True, eq=False)
class Confidence:
    """What predicting needs beside the references.

    Attributes
    ----------
    calibration : Calibration
        From distances to probabilities.
    persistence : Persistence
        How states follow each other, for the causal filter.
    threshold : float
        A window farther than this from every reference is of an unknown state; infinite for never.
    farthest : float
        The largest distance of a left-out reference to the nearest of the others; NaN where it is
        not known, as in model files of before.
    """

    calibration: Calibration
    persistence: Persistence
    threshold: float
    farthest: float = np.nan

    def of_nearest(self, nearest: Floats) -> Told:
        """By the nearest reference of each state, at the distances (T, S)."""
        proba = self.calibration.proba(nearest)
        known = ~np.isnan(proba[:, 0])
        codes = nearest[known].argmin(axis=1)
        return known, codes, proba, is_unknown(nearest, self.threshold)

    def of_votes(self, distances: Floats, rows: Ints, codes: Ints) -> Told:
        """By the nearest references (T, k), of which ``codes`` tells the states."""
        known = rows[:, 0] >= 0
        proba = np.full((len(rows), len(self.persistence.transition)), np.nan)
        told, proba[known] = vote(codes[rows[known]], distances[known], proba.shape[1])
        strange = known & (np.nan_to_num(distances[:, 0]) > self.threshold)
        return known, told, proba, strange

    def filter(self, stream: Stream, proba: Floats, n_neighbors: int) -> Floats:
        """The probabilities (T, S) given all windows up to each step of the stream."""
        if n_neighbors > 1:  # no state is ruled out because none of k neighbours has it
            proba = (proba * n_neighbors + 1) / (n_neighbors + proba.shape[1])
        return filter_proba(proba, _starts(stream), self.persistence)[0]


def learn_confidence(
    distances: ClassDistances,
    embedded: Floats,
    windows: Windows,
    codes: Ints,
    stream: Stream,
    *,
    overlap: int,
    unknown_rate: float,
) -> Confidence:
    """Judge the references by each other, those of another time.

    Parameters
    ----------
    distances : ClassDistances
        Of the references.
    embedded : array of shape (n, r)
        The references themselves, in the learned space.
    windows : Windows
    codes : array of shape (n,)
    stream : Stream
        What was learned from.
    overlap : int
        How many steps a prediction depends on.
    unknown_rate : float
        The share of false alarms, of windows like these.
    """
    exclude = rows_nearby(windows.start, codes, leave_out_gap(windows.start, codes, windows.width))
    every = max(1, -(-len(codes) // MOST_JUDGED))
    nearest = distances.query(embedded[::every], exclude=exclude[::every])
    blocks = time_blocks(windows.start, codes, 2 * windows.width)[::every]
    return Confidence(
        fit_calibration(nearest, codes[::every], blocks),
        learn_persistence(_recode(stream, windows), _starts(stream), distances.n_classes, overlap),
        fit_threshold(nearest, unknown_rate, blocks),
        _farthest(nearest),
    )


def _farthest(nearest: Floats) -> float:
    distance = least_distance(nearest)
    distance = distance[np.isfinite(distance)]
    return float(distance.max()) if len(distance) else np.nan


def _recode(stream: Stream, windows: Windows) -> Ints:
    """The state of each step among those that have windows; -1 for none."""
    known = np.unique(windows.y)
    of_class = np.full(len(stream.classes) + 1, -1, np.int64)
    of_class[:-1] = [_place(known, state) for state in stream.classes]
    return of_class[stream.codes]


def _place(known: NDArray[Any], state: Any) -> int:
    i = int(np.searchsorted(known, state))
    return i if i < len(known) and known[i] == state else -1


def _starts(stream: Stream) -> NDArray[np.bool_]:
    """Where a stretch without a gap begins."""
    starts = np.zeros(len(stream), bool)
    starts[stream.segments.start] = True
    return starts
