"""A classifier that knows no state yet, for a live session that learns by being taught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.checks import Floats, check_text, check_whole
from ..base.errors import InputError
from ..features.features import Features, Scaling
from ..features.lifts import Lift
from ..neighbours.references import References
from ..stream.conversion import unnamed_channels
from ..stream.windows import Windows
from .classifier import StreamClassifier
from .committee import Committee
from .confidence import Calibration, Confidence
from .state_filter import StateFilter

# Nothing is known to calibrate on: a state's weight is the inverse square of its distance.
POWER = 2.0


def empty_classifier(
    channels: int | Sequence[str],
    width: int = 10,
    *,
    metric: Any = None,
    mean: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    n_neighbors: int = 1,
    named: bool = True,
) -> StreamClassifier:
    """A classifier without references, which only a live session can use.

    Parameters
    ----------
    channels : int or sequence of str
        How many there are, or their names.
    width : int, default=10
        Steps per window.
    metric : fitted transformer over windows, or None for Euclidean distance
        Such as an :class:`~mlat.MLAT` that was learned elsewhere, on scaled channels.
    mean, scale : arrays of shape (d,), optional
        What is subtracted from each channel, and what it is divided by; default 0 and 1.
    n_neighbors : int, default=1
    named : bool, default=True
        Whether states are texts; False for whole numbers.

    Raises
    ------
    InputError
    """
    width = check_whole(width, "width")
    names = _names(channels)
    d = len(names)
    features = Features(
        Scaling(_column(mean, 0.0, d, "mean"), _column(scale, 1.0, d, "scale")),
        Lift(),
        Scaling.none(d),
    )
    if not (features.channels.scale > 0).all():
        raise InputError("scale must be above 0 in every channel")
    # No window, over as many steps as one would have.
    nothing = np.empty(0, np.int64)
    y = np.empty(0, "U1") if named else nothing
    windows = Windows(np.zeros((width, d)), width, nothing, nothing, y)
    clf = StreamClassifier(width, metric="euclidean" if metric is None else metric)
    clf._set_fitted(
        [References(windows, features, metric, np.zeros((width, d)))],
        Committee.of_one("Euclidean distance" if metric is None else type(metric).__name__),
        names,
        check_whole(n_neighbors, "n_neighbors"),
    )
    clf.confidence_ = Confidence(
        Calibration(POWER, float(np.sqrt(width * d))), StateFilter(np.empty((0, 0)), 1.0), np.inf
    )
    clf.usual_step_ = None
    return clf


def _names(channels: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(channels, str):
        raise InputError(f"channels must be a number or a list of names, not {channels!r}")
    if not isinstance(channels, Sequence):
        return unnamed_channels(check_whole(channels, "channels"))
    names = tuple(check_text(name, "the name of a channel") for name in channels)
    if not names or len(set(names)) < len(names):
        raise InputError(f"channels must be at least one name, all different, not {names}")
    return names


def _column(given: ArrayLike | None, default: float, d: int, name: str) -> Floats:
    if given is None:
        return np.full(d, default)
    column = np.asarray(given, dtype=np.float64)
    if column.shape != (d,) or not np.isfinite(column).all():
        raise InputError(f"{name} must be a finite number for each of {d} channels")
    return column.copy()
