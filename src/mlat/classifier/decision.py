"""The decision: from the distances of every expert to each state to one state, batch and live.

All that is decided about a window is decided here, in one compiled loop: the committee's distance
to each state, the nearest, the probability of each, and what each expert says. Distances may be
known up to a bound only, as those of running sums are. From the least and the largest that they
may be follow those of the committee, which grow with the distance of each expert. Where those of
the nearest state and of the next overlap, or where the limit lies between them, the window is in
doubt, and has to be compared exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.checks import Bools, Floats, Ints
from ..base.compiled import jit
from ..neighbours.votes import vote
from .committee import combined_distance

if TYPE_CHECKING:
    from .committee import Committee
    from .confidence import Calibration

# Of a logarithm, a weighted sum and an exponential.
ROUNDING = 1e-13
OF_SQUARES = 1e-15  # of a root, its square, and what is added to it
NO_ROWS, NO_BOUND = np.empty((0, 0, 0), np.int64), np.empty((0, 0))


class Rule(NamedTuple):
    """How a classifier decides; compiled loops take it as it is.

    ``powers``, ``typical`` (M,) and ``soft`` are those of the committee, ``beta``, ``unit`` and
    ``near`` those of the calibration.
    """

    powers: Floats
    typical: Floats
    soft: float
    beta: float
    unit: float
    near: float

    @classmethod
    def of(cls, committee: Committee, calibration: Calibration) -> Rule:
        beta, unit, near = calibration.beta, calibration.typical, calibration.soft
        return cls(*committee.powers, committee.soft, float(beta), float(unit), float(near))


class Decision(NamedTuple):
    """The states of n windows, with probabilities and the references they come from.

    Attributes
    ----------
    codes : array of shape (n,)
        The state of each; -1 where there is no window.
    proba : array of shape (n, S)
        The probability of each state.
    distance : array of shape (n,)
        To the nearest reference.
    rows : array of shape (n, k)
        The nearest references, taught ones after the others: the k nearest, or those of the
        decided state that are nearest to each of k experts.
    said : array of shape (n, M)
        The state that is nearest to each expert.
    doubt : array of shape (n,)
        Where distances that are known up to a bound do not decide.
    """

    codes: Ints
    proba: Floats
    distance: Floats
    rows: Ints
    said: Ints
    doubt: Bools

    def replace(self, at: Ints, other: Decision) -> None:
        """Take the decision on some of the windows from another, in place."""
        for mine, theirs in zip(self, other, strict=True):
            mine[at] = theirs


def decide(
    rule: Rule,
    nearest: Floats,
    rows: Ints = NO_ROWS,
    bound: Floats = NO_BOUND,
    limit: float = np.inf,
) -> Decision:
    """The decision on n windows.

    Parameters
    ----------
    rule : Rule
    nearest : array of shape (M, n, S)
        The distance of each expert to its nearest reference of each state; NaN without a window,
        infinite without a reference.
    rows : array of shape (M, n, S), optional
        These references.
    bound : array of shape (M, n), optional
        Squares of the distances are within this of the true ones; default exact.
    limit : float
        A distance that decides something else.
    """
    n_experts, n, n_states = nearest.shape
    decision = Decision(
        np.empty(n, np.int64),
        np.empty((n, n_states)),
        np.empty(n),
        np.empty((n, len(rows)), np.int64),
        np.empty((n, n_experts), np.int64),
        np.zeros(n, np.bool_),
    )
    _decide(rule, nearest, rows, bound, limit, decision)
    return decision


def decide_by_votes(distances: Floats, rows: Ints, codes: Ints, n_states: int) -> Decision:
    """The decision of the nearest references (n, k); -1 for ``rows`` where there is no window.

    ``codes`` are the states of all references.
    """
    known = rows[:, 0] >= 0
    voted, proba = np.full(len(rows), -1), np.full((len(rows), n_states), np.nan)
    voted[known], proba[known] = vote(codes[rows[known]], distances[known], n_states)
    doubt = np.zeros(len(rows), np.bool_)
    return Decision(voted, proba, distances[:, 0], rows, voted[:, None].copy(), doubt)


def nothing_decided(n: int, n_states: int, n_rows: int, n_experts: int) -> Decision:
    """On n steps at which no window ends, or of which no state is known."""
    proba, nothing = np.full((n, n_states), np.nan), np.full(n, np.nan)
    rows, said = np.full((n, n_rows), -1), np.full((n, n_experts), -1)
    return Decision(np.full(n, -1), proba, nothing, rows, said, np.zeros(n, np.bool_))


@jit()
def _decide(rule, nearest, rows, bound, limit, decision):  # type: ignore[no-untyped-def]
    n_experts, n, n_states = nearest.shape
    distances, low, high = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    own = np.empty(n_experts)
    for i in range(n):
        for s in range(n_states):
            for m in range(n_experts):
                own[m] = nearest[m, i, s]
            distances[s] = combined_distance(own, rule.powers, rule.typical, rule.soft)
        probabilities(distances, rule.beta, rule.unit, rule.near, decision.proba[i])
        code = -1 if np.isnan(distances).any() else distances.argmin()
        decision.codes[i] = code
        decision.distance[i] = np.nan if code < 0 else distances[code]
        for m in range(n_experts):
            decision.said[i, m] = -1 if code < 0 else nearest[m, i].argmin()
        for m in range(len(rows)):
            decision.rows[i, m] = -1 if code < 0 else rows[m, i, code]
        if len(bound) and code >= 0:
            for s in range(n_states):
                for m in range(n_experts):
                    own[m] = _farther(nearest[m, i, s], bound[m, i], -1.0)
                low[s] = combined_distance(own, rule.powers, rule.typical, rule.soft)
                for m in range(n_experts):
                    own[m] = _farther(nearest[m, i, s], bound[m, i], 1.0)
                high[s] = combined_distance(own, rule.powers, rule.typical, rule.soft)
            decision.doubt[i] = _overlap(low, high, limit)


@jit()
def probabilities_of_rows(nearest, beta, unit, near, proba):  # type: ignore[no-untyped-def]
    for i in range(len(nearest)):
        probabilities(nearest[i], beta, unit, near, proba[i])


@jit()
def probabilities(distances, beta, unit, near, proba):  # type: ignore[no-untyped-def]
    """The probability of each state from the distances (S,); NaN where there is none."""
    least, known = np.inf, False
    for s in range(len(distances)):
        known = known or distances[s] < np.inf
        # In units of the typical distance, so that no scale of the data is too small or too large.
        proba[s] = np.log(distances[s] / unit + near)
        least = min(least, proba[s])
    if not known or np.isnan(distances).any():
        proba[:] = np.nan
        return
    total = 0.0
    for s in range(len(distances)):
        proba[s] = np.exp(-beta * (proba[s] - least))
        total += proba[s]
    for s in range(len(distances)):
        proba[s] /= total


@jit()
def _farther(distance, bound, sign):  # type: ignore[no-untyped-def]
    """The largest that a distance may be, where the sign is 1; the least where it is -1."""
    if not distance < np.inf:  # there is no reference
        return distance
    squared = distance * distance
    return np.sqrt(max(squared + sign * (bound + OF_SQUARES * squared), 0.0))


@jit()
def _overlap(low, high, limit):  # type: ignore[no-untyped-def]
    """Whether more than one state may be the nearest, or the limit may be passed or not."""
    least, upper = low.min(), high.min()
    rivals = 0
    for s in range(len(low)):
        rivals += not low[s] > upper * (1.0 + ROUNDING)
    near_limit = least * (1.0 - ROUNDING) <= limit <= upper * (1.0 + ROUNDING)
    return rivals != 1 or (limit < np.inf and near_limit)
