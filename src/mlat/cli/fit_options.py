"""What ``mlat fit`` was asked for: which options go together, and the classifier they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..classifier.classifier import StreamClassifier
from ..errors import InputError
from ..features.lifts import MAPS, RUNNING, Lift
from ..metric.estimators import LMNN, MLAT
from .stream_options import split_names


class Metric(StrEnum):
    auto = "auto"
    mlat = "mlat"
    lmnn = "lmnn"
    euclidean = "euclidean"


class Solver(StrEnum):
    filter = "filter"
    admm = "admm"


LEARNED = (Metric.mlat, Metric.lmnn)
NAMED = (*LEARNED, Metric.euclidean)
GOES_WITH: dict[str, tuple[Metric, ...]] = {
    "--solver": (Metric.mlat,),
    "--targets": LEARNED,
    "--gap": LEARNED,
    "--shrinkage": LEARNED,
    "--lift": NAMED,
    "--whiten": NAMED,
    "--budget": (Metric.auto,),
}


@dataclass(frozen=True)
class Asked:
    """The options about the metric as they were given; None or False for those that were not."""

    metric: Metric
    solver: Solver | None = None
    targets: int | None = None
    gap: str | None = None
    shrinkage: float | None = None
    lift: list[str] | None = None
    whiten: bool = False
    reach: int | None = None
    budget: str | None = None
    unknown_rate: float = 0.0

    def classifier(self, **shared: Any) -> StreamClassifier:
        """A classifier that is set up as asked, not fitted yet."""
        self._check_together()
        if not 0 <= self.unknown_rate < 1:
            raise InputError(
                f"--unknown-rate must be from 0 to less than 1, not {self.unknown_rate:g}"
            )
        shared["unknown_rate"] = self.unknown_rate
        if self.metric is Metric.auto:
            if self.budget is not None:
                shared["budget"] = parse_budget(self.budget)
            return StreamClassifier(metric="auto", reach=self.reach, **shared)
        return StreamClassifier(
            metric=self._estimator(), lift=self._lift(), whiten=self.whiten, **shared
        )

    def _check_together(self) -> None:
        """Refuse an option that would go unheard."""
        for option, metrics in GOES_WITH.items():
            value = getattr(self, option.removeprefix("--"))
            if value is not None and value is not False and self.metric not in metrics:
                raise InputError(
                    f"{option} goes with --metric {_either(metrics)}, not with {self.metric}; "
                    f"add that, or leave {option} out"
                )
        if self.reach is not None and self.metric is not Metric.auto:
            running = set(split_names(self.lift, "--lift") or ()) & set(RUNNING)
            if not running:
                raise InputError(
                    f"--reach goes with --metric auto, or with a --lift that looks back "
                    f"({', '.join(RUNNING)}); leave it out"
                )

    def _estimator(self) -> Any:
        if self.metric is Metric.euclidean:
            return "euclidean"
        given: dict[str, Any] = {
            "n_targets": self.targets,
            "target_gap": None if self.gap is None else parse_gap(self.gap),
            "shrinkage": self.shrinkage,
            "solver": None if self.solver is None else self.solver.value,
        }
        make = LMNN if self.metric is Metric.lmnn else MLAT
        return make(**{name: value for name, value in given.items() if value is not None})

    def _lift(self) -> Lift | None:
        names = split_names(self.lift, "--lift")
        if names is None:
            return None
        for name in names:
            if name not in MAPS:
                raise InputError(f"--lift knows no map {name!r}; there are {', '.join(MAPS)}")
        return Lift(names) if self.reach is None else Lift(names, self.reach)


def parse_gap(gap: str) -> Any:
    """ "run", or a number of steps."""
    if gap == "run":
        return gap
    if not (gap.isascii() and gap.isdigit()):
        raise InputError(f'--gap must be "run" or a whole number of steps, not {gap!r}')
    return int(gap)


def parse_budget(budget: str) -> float:
    """Seconds, from ``90``, ``60s`` or ``2m``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([sm]?)", budget.strip(), flags=re.ASCII)
    if found is None:
        raise InputError(
            f"--budget must be seconds or minutes, such as 90, 60s or 2m, not {budget!r}"
        )
    return float(found[1]) * (60 if found[2] == "m" else 1)


def _either(metrics: tuple[Metric, ...]) -> str:
    *others, last = metrics
    return f"{', '.join(others)} or {last}" if others else str(last)
