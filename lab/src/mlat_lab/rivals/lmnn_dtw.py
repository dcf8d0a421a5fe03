"""LMNN-DTW: a large-margin local distance for dynamic time warping (Shen et al. 2017).

Windows are compared by DTW with a Mahalanobis distance of single steps, ``M = LᵀL`` (d, d), that is
learned by LMNN's loss. Learning alternates: align all pairs that matter under the present metric,
then lower the loss along these fixed paths.

First the estimator, then the alternation, then the loss and the pairs, then the compiled loops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mlat.base import work
from mlat.base.checks import Bools, Floats, Ints, check_real, check_whole
from mlat.base.compiled import jit
from mlat.base.errors import InputError
from mlat.metric.nearest import Places
from mlat.metric.problem import TARGET_DISTANCE
from mlat.metric.solvers import NEGLIGIBLE, Curvature, minimize
from mlat.metric.targets import Gap, check_enough, check_found, places_of

from . import dtw
from .dtw import (
    LANES,
    SUMS,
    accumulate,
    box_costs,
    components,
    distinct_points,
    local_costs,
    next_row,
    pack,
    point_costs,
    trace_back,
    transform,
)
from .knn import TimedKNN

# As usual for LMNN; fewer where the smallest label has no more windows.
USUAL_TARGETS = 3
# Pairs are listed that miss a margin by less than this, the margin itself: the steps that follow
# may shrink M as a whole to a half before a pair that is not listed could count.
SLACK = 1.0
# A step that raises the objective is halved at most this often.
MAX_HALVINGS = 10
# Relative fall per step of the loss along fixed paths at which it counts as minimised.
STEP_TOL = 1e-4
# Room for the pairs that one call of the kernel finds: a few megabytes.
BUFFERED_PAIRS = 1 << 18

Moves = NDArray[np.uint8]
Rows = NDArray[np.int32]


class LMNNDTW(TimedKNN):
    """k nearest neighbours under DTW with a local distance learned by the large-margin loss.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel, and there
        is nothing to learn.
    n_neighbors : int, default=1
    n_targets : int, optional
        Windows of the same label, the nearest under DTW, that each window is pulled towards;
        default 3, or all others of the smallest label if it has fewer.
    target_gap : int or "run", default="run"
        Targets of the same run must be at least this many steps away; ``"run"`` takes them from
        another run, or at least five windows away, as :class:`mlat.LMNN` does.
    push_weight : float, default=0.1
        c: the weight of pushing other labels away, against pulling targets nearer.
    max_iter : int, default=50
        Rounds of alignment.
    n_steps : int, default=10
        Steps of the metric between two alignments, at most.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this fraction of itself.
    band : int, optional
        Pair only steps at most this far apart; default: any.
    n_jobs : int, optional
        Threads for the search of neighbours.

    Attributes
    ----------
    metric_ : array of shape (d, d)
        M, positive semidefinite.
    components_ : array of shape (d, d)
        L with ``metric_ = LᵀL``.
    targets_ : array of shape (n, k)
        The targets of each window; -1 stands for none.
    objective_, initial_objective_ : float
        At the result and at the scaled identity, per window.
    history_ : list of Round
        One per round, and a last one without steps for the metric that is kept.
    n_iter_ : int
        Rounds, including the last one that only measures.
    converged_ : bool
    message_ : str
        Why it stopped.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5, 2)), np.arange(60) % 2
    >>> X[y == 1, :, 0] += 2.0  # what tells the labels apart
    >>> X[:, :, 1] *= 5.0  # loud noise
    >>> M = LMNNDTW().fit(X, y).metric_
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        n_targets: int | None = None,
        target_gap: Gap = "run",
        push_weight: float = 0.1,
        max_iter: int = 50,
        n_steps: int = 10,
        tol: float = 1e-4,
        band: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.n_targets = n_targets
        self.target_gap = target_gap
        self.push_weight = push_weight
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.tol = tol
        self.band = band
        self.n_jobs = n_jobs

    @classmethod
    def as_in_paper(cls, **parameters: Any) -> LMNNDTW:
        """As in the literature: three targets at any time, equal weights of pull and push."""
        return cls(**{"n_targets": 3, "target_gap": 0, "push_weight": 0.5, **parameters})

    def distance(self, X: Any, Y: Any = None) -> Floats:
        """The learned distances of windows (n, w, d) to others, shape (n, m).

        ``Y`` is the training windows where it is not given. The distance is the square root of the
        cost of the best alignment under the metric, as in ``kneighbors``.
        """
        left = self._mapped(self._check_windows(X))
        right = self._mapped(self.windows_ if Y is None else self._check_windows(Y))
        return np.sqrt(dtw.pairwise(left, right, band=self._index.band))

    def _learn(self, windows: Floats, codes: Ints, start: Ints, run: Ints) -> None:
        width = windows.shape[1]
        self._check_parameters(width)
        self._check_two_classes()
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(windows).sum()):
                raise InputError("X holds values too large to be squared; scale the channels")
        fewest = int(np.bincount(codes).min())
        reach = dtw.check_band(self.band, width, width)
        self.targets_ = nearest_targets(
            windows,
            codes,
            self.n_targets or max(1, min(USUAL_TARGETS, fewest - 1)),
            band=reach,
            gap=self.target_gap,
            start=start,
            run=run,
            names=self.classes_,
        )
        problem = Problem(windows, codes, self.targets_, float(self.push_weight), reach)
        with threadpool_limits(1):
            found = learn(problem, max_iter=self.max_iter, n_steps=self.n_steps, tol=self.tol)
        self.components_ = found.L
        self.metric_ = found.L.T @ found.L
        self.history_, self.n_iter_ = found.rounds, len(found.rounds)
        self.objective_ = found.rounds[-1].objective
        self.initial_objective_ = found.rounds[0].objective
        self.converged_, self.message_ = found.converged, found.message
        self._index = dtw.Index(self._mapped(windows), self.band)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        return self._index.query(self._mapped(windows), k, self.n_jobs)

    def _mapped(self, windows: Floats) -> Floats:
        return transform(windows, self.components_)

    def _check_parameters(self, width: int) -> None:
        if self.n_targets is not None:
            check_whole(self.n_targets, "n_targets")
        if self.target_gap != "run":
            check_whole(self.target_gap, "target_gap", 0, or_else=' or "run"')
        check_real(self.push_weight, "push_weight", 0, 1)
        check_whole(self.max_iter, "max_iter")
        check_whole(self.n_steps, "n_steps")
        check_real(self.tol, "tol", 0)
        if self.band is not None and dtw.check_band(self.band, width, width) >= width:
            raise InputError(
                f"windows of {width} steps are too short for a band of {self.band}; "
                f"lower band to at most {width - 1}, or leave it out to pair any steps"
            )


