"""The six systems that are compared, each as a maker of fresh window-level classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import Floats, Ints
from ...metric.estimators import LMNN, MLAT
from ..rivals.dtw import transform
from ..rivals.knn import MDTW, EuclideanKNN, MetricKNN, WindowKNN
from ..rivals.ldmlt import LDMLT

# How much a system trains on: the paper's 100 random windows per label, or all windows.
FEW, ALL = "few", "all"

# The people that the defaults of ``MLAT`` were chosen on; results are given with and without them.
DEVELOPMENT: Mapping[str, tuple[str, ...]] = {
    "emg": ("sub1",),
    "vicon": ("sub2", "sub3"),
    "scma": ("1", "2"),
}

# LDMLT's learning grows with the square of the windows. On all 3,500 windows of SCMA, for fifteen
# people, it would take as long as everything else together, to learn a matrix of 3 by 3.
LDMLT_PER_LABEL: Mapping[str, int] = {"scma": 200}

# Both metrics learn from as many targets, so that they differ in the constraint alone.
N_TARGETS = 3


class ThinnedLDMLT(WindowKNN):
    """LDMLT that learns its metric from some of the windows and searches all of them.

    Parameters
    ----------
    width : int, optional
    n_neighbors : int, default=1
    max_per_label : int, default=200
        Learn from at most this many windows of each label, evenly spaced.

    Attributes
    ----------
    components_ : array of shape (d, d)
    """

    def __init__(
        self, width: int | None = None, n_neighbors: int = 1, max_per_label: int = 200
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.max_per_label = max_per_label

    def _learn(self, windows: Floats, codes: Ints) -> None:
        rows = np.sort(np.concatenate([self._evenly(codes == code) for code in np.unique(codes)]))
        self.components_ = LDMLT().fit(windows[rows], codes[rows]).components_
        self._references = MDTW().fit(transform(windows, self.components_), codes)

    def _evenly(self, mask: np.ndarray) -> Ints:
        rows = np.flatnonzero(mask)
        n = min(self.max_per_label, len(rows))
        return rows[np.linspace(0, len(rows) - 1, n).round().astype(np.int64)]

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        found = self._references.kneighbors(transform(windows, self.components_), k)
        distances, nearest = found
        return distances, nearest


@dataclass(frozen=True)
class System:
    """A classifier of windows, and how much it trains on in the paper's tables.

    Attributes
    ----------
    name : str
    make : callable
        From the name of a data set and a size to a fresh estimator.
    sizes : tuple of str
        A rival trains on few windows in Table 2 and on all in Table 3; MLAT always on all.
    on_streams : bool
        The estimator is a :class:`~mlat.StreamClassifier`: it learns from the given steps as a
        stream, and tells the state of each step.
    filtered : bool
        Its states are those of the causal filter.
    needs : str or None
        A package that it needs and that only an extra installs.
    """

    name: str
    make: Callable[[str, str], Any]
    sizes: tuple[str, ...] = (FEW, ALL)
    on_streams: bool = False
    filtered: bool = False
    needs: str | None = None

    @property
    def is_rival(self) -> bool:
        return FEW in self.sizes

    @property
    def table_2_size(self) -> str:
        return self.sizes[0]


def _ed(data_set: str, size: str) -> Any:
    return EuclideanKNN()


def _mdtw(data_set: str, size: str) -> Any:
    return MDTW()


def _ldmlt(data_set: str, size: str) -> Any:
    if size == ALL and data_set in LDMLT_PER_LABEL:
        return ThinnedLDMLT(max_per_label=LDMLT_PER_LABEL[data_set])
    return LDMLT()


def _lmnn(data_set: str, size: str) -> Any:
    # As in the literature: the nearest windows are the targets, wherever in time they are, and
    # pull and push weigh the same.
    return MetricKNN(metric=LMNN(n_targets=N_TARGETS, target_gap=0, push_weight=0.5))


def _mlat_paper(data_set: str, size: str) -> Any:
    return MetricKNN(metric=MLAT.as_in_paper(n_targets=N_TARGETS))


def _mlat(data_set: str, size: str) -> Any:
    return MetricKNN(metric=MLAT())


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("ED", _ed),
        System("MDTW", _mdtw),
        System("LDMLT", _ldmlt),
        System("LMNN", _lmnn),
        System("MLAT-paper", _mlat_paper, (ALL,)),
        System("MLAT", _mlat, (ALL,)),
    )
}


def describe(estimator: Any) -> dict[str, Any]:
    """An estimator's class and parameters, as JSON would have them."""
    description: dict[str, Any] = {"class": type(estimator).__name__}
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if hasattr(value, "get_params"):
            description[name] = describe(value)
        elif value is None or isinstance(value, bool | int | float | str):
            description[name] = value
        else:
            description[name] = repr(value)
    return description
