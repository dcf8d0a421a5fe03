"""Windows as arrays: (n, w, d) for the mathematics, (n, w*d) for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError


def fold(X: NDArray[Any], width: int | None = None) -> NDArray[Any]:
    """Windows as (n, w, d), from an array of that shape or a flat (n, w*d) one.

    A flat array is folded time-major into ``width`` steps; without a width it is one channel.
    """
    if X.ndim == 3:
        if width is not None and X.shape[1] != width:
            raise InputError(
                f"windows have {X.shape[1]} steps but width is {width}; X must have shape "
                f"(windows, {width}, channels), not {X.shape}"
            )
        return X
    if X.ndim != 2:
        raise InputError(f"X must have shape (n, w, d) or (n, w*d), not {X.shape}")
    if width is None:
        return X[:, :, None]
    if X.shape[1] % width:
        raise InputError(
            f"{X.shape[1]} features do not fold into windows of width {width}; "
            "X must have shape (n, width * channels)"
        )
    return X.reshape(len(X), width, X.shape[1] // width)


def as_windows(X: Any) -> Any:
    """Nested lists as an array; anything else as it is, to be checked later."""
    return np.asarray(X) if isinstance(X, list | tuple) else X


def window_width(X: Any, width: int | None) -> int | None:
    """The width that ``X`` says itself where it is (n, w, d), and the given one elsewhere."""
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return int(fold(X, width).shape[1])
    return width


def flatten(X: Any) -> Any:
    """A (n, w, d) array as (n, w*d), time-major; anything else as it is, to be checked later."""
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.reshape(len(X), X.shape[1] * X.shape[2])
    return X


def check_finite(windows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The windows (n, w, d) themselves, if no value is NaN or infinite."""
    bad = ~np.isfinite(windows)
    if bad.any():
        window, step, channel = np.argwhere(bad)[0]
        kind = "NaN" if np.isnan(windows[window, step, channel]) else "inf"
        raise InputError(
            f"X holds {kind} in window {window}, step {step}, channel {channel}; leave out windows "
            "with missing values, or fill them in"
        )
    return windows


def unfold(
    X: NDArray[Any], start: NDArray[Any], run: NDArray[Any]
) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Overlapping windows (n, w, d) as the stretches of stream they came from.

    Returns, for each stretch, the rows of its windows in the order of time and its steps (T, d):
    row ``rows[i]`` of X is ``steps[i : i + w]``. That the windows really overlap is checked on
    their values, so windows which merely claim to be neighbours become stretches of their own.
    """
    order = np.lexsort((start, run))
    before, after = order[:-1], order[1:]
    follows = (run[after] == run[before]) & (start[after] == start[before] + 1)
    candidates = np.flatnonzero(follows)
    same = (X[after[candidates], :-1] == X[before[candidates], 1:]).all(axis=(1, 2))
    follows[candidates[~same]] = False
    stretches = np.split(order, np.flatnonzero(~follows) + 1)
    return [(rows, np.concatenate([X[rows[0]], X[rows[1:], -1]])) for rows in stretches]
