"""Learning from many windows: a working set that grows until it stands for all of them.

The loss (Eq. 2) sums over all pairs of windows, but successive windows are near-copies. So the push
is summed over a *cover*: m of the n windows, evenly spaced in time, each with the number of windows
that it stands for (its *share* h_i). The pull is linear in M, and stays that of all windows:

    E_S(M) = <C, M> + c/n Σ_{i,l ∈ S} h_i h_l Σ_j [1 + D(i,j) - D(i,l)]₊

is an estimate of E(M) without a bias. What minimises it is minimised too well: E_S is lower there
than E. Each round measures by how much on windows that the cover has not seen, and draws a larger
cover, denser where windows violate margins, until that is within the bound. For the minimum M* over
all windows and M of a cover

    E(M) - E(M*) = [E(M) - E_S(M)] + [E_S(M) - E_S(M*)] + [E_S(M*) - E(M*)],

where the first bracket is measured on windows that judge, the second is not above 0 but for where
the solver stopped, and the third is an error of sampling, whose size other covers of m windows
show (twice their root mean square is added).
All are taken relative to the loss of the metric before, on the same windows, so that what is common
to the two drops out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from . import toeplitz
from .loss import pairs_of_different_states, pull, target_distances
from .problem import Loss, MarginProblem, Problem, Record, Solution, scale_for
from .threads import n_threads, run_each

# With fewer windows, learning from all of them at once is as quick.
MANY_WINDOWS = 6_000
FIRST = 2_000  # windows of the first cover
ROUGHLY = 10.0  # times the tolerance, until a cover is known to be large enough
LARGEST = 24_000  # windows of a cover; where they are not enough, the bound says so
FAR_OFF = 0.1  # a bound above this needs far more windows: four times as many, not twice
WITHIN = 0.01  # of the whole objective
LEAST_OF_STATE = 50  # windows of every state in a cover, where it has as many
GOLDEN = (5**0.5 - 1) / 2  # covers begin their spacing at places far from each other
EVENLY = 0.3  # of a cover is drawn without regard to what violates margins
# The loss over all windows is summed over this many of them, which no cover may have; over all
# where there are hardly more.
JUDGES, ALL_JUDGE = 20_000, 25_000
NEARLY_SINGULAR = 1e-6  # the least part of Cholesky's diagonal in its largest
TILE = 1024  # windows a side: a tile of products stays in a core's cache
MANY_TILES = 8  # from which threads share them
DENSE = 0.02  # of the pairs of a tile, from which a matrix product sums their forces sooner


@dataclass(frozen=True, eq=False)
class Cover:
    """Some of the windows (rows, ascending), and how many windows each stands for (m,)."""

    rows: Ints
    share: Floats

    def __len__(self) -> int:
        return len(self.rows)


def draw(order: Ints, chance: Floats, offset: float) -> Cover:
    """Windows that are evenly spaced in ``order`` where their chances are equal.

    Parameters
    ----------
    order : array of shape (m,)
        Rows, neighbours in time beside each other.
    chance : array of shape (m,)
        Of each of them to be drawn, above 0 and at most 1. A window stands for the inverse of it.
    offset : float
        Where the spacing begins, from 0 to 1.
    """
    until = np.cumsum(chance) + offset % 1
    taken = np.floor(until) > np.floor(until - chance)
    taken |= chance >= 1
    rows, share = order[taken], 1 / chance[taken]
    ascending = np.argsort(rows)
    return Cover(rows[ascending], share[ascending])


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


class CoverLoss:
    """``E_S`` and its gradient as a function of a linear map L (r, w*d).

    Parameters
    ----------
    flat : array of shape (n, w*d)
        All windows.
    codes : array of shape (n,)
    targets : array of shape (n, k)
    cover : Cover
    push_weight : float
    pull : array of shape (w*d, w*d)
        C, with the pull of all windows ``tr(L C Lᵀ)``.
    dtype : float32 or float64
        Of the products over pairs.
    """

    def __init__(
        self,
        flat: NDArray[Any],
        codes: Ints,
        targets: Ints,
        cover: Cover,
        push_weight: float,
        pull: Floats,
        dtype: DTypeLike = np.float32,
    ) -> None:
        # The windows of the cover by state, then those that are their targets only.
        self.by_state = np.argsort(codes[cover.rows], kind="stable")
        mine = cover.rows[self.by_state]
        theirs = np.setdiff1d(targets[mine][targets[mine] >= 0], mine)
        rows = np.concatenate([mine, theirs])
        place = np.full(len(flat), -1, np.int64)
        place[rows] = np.arange(len(rows))
        self.m, self.pull = len(mine), pull
        self.X = flat[rows].astype(dtype)
        self.targets = np.where(targets[mine] >= 0, place[targets[mine]], -1)
        self.share = cover.share[self.by_state].astype(dtype)
        self.scale = push_weight / len(flat)
        cells = np.zeros(self.m, np.int64)
        self.tiles = _tiles(pairs_of_different_states(cells, codes[mine], ((0, 0),)))

    def __call__(self, L: Floats) -> tuple[float, Floats]:
        """The value and the gradient (r, w*d)."""
        X = self.X
        Z = X @ L.T.astype(X.dtype)
        force = np.zeros_like(Z)
        pushed = self._push(Z, force)
        force *= np.asarray(self.scale, Z.dtype)
        pull(Z, self.targets, self.scale * self._violations(pushed), force)
        pulled = L @ self.pull
        rows = np.flatnonzero(force.any(axis=1))
        in_L = (force[rows].T @ X[rows]).astype(np.float64)
        return self.scale * pushed.hinge + float(np.vdot(pulled, L)), 2 * (pulled + in_L)

    def judge(self, L: Floats) -> tuple[float, Floats]:
        """The value, and of each window of the cover (m,) how many margins it has a part in."""
        pushed = self._push(self.X @ L.T.astype(self.X.dtype))
        busy = np.empty(self.m)
        busy[self.by_state] = pushed.sums / self.share
        return self.scale * pushed.hinge + float(np.vdot(L @ self.pull, L)), busy

    def _violations(self, pushed: _Pushed) -> Floats:
        """How many windows violate each margin, (m, k)."""
        return (pushed.violated + pushed.violated_too.T) * self.share[:, None]

    def _push(self, Z: NDArray[Any], force: NDArray[Any] | None = None) -> _Pushed:
        """The hinges of all pairs; their forces are added to ``force``."""
        margin = 1 + target_distances(Z, self.targets)
        farthest = margin.max(axis=1)
        squared = np.einsum("ij,ij->i", Z, Z)
        by_target = np.ascontiguousarray(margin.T)
        n = n_threads() if len(self.tiles) >= MANY_TILES else 1
        parts = [_Pushed.zeros(margin, force)]
        for _ in range(1, n):
            other = None if force is None else np.zeros_like(force)
            parts.append(_Pushed.zeros(margin, other))

        def add(number: int) -> None:
            part = parts[number]
            violated = (part.violated, part.violated_too)
            for low, high, left, right in self.tiles[number::n]:
                tile = Z[low:high] @ Z[left:right].T
                hinge, active = _push_tile(
                    tile, low, left, squared, self.share, margin, by_target, farthest, *violated
                )
                if not active:
                    continue
                part.hinge += hinge
                rows, cols = tile.sum(axis=1), tile.sum(axis=0)
                part.sums[low:high] += rows
                part.sums[left:right] += cols
                if part.force is None:
                    continue
                if active < DENSE * tile.size:
                    _force_of_few(tile, Z, low, left, part.force)
                    continue
                # Σ_l weight (z_l - z_i), and the same from the other side.
                part.force[low:high] += tile @ Z[left:right] - rows[:, None] * Z[low:high]
                part.force[left:right] += tile.T @ Z[low:high] - cols[:, None] * Z[left:right]

        run_each(add, range(n), n)
        for part in parts[1:]:
            parts[0].add(part)
        return parts[0]


@dataclass(eq=False)
class _Pushed:
    """What some tiles add up to.

    The sum of their hinges; how many windows violate each margin of the rows (m, k) and of the
    columns (k, m); the weights of the pairs of each window (m,); forces.
    """

    hinge: float
    violated: Floats
    violated_too: Floats
    sums: Floats
    force: NDArray[Any] | None

    @classmethod
    def zeros(cls, margin: NDArray[Any], force: NDArray[Any] | None) -> _Pushed:
        m, k = margin.shape
        return cls(0.0, np.zeros((m, k)), np.zeros((k, m)), np.zeros(m), force)

    def add(self, other: _Pushed) -> None:
        self.hinge += other.hinge
        self.violated += other.violated
        self.violated_too += other.violated_too
        self.sums += other.sums
        if self.force is not None and other.force is not None:
            self.force += other.force


class WholeProblem:
    """All windows of a problem, ready for covers of them.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    flat : array of shape (n, w*d)
        The windows around the mean of each channel, in single precision.
    spread : array of shape (w*d, w*d)
        ``Σ (x_i - x_j)(x_i - x_j)ᵀ / n`` over all targets, which is exact and not of a cover.
    order : array of shape (n,)
        The rows, neighbours in time beside each other.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n = len(problem.X)
        self.flat = np.empty((self.n, problem.width * problem.n_channels), np.float32)
        mean = problem.X.mean(axis=(0, 1))
        for some in _blocks(self.n):
            self.flat[some] = (problem.X[some] - mean).reshape(-1, self.flat.shape[1])
        self.spread = self._spread()
        self.order = np.lexsort((problem.start, problem.run))
        self.least = np.minimum(1.0, LEAST_OF_STATE / np.bincount(problem.codes))[problem.codes]

    def _spread(self) -> Floats:
        targets = self.problem.targets
        force = np.zeros_like(self.flat)
        pull(self.flat, targets, np.full(targets.shape, 1 / self.n), force)
        total = np.zeros((self.flat.shape[1],) * 2)
        for some in _blocks(self.n):
            total += self.flat[some].T @ force[some]
        return (total + total.T) / 2

    @cached_property
    def scale(self) -> float:
        total = float(np.trace(self.spread)) * self.n
        return scale_for(total, int((self.problem.targets >= 0).sum()))

    @property
    def step_moments(self) -> Floats:
        d = self.problem.n_channels
        total = np.zeros((d, d))
        for some in _blocks(self.n):
            steps = self.flat[some].reshape(-1, d)
            total += steps.T @ steps
        return total

    def loss(self, cover: Cover) -> CoverLoss:
        problem = self.problem
        pull = (1 - problem.push_weight) * self.spread
        given = (problem.codes, problem.targets, cover, problem.push_weight, pull)
        return CoverLoss(self.flat, *given)

    def all(self) -> Cover:
        return Cover(np.arange(self.n), np.ones(self.n))

    def judges(self) -> Cover:
        """The windows that a loss over all windows is measured by."""
        if self.n <= ALL_JUDGE:
            return self.all()
        size = min(JUDGES, self.n // 2)
        chance = chances(np.ones(self.n), size, self.least / 2)
        return draw(self.order, chance[self.order], 0.5)

    def cover(self, size: int, judges: Cover, busy: Floats | None, offset: float) -> Cover:
        """About ``size`` windows that are no judges, unless all are.

        ``busy`` (m,) is how many violated margins each judge has a part in.
        """
        apart = len(judges) < self.n
        free = self.order
        if apart:
            judging = np.zeros(self.n, bool)
            judging[judges.rows] = True
            free = free[~judging[free]]
        if size >= len(free):
            return self.all()
        wanted = np.ones(self.n)
        if busy is not None and busy.any():
            place = np.empty(self.n)
            place[self.order] = np.arange(self.n)
            by_time = np.argsort(place[judges.rows])
            known = np.interp(place, place[judges.rows][by_time], busy[by_time])
            wanted = EVENLY + (1 - EVENLY) * known / known.mean()
        drawn = draw(free, chances(wanted[free], size, self.least[free]), offset)
        return Cover(drawn.rows, drawn.share * (self.n / len(free)))


class CoverProblem(MarginProblem):
    """What a solver sees of a cover: the loss E_S, and the scale of all windows."""

    def __init__(self, whole: WholeProblem, loss: Loss, initial_loss: float) -> None:
        self._whole, self._loss, self._initial_loss = whole, loss, initial_loss
        self.shrinkage = whole.problem.shrinkage

    @property
    def width(self) -> int:
        return self._whole.problem.width

    @property
    def n_channels(self) -> int:
        return self._whole.problem.n_channels

    @property
    def scale(self) -> float:
        return self._whole.scale

    @property
    def initial_loss(self) -> float:
        return self._initial_loss

    @property
    def step_moments(self) -> Floats:
        return self._whole.step_moments

    def linear_loss(self) -> Loss:
        return self._loss

    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        return filter_of_linear(self._loss, self.width)


SolutionT = TypeVar("SolutionT", bound=Solution)


@dataclass(frozen=True, eq=False)
class Grown(Generic[SolutionT]):
    """What was learned with a working set.

    ``solution`` has the loss over all windows (or over those that judge); ``n_windows`` were in the
    last cover; the loss is above that of learning from all windows by at most ``bound`` of itself.
    """

    solution: SolutionT
    initial_loss: float
    scale: float
    n_windows: int
    bound: float


def learn_growing(
    problem: Problem,
    solve: Callable[[MarginProblem, SolutionT | None, float], SolutionT],
    linear: Callable[[SolutionT], Floats],
    *,
    first: int | None = None,
) -> Grown[SolutionT]:
    """Learn from covers of the windows that grow until the loss is within a hundredth.

    Parameters
    ----------
    problem : Problem
    solve : callable
        From a problem, the solution to start at (None for the scaled identity) and how many times
        the tolerance is allowed, to a solution.
    linear : callable
        The map L (r, w*d) of a solution.
    first : int
        Windows of the first cover; default 2,000.
    """
    whole = WholeProblem(problem)
    judges = whole.judges()
    judge = whole.loss(judges).judge
    L = np.sqrt(whole.scale) * np.eye(whole.flat.shape[1])
    initial_loss, busy = judge(L)
    solution, size, offset = None, first or min(FIRST, LARGEST), 0.0
    before, history = initial_loss, list[Record]()
    while True:
        offset += GOLDEN
        cover = whole.cover(size, judges, busy, offset)
        loss, L_before, busy_before = whole.loss(cover), L, busy
        is_all = len(cover) == whole.n
        seen: MarginProblem = problem if is_all else CoverProblem(whole, loss, initial_loss)
        # A cover is left as soon as it is seen to be too small, before it is learned by heart. All
        # windows are learned from in one go: a solver that starts again forgets the curvature.
        for roughly in (1.0,) if is_all else (ROUGHLY, 1.0):
            solution = solve(seen, solution, roughly)
            n = len(history)
            history += [{**r, "iteration": n + r["iteration"]} for r in solution.history]
            L = linear(solution)
            after, busy = judge(L)
            bound = 0.0
            is_sampled = not is_all and after > 0
            if is_sampled:
                # By how much more the loss fell on the cover than on the judges.
                bound = max(1 - _fall(loss, L_before, L) * before / after, 0.0)
            if bound > WITHIN and size < LARGEST:
                break
        if is_sampled and (bound <= WITHIN or size >= LARGEST):
            # How far such a fall is off by the choice of windows alone, on covers of the same size.
            others = (whole.cover(size, judges, busy_before, offset + i / 4) for i in (1, 2, 3))
            falls = [_fall(whole.loss(one), L_before, L) for one in others]
            bound += 2 * float(np.sqrt(np.mean((np.array(falls) * before / after - 1) ** 2)))
        if bound <= WITHIN or size >= LARGEST:
            break
        before = after
        size = min((4 if bound > FAR_OFF else 2) * size, LARGEST)
    assert solution is not None
    ended = replace(solution, loss=after, history=history, n_iter=len(history))
    return Grown(ended, initial_loss, whole.scale, len(cover), bound)


def _fall(loss: CoverLoss, before: Floats, after: Floats) -> float:
    """The loss after learning, relative to the loss before."""
    return loss.judge(after)[0] / loss.judge(before)[0]


def filter_of_linear(loss: Loss, width: int) -> Loss:
    """The loss as a function of taps H (q, r, d), from that of a linear map.

    Any R with ``RᵀR = M`` gives the distances of the convolution T with H, and has w*d rows where T
    has (w+q-1)r. ``dE/dT = Q dE/dR`` with ``T = QR``; for the R of Cholesky, which is much sooner
    found, ``Q = T R⁻¹``.
    """

    def of_taps(H: Floats) -> tuple[float, Floats]:
        T = toeplitz.convolution_matrix(H, width)
        R = _cholesky(toeplitz.to_matrix(toeplitz.autocorrelation(H, width)))
        if R is None:
            Q, R = np.linalg.qr(T)
            value, in_R = loss(R)
            in_T = Q @ in_R
        else:
            value, in_R = loss(R)
            in_T = T @ solve_triangular(R, in_R)
        return value, toeplitz.convolution_matrix_gradient(in_T, H.shape, width)

    return of_taps


def _cholesky(M: Floats) -> Floats | None:
    """The upper R with ``RᵀR = M``, or None for an M that is singular or nearly so."""
    try:
        R: Floats = np.linalg.cholesky(M).astype(np.float64, copy=False).T
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diagonal(R)
    return R if diagonal.min() > NEARLY_SINGULAR * diagonal.max() else None


def _blocks(n: int) -> list[slice]:
    return [slice(begin, begin + 16 * TILE) for begin in range(0, n, 16 * TILE)]


def _tiles(rectangles: Ints) -> list[tuple[int, int, int, int]]:
    return [
        (a, min(a + TILE, high), b, min(b + TILE, right))
        for low, high, left, right in rectangles.tolist()
        for a in range(low, high, TILE)
        for b in range(left, right, TILE)
    ]


# Sums may be reordered into vector lanes; "-inf" marks an absent margin and is only compared.
_SUM = {"reassoc", "contract"}


@jit(fastmath=_SUM)
def _push_tile(  # type: ignore[no-untyped-def]
    tile, low, left, squared, share, margin, by_target, farthest, violated, violated_too
):  # fmt: skip
    """The hinges of a tile of products; in their place the weight of each pair.

    Loops over 64 pairs at a time, one margin after the other: each of them becomes vector code.
    """
    hinge, active = 0.0, 0
    n_rows, n_cols = tile.shape
    k = margin.shape[1]
    distance, count = np.empty(64, tile.dtype), np.empty(64, tile.dtype)
    one, zero = tile.dtype.type(1), tile.dtype.type(0)
    for r in range(n_rows):
        i = low + r
        sq_i, far_i, share_i = squared[i], farthest[i], share[i]
        for begin in range(0, n_cols, 64):
            size, l0 = min(64, n_cols - begin), left + begin
            hits = 0
            for c in range(size):
                distance[c] = sq_i + squared[l0 + c] - 2 * tile[r, begin + c]
                hits += distance[c] < max(far_i, farthest[l0 + c])
            if not hits:
                for c in range(size):
                    tile[r, begin + c] = zero
                continue
            active += hits
            for c in range(size):
                count[c] = zero
            total = zero
            for j in range(k):
                margin_j, of_i = margin[i, j], zero
                for c in range(size):
                    over = margin_j - distance[c]
                    on = one if over > zero else zero
                    count[c] += on
                    of_i += on * share[l0 + c]
                    total += max(over, zero) * share[l0 + c]
                violated[i, j] += of_i
                for c in range(size):
                    over = by_target[j, l0 + c] - distance[c]
                    on = one if over > zero else zero
                    count[c] += on
                    violated_too[j, l0 + c] += on * share_i
                    total += max(over, zero) * share[l0 + c]
            hinge += share_i * total
            for c in range(size):
                tile[r, begin + c] = count[c] * share_i * share[l0 + c]
    return hinge, active


@jit(fastmath=_SUM)
def _force_of_few(tile, Z, low, left, force):  # type: ignore[no-untyped-def]
    n_rows, n_cols = tile.shape
    for r in range(n_rows):
        i = low + r
        for c in range(n_cols):
            weight = tile[r, c]
            if weight == 0:
                continue
            l = left + c  # noqa: E741
            for f in range(Z.shape[1]):
                difference = weight * (Z[i, f] - Z[l, f])
                force[i, f] -= difference
                force[l, f] += difference