class Round(NamedTuple):
    """Record of one round.

    Attributes
    ----------
    objective : float
        The loss at the round's metric, along the best paths.
    after_steps : float
        The loss along these paths after the steps; the same where none were taken.
    n_listed : int
        Pairs of different labels that were aligned.
    n_violated : int
        Margins violated at the round's metric.
    n_changed : int
        Pairs aligned in both rounds whose path differs from that of the round before.
    n_halvings : int
        How often the step to this metric was halved.
    """

    objective: float
    after_steps: float
    n_listed: int
    n_violated: int
    n_changed: int
    n_halvings: int


class Learned(NamedTuple):
    """``M = LᵀL``, how it was reached, and why learning stopped."""

    L: Floats
    rounds: list[Round]
    converged: bool
    message: str


def learn(problem: Problem, *, max_iter: int = 50, n_steps: int = 10, tol: float = 1e-4) -> Learned:
    """Minimise the loss over metrics of single steps.

    A round aligns all pairs that matter under its metric, and takes ``n_steps`` steps of L-BFGS
    along these paths. The objective is the loss along the best paths; it falls from round to
    round.
    """
    here = problem.align(problem.start())
    assert here is not None  # it is below infinity
    first, memory = here.objective, Curvature()
    rounds: list[Round] = []
    changed, halvings = 0, 0
    converged, message = False, "the iteration limit was reached"
    if len(here.L) == 1:
        max_iter, converged, message = 0, True, "one channel leaves nothing to learn"
    for iteration in range(max_iter):
        steps = minimize(here.loss, here.L, max_iter=n_steps, tol=STEP_TOL, memory=memory)
        rounds.append(here.record(steps.loss, changed, halvings))
        figures = {"objective": here.objective, "violated": float(here.n_violated)}
        work.report("LMNNDTW", iteration + 1, max_iter, figures)
        found = _descend(problem, here, steps.found) if steps.loss < here.objective else None
        if found is None:
            changed, halvings = 0, 0
            converged, message = True, "no step lowers the objective any further"
            break
        before, (here, halvings) = here, found
        changed = before.loss.n_changed(here.loss)
        if halvings:
            # The components are rotated now: remembered directions have no meaning.
            memory.clear()
        elif changed == 0 and steps.converged:
            converged, message = True, "the alignments stopped changing"
            break
        # As in the minimiser: a solved problem is not polished for ever.
        if before.objective - here.objective <= tol * max(here.objective, NEGLIGIBLE * first):
            converged, message = True, "the objective stopped falling"
            break
    rounds.append(here.record(here.objective, changed, halvings))
    return Learned(here.L, rounds, converged, message)


