"""What a worker does: its part of the targets, of the loss and of the gradient.

Plain functions of plain arrays; nothing here knows of Dask. A part is a :class:`Problem` of its
own with a :class:`Share`, so the mathematics is that of a fit on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..shares import Share
from ..solvers import Problem
from ..solvers.problem import Loss
from ..targets import Nearest, Places
from .pieces import Piece
from .plan import PartPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = tuple[str, int, int]

LINEAR: Kind = ("linear", 0, 0)


@dataclass(frozen=True, eq=False)
class Sheet:
    """What the client tells a part of its windows, in the order of the rows.

    ``targets`` (m, k) are row numbers of the whole problem. Windows that are here as targets only
    have cell -1 and no targets.
    """

    rows: Ints
    cell: Ints
    codes: Ints
    start: Ints
    run: Ints
    targets: Ints
    n_windows: int
    push_weight: float
    plan: PartPlan


@dataclass(eq=False)
class Part:
    """A problem on a worker, and the losses that were asked for.

    The losses remember which pairs can matter; that changes no result, so a part that is lost
    is simply built again.
    """

    problem: Problem
    losses: dict[Kind, Loss] = field(default_factory=dict)

    def __sizeof__(self) -> int:
        return 3 * self.problem.X.nbytes + self.problem.targets.nbytes

    def loss(self, kind: Kind) -> Loss:
        if kind not in self.losses:
            name, n_taps, n_filters = kind
            self.losses[kind] = (
                self.problem.linear_loss()
                if name == "linear"
                else self.problem.filter_loss(n_taps, n_filters)
            )
        return self.losses[kind]


def find_targets(
    piece: Piece, places: Places, codes: Ints, cell: Ints, plan: PartPlan, k: int
) -> Nearest:
    """The nearest windows that the part's tiles have to offer, for all of its windows."""
    nearest = Nearest.none(len(piece), k)
    at = {
        (c, s): np.flatnonzero((cell == c) & (codes == s))
        for c in plan.cells
        for s in np.unique(codes).tolist()
    }
    for a, b in plan.tiles:
        for state in np.unique(codes).tolist():
            for mine, theirs in {(a, b), (b, a)}:
                here, there = at[mine, state], at[theirs, state]
                met = Nearest(nearest.rows[here], nearest.squared[here])
                met.meet(
                    _flat(piece, here), places.take(here), _flat(piece, there), places.take(there)
                )
                nearest.rows[here], nearest.squared[here] = met.rows, met.squared
    return nearest


def _flat(piece: Piece, rows: Ints) -> Floats:
    return piece.windows(rows).reshape(len(rows), -1)


def build_part(piece: Piece, halo: Piece, sheet: Sheet) -> Part:
    """The part's problem; ``halo`` are windows that are targets only."""
    rows = np.concatenate([piece.rows, halo.rows])
    order = np.argsort(rows)
    X = np.concatenate([piece.windows(), halo.windows()])[order]
    local = np.searchsorted(sheet.rows, sheet.targets)
    share = Share(
        sheet.n_windows, sheet.cell, sheet.plan.tiles, np.isin(sheet.cell, sheet.plan.pulled)
    )
    return Part(
        Problem(
            X,
            sheet.codes,
            np.where(sheet.targets >= 0, local, -1),
            sheet.start,
            sheet.run,
            sheet.push_weight,
            share=share,
        )
    )


def evaluate(part: Part, kind: Kind, parameters: Floats) -> tuple[float, Floats]:
    """The part's loss and gradient."""
    return part.loss(kind)(parameters)


def target_spread(part: Part) -> tuple[float, int]:
    return part.problem.target_spread()


def loss_at_identity(part: Part, scale: float) -> float:
    return part.problem.loss_at_identity(scale)


def moments(part: Part) -> tuple[int, Floats, Floats, Floats]:
    """Of the part's own windows: their number n, a centre c (w, d), and around it two sums.

    ``Σ (x - c)`` (w, d) over the windows, and ``Σ (x - c)(x - c)ᵀ`` (d, d) over their steps.
    """
    problem = part.problem
    assert problem.share is not None
    own = problem.flat[problem.share.pulled].reshape(-1, problem.width, problem.n_channels)
    steps = own.reshape(-1, problem.n_channels)
    return len(own), problem.X.mean(axis=0), own.sum(axis=0), steps.T @ steps
