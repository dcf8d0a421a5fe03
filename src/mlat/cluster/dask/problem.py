"""A large-margin problem whose windows are on the workers of a Dask cluster.

The windows are divided into shards. Every pair of windows of different states belongs to exactly
one *part* of the problem, and every part is on one worker. There are as many parts as shards. Part
p holds the shards ``p + d`` (modulo S) for d in a small set D of which every number up to S/2 is a
difference, so that every two shards are together in some part (a cyclic quorum: Kleinheksel &
Somani 2016). All parts have the same work, and each holds about ``√(2/S)`` of the windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...base.checks import Floats, Ints
from ...metric.loss import LossPart
from ...metric.nearest import Nearest, Places, nearest
from ...metric.problem import Loss, Problem, moments, scale_for
from ...metric.targets import Gap, check_enough, check_found, places_of
from ...stream.windows import Windows
from .pieces import WindowPiece, join_pieces
from .sources import WindowSource
from .tasks import Team


@dataclass(frozen=True)
class PartPlan:
    """What one part holds and does.

    Attributes
    ----------
    cells : tuple of int
        Cells whose windows it holds.
    tiles : tuple of (int, int)
        Pairs of cells that it compares.
    pulled : tuple of int
        Cells of its own shard, whose pull it sums.
    """

    cells: tuple[int, ...]
    tiles: tuple[tuple[int, int], ...]
    pulled: tuple[int, ...]


def halves(n_shards: int) -> int:
    """Cells per shard: two where opposite shards meet twice on the circle, once for each half."""
    return 2 if n_shards % 2 == 0 else 1


def plan_parts(n_shards: int) -> list[PartPlan]:
    """The parts of a problem of this many shards.

    Examples
    --------
    >>> [part.tiles for part in plan_parts(3)]
    [((0, 0), (0, 1)), ((1, 1), (1, 2)), ((2, 2), (2, 0))]
    """
    S, h = n_shards, halves(n_shards)
    pairs = _pairs_by_difference(S)
    plans = []
    for p in range(S):
        own = tuple(range(p * h, p * h + h))
        tiles = [(a, b) for a in own for b in own if a <= b]
        held = set(own)
        for difference, (i, j) in pairs.items():
            first, second = (p + i) % S, (p + j) % S
            if 2 * difference == S:
                # Parts p and p + S/2 meet the same two shards: each takes half of one of them.
                first, second = min(first, second), max(first, second)
                rows = [first * h + (0 if p < S // 2 else 1)]
            else:
                rows = list(range(first * h, first * h + h))
            columns = range(second * h, second * h + h)
            tiles += [(a, b) for a in rows for b in columns]
            held |= {*range(first * h, first * h + h), *columns}
        plans.append(PartPlan(tuple(sorted(held)), tuple(tiles), own))
    return plans


def _pairs_by_difference(S: int) -> dict[int, tuple[int, int]]:
    """For every difference from 1 to S/2, two places of the set D that are so far apart."""
    D = [0]
    pairs: dict[int, tuple[int, int]] = {}

    def new(x: int) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for y in D:
            for i, j in ((x, y), (y, x)):
                difference = (j - i) % S
                if 1 <= difference <= S // 2 and difference not in pairs:
                    found.setdefault(difference, (i, j))
        return found

    while len(pairs) < S // 2:
        # Greedily the place that brings most; the first of equals.
        best = max(range(1, S), key=lambda x: len(new(x)))
        pairs |= new(best)
        D.append(best)
    return dict(sorted(pairs.items()))


def cells_of(codes: Ints, n_shards: int) -> Ints:
    """The cell of each window: each cell has an equal part of the time of every state.

    So every two cells have about as many pairs of windows of different states, and the windows of
    a cell are a few long parts of the stream.
    """
    n_cells = n_shards * halves(n_shards)
    cell = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        cell[rows] = np.arange(len(rows)) * n_cells // len(rows)
    return cell


# What a worker does: its part of the targets, of the loss and of the gradient. These are plain
# functions of arrays, without Dask. A part is a `Problem` of its own with a `LossPart`, so the
# mathematics is that of a fit on one machine.

LossKind = Literal["linear", "filter"]  # of the parameters of a loss


@dataclass(frozen=True, eq=False)
class Sheet:
    """What the client sends to a part about its windows, in the order of the rows.

    ``targets`` (m, k) are row numbers of the whole problem. Windows that are here as targets only
    have cell -1 and no targets.
    """

    rows: Ints
    cell: Ints
    codes: Ints
    targets: Ints
    n_windows: int
    push_weight: float
    plan: PartPlan


def find_targets(
    piece: WindowPiece, places: Places, codes: Ints, cell: Ints, plan: PartPlan, k: int
) -> Nearest:
    """The nearest windows of each of the part's windows, within its tiles."""
    found = Nearest.none(len(piece), k)
    at = {
        (c, s): np.flatnonzero((cell == c) & (codes == s))
        for c in plan.cells
        for s in np.unique(codes).tolist()
    }
    for a, b in plan.tiles:
        for state in np.unique(codes).tolist():
            for mine, theirs in {(a, b), (b, a)}:
                here, there = at[mine, state], at[theirs, state]
                both = places.take(here), places.take(there)
                met = nearest(
                    _flat(piece, here), _flat(piece, there), k, rows=both[1].row, places=both
                )
                found.add(here, met)
    return found


def _flat(piece: WindowPiece, rows: Ints) -> Floats:
    return piece.windows(rows).reshape(len(rows), -1)


