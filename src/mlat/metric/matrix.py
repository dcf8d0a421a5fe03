"""The matrix of a metric over windows: as a fitted transformer has it, and before whitening."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import Floats
from ..errors import InputError

MAX_BASIS = 4000  # values in a window up to which a map is found from what it makes of the basis


def metric_array(metric: Any, width: int, n_features: int) -> Floats | None:
    """The matrix or the blocks of a fitted transformer over windows; None is the identity.

    Parameters
    ----------
    metric : fitted transformer, or None
        With ``taps_`` its ``blocks_`` are exact; otherwise its ``metric_`` is taken or, where it
        has none, what its ``transform`` makes of the unit windows.
    width, n_features : int
    """
    if metric is None:
        return None
    if hasattr(metric, "taps_"):
        return np.asarray(metric.blocks_, dtype=np.float64)
    if hasattr(metric, "metric_"):
        return np.asarray(metric.metric_, dtype=np.float64)
    size = width * n_features
    if size > MAX_BASIS:
        raise InputError(
            f"windows of {size} values are too large to find out what {type(metric).__name__} "
            f"does to each (at most {MAX_BASIS}); give it an attribute metric_"
        )
    shape = (-1, width, n_features)
    origin = np.asarray(metric.transform(np.zeros((1, size)).reshape(shape)), dtype=np.float64)
    rows = np.asarray(metric.transform(np.eye(size).reshape(shape)), dtype=np.float64) - origin
    probe = np.random.default_rng(0).normal(size=(1, size))
    image = np.asarray(metric.transform(probe.reshape(shape)), dtype=np.float64) - origin
    if not np.allclose(probe @ rows, image, atol=1e-6 * float(np.abs(image).max(initial=0.0))):
        raise InputError(
            f"{type(metric).__name__} is not linear, so its distances have no parts by feature "
            "and lag"
        )
    return rows @ rows.T


def unmixed(metric: Floats | None, mixing: Floats | None, width: int) -> Floats | None:
    """The same distances over features that are mixed before the metric sees them.

    With ``z = x W`` at every step, ``M_st`` over z is ``W M_st Wᵀ`` over x. So a distance that is
    measured after whitening splits into the parts of the features before it.

    Parameters
    ----------
    metric : None, array of shape (w*d, w*d) or array of shape (w, d, d)
        Over the mixed features.
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
