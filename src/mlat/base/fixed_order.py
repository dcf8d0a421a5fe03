"""Arithmetic whose last digit depends on neither company nor unit.

In a matrix product by BLAS the rounding of a row depends on how many rows there are. Here every
entry is summed in one fixed order, with every product and every sum rounded. So the result is the
same bit by bit for any cut of the rows into chunks and any number of threads.

Squares of numbers beyond 1e154 overflow, those of numbers below 1e-162 vanish. Divided by a power
of two first, which changes no digit, numbers of any unit give the same result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .checks import Floats
from .compiled import jit

LANES = 8  # columns are padded to a multiple of this, the widest vector of a processor


def exponent_of(values: ArrayLike) -> int:
    """The least e with all finite values below ``2**e`` in magnitude; 0 where all are 0."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def power_above(size: float) -> float:
    """The power of two above a size, as far as there is one with an inverse; 1 for 0."""
    return float(np.ldexp(1.0, min(max(exponent_of(size), -1022), 1022)))


class Product:
    """``X @ B`` for a fixed B of shape (k, r) and any X of shape (…, k)."""

    def __init__(self, B: Floats) -> None:
        self.n_columns = B.shape[1]
        self._B = padded(B)

    def __call__(self, X: Floats) -> Floats:
        rows = np.ascontiguousarray(X.reshape(X.size // X.shape[-1], X.shape[-1]), dtype=np.float64)
        out = np.zeros((len(rows), self._B.shape[1]))
        multiply(rows, self._B, out)
        return out[:, : self.n_columns].reshape(*X.shape[:-1], self.n_columns)


def padded(B: Floats) -> Floats:
    """Add columns of zeros up to a multiple of ``LANES``."""
    extra = -B.shape[-1] % LANES
    return np.ascontiguousarray(np.pad(B, [(0, 0)] * (B.ndim - 1) + [(0, extra)]))


# No fastmath, which would allow another order of sums and fused products.


@jit()
def multiply(X, B, out):  # type: ignore[no-untyped-def]
    n, size = X.shape
    r = B.shape[1]
    for i in range(n):
        k = 0
        # Four products per load and store, still summed one after the other.
        while k + 4 <= size:
            a, b, c, e = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
            for j in range(r):
                out[i, j] = (
                    ((out[i, j] + a * B[k, j]) + b * B[k + 1, j]) + c * B[k + 2, j]
                ) + e * B[k + 3, j]
            k += 4
        while k < size:
            a = X[i, k]
            for j in range(r):
                out[i, j] += a * B[k, j]
            k += 1