def build_part(piece: WindowPiece, halo: WindowPiece, sheet: Sheet) -> Problem:
    """The part's problem; ``halo`` are windows that are targets only."""
    both = join_pieces([piece, halo], piece.width, piece.steps.shape[1])
    start = both.offset[np.argsort(both.rows)]
    windows = Windows(both.steps, both.width, start, np.zeros_like(start), sheet.codes)
    pulled = np.isin(sheet.cell, sheet.plan.pulled)
    weight = np.ones(len(start))
    part = LossPart(sheet.n_windows, sheet.cell, sheet.plan.tiles, pulled, weight)
    local = np.searchsorted(sheet.rows, sheet.targets)
    targets = np.where(sheet.targets >= 0, local, -1)
    return Problem(windows, targets, sheet.push_weight, part=part)


def loss_of_part(problem: Problem, kind: LossKind, parameters: Floats) -> tuple[float, Floats]:
    """The part's loss and gradient."""
    loss = problem.linear_loss() if kind == "linear" else problem.filter_loss()
    return loss(parameters)


def own_moments(problem: Problem) -> tuple[int, Floats, Floats]:
    """Of the part's own windows, as :func:`mlat.metric.problem.moments`."""
    assert problem.part is not None
    return moments(problem.windows.take(problem.part.pulled))


class DaskProblem:
    """The loss and its gradient as sums over parts; :class:`mlat.metric.Problem` is the local one.

    Parameters
    ----------
    client : distributed.Client
    source : WindowSource
    n_shards : int
    n_targets : int
    gap : int or "run"
    push_weight, shrinkage : float
    """

    def __init__(
        self,
        client: Any,
        source: WindowSource,
        n_shards: int,
        *,
        n_targets: int,
        gap: Gap,
        push_weight: float,
        shrinkage: float,
    ) -> None:
        self.client, self.source, self.index = client, source, source.index
        self.width, self.n_channels = self.index.width, self.index.n_channels
        self.shrinkage, self.push_weight = shrinkage, push_weight
        self.cell = cells_of(self.index.codes, n_shards)
        self.plans = plan_parts(n_shards)
        self._pieces: dict[tuple[int, str], Any] = {}
        self._advice = (
            "give the workers more memory, or start more of them: with four times as many, each "
            "needs about half"
        )
        self.targets = self._find_targets(n_targets, gap)
        self.team = Team(client, n_shards, self._build, self._advice)

    @cached_property
    def scale(self) -> float:
        totals, counts = zip(*self.team.ask(Problem.target_spread), strict=True)
        return scale_for(sum(totals), sum(counts))

    @cached_property
    def initial_loss(self) -> float:
        return float(sum(self.team.ask(Problem.loss_at_identity, self.scale)))

    @cached_property
    def step_moments(self) -> Floats:
        counts, means, around = map(np.array, zip(*self.team.ask(own_moments), strict=True))
        off = means - counts @ means / counts.sum()
        return np.asarray(around.sum(axis=0) + (counts[:, None] * off).T @ off)

    def linear_loss(self) -> Loss:
        return self._loss("linear")

    def filter_loss(self) -> Loss:
        return self._loss("filter")

    def _loss(self, kind: LossKind) -> Loss:
        def loss(parameters: Floats) -> tuple[float, Floats]:
            values, gradients = zip(*self.team.ask(loss_of_part, kind, parameters), strict=True)
            return float(sum(values)), np.sum(gradients, axis=0)

        return loss

    def release(self) -> None:
        """Free the windows on the workers."""
        self.team.release()
        self._pieces.clear()

    def _rows(self, plan: PartPlan) -> Ints:
        return np.flatnonzero(np.isin(self.cell, plan.cells))

    def _piece(self, part: int, worker: str) -> Any:
        """The windows that a part compares, for its targets and then for its loss."""
        if (part, worker) not in self._pieces:
            rows = self._rows(self.plans[part])
            self._pieces[part, worker] = self.source.piece(self.client, rows, worker)
        return self._pieces[part, worker]

    def _find_targets(self, k: int, gap: Gap) -> Ints:
        index = self.index
        check_enough(index.codes, k, index.names)
        places = places_of(index.codes, index.start, index.run, gap=gap, width=index.width)

        def make(part: int, worker: str) -> Any:
            plan = self.plans[part]
            rows = self._rows(plan)
            sent = (places.take(rows), index.codes[rows], self.cell[rows], plan, k)
            return self._submit(find_targets, worker, [self._piece(part, worker)], *sent)

        targets = Nearest.none(len(index), k)
        team = Team(self.client, len(self.plans), make, self._advice)
        for plan, found in zip(self.plans, team.ask(_itself), strict=True):
            targets.add(self._rows(plan), found)
        check_found(index.codes, targets.rows, gap, index.names)
        return targets.rows

    def _build(self, part: int, worker: str) -> Any:
        plan, index = self.plans[part], self.index
        compared = self._rows(plan)
        met = np.unique(self.targets[compared])
        halo = np.setdiff1d(met[met >= 0], compared)
        rows = np.union1d(compared, halo)
        here = np.isin(rows, compared)
        sheet = Sheet(
            rows,
            np.where(here, self.cell[rows], -1),
            index.codes[rows],
            np.where(here[:, None], self.targets[rows], -1),
            len(index),
            self.push_weight,
            plan,
        )
        more = self.source.piece(self.client, halo, worker)
        built = self._submit(build_part, worker, [self._piece(part, worker), more], sheet)
        # The part holds its windows itself from now on.
        self._pieces.pop((part, worker))
        return built

    def _submit(self, function: Any, worker: str, pieces: list[Any], *arguments: Any) -> Any:
        """A task on one worker. Its arguments are sent there first, outside the task graph."""
        sent = self.client.scatter(list(arguments), workers=[worker], hash=False)
        return self.client.submit(function, *pieces, *sent, workers=[worker], pure=False)


def _itself(found: Any) -> Any:
    return found