def _descend(problem: Problem, here: Aligned, L: Floats) -> tuple[Aligned, int] | None:
    """A metric between ``here`` and L with a lower objective, and how often the step was halved.

    Along fixed paths the loss is convex in M, and at ``here`` it equals the objective. So half the
    step in M lowers it too, and a short enough step lowers the objective, except at a tie of paths
    or margins.
    """
    for halvings in range(MAX_HALVINGS + 1):
        found = problem.align(L, here.objective)
        if found is not None:
            return found, halvings
        L = components((here.L.T @ here.L + L.T @ L) / 2.0)
    return None


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
        self, X: Floats, codes: Ints, targets: Ints, push_weight: float, band: int
    ) -> None:
        # Centred: the loss depends on differences alone, and smaller numbers round less.
        self.points = Points(*distinct_points(X - X.mean(axis=(0, 1))), X.shape[1])
        self.codes = codes
        self.targets = targets
        self.push_weight = push_weight
        self.band = band

    def start(self) -> Floats:
        """The scaled identity, at which the mean target costs ``TARGET_DISTANCE``."""
        costs = align_targets(self.points, self.targets, self.band).costs
        mean = float(costs.sum()) / max(1, int((self.targets >= 0).sum()))
        # Targets that are all equal give no scale: any will do.
        scale = TARGET_DISTANCE / mean if mean > 0 else 1.0
        return np.sqrt(scale) * np.eye(self.points.values.shape[1])

    def align(self, L: Floats, below: float = np.inf) -> Aligned | None:
        """The loss along the paths that are best at L; None if it is not less than ``below``."""
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


class Aligned(NamedTuple):
    """A metric, the loss along its best paths, and the objective: the value of that loss."""

    L: Floats
    loss: FixedPathLoss
    objective: float
    n_violated: int

    def record(self, after_steps: float, changed: int, halvings: int) -> Round:
        n_listed = len(self.loss.push.left)
        return Round(self.objective, after_steps, n_listed, self.n_violated, changed, halvings)


