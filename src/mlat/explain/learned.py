"""What a metric learned: by lag, by channel and by eigenvalue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.checks import Floats, ShortRepr
from ..base.errors import InputError
from ..metric import toeplitz

MAX_SIZE = 2000  # w*d up to which the matrix of w*d by w*d is formed


def blocks_of(metric: Any) -> Floats:
    """The blocks (w, d, d) of a fitted metric, or the given blocks themselves.

    A metric that is not block Toeplitz (LMNN's) gives the blocks of the nearest one that is.
    """
    if hasattr(metric, "blocks_"):
        return np.asarray(metric.blocks_, dtype=np.float64)
    if hasattr(metric, "metric_"):
        return toeplitz.project_to_blocks(metric.metric_, metric.width_)
    if hasattr(metric, "fit"):
        raise InputError("the metric is not fitted; fit it first")
    blocks = np.asarray(metric, dtype=np.float64)
    if blocks.ndim != 3 or blocks.shape[1] != blocks.shape[2]:
        raise InputError(f"blocks must have shape (w, d, d), not {blocks.shape}")
    return blocks


def lag_norms(blocks: Floats) -> Floats:
    """The size ``‖A(m)‖`` of each lag's block, shape (w,)."""
    norms: Floats = np.sqrt((blocks**2).sum(axis=(1, 2)))
    return norms


def lag_fractions(blocks: Floats) -> Floats:
    """The fraction of each lag in ``‖M‖²``, with every occurrence of its block in M; shape (w,)."""
    squares = toeplitz.occurrences(len(blocks)) * lag_norms(blocks) ** 2
    total = squares.sum()
    return squares / total if total else squares


def channel_fractions(blocks: Floats) -> Floats:
    """The fraction of each channel in the weight of single steps, ``diag A(0)``; shape (d,)."""
    weights = np.diagonal(blocks[0]).copy()
    total = weights.sum()
    return weights / total if total else weights


@dataclass(frozen=True, repr=False)
class Spectrum(ShortRepr):
    """The eigenvalues of M, the largest first.

    ``effective_rank`` is ``(Σλ)² / Σλ²``: w*d where all are equal, 1 where only one is not 0.
    """

    eigenvalues: Floats
    effective_rank: float


def spectrum(metric: Any) -> Spectrum | None:
    """The eigenvalues of a fitted metric; None where w*d is too large to form M."""
    if metric.width_ * metric.n_channels_ > MAX_SIZE:
        return None
    eigenvalues = np.linalg.eigvalsh(metric.metric_)[::-1]
    squares = float((eigenvalues**2).sum())
    return Spectrum(eigenvalues, float(eigenvalues.sum()) ** 2 / squares if squares else 0.0)
