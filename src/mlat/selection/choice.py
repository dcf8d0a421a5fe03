"""One way to set up a classifier, in words and in parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..estimators import LMNN, MLAT
from ..lifts import RUNNING, Lift

# The lifts among which is chosen. Energies alone do not know where a channel stands, which is a
# help where it drifts and a loss where it does not.
ENERGIES = ("running_magnitude", "running_deviation", "running_difference")
LIFTS = {
    "channels as they are": ("identity",),
    "log magnitude": ("log_magnitude",),
    "running energies": ENERGIES,
    "channels and running energies": ("identity", *ENERGIES),
}


def looks_back(lift: str) -> bool:
    """Whether a lift reaches further back than the step itself."""
    return bool(set(LIFTS[lift]) & set(RUNNING))


@dataclass(frozen=True)
class Choice:
    """A lift, a width, a metric and a number of neighbours.

    Attributes
    ----------
    lift : str
        One of ``LIFTS``.
    reach : int
        How far back the running energies look.
    width : int
    whiten : bool
    metric : {"euclidean", "MLAT", "LMNN"}
    shrinkage : float
    solver : {"filter", "admm"}
    n_taps : int, optional
    n_targets : int
    n_neighbors : int
    """

    lift: str
    reach: int
    width: int
    whiten: bool = False
    metric: str = "euclidean"
    shrinkage: float = 0.0
    solver: str = "filter"
    n_taps: int | None = None
    n_targets: int = 3
    n_neighbors: int = 1

    def but(self, **changes: Any) -> Choice:
        return replace(self, **changes)

    def make_lift(self) -> Lift:
        return Lift(LIFTS[self.lift], self.reach)

    def make_metric(self, **options: Any) -> Any:
        """A fresh estimator; None for the Euclidean distance."""
        if self.metric == "euclidean":
            return None
        shared = {"shrinkage": self.shrinkage, "n_targets": self.n_targets, **options}
        if self.metric == "LMNN":
            return LMNN(**shared)
        if self.solver == "admm":
            return MLAT(solver="admm", **shared)
        return MLAT(n_taps=self.n_taps or self.width, **shared)

    def __str__(self) -> str:
        # What the energies reach back to is said, because it is further than the window.
        reach = f" over {self.reach} steps" if looks_back(self.lift) else ""
        steps = f"{self.width} step{'s' if self.width > 1 else ''}"
        return f"{self.lift}{reach}, {steps}, {self.metric_name}{self._neighbours}"

    @property
    def metric_name(self) -> str:
        whitened = "whitened " if self.whiten else ""
        if self.metric == "euclidean":
            return f"{whitened}Euclidean distance"
        how = {"LMNN": "LMNN", "MLAT": f"MLAT {self.solver}"}[self.metric]
        taps = f", {self.n_taps} tap{'s' if self.n_taps > 1 else ''}" if self.n_taps else ""
        more = f", {self.n_targets} targets" if self.n_targets != 3 else ""
        start = " from whitened" if self.whiten else ""
        return f"{how}{start}, shrinkage {self.shrinkage:g}{taps}{more}"

    @property
    def _neighbours(self) -> str:
        return f", {self.n_neighbors} neighbours" if self.n_neighbors > 1 else ""
