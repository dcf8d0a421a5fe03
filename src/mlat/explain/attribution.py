"""A squared distance split into its parts: by feature, by step and by lag.

For two windows that differ by ``δ``, of w steps and d features, the squared distance is a double
sum over moments s and t, ``D = Σ_{s,t} δ_sᵀ M_st δ_t``, with the blocks ``M_st`` of the metric. The
part of feature f at lag m is the sum of those terms in which f stands at one of two moments m steps
apart::

    P(m, f) = Σ_{|s-t| = m} δ_{s,f} (M_st δ_t)_f

A term of two features counts half for each, and so does one of two moments. Every term belongs to
one lag and one feature, so the parts add up to D. A part may be negative: where differences at two
moments go together, a negative block between them makes the distance smaller.

The metric is None (the identity), a matrix (w*d, w*d) or, block Toeplitz, its blocks (w, d, d).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..base.checks import Floats, ShortRepr
from ..base.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Parts(ShortRepr):
    """The parts of a squared distance; each of the arrays adds up to ``total``.

    Attributes
    ----------
    by_lag_and_feature : array of shape (w, d)
        ``P(m, f)``.
    by_step : array of shape (w,)
        ``δ_sᵀ (M δ)_s``.
    """

    by_lag_and_feature: Floats
    by_step: Floats

    @property
    def total(self) -> float:
        return float(self.by_lag_and_feature.sum())

    @property
    def by_lag(self) -> Floats:
        """Shape (w,)."""
        lags: Floats = self.by_lag_and_feature.sum(axis=1)
        return lags

    @property
    def by_feature(self) -> Floats:
        """Shape (d,)."""
        features: Floats = self.by_lag_and_feature.sum(axis=0)
        return features

    def by_channel(self, feature_channels: ArrayLike, n_channels: int) -> Floats:
        """The parts of each channel's features together, shape (n_channels,)."""
        channels = np.zeros(n_channels)
        np.add.at(channels, np.asarray(feature_channels), self.by_feature)
        return channels

    def __sub__(self, other: Parts) -> Parts:
        """The parts of the difference of two squared distances."""
        return Parts(
            self.by_lag_and_feature - other.by_lag_and_feature, self.by_step - other.by_step
        )

    def __truediv__(self, whole: float) -> Parts:
        """As fractions of ``whole``; all 0 where that is 0."""
        return Parts(*(a / whole if whole else 0 * a for a in vars(self).values()))


def split(delta: ArrayLike, metric: ArrayLike | None = None) -> Parts:
    """The parts of the squared distance of windows that differ by ``delta``.

    Parameters
    ----------
    delta : array of shape (w, d) or (n, w, d)
        One difference, or many; of many the mean parts are returned.
    metric : None, array of shape (w*d, w*d) or array of shape (w, d, d)
        The identity, a matrix (time-major), or the blocks of a block-Toeplitz matrix.

    Examples
    --------
    >>> parts = split([[1.0, 2.0], [0.0, 3.0]])
    >>> parts.total, parts.by_feature.tolist(), parts.by_lag.tolist(), parts.by_step.tolist()
    (14.0, [1.0, 13.0], [14.0, 0.0], [5.0, 9.0])
    """
    differences = np.asarray(delta, dtype=np.float64)
    if differences.ndim == 2:
        differences = differences[None]
    if differences.ndim != 3 or not len(differences):
        raise InputError(f"delta must have shape (w, d) or (n, w, d), not {np.shape(delta)}")
    _, w, d = differences.shape
    M = np.eye(d)[None] if metric is None else np.asarray(metric, dtype=np.float64)
    if M.shape == (w * d, w * d):
        return _split_by_matrix(differences, M)
    if metric is None or M.shape == (w, d, d):
        return _split_by_blocks(differences, M)
    raise InputError(
        f"a metric of shape {M.shape} does not fit windows of {w} steps and {d} features; it "
        f"must be of shape {(w * d, w * d)} or {(w, d, d)}"
    )


def _split_by_matrix(differences: Floats, M: Floats) -> Parts:
    n, w, d = differences.shape
    flat = differences.reshape(n, w * d)
    # (M + Mᵀ) / 2 gives the same distances; each factor of a product gets half of it.
    terms = (M + M.T) * (flat.T @ flat) / (2 * n)
    by_moments = terms.reshape(w, d, w, d).sum(axis=3).transpose(0, 2, 1)  # (s, t, f)
    lag = np.abs(np.subtract.outer(np.arange(w), np.arange(w)))
    parts = np.zeros((w, d))
    np.add.at(parts, lag, by_moments)
    return Parts(parts, by_moments.sum(axis=(1, 2)))


def _split_by_blocks(differences: Floats, A: Floats) -> Parts:
    """Lag by lag, so that no matrix of w*d by w*d is formed; beyond the last block all are 0."""
    n, w, d = differences.shape
    parts, by_step = np.zeros((w, d)), np.zeros(w)
    for m in range(len(A)):
        late, early = differences[:, m:], differences[:, : w - m]
        # Block (s, t) is A(s-t) below the diagonal, A(t-s)ᵀ above it; A(0) is on it once.
        to_late = late * (early @ A[m].T)
        to_early = early * (late @ A[m])
        if m == 0:
            to_late, to_early = to_late / 2, to_early / 2
        parts[m] = (to_late.sum(axis=(0, 1)) + to_early.sum(axis=(0, 1))) / n
        by_step[m:] += to_late.sum(axis=(0, 2)) / n
        by_step[: w - m] += to_early.sum(axis=(0, 2)) / n
    return Parts(parts, by_step)
