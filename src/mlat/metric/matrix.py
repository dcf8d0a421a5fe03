"""Any transformer over windows, and the matrix M of a fitted one, also before whitening."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats
from ..base.errors import InputError
from ..stream.windows import flatten

MAX_BASIS = 4000  # values per window up to which a map is evaluated on all unit windows


def metric_array(metric: Any, width: int, n_features: int) -> Floats | None:
    """The matrix or the blocks of a fitted transformer over windows; None is the identity.

    Parameters
    ----------
    metric : fitted transformer, or None
        With ``taps_`` its ``blocks_`` are exact. Otherwise the matrix is its ``metric_`` or, where
        it has none, follows from the ``transform`` of the unit windows.
    width, n_features : int

    Raises
    ------
    InputError
        If the transformer has no ``metric_`` and is not linear, or windows are too large.
    """
    if metric is None:
        return None
    if hasattr(metric, "taps_"):
        return np.asarray(metric.blocks_, dtype=np.float64)
    if hasattr(metric, "metric_"):
        return np.asarray(metric.metric_, dtype=np.float64)
    L = linear_map(metric, width, n_features)
    return L.T @ L


def linear_map(metric: Any, width: int, n_features: int) -> Floats:
    """The L (r, w*d) of a fitted transformer over windows, from what it does to unit windows.

    Raises
    ------
    InputError
        If it is not linear, or windows are too large.
    """
    size = width * n_features
    if size > MAX_BASIS:
        raise InputError(
            f"windows of {size} values are too large to find out what {type(metric).__name__} "
            f"does to each (at most {MAX_BASIS}); give it an attribute metric_"
        )
    shape = (-1, width, n_features)
    origin = transform_windows(metric, np.zeros((1, size)).reshape(shape))
    rows = transform_windows(metric, np.eye(size).reshape(shape)) - origin
    probe = np.random.default_rng(0).normal(size=(1, size))
    image = transform_windows(metric, probe.reshape(shape)) - origin
    if not np.allclose(probe @ rows, image, atol=1e-6 * float(np.abs(image).max(initial=0.0))):
        raise InputError(
            f"{type(metric).__name__} is not linear, so its distances have no parts by feature "
            "and lag"
        )
    return rows.T


def transform_windows(metric: Any, X: Floats) -> Floats:
    """Windows (n, w, d) under any fitted transformer, shape (n, r).

    Most transformers, such as scikit-learn's ``PCA``, take rows and no windows: they get them flat.
    """
    try:
        Z = metric.transform(X)
    except InputError:  # of a metric of our own, which takes windows
        raise
    except ValueError:
        Z = metric.transform(flatten(X))
    return np.asarray(flatten(np.asarray(Z)), dtype=np.float64)


def fit_windows(metric: Any, X: Floats, y: NDArray[Any], **more: Any) -> Any:
    """Fit any transformer to windows (n, w, d) and their states (n,).

    As :func:`transform_windows`, flat where it takes no windows; what else it takes is given.
    """
    accepted = inspect.signature(metric.fit).parameters
    given = {name: value for name, value in more.items() if name in accepted}
    try:
        return metric.fit(X, y, **given)
    except InputError:
        raise
    except ValueError:
        return metric.fit(flatten(X), y, **given)


def unmixed(metric: Floats | None, mixing: Floats | None, width: int) -> Floats | None:
    """The metric over the features x, from the metric over the mixed features ``z = x W``.

    Block ``M_st`` over z is ``W M_st Wᵀ`` over x, at every pair of steps. So a distance that is
    measured after whitening splits into parts by the features before it.

    Parameters
    ----------
    metric : None, array of shape (w*d, w*d) or array of shape (w, d, d)
        Over the mixed features; None is the identity.
    mixing : array of shape (d, d), optional
        W; None mixes nothing.
    width : int
    """
    if mixing is None:
        return metric
    W = np.asarray(mixing, dtype=np.float64)
    d = len(W)
    if metric is None:
        blocks = np.zeros((width, d, d))
        blocks[0] = W @ W.T
        return blocks
    if metric.ndim == 3:
        return unmix_blocks(metric, W)
    grid = metric.reshape(width, d, width, d).transpose(0, 2, 1, 3)
    return (W @ grid @ W.T).transpose(0, 2, 1, 3).reshape(metric.shape)


def unmix_blocks(blocks: Floats, mixing: Floats | None) -> Floats:
    """As :func:`unmixed`, for blocks (w, d, d)."""
    return blocks if mixing is None else mixing @ blocks @ mixing.T