class FixedPathLoss:
    """The large-margin loss as a function of L (d, d), every pair along the path it is given.

    Parameters
    ----------
    points : Points
        The windows, before the metric is applied.
    targets : array of shape (n, k)
    pull, push : Pairs
        The aligned targets, as ``align_targets`` gives them, and the aligned impostors.
    push_weight : float
    """

    def __init__(
        self, points: Points, targets: Ints, pull: Pairs, push: Pairs, push_weight: float
    ) -> None:
        self.points = points
        self.targets = targets
        self.pull = pull
        self.push = push
        self.push_weight = push_weight
        self.n_violated = 0

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        """The loss and its gradient in L.

        The gradient is ``2 L Σ weight C`` over the pairs, ``C = P Pᵀ``. It is summed as forces on
        the points, of which there are far fewer than steps on paths.
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


class Points(NamedTuple):
    """Windows by their points; points that neighbours share are kept once.

    Attributes
    ----------
    values : array of shape (p, d)
    first : array of shape (n,)
        Window ``i`` is ``values[first[i] : first[i] + width]``.
    width : int
    """

    values: Floats
    first: Ints
    width: int

    def windows(self, rows: Ints) -> Floats:
        """Some of the windows, (m, w, d)."""
        found: Floats = self.values[self.first[rows][:, None] + np.arange(self.width)]
        return found

    @property
    def overlap(self) -> bool:
        return len(self.values) < len(self.first) * self.width


class Pairs(NamedTuple):
    """Pairs of windows with the best path of each.

    Attributes
    ----------
    left, right : arrays of shape (m,)
        Which windows.
    costs : array of shape (m,)
    moves : array of shape (m, bytes)
        The paths; see the compiled loops below.
    """

    left: Rows
    right: Rows
    costs: Floats
    moves: Moves

    def beginning(self, n: int) -> Pairs:
        """A copy of the first n."""
        left, right, costs, moves = self
        return Pairs(left[:n].copy(), right[:n].copy(), costs[:n].copy(), moves[:n].copy())

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def nearest_targets(
    X: Floats,
    codes: Ints,
    n_targets: int,
    *,
    band: int,
    gap: Gap = 0,
    start: Ints,
    run: Ints,
    names: NDArray[Any] | None = None,
) -> Ints:
    """For each window, the windows of its label nearest under DTW, shape (n, n_targets).

    The rule for permitted targets is that of :func:`mlat.metric.targets.select_targets`; -1 stands
    for no target.
    """
    n, width, _ = X.shape
    check_enough(codes, n_targets, names)
    places = places_of(codes, start, run, gap=gap, width=width)
    targets = np.full((n, n_targets), -1, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        costs = dtw.pairwise(X[rows], band=band)
        costs[_barred(places.take(rows))] = np.inf
        # Stable: of windows equally near, the earlier, as in every search.
        best = np.argsort(costs, axis=1, kind="stable")[:, :n_targets]
        found = np.isfinite(np.take_along_axis(costs, best, axis=1))
        targets[rows] = np.where(found, rows[best], -1)
    check_found(codes, targets, gap, names)
    return targets


def _barred(places: Places) -> Bools:
    """Which windows are too near in time to be each other's target, or the same."""
    same = places.row[:, None] == places.row
    apart = np.abs(places.start[:, None] - places.start)
    result: Bools = same | ((places.run[:, None] == places.run) & (apart < places.gap[:, None]))
    return result


def align_targets(points: Points, targets: Ints, band: int) -> Pairs:
    """The best paths of all windows to their targets (n, k), row by row.

    Where there is no target the window is paired with itself.
    """
    n, k = targets.shape
    left = np.repeat(np.arange(n, dtype=np.int32), k)
    right = np.where(targets < 0, np.arange(n)[:, None], targets).ravel().astype(np.int32)
    found = _room_for(n * k, points.width)._replace(left=left, right=right)
    align_pairs(points.values, points.first, points.width, band, *found)
    return found


