"""A large-margin problem whose windows are on the workers of a Dask cluster."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..solvers import MarginProblem
from ..solvers.problem import Loss, scale_for
from ..targets import Gap, Nearest, check_enough, check_found, places_of
from .parts import (
    LINEAR,
    Kind,
    Sheet,
    build_part,
    evaluate,
    find_targets,
    loss_at_identity,
    moments,
    target_spread,
)
from .pieces import Index
from .plan import PartPlan, cells_of, plan_parts
from .team import Team

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Source(Protocol):
    """Where the windows come from."""

    @property
    def index(self) -> Index: ...

    def piece(self, client: Any, rows: Ints, worker: str) -> Any:
        """A future of the :class:`Piece` of these windows, on that worker."""


class DaskProblem(MarginProblem):
    """The loss and its gradient as sums over parts; :class:`mlat.solvers.Problem` is the local one.

    Parameters
    ----------
    client : distributed.Client
    source : Source
    n_shards : int
    n_targets : int
    gap : int or "run"
    push_weight, shrinkage : float
    """

    def __init__(
        self,
        client: Any,
        source: Source,
        n_shards: int,
        *,
        n_targets: int,
        gap: Gap,
        push_weight: float,
        shrinkage: float,
    ) -> None:
        self.client, self.source, self.index = client, source, source.index
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

    @property
    def width(self) -> int:
        return self.index.width

    @property
    def n_channels(self) -> int:
        return self.index.n_channels

    @cached_property
    def scale(self) -> float:
        totals, counts = zip(*self.team.ask(target_spread), strict=True)
        return scale_for(sum(totals), sum(counts))

    @cached_property
    def initial_loss(self) -> float:
        return float(sum(self.team.ask(loss_at_identity, self.scale)))

    @cached_property
    def step_moments(self) -> Floats:
        found = self.team.ask(moments)
        n = sum(count for count, *_ in found)
        mean = sum(count * c + around for count, c, around, _ in found) / n
        total = np.zeros((self.n_channels, self.n_channels))
        for count, c, around, products in found:
            off = c - mean
            total += products + off.T @ around + around.T @ off + count * off.T @ off
        return total

    def linear_loss(self) -> Loss:
        return self._loss(LINEAR)

    def filter_loss(self, n_taps: int, n_filters: int) -> Loss:
        return self._loss(("filter", n_taps, n_filters))

    def _loss(self, kind: Kind) -> Loss:
        def loss(parameters: Floats) -> tuple[float, Floats]:
            values, gradients = zip(*self.team.ask(evaluate, kind, parameters), strict=True)
            return float(sum(values)), np.sum(gradients, axis=0)

        return loss

    def release(self) -> None:
        """Let the workers forget the windows."""
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
            told = (places.take(rows), index.codes[rows], self.cell[rows], plan, k)
            return self._submit(find_targets, worker, [self._piece(part, worker)], *told)

        nearest = Nearest.none(len(index), k)
        team = Team(self.client, len(self.plans), make, self._advice)
        for plan, found in zip(self.plans, team.ask(_itself), strict=True):
            nearest.add(self._rows(plan), found)
        check_found(index.codes, nearest.rows, gap, index.names)
        return nearest.rows

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
            index.start[rows],
            index.run[rows],
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

    def _submit(self, function: Any, worker: str, pieces: list[Any], *told: Any) -> Any:
        """A task on one worker; what it is told goes there first, beside the graph."""
        sent = self.client.scatter(list(told), workers=[worker], hash=False)
        return self.client.submit(function, *pieces, *sent, workers=[worker], pure=False)


def _itself(found: Any) -> Any:
    return found
