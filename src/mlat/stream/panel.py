"""Panels: sets of separate series of equal length, as aeon and sktime have them.

A series of a panel is one window, and a run of its own: no two of them overlap.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.checks import Floats
from ..base.errors import InputError
from .windows import FEWEST_LOOKED_AT, MOST_LOOKED_AT, ROUGH, SMOOTH, Windows, roughness


def series_windows(X: ArrayLike, y: ArrayLike, *, time_axis: int) -> Windows:
    """The series of a panel as windows, each a run of its own.

    Parameters
    ----------
    X : array of shape (n, channels, time) or (n, time, channels), or (n, time) for one channel
    y : array of shape (n,)
        The class of each series.
    time_axis : 1 or 2
        Which axis of three is the time: 2 is how aeon and sktime have it. Nothing is guessed.

    Returns
    -------
    Windows
        For ``MLAT().fit(windows)``.

    Raises
    ------
    InputError
        If the shapes do not fit together.

    Warns
    -----
    UserWarning
        If the other axis seems to be the time.

    Examples
    --------
    >>> panel = np.zeros((5, 3, 40))  # 5 series of 3 channels
    >>> series_windows(panel, ["a", "b", "a", "b", "a"], time_axis=2).X.shape
    (5, 40, 3)
    """
    panel = as_panel(X, time_axis)
    states = np.asarray(y)
    if states.shape != (len(panel),):
        raise InputError(
            f"y must have one class for each of {len(panel)} series, not {states.shape}"
        )
    n, w, d = panel.shape
    start = np.arange(n) * w
    return Windows(panel.reshape(n * w, d), w, start, np.arange(n), states)


def as_panel(X: Any, time_axis: int) -> Floats:
    """A panel as windows (n, w, d) of float64; see :func:`series_windows`."""
    if time_axis not in (1, 2):
        raise InputError(f"time_axis must be 1 or 2, not {time_axis!r}")
    panel = np.asarray(X, dtype=np.float64)
    if panel.ndim == 2:
        return np.ascontiguousarray(panel[:, :, None])
    if panel.ndim != 3:
        raise InputError(
            "a panel has shape (n, channels, time) or (n, time, channels), or (n, time) for one "
            f"channel, not {panel.shape}; series of different length are not taken"
        )
    panel = panel.transpose(0, 2, 1) if time_axis == 2 else panel
    _warn_if_transposed(panel, np.shape(X), time_axis)
    return np.ascontiguousarray(panel)


def _warn_if_transposed(panel: Floats, shape: tuple[int, ...], time_axis: int) -> None:
    n, w, d = panel.shape
    if n * w < FEWEST_LOOKED_AT or w == 1 or d < 4 or np.isnan(panel).any():
        return
    flat = panel[:: max(1, n // MOST_LOOKED_AT)].reshape(-1, w * d)
    if roughness(flat, w, d) < ROUGH or roughness(flat, d, w, is_turned=True) >= SMOOTH:
        return
    warnings.warn(
        f"X has shape {shape}, and axis {3 - time_axis} seems to be the time: values there go on "
        f"smoothly, those of axis {time_axis} do not; give time_axis={3 - time_axis}",
        UserWarning,
        stacklevel=4,
    )
