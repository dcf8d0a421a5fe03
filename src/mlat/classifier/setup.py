"""The parameters of a classifier, checked, and the plan that they make."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..base.checks import is_real, is_whole
from ..base.errors import InputError
from ..features.lifts import Lift
from ..metric.estimators import LMNN, MLAT
from ..metric.torch_device import open_device
from ..stream.stream import Stream
from ..stream.windows import sliding_windows
from .experts import Design, Plan, default_plan

NAMED = {"mlat": MLAT, "lmnn": LMNN}
# A number has 16 digits: of an offset this many times the variation, five are left for it.
LARGE_OFFSET = 1e11


def set_up(
    stream: Stream,
    *,
    width: int,
    metric: Any,
    lift: Any,
    whiten: bool,
    n_neighbors: int | None,
    scale: bool,
    reach: int | None,
    max_references: float | None = None,
    device: str | None = None,
) -> Plan:
    """Check the parameters of a classifier, and lay out its experts.

    Raises
    ------
    InputError
        If a parameter is wrong, or if the stream has windows of fewer than two states.
    """
    if max_references is not None:
        _check_most(max_references, n_neighbors)
    if device is not None:
        open_device(device, "a classifier on a device")
    is_name = isinstance(metric, str)
    if metric is None or (is_name and metric not in ("auto", "euclidean", *NAMED)):
        raise InputError(
            f'metric must be "auto", "euclidean", "mlat", "lmnn" or an estimator such as '
            f"mlat.MLAT(), not {metric!r}"
        )
    is_auto = is_name and metric == "auto"
    if is_auto and (lift is not None or whiten):
        raise InputError('metric="auto" has lifts and whitening of its own; leave them out')
    if is_auto and n_neighbors not in (None, 1):
        raise InputError(
            f'metric="auto" compares the nearest reference of each state; for {n_neighbors} '
            'neighbours give one metric, such as metric="mlat"'
        )
    check_states(stream, width)
    _warn_of_offsets(stream)
    if is_auto:
        return default_plan(stream, width, reach, bool(scale))
    if is_name:
        metric = None if metric == "euclidean" else NAMED[metric]()
    name = "Euclidean distance" if metric is None else type(metric).__name__
    lift = Lift() if lift is None else lift if isinstance(lift, Lift) else Lift(lift).fit()
    k = 1 if n_neighbors is None else int(n_neighbors)
    design = Design(name, width, whiten=bool(whiten), metric=metric)
    return Plan((design,), lift, bool(scale), k, device)


def _check_most(most: float, n_neighbors: int | None) -> None:
    """Refuse a wrong number or share of references."""
    is_share = is_real(most) and 0 < most < 1
    if not is_share and (not is_whole(most) or most < 1):
        raise InputError(
            "max_references must be a number of references, or the share of decisions that stay "
            f"the same, such as 0.99, not {most!r}"
        )
    if n_neighbors not in (None, 1):
        raise InputError(
            "max_references is for the nearest reference; with several neighbours leave it out"
        )


def check_states(stream: Stream, width: int) -> None:
    """Refuse a stream that has windows of fewer than two states."""
    runs = stream.runs
    codes = np.unique(runs.code[runs.length >= width])
    if not len(codes):
        sliding_windows(stream, width)  # raises: it says why there is no window
    if len(codes) < 2:
        raise InputError(
            f"the stream has windows of one state only, {stream.classes[codes[0]]!s}; label at "
            "least two states (it is one class)"
        )


def _warn_of_offsets(stream: Stream) -> None:
    """Warn of channels whose variation is nearly lost in the rounding of a large offset."""
    values = stream.values[stream.labelled & ~stream.missing].astype(np.float64, copy=False)
    low, high = values.min(axis=0), values.max(axis=0)
    size, variation = np.maximum(-low, high), high / 2 - low / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = size / variation
    for channel in np.flatnonzero((ratio > LARGE_OFFSET) & (variation > 0)):
        warnings.warn(
            f"channel {stream.channels[channel]!r}: its offset is {ratio[channel]:.0e} times its "
            "variation, of which rounding leaves little or nothing; subtract the offset first, or "
            "leave the channel out",
            stacklevel=4,
        )
