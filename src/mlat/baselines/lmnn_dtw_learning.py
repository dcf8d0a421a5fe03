"""The alternation of LMNN-DTW: paths for a metric, then a metric for the paths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from .. import progress
from ..optim import NEGLIGIBLE, Memory, minimize
from ..solvers.problem import TARGET_DISTANCE
from .lanes import FloatArray, IntArray, distinct_points
from .ldmlt import components
from .lmnn_dtw_kernels import fixed_path_loss
from .lmnn_dtw_paths import Pairs, Points, align_impostors, align_targets, n_changed

# Pairs are listed that miss a margin by less than this, the margin itself: the steps that follow
# may shrink M as a whole to a half before a pair that is not listed could count.
SLACK = 1.0
# A step that raises the objective is halved up to this often.
MAX_HALVINGS = 10
# Relative fall per step of the loss for fixed paths at which it counts as minimised.
STEP_TOL = 1e-4


class Round(NamedTuple):
    """What one round saw and did.

    Attributes
    ----------
    objective : float
        The loss at the round's metric, along the best paths.
    after_steps : float
        What the steps made of it along these paths; the same where none were taken.
    n_listed : int
        Pairs of different labels that were aligned.
    n_violated : int
        Margins violated at the round's metric.
    n_changed : int
        Pairs, of those aligned before, with another path than at the round before.
    n_halvings : int
        How often the step that led here was halved.
    """

    objective: float
    after_steps: float
    n_listed: int
    n_violated: int
    n_changed: int
    n_halvings: int


class Learned(NamedTuple):
    """``M = LᵀL``, how it was reached, and why learning stopped."""

    L: FloatArray
    rounds: list[Round]
    converged: bool
    message: str


class FixedPathLoss:
    """The large-margin loss as a function of L (d, d), every pair along the path it is given.

    Parameters
    ----------
    points : Points
        The windows themselves; the metric is applied here.
    targets : array of shape (n, k)
    pull, push : Pairs
        The aligned targets, as ``align_targets`` has them, and the aligned impostors.
    push_weight : float
    """

    def __init__(
        self, points: Points, targets: IntArray, pull: Pairs, push: Pairs, push_weight: float
    ) -> None:
        self.points = points
        self.targets = targets
        self.pull = pull
        self.push = push
        self.push_weight = push_weight
        self.n_violated = 0

    def __call__(self, L: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient in L.

        The gradient is ``2 L Σ weight C`` over the pairs, ``C = P Pᵀ``. It is summed as forces on
        the points, of which there are far fewer than steps of paths.
        """
        values = self.points.values
        Z = values @ L.T
        force = np.zeros_like(Z)
        pulled, pushed, self.n_violated = fixed_path_loss(
            Z,
            self.points.first,
            self.points.width,
            self.targets,
            self.pull.moves,
            self.push.left,
            self.push.right,
            self.push.moves,
            self.push_weight,
            force,
        )
        return pulled + pushed, 2.0 * (force.T @ values)

    def n_changed(self, other: FixedPathLoss) -> int:
        """How many pairs of both have different paths."""
        return n_changed(self.pull, other.pull) + n_changed(self.push, other.push)


class Aligned(NamedTuple):
    """A metric, the loss along its own best paths, and what that is there: the objective."""

    L: FloatArray
    loss: FixedPathLoss
    objective: float
    n_violated: int

    def told(self, after_steps: float, changed: int, halvings: int) -> Round:
        n_listed = len(self.loss.push.left)
        return Round(self.objective, after_steps, n_listed, self.n_violated, changed, halvings)


