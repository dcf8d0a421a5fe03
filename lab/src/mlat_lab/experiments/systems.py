"""The systems that each table compares, and the wrappers that make them classifiers of windows.

- ``SYSTEMS``: those of the paper's Tables 2 and 3, with our MLAT beside the paper's.
- ``related_systems()``: three more learned distances, which the paper names as related work.
- ``beyond_systems()``: everyone on all windows, with classifiers that people would use instead of
  nearest neighbours under a learned metric; with the same past as our default, and with windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from mlat.base.checks import Floats, Ints
from mlat.classifier.classifier import StreamClassifier
from mlat.metric.estimators import LMNN, MLAT
from mlat.stream.windows import as_windows, flatten

from ..datasets.catalog import StreamSet, get_set
from ..rivals.decade import DECADE
from ..rivals.dtw import transform
from ..rivals.knn import MDTW, EuclideanKNN, MetricKNN, WindowKNN
from ..rivals.ldmlt import LDMLT
from ..rivals.lmnn_dtw import LMNNDTW
from ..rivals.siamese import SiameseLSTM
from .aeon_peer import AeonPeer
from .aeon_worker import METHODS, Method
from .experiment import ALL, Experiment, Sees, System
from .people import WHOLE, People, recorded
from .protocol import evenly

# The people that the defaults of ``MLAT`` were chosen on; results are given with and without them.
DEVELOPMENT: Mapping[str, tuple[str, ...]] = {
    "emg": ("sub1",),
    "vicon": ("sub2", "sub3"),
    "scma": ("1", "2"),
}

# Both metrics learn from as many targets, so that they differ in the constraint alone.
N_TARGETS = 3

# LDMLT's learning grows with the square of the windows. On all 3,500 windows of SCMA, for fifteen
# people, it would take as long as everything else together, to learn a matrix of 3 by 3.
LDMLT_PER_LABEL: Mapping[str, int] = {"scma": 200}

# Those that the paper names as related work and does not compare with.
RELATED = ("LMNN-DTW", "DECADE", "LSTM")
NEED_TORCH = ("DECADE", "LSTM")

# ``StreamClassifier`` with its defaults, and the same with the causal filter over its states.
AUTO, AUTO_FILTERED = "MLAT-auto", "MLAT-auto-filtered"
# The Euclidean distance with the same filter, so that the filter alone is no merit.
ED_FILTERED = "ED-filtered"

# A rival with the same past as our default, and two that learn from our default's own features.
SAME_PAST = "-past"  # ends the name
FOREST, LINEAR = "Forest-features", "Linear-features"

TEN_STEPS, ONE_SECOND = "ten steps", "one second"  # the widths of the table beyond

# Beyond these a single fit takes hours: dynamic time warping grows with the square of the steps,
# a full matrix over windows with the cube of its side. One second of EMG is 1000 steps.
MOST_STEPS, MOST_VALUES = 52, 600

# Steps of each state that are judged in whole streams, evenly spaced: half an hour of ECG has
# 200,000, for which the features of some rivals would not fit into memory.
MOST_JUDGED = 1000

# From the name of a data set and a size to a fresh estimator. None is a local function: they are
# sent to worker processes.
Maker = Callable[[str, str], Any]


def _ed(data_set: str, size: str) -> EuclideanKNN:
    return EuclideanKNN()


def _mdtw(data_set: str, size: str) -> MDTW:
    return MDTW()


def _ldmlt(data_set: str, size: str) -> WindowKNN:
    if size == ALL and data_set in LDMLT_PER_LABEL:
        return ThinnedLDMLT(max_per_label=LDMLT_PER_LABEL[data_set])
    return LDMLT()


def _lmnn(data_set: str, size: str) -> MetricKNN:
    # As in the literature: the nearest windows are the targets, wherever in time they are, and
    # pull and push weigh the same.
    return MetricKNN(metric=LMNN(n_targets=N_TARGETS, target_gap=0, push_weight=0.5))


def _mlat_paper(data_set: str, size: str) -> MetricKNN:
    return MetricKNN(metric=MLAT.as_in_paper(n_targets=N_TARGETS))


def _mlat(data_set: str, size: str) -> MetricKNN:
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


def _lmnn_dtw(data_set: str, size: str) -> LMNNDTW:
    return LMNNDTW.as_in_paper(n_jobs=1)


def _decade(data_set: str, size: str) -> DECADE:
    # As in the literature: the nearest windows are the targets, wherever in time they are.
    return DECADE(target_gap=0, n_jobs=1, random_state=0)


def _lstm(data_set: str, size: str) -> SiameseLSTM:
    return SiameseLSTM(n_jobs=1, random_state=0)


def related_systems(without: tuple[str, ...] = ()) -> dict[str, System]:
    """The rivals of Table 2, the related systems, and MLAT.

    Parameters
    ----------
    without : tuple of str
        Related systems to leave out.
    """
    related = [
        System(name, make, needs="torch" if name in NEED_TORCH else None)
        for name, make in zip(RELATED, (_lmnn_dtw, _decade, _lstm), strict=True)
        if name not in without
    ]
    rivals = [system for system in SYSTEMS.values() if system.is_rival]
    ours = [system for system in SYSTEMS.values() if not system.is_rival]
    return {system.name: system for system in (*rivals, *related, *ours)}


def _thin_mdtw(data_set: str, size: str) -> Decimated:
    return Decimated(_mdtw(data_set, size), most_steps=MOST_STEPS)


def _thin_lmnn(data_set: str, size: str) -> Decimated:
    return Decimated(_lmnn(data_set, size), most_values=MOST_VALUES)


def _thin_mlat_paper(data_set: str, size: str) -> Decimated:
    return Decimated(_mlat_paper(data_set, size), most_values=MOST_VALUES)


def _svm(data_set: str, size: str) -> FlatWindows:
    return FlatWindows(SVC())


def _extra_trees(data_set: str, size: str) -> FlatWindows:
    # More trees than the default of 100 never hurt.
    return FlatWindows(ExtraTreesClassifier(n_estimators=500, random_state=0, n_jobs=1))


def _boosting(data_set: str, size: str) -> FlatWindows:
    # With 10,000 windows or fewer the defaults learn from all of them. With more they would stop
    # early, judged by some put aside at random, which overlap the others.
    return FlatWindows(HistGradientBoostingClassifier(random_state=0))


def _aeon(name: str, python: str | None, data_set: str, size: str) -> AeonPeer:
    return AeonPeer(name, python)


def _forest(data_set: str, size: str) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(n_estimators=500, class_weight="balanced", random_state=0, n_jobs=1)


def _linear(data_set: str, size: str) -> LogisticRegression:
    # The features are scaled already. The default of 100 steps is too few for many of them.
    return LogisticRegression(class_weight="balanced", max_iter=1000)


def _auto(data_set: str, size: str) -> StreamClassifier:
    return StreamClassifier()


def _euclidean_stream(data_set: str, size: str) -> StreamClassifier:
    return StreamClassifier(metric="euclidean")


def beyond_systems(python: str | None = None) -> dict[str, System]:
    """Everyone in the table beyond the paper's, on all windows.

    Parameters
    ----------
    python : str, optional
        A Python that has aeon and torch, as for :class:`AeonPeer`; default this one.
    """
    makers: dict[str, Maker] = {
        "ED": _ed,
        "MDTW": _thin_mdtw,
        "LMNN": _thin_lmnn,
        "MLAT-paper": _thin_mlat_paper,
        "SVM": _svm,
        "ExtraTrees": _extra_trees,
        "Boosting": _boosting,
        **{name: partial(_aeon, name, python) for name in METHODS},
    }
    windows = [System(name, make, (ALL,)) for name, make in makers.items()]
    features = ((FOREST, _forest), (LINEAR, _linear))
    systems = (
        *(replace(one, name=f"{one.name}{SAME_PAST}", sees=Sees.PAST) for one in windows),
        *(System(name, make, (ALL,), sees=Sees.FEATURES) for name, make in features),
        System(AUTO, _auto, (ALL,), sees=Sees.STREAM),
        System(AUTO_FILTERED, _auto, (ALL,), sees=Sees.STREAM, filtered=True),
        *windows,
    )
    return {system.name: system for system in systems}


def has_same_past(name: str) -> bool:
    """Whether a rival may look as far back as our default, by its name."""
    return name.endswith(SAME_PAST) or name in (FOREST, LINEAR)


def aeon_method(name: str) -> Method | None:
    """The classifier of aeon that a system is, whatever its past."""
    return METHODS.get(name.removesuffix(SAME_PAST))


def beyond_experiments(
    people: Mapping[str, People], python: str | None = None
) -> dict[str, Experiment]:
    """The experiment at each width.

    With windows of one second more steps are given, so that there are as many windows.
    """
    systems = beyond_systems(python)
    ten = Experiment(people, systems)
    seconds = {}
    for name, of_set in people.items():
        width = get_set(name).rate
        given = None if of_set.given is None else of_set.given + width - ten.width
        seconds[name] = replace(of_set, given=given, width=width)
    return {TEN_STEPS: ten, ONE_SECOND: Experiment(seconds, systems)}


def streams_systems(python: str | None = None) -> dict[str, System]:
    """Everyone in the table of whole streams: those of the table beyond, and ED with the filter."""
    filtered = System(ED_FILTERED, _euclidean_stream, (ALL,), sees=Sees.STREAM, filtered=True)
    return {**beyond_systems(python), ED_FILTERED: filtered}


def suite_systems() -> dict[str, System]:
    """Those of the synthetic suite; the experts of the default are judged by themselves, too."""
    ours = streams_systems()
    return {
        "ED": ours["ED"],
        "MLAT": System("MLAT", _mlat, (ALL,)),
        FOREST: ours[FOREST],
        LINEAR: ours[LINEAR],
        ED_FILTERED: ours[ED_FILTERED],
        AUTO: replace(ours[AUTO], alone=True),
        AUTO_FILTERED: ours[AUTO_FILTERED],
    }


def streams_development(protocol: str) -> dict[str, tuple[str, ...]]:
    """Who of each set of whole recordings has a file that defaults were chosen on."""
    found = {}
    for name, data_set in WHOLE.items():
        files = data_set.development if isinstance(data_set, StreamSet) else DEVELOPMENT[name]
        groups = recorded(data_set, protocol)
        found[name] = tuple(who for who, parts in groups.items() if set(parts) & set(files))
    return found


def streams_experiments(
    people: Mapping[str, Mapping[str, People]], python: str | None = None
) -> dict[str, Experiment]:
    """The experiment of each protocol of whole streams, from its people by data set."""
    systems = streams_systems(python)
    return {
        protocol: Experiment(of_sets, systems, n_test=MOST_JUDGED)
        for protocol, of_sets in people.items()
    }


# Wrappers. Fingerprints hold the names of these classes and of their parameters.


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
        of_labels = [np.flatnonzero(codes == code) for code in np.unique(codes)]
        rows = np.sort(np.concatenate([evenly(own, self.max_per_label) for own in of_labels]))
        self.components_ = LDMLT().fit(windows[rows], codes[rows]).components_
        self._references = MDTW().fit(transform(windows, self.components_), codes)

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        distances, nearest = self._references.kneighbors(transform(windows, self.components_), k)
        return distances, nearest


class Decimated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that sees every m-th step of long windows.

    Parameters
    ----------
    classifier : estimator
        A copy of it is fitted.
    most_steps, most_values : int, optional
        m is the least that leaves at most so many steps, and so many values, in a window.

    Attributes
    ----------
    every_ : int
        m.
    classifier_ : fitted classifier
    """

    def __init__(
        self, classifier: Any, most_steps: int | None = None, most_values: int | None = None
    ) -> None:
        self.classifier = classifier
        self.most_steps = most_steps
        self.most_values = most_values

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from windows (n, w, d) with labels (n,)."""
        windows = as_windows(X)
        self.every_ = self.every(*windows.shape[1:])
        self.classifier_ = clone(self.classifier).fit(self._thin(windows), y)
        self.classes_ = self.classifier_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each window, shape (n,)."""
        labels: NDArray[Any] = self.classifier_.predict(self._thin(as_windows(X)))
        return labels

    def every(self, width: int, n_channels: int) -> int:
        """m for windows of so many steps and channels."""
        bounds = [width]
        if self.most_steps is not None:
            bounds.append(self.most_steps)
        if self.most_values is not None:
            bounds.append(max(1, self.most_values // n_channels))
        return -(-width // min(bounds))

    def _thin(self, windows: Floats) -> Floats:
        # The last step is kept, whatever m is: it is the newest.
        return np.ascontiguousarray(windows[:, ::-1][:, :: self.every_][:, ::-1])


class FlatWindows(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn over windows (n, w, d), to which every value is a feature.

    Not a scikit-learn ``Pipeline``: that describes its steps by a text which leaves out defaults
    and holds addresses, where a fingerprint needs all parameters and nothing else.

    Parameters
    ----------
    classifier : estimator
        A copy of it is fitted.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    classifier_ : fitted classifier
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from windows (n, w, d) with labels (n,)."""
        self.classifier_ = clone(self.classifier).fit(flatten(as_windows(X)), y)
        self.classes_ = self.classifier_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each window, shape (n,)."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classifier_.predict(flatten(as_windows(X)))
        return labels