def align_impostors(
    points: Points,
    codes: Ints,
    radius: Floats,
    *,
    slack: float,
    band: int,
    most: float = np.inf,
) -> Pairs | None:
    """The best paths of all pairs of different labels that are impostors, or nearly.

    Parameters
    ----------
    points : Points
        The windows under the metric.
    codes : array of shape (n,)
    radius : array of shape (n,)
        The farthest margin of each window; -inf for one without.
    slack : float
        Pairs are found that cost less than the larger radius of the two plus this.
    most : float
        The search is given up as soon as the margins of the farthest targets alone are violated
        by more than this in sum.

    Returns
    -------
    Pairs or None
        Each pair once; None if the search was given up.
    """
    of_label = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    room = _room_for(max(BUFFERED_PAIRS, max(map(len, of_label))), points.width)
    found = [room.beginning(0)]
    violated = 0.0
    for nth, members in enumerate(of_label[1:], start=1):
        queries = np.sort(np.concatenate(of_label[:nth]))
        for blocks in pack(points.windows(members), band):
            window = np.where(blocks.window >= 0, members[blocks.window], -1)
            for tile in blocks._replace(window=window).tiles():
                # Each call has room for all that these queries could find.
                chunk = max(1, len(room.left) // tile.window.size)
                for begin in range(0, len(queries), chunk):
                    part = queries[begin : begin + chunk]
                    count = align_within(
                        points.values,
                        points.first,
                        part,
                        radius + slack,
                        tile.points,
                        tile.window,
                        tile.stride,
                        tile.low,
                        tile.high,
                        band,
                        points.overlap,
                        *room,
                    )
                    pairs = room.beginning(count)
                    for side in (pairs.left, pairs.right):
                        violated += float(np.maximum(radius[side] - pairs.costs, 0.0).sum())
                    if violated > most:
                        return None
                    found.append(pairs)
    return Pairs.joined(found)


def n_changed(before: Pairs, after: Pairs) -> int:
    """How many pairs that are in both have another path than before.

    A pair that is in one of them twice, as a window without targets is with itself, counts once.
    """
    _, i, j = np.intersect1d(_keys(before), _keys(after), return_indices=True)
    return int((before.moves[i] != after.moves[j]).any(axis=1).sum())


def _keys(pairs: Pairs) -> Ints:
    """A number per pair: rows are 32 bits wide, so that both fit into one."""
    return (pairs.left.astype(np.int64) << 32) | pairs.right


def _room_for(n_pairs: int, width: int) -> Pairs:
    return Pairs(
        np.empty(n_pairs, dtype=np.int32),
        np.empty(n_pairs, dtype=np.int32),
        np.empty(n_pairs),
        np.empty((n_pairs, bytes_per_path(width)), dtype=np.uint8),
    )


# Compiled loops: the paths of the pairs that matter, and the loss along fixed paths.
#
# A path is kept as its moves, two bits each, four to a byte, first move lowest: bit 0 is a step in
# the first window, bit 1 a step in the second. It ends where both windows end.


@jit()
def hinges(distance, i, l, margin, violations):  # type: ignore[no-untyped-def]  # noqa: E741
    """The violated margins of both sides of a pair: their sum and number, each also counted."""
    total, count = 0.0, 0
    for j in range(margin.shape[1]):
        if distance < margin[i, j]:
            total += margin[i, j] - distance
            violations[i, j] += 1
            count += 1
        if distance < margin[l, j]:
            total += margin[l, j] - distance
            violations[l, j] += 1
            count += 1
    return total, count


@jit(fastmath=SUMS)
def fixed_path_loss(
    Z: Floats,
    first: Ints,
    width: int,
    targets: Ints,
    target_moves: Moves,
    left: Rows,
    right: Rows,
    moves: Moves,
    push_weight: float,
    force: Floats,
) -> tuple[float, float, int]:
    """The pull and the push of all pairs along their paths, and how many margins are violated.

    ``force`` (p, d), zeros on entry, becomes half the gradient in the points Z (p, d).
    """
    n, k = targets.shape
    pull_one, push_one = (1.0 - push_weight) / n, push_weight / n
    margin = np.full((n, k), -np.inf)
    farthest = np.full(n, -np.inf)
    violations = np.zeros((n, k), dtype=np.int64)
    pull = 0.0
    for i in range(n):
        for j in range(k):
            if targets[i, j] >= 0:
                a, b = first[i], first[targets[i, j]]
                cost = path_cost(Z, a, b, width, target_moves[i * k + j], np.inf)
                pull += pull_one * cost
                margin[i, j] = 1.0 + cost
                farthest[i] = max(farthest[i], margin[i, j])
    hinge, n_active = 0.0, 0
    for pair in range(len(left)):
        i, l = left[pair], right[pair]  # noqa: E741
        limit = max(farthest[i], farthest[l])
        cost = path_cost(Z, first[i], first[l], width, moves[pair], limit)
        if cost < limit:
            part, count = hinges(cost, i, l, margin, violations)
            hinge += part
            n_active += count
            add_force(Z, first[i], first[l], width, moves[pair], -push_one * count, force)
    for i in range(n):
        for j in range(k):
            if targets[i, j] >= 0:
                weight = pull_one + push_one * violations[i, j]
                a, b = first[i], first[targets[i, j]]
                add_force(Z, a, b, width, target_moves[i * k + j], weight, force)
    return pull, push_one * hinge, n_active


@jit(fastmath=SUMS)
def path_cost(Z: Floats, a: int, b: int, width: int, moves: Moves, limit: float) -> float:
    """The cost of a path from points (a, b) on, or of its first part that reaches ``limit``."""
    last_a, last_b = a + width - 1, b + width - 1
    total, move = 0.0, 0
    while True:
        for f in range(Z.shape[1]):
            u = Z[a, f] - Z[b, f]
            total += u * u
        if total >= limit or (a == last_a and b == last_b):
            return total
        code = (moves[move >> 2] >> (2 * (move & 3))) & 3
        a += code & 1
        b += code >> 1
        move += 1


@jit(fastmath=SUMS)
def add_force(
    Z: Floats, a: int, b: int, width: int, moves: Moves, weight: float, force: Floats
) -> None:
    """Add ``weight (z_a - z_b)`` at both ends of every pair of points on a path."""
    last_a, last_b = a + width - 1, b + width - 1
    move = 0
    while True:
        for f in range(Z.shape[1]):
            u = weight * (Z[a, f] - Z[b, f])
            force[a, f] += u
            force[b, f] -= u
        if a == last_a and b == last_b:
            return
        code = (moves[move >> 2] >> (2 * (move & 3))) & 3
        a += code & 1
        b += code >> 1
        move += 1


@jit()
def align_pairs(
    points: Floats,
    first: Ints,
    width: int,
    band: int,
    left: Rows,
    right: Rows,
    costs: Floats,
    moves: Moves,
) -> None:
    """Cost and moves of the best path of each pair (left, right) of windows."""
    steps = np.empty((2 * width - 1, 2), dtype=np.int64)
    for pair in range(len(left)):
        a, b = first[left[pair]], first[right[pair]]
        table = accumulate(local_costs(points[a : a + width], points[b : b + width]), band)
        costs[pair] = table[width - 1, width - 1]
        write_moves(steps, trace_back(table, steps), moves[pair])


@jit()
def align_within(
    points: Floats,
    first: Ints,
    queries: Ints,
    limit: Floats,
    block_points: Floats,
    block_window: Ints,
    stride: int,
    low: Floats,
    high: Floats,
    band: int,
    remember: bool,
    left: Rows,
    right: Rows,
    costs: Floats,
    moves: Moves,
) -> int:
    """The pairs of a query and a window of some blocks that cost less than either's limit.

    As ``dtw.search_blocks``, with given limits: a block is skipped where the bound of its costs
    exceeds the limits of all of its lanes, and left as soon as the rows done plus the bound of
    those to come do. Rows are kept, so that a pair that is found has its path at once.

    Parameters
    ----------
    limit : array of shape (n,)
        Of each window; a pair is found if it costs less than the larger of its two.
    remember : bool
        Keep the point costs of the last w query points, for queries that overlap.
    left, right, costs, moves : arrays
        Written: what was found, in the order of the queries, then of the blocks.

    Returns
    -------
    int
        How many were found.
    """
    width, _, n_blocks = low.shape
    n_columns = block_points.shape[2]
    # As in `dtw.search_blocks`: a bound and a cost sum the same rounded terms in another order.
    slack = 1.0 + 8.0 * width * np.finfo(np.float64).eps
    kept_blocks, kept_rows = (n_blocks, width) if remember else (1, 1)
    kept = np.empty((kept_blocks, kept_rows, n_columns))
    kept_point = np.full((kept_blocks, kept_rows), -1)
    rest = np.empty((width + 1, n_blocks))
    table = np.empty(width * LANES)
    # Cells beyond the band are never written, and stay infinite.
    rows = np.full((width, width * LANES), np.inf)
    cells = rows.reshape(width, width, LANES)
    diagonal, before, lowest = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lane_limit = np.full((n_blocks, LANES), -np.inf)
    block_limit = np.full(n_blocks, -np.inf)
    for block in range(n_blocks):
        for lane in range(LANES):
            if block_window[block, lane] >= 0:
                lane_limit[block, lane] = limit[block_window[block, lane]]
                block_limit[block] = max(block_limit[block], lane_limit[block, lane])
    steps = np.empty((2 * width - 1, 2), dtype=np.int64)
    found = 0
    for query in queries:
        own = limit[query]
        box_costs(low, high, points, first[query], rest)
        for block in range(n_blocks):
            if rest[0, block] > max(own, block_limit[block]) * slack:
                continue
            limits = lane_limit[block]
            table[:] = np.inf
            alive = True
            for a in range(width):
                point = first[query] + a
                place, row = (block, point % width) if remember else (0, 0)
                costs_here = kept[place, row]
                if kept_point[place, row] != point or not remember:
                    kept_point[place, row] = point
                    reach = width if remember else band
                    begin = max(0, a - reach) * stride
                    end = min(width - 1, a + reach) * stride + LANES
                    point_costs(block_points[block], points[point], begin, end, costs_here)
                next_row(a, costs_here, stride, band, table, diagonal, before, lowest)
                to_come = rest[a + 1, block]
                n_alive = 0
                for lane in range(LANES):
                    n_alive += lowest[lane] + to_come <= max(own, limits[lane]) * slack
                if n_alive == 0:
                    alive = False
                    break
                cell, last = max(0, a - band) * LANES, (min(width - 1, a + band) + 1) * LANES
                rows[a, cell:last] = table[cell:last]
            if not alive:
                continue
            for lane in range(LANES):
                cost = table[(width - 1) * LANES + lane]
                if block_window[block, lane] >= 0 and cost < max(own, limits[lane]):
                    left[found], right[found] = query, block_window[block, lane]
                    costs[found] = cost
                    write_moves(steps, trace_back(cells[:, :, lane], steps), moves[found])
                    found += 1
    return found


def bytes_per_path(width: int) -> int:
    """Room for the longest path of two windows, ``2w - 2`` moves."""
    return max(1, -(-(2 * width - 2) // 4))


@jit()
def write_moves(steps: Ints, length: int, moves: Moves) -> None:
    """The path that ``trace_back`` left in ``steps``, last cell first, as moves."""
    moves[:] = 0
    for move in range(length - 1):
        after, before = steps[length - 2 - move], steps[length - 1 - move]
        code = (after[0] - before[0]) + 2 * (after[1] - before[1])
        moves[move // 4] |= np.uint8(code << (2 * (move % 4)))
