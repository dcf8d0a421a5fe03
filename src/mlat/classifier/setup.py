"""What a classifier was asked for, or what it decides for itself, before it learns."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..checks import is_real, is_whole
from ..errors import InputError
from ..features.lifts import Lift
from ..metric.estimators import LMNN, MLAT
from ..stream.stream import Stream
from ..stream.windows import Windows, sliding_windows
from .selection import MOST_IN_FIT, Selection, learn_metric, select

NAMED = {"mlat": MLAT, "lmnn": LMNN}


@dataclass(frozen=True, eq=False)
class Setup:
    """How windows will be compared.

    Attributes
    ----------
    width : int
    lift : Lift
    whiten : bool
    n_neighbors : int
    fit_metric : callable
        From labelled windows of features to a fitted transformer, or to None.
    selection : Selection or None
    """

    width: int
    lift: Lift
    whiten: bool
    n_neighbors: int
    fit_metric: Callable[[Windows], Any]
    selection: Selection | None = None


def set_up(classifier: Any, stream: Stream) -> Setup:
    """From the parameters of a classifier, and from the stream where it is to decide."""
    _check_numbers(classifier)
    k = classifier.n_neighbors
    with warnings.catch_warnings():
        # States without windows are told of once, when the width is settled.
        warnings.simplefilter("ignore", UserWarning)
        windows = sliding_windows(stream, classifier.width, step=classifier.step)
    classes = np.unique(windows.y)
    if len(classes) < 2:
        raise InputError(
            f"the stream has windows of one state only, {classes[0]!s}; label at least two states"
        )
    metric = classifier.metric
    if isinstance(metric, str) and metric == "auto":
        return _choose(classifier, stream)
    if isinstance(metric, str) and metric in NAMED:
        metric = NAMED[metric]()
    elif isinstance(metric, str) and metric != "euclidean":
        raise InputError(
            f'metric must be "auto", "euclidean", "mlat", "lmnn" or an estimator such as '
            f"mlat.MLAT(), not {metric!r}"
        )
    return Setup(
        classifier.width,
        as_lift(classifier.lift),
        bool(classifier.whiten),
        1 if k is None else int(k),
        partial(_fit_given, metric),
    )


def _check_numbers(classifier: Any) -> None:
    k, reach = classifier.n_neighbors, classifier.reach
    if k is not None and (not is_whole(k) or k < 1):
        raise InputError(f"n_neighbors must be at least 1, not {k!r}")
    if reach is not None and (not is_whole(reach) or reach < 1):
        raise InputError(f"reach must be a whole number of at least 1, not {reach!r}")
    rate, budget = classifier.unknown_rate, classifier.budget
    if not is_real(rate) or not 0 <= rate < 1:
        raise InputError(f"unknown_rate must be from 0 to less than 1, not {rate!r}")
    if not is_real(budget) or not budget >= 0:
        raise InputError(f"budget must be a number of seconds, at least 0, not {budget!r}")


def as_lift(given: Any) -> Lift:
    """A lift from its maps' names, or as it is; nothing is the identity."""
    if given is None:
        return Lift()
    return given if isinstance(given, Lift) else Lift(given).fit()


def _choose(classifier: Any, stream: Stream) -> Setup:
    if classifier.lift is not None or classifier.whiten:
        raise InputError('metric="auto" chooses lift and whitening itself; leave them out')
    selection = select(
        stream,
        classifier.width,
        reach=classifier.reach,
        scale=classifier.scale,
        budget=classifier.budget,
    )
    choice = selection.choice
    k = choice.n_neighbors if classifier.n_neighbors is None else classifier.n_neighbors
    fit = no_metric if choice.metric == "euclidean" else partial(_fit_chosen, choice)
    return Setup(choice.width, choice.make_lift(), choice.whiten, k, fit, selection)


def no_metric(windows: Windows) -> None:
    """The Euclidean distance."""


def _fit_chosen(choice: Any, windows: Windows) -> Any:
    return learn_metric(choice, windows, MOST_IN_FIT)


def _fit_given(metric: Any, windows: Windows) -> Any:
    if isinstance(metric, str):
        return None
    metric = clone(metric)
    accepted = inspect.signature(metric.fit).parameters
    when = {"start": windows.start, "run": windows.run}
    return metric.fit(windows.X, windows.y, **{k: v for k, v in when.items() if k in accepted})


def as_labelled(stream: Stream | ArrayLike, states: ArrayLike | None, **more: Any) -> Stream:
    """A stream, or one of values and states."""
    if isinstance(stream, Stream):
        if states is not None:
            raise InputError("the stream has states of its own; give it alone")
        return stream
    if states is None:
        raise InputError("fit needs the states: a labelled stream, or values and states")
    return Stream(stream, states, **more)
