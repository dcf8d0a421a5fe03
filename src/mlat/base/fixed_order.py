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
    """Add ``X @ B`` to ``out``. Four rows at a time, for which B is read once."""
    n_fours = len(X) - len(X) % 4
    for i in range(0, n_fours, 4):
        _multiply_four(X[i : i + 4], B, out[i : i + 4])
    for i in range(n_fours, len(X)):
        _multiply_one(X[i], B, out[i])


# Four products per load and store, still summed one after the other.


@jit()
def _multiply_one(x, B, out):  # type: ignore[no-untyped-def]
    n_fours = len(x) - len(x) % 4
    for k in range(0, n_fours, 4):
        a, b, c, e = x[k], x[k + 1], x[k + 2], x[k + 3]
        p, q, r, s = B[k], B[k + 1], B[k + 2], B[k + 3]
        for j in range(len(out)):
            out[j] = (((out[j] + a * p[j]) + b * q[j]) + c * r[j]) + e * s[j]
    for k in range(n_fours, len(x)):
        a, p = x[k], B[k]
        for j in range(len(out)):
            out[j] += a * p[j]


@jit()
def _multiply_four(X, B, out):  # type: ignore[no-untyped-def]
    w, x, y, z = X[0], X[1], X[2], X[3]
    of_w, of_x, of_y, of_z = out[0], out[1], out[2], out[3]
    n_fours = len(B) - len(B) % 4
    for k in range(0, n_fours, 4):
        w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        y0, y1, y2, y3 = y[k], y[k + 1], y[k + 2], y[k + 3]
        z0, z1, z2, z3 = z[k], z[k + 1], z[k + 2], z[k + 3]
        p, q, r, s = B[k], B[k + 1], B[k + 2], B[k + 3]
        for j in range(B.shape[1]):
            a, b, c, e = p[j], q[j], r[j], s[j]
            of_w[j] = (((of_w[j] + w0 * a) + w1 * b) + w2 * c) + w3 * e
            of_x[j] = (((of_x[j] + x0 * a) + x1 * b) + x2 * c) + x3 * e
            of_y[j] = (((of_y[j] + y0 * a) + y1 * b) + y2 * c) + y3 * e
            of_z[j] = (((of_z[j] + z0 * a) + z1 * b) + z2 * c) + z3 * e
    for k in range(n_fours, len(B)):
        for i in range(4):
            a, p, total = X[i, k], B[k], out[i]
            for j in range(B.shape[1]):
                total[j] += a * p[j]
