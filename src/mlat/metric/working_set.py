"""Learning from many windows: a working set that grows until it stands for all of them.

The loss (Eq. 2) sums over all pairs of windows, but successive windows are near-copies. So the push
is summed over a working set S: m of the n windows, evenly spaced in time, each with the number of
windows that it stands for (its weight h_i, the inverse of its chance to be drawn). The pull is
linear in M, and stays that of all windows:

    E_S(M) = <C, M> + c/n Σ_{i,l ∈ S} h_i h_l Σ_j [1 + D(i,j) - D(i,l)]₊

is an estimate of E(M) without a bias. What minimises it is minimised too well: E_S is lower there
than E. Each round measures by how much on a validation set, which shares no window with S, and
draws a larger S, denser where windows violate margins, until that is within the bound. For the
minimum M* over all windows and M of a working set

    E(M) - E(M*) = [E(M) - E_S(M)] + [E_S(M) - E_S(M*)] + [E_S(M*) - E(M*)],

where the first bracket is measured on the validation set, the second is not above 0 but for where
the solver stopped, and the third is an error of sampling, whose size other samples of m windows
show (twice their root mean square is added).
All are taken relative to the loss of the metric before, on the same windows, so that what is common
to the two drops out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from ..base.checks import Floats, Ints
from .loss import LargeMarginLoss, LinearLoss
from .problem import FilterLoss, Problem, scale_for
from .solvers import Record, Solution

# With fewer windows, learning from all of them at once is as quick.
MANY_WINDOWS = 6_000
FIRST = 2_000  # windows of the first working set
ROUGHLY = 10.0  # times the tolerance, until a working set is known to be large enough
LARGEST = 24_000  # windows of a working set; where they are not enough, the bound says so
FAR_OFF = 0.1  # a bound above this needs far more windows: four times as many, not twice
WITHIN = 0.01  # of the whole objective
LEAST_OF_STATE = 50  # windows of every state in a working set, where it has as many
GOLDEN = (5**0.5 - 1) / 2  # samples begin their spacing at places far from each other
EVENLY = 0.3  # of a working set is drawn without regard to what violates margins
# The loss over all windows is measured on a validation set of this many, which are in no working
# set; on all windows where there are hardly more.
VALIDATION, ALL_VALIDATE = 20_000, 25_000


@dataclass(frozen=True, eq=False)
class Sample:
    """Some of the windows (rows, ascending), and how many windows each stands for (m,)."""

    rows: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.rows)


def draw(order: Ints, chance: Floats, offset: float) -> Sample:
    """Windows that are evenly spaced in ``order`` where their chances are equal.

    Parameters
    ----------
    order : array of shape (m,)
        Rows, neighbours in time beside each other.
    chance : array of shape (m,)
        Of each of them to be drawn, above 0 and at most 1. Its weight is the inverse of it.
    offset : float
        Where the spacing begins, from 0 to 1.
    """
    until = np.cumsum(chance) + offset % 1
    taken = np.floor(until) > np.floor(until - chance)
    taken |= chance >= 1
    rows, weight = order[taken], 1 / chance[taken]
    ascending = np.argsort(rows)
    return Sample(rows[ascending], weight[ascending])


def chances(wanted: Floats, size: int, least: Floats) -> Floats:
    """Chances that go with ``wanted`` and sum to ``size``, from ``least`` to 1 each; all (m,)."""
    chance = np.minimum(wanted * (size / wanted.sum()), 1.0)
    for _ in range(30):  # those that reach 1 leave the others more
        full = chance >= 1
        left, rest = size - np.count_nonzero(full), float(wanted[~full].sum())
        if left <= 0 or rest <= 0:
            break
        chance = np.where(full, 1.0, np.minimum(wanted * (left / rest), 1.0))
        if np.count_nonzero(chance >= 1) == np.count_nonzero(full):
            break
    return np.maximum(chance, least)


class Sampler:
    """Samples of the windows of a problem, and their losses.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    order : array of shape (n,)
        The rows, neighbours in time beside each other.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.n = problem, len(problem)
        self.order = np.argsort(problem.windows.start, kind="stable")
        self.least = np.minimum(1.0, LEAST_OF_STATE / np.bincount(problem.codes))[problem.codes]

    @cached_property
    def spread(self) -> Floats:
        """That of all windows, in single precision: it is exact and not of a sample."""
        return self.problem.spread(np.float32)

    @cached_property
    def scale(self) -> float:
        total = float(np.trace(self.spread)) * self.n
        return scale_for(total, int((self.problem.targets >= 0).sum()))

    def loss(self, sample: Sample, dtype: DTypeLike = np.float32) -> LinearLoss:
        """``E_S`` as a function of a linear map."""
        problem, mine = self.problem, sample.rows
        targets = problem.targets[mine]
        # The windows of the sample, then those that are their targets only.
        theirs = np.setdiff1d(targets[targets >= 0], mine)
        rows = np.concatenate([mine, theirs])
        place = np.empty(self.n, np.int64)
        place[rows] = np.arange(len(rows))
        local = np.full((len(rows), targets.shape[1]), -1)
        local[: len(mine)] = np.where(targets >= 0, place[targets], -1)
        weight = np.append(sample.weight, np.zeros(len(theirs)))
        margin = LargeMarginLoss(problem.codes[rows], local, problem.push_weight, weight, self.n)
        pull = (1 - problem.push_weight) * self.spread
        return LinearLoss(problem.flat(rows[margin.order], dtype), margin, pull)

    def all(self) -> Sample:
        return Sample(np.arange(self.n), np.ones(self.n))

    def validation(self) -> Sample:
        """The windows that a loss over all windows is measured by."""
        if self.n <= ALL_VALIDATE:
            return self.all()
        size = min(VALIDATION, self.n // 2)
        chance = chances(np.ones(self.n), size, self.least / 2)
        return draw(self.order, chance[self.order], 0.5)

    def working_set(
        self, size: int, validation: Sample, violations: Floats | None, offset: float
    ) -> Sample:
        """About ``size`` windows that are not in the validation set, unless all are.

        ``violations`` (m,) is how many violated margins each window of that set has a part in.
        """
        free = self.order
        if len(validation) < self.n:
            validating = np.zeros(self.n, bool)
            validating[validation.rows] = True
            free = free[~validating[free]]
        if size >= len(free):
            return self.all()
        wanted = np.ones(self.n)
        if violations is not None and violations.any():
            place = np.empty(self.n)
            place[self.order] = np.arange(self.n)
            by_time = np.argsort(place[validation.rows])
            known = np.interp(place, place[validation.rows][by_time], violations[by_time])
            wanted = EVENLY + (1 - EVENLY) * known / known.mean()
        drawn = draw(free, chances(wanted[free], size, self.least[free]), offset)
        return Sample(drawn.rows, drawn.weight * (self.n / len(free)))


class SampleProblem(Problem):
    """What a solver sees of a working set: the loss E_S, and the scale of all windows."""

    def __init__(self, sampler: Sampler, loss: LinearLoss, initial_loss: float) -> None:
        super().__init__(**{f.name: getattr(sampler.problem, f.name) for f in fields(Problem)})
        self.initial_loss, self.scale = initial_loss, sampler.scale
        self._linear_loss, self._filter_loss = loss, FilterLoss(loss, self.width)


@dataclass(frozen=True, eq=False)
class Grown:
    """What was learned, with a working set or from all windows at once.

    ``solution`` has the loss over all windows (or over the validation set); ``n_windows`` were in
    the last working set, None without one; the loss is above that of learning from all windows by
    at most ``bound`` of itself.
    """

    solution: Solution
    initial_loss: float
    scale: float
    n_windows: int | None = None
    bound: float = 0.0


def learn_growing(
    problem: Problem,
    solve: Callable[[Problem, Solution | None, float], Solution],
    linear: Callable[[Solution, int], Floats],
) -> Grown:
    """Learn from working sets that grow until the loss is within a hundredth.

    Parameters
    ----------
    problem : Problem
    solve : callable
        From a problem, the solution to start at (None for the scaled identity) and how many times
        the tolerance is allowed, to a solution.
    linear : callable
        The map L (r, w*d) of a solution, for windows of a width.
    """
    sampler = Sampler(problem)
    validation = sampler.validation()
    of_validation = sampler.loss(validation)

    def validate(L: Floats) -> tuple[float, Floats]:
        """The loss, and how many violated margins each window of the set has a part in."""
        value, pairs = of_validation.value(L)
        return value, pairs[: len(validation)] / validation.weight

    L = np.sqrt(sampler.scale) * np.eye(problem.width * problem.n_channels)
    initial_loss, violations = validate(L)
    solution, size, offset = None, min(FIRST, LARGEST), 0.0
    before, history = initial_loss, list[Record]()
    while True:
        offset += GOLDEN
        sample = sampler.working_set(size, validation, violations, offset)
        loss, L_before, violations_before = sampler.loss(sample), L, violations
        is_all = len(sample) == len(problem)
        seen = problem if is_all else SampleProblem(sampler, loss, initial_loss)
        # A set is left as soon as it is seen to be too small, before it is learned by heart. All
        # windows are learned from in one go: a solver that starts again forgets the curvature.
        for roughly in (1.0,) if is_all else (ROUGHLY, 1.0):
            solution = solve(seen, solution, roughly)
            n = len(history)
            history += [{**r, "iteration": n + r["iteration"]} for r in solution.history]
            L = linear(solution, problem.width)
            after, violations = validate(L)
            bound = 0.0
            is_sampled = not is_all and after > 0
            if is_sampled:
                # By how much more the loss fell on the working set than on the validation set.
                bound = max(1 - _fall(loss, L_before, L) * before / after, 0.0)
            if bound > WITHIN and size < LARGEST:
                break
        if is_sampled and (bound <= WITHIN or size >= LARGEST):
            # How far such a fall is off by the choice of windows alone, on sets of the same size.
            falls = []
            for i in (1, 2, 3):
                other = sampler.working_set(size, validation, violations_before, offset + i / 4)
                falls.append(_fall(sampler.loss(other), L_before, L))
            bound += 2 * float(np.sqrt(np.mean((np.array(falls) * before / after - 1) ** 2)))
        if bound <= WITHIN or size >= LARGEST:
            break
        before = after
        size = min((4 if bound > FAR_OFF else 2) * size, LARGEST)
    assert solution is not None
    ended = replace(solution, loss=after, history=history, n_iter=len(history))
    return Grown(ended, initial_loss, sampler.scale, len(sample), bound)


def _fall(loss: LinearLoss, before: Floats, after: Floats) -> float:
    """The loss after learning, relative to the loss before."""
    return loss.value(after)[0] / loss.value(before)[0]