class Problem:
    """Windows, labels, targets and the weights of the loss.

    Parameters
    ----------
    X : array of shape (n, w, d)
    codes : array of shape (n,)
    targets : array of shape (n, k)
        -1 stands for no target.
    push_weight : float
        c, the weight of pushing other labels away against pulling targets nearer.
    band : int
    """

    def __init__(
        self, X: FloatArray, codes: IntArray, targets: IntArray, push_weight: float, band: int
    ) -> None:
        # Centred: the loss depends on differences alone, and smaller numbers round less.
        self.points = Points(*distinct_points(X - X.mean(axis=(0, 1))), X.shape[1])
        self.codes = codes
        self.targets = targets
        self.push_weight = push_weight
        self.band = band

    def start(self) -> FloatArray:
        """The scaled identity, at which the mean target costs ``TARGET_DISTANCE``."""
        costs = align_targets(self.points, self.targets, self.band).costs
        mean = float(costs.sum()) / max(1, int((self.targets >= 0).sum()))
        # Targets that are all the same give no scale: any will do.
        scale = TARGET_DISTANCE / mean if mean > 0 else 1.0
        return np.sqrt(scale) * np.eye(self.points.values.shape[1])

    def align(self, L: FloatArray, below: float = np.inf) -> Aligned | None:
        """The loss along the paths that are best at L; None where it is not ``below`` there."""
        n, c = len(self.codes), self.push_weight
        mapped = self.points._replace(values=np.ascontiguousarray(self.points.values @ L.T))
        pull = align_targets(mapped, self.targets, self.band)
        costs = np.where(self.targets >= 0, pull.costs.reshape(self.targets.shape), -np.inf)
        left_over = n * below - (1.0 - c) * float(costs[self.targets >= 0].sum())
        push = align_impostors(
            mapped,
            self.codes,
            1.0 + costs.max(axis=1),
            slack=SLACK,
            band=self.band,
            most=left_over / c if c > 0 else np.inf,
        )
        if push is None:
            return None
        loss = FixedPathLoss(self.points, self.targets, pull, push, c)
        objective, _ = loss(L)
        return Aligned(L, loss, objective, loss.n_violated) if objective < below else None


def learn(problem: Problem, *, max_iter: int = 50, n_steps: int = 10, tol: float = 1e-4) -> Learned:
    """Minimise the loss over metrics of single steps.

    A round aligns all pairs that matter under its metric, and takes ``n_steps`` steps of L-BFGS
    along these paths. The objective, which is the loss along the best paths, falls from round to
    round.
    """
    with threadpool_limits(1):
        return _learn(problem, max_iter, n_steps, tol)


def _learn(problem: Problem, max_iter: int, n_steps: int, tol: float) -> Learned:
    here = problem.align(problem.start())
    assert here is not None  # it is below infinity
    first, memory = here.objective, Memory(here.L.size)
    rounds: list[Round] = []
    changed, halvings = 0, 0
    converged, message = False, "the iteration limit was reached"
    if len(here.L) == 1:
        max_iter, converged, message = 0, True, "one channel leaves nothing to learn"
    for iteration in range(max_iter):
        steps = minimize(here.loss, here.L, max_iter=n_steps, tol=STEP_TOL, memory=memory)
        rounds.append(here.told(steps.value, changed, halvings))
        figures = {"objective": here.objective, "violated": float(here.n_violated)}
        progress.report("LMNNDTW", iteration + 1, max_iter, figures)
        found = _descend(problem, here, steps.x) if steps.value < here.objective else None
        if found is None:
            changed, halvings = 0, 0
            converged, message = True, "no step lowers the objective any further"
            break
        before, (here, halvings) = here, found
        changed = before.loss.n_changed(here.loss)
        if halvings:
            # The components have turned: directions that are remembered mean nothing now.
            memory.clear()
        elif changed == 0 and steps.converged:
            converged, message = True, "the alignments stopped changing"
            break
        # As the minimiser: a problem solved is not polished for ever.
        if before.objective - here.objective <= tol * max(here.objective, NEGLIGIBLE * first):
            converged, message = True, "the objective stopped falling"
            break
    rounds.append(here.told(here.objective, changed, halvings))
    return Learned(here.L, rounds, converged, message)


def _descend(problem: Problem, here: Aligned, L: FloatArray) -> tuple[Aligned, int] | None:
    """Where the objective is lower, on the way to L, and after how many halvings of the way.

    Along fixed paths the loss is convex in M, and at ``here`` it is the objective: half the way in
    M lowers it too, and a short enough part of it lowers the objective, unless a tie of paths or
    margins is met just there.
    """
    for halvings in range(MAX_HALVINGS + 1):
        found = problem.align(L, here.objective)
        if found is not None:
            return found, halvings
        L = components((here.L.T @ here.L + L.T @ L) / 2.0)
    return None
