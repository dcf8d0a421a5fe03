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
from scipy import fft as _fft

from .checks import Floats
from .compiled import jit

LANES = 8  # columns are padded to a multiple of this, the widest vector of a processor
# Above this ratio of width * taps to the length of the result, the Fourier transform is faster
# than sums (measured with 27 channels: 21 µs by sums against 55 at 7, 113 against 45 at 17).
LONG = 15


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
        self._B = _padded(B)

    def __call__(self, X: Floats) -> Floats:
        rows = np.ascontiguousarray(X.reshape(X.size // X.shape[-1], X.shape[-1]), dtype=np.float64)
        out = np.zeros((len(rows), self._B.shape[1]))
        _product(rows, self._B, out)
        return out[:, : self.n_columns].reshape(*X.shape[:-1], self.n_columns)


class Linear:
    """``L x`` for a fixed L of shape (r, w*d) and windows x, (n, w, d): shape (n, r)."""

    def __init__(self, L: Floats) -> None:
        self._product = Product(L.T)

    def __call__(self, X: Floats) -> Floats:
        return self._product(X.reshape(len(X), X.shape[1] * X.shape[2]))


class Convolution:
    """:func:`mlat.metric.toeplitz.convolve` for fixed taps (q, r, d) and windows of a fixed width.

    Short windows are convolved by plain sums, long ones by the fast Fourier transform. Each window
    is transformed on its own, so that its rounding does not depend on the others. ``by_sums`` says
    which of the two is used.
    """

    def __init__(self, taps: Floats, width: int) -> None:
        self.width, (self.n_taps, self.n_filters, _) = width, taps.shape
        self.length = width + self.n_taps - 1
        self._size = _fft.next_fast_len(self.length, real=True)
        self.by_sums = width * self.n_taps <= LONG * self._size
        if self.by_sums:
            self._taps = _padded(taps.transpose(0, 2, 1))
        else:
            spectrum = _fft.rfft(taps, self._size, axis=0).transpose(0, 2, 1)
            self._real, self._imaginary = _padded(spectrum.real), _padded(spectrum.imag)

    def __call__(self, X: Floats) -> Floats:
        windows = np.ascontiguousarray(X, dtype=np.float64)
        if self.by_sums:
            Z = np.zeros((len(windows), self.length, self._taps.shape[2]))
            _convolve(windows, self._taps, Z)
            return Z[:, :, : self.n_filters].reshape(len(windows), self.length * self.n_filters)
        Z = np.empty((len(windows), self.length, self.n_filters))
        for window, filtered in zip(windows, Z, strict=True):
            spectrum = _fft.rfft(window, self._size, axis=0)
            product = np.zeros((2, *self._real.shape[::2]))
            _by_frequency(spectrum, self._real, self._imaginary, product)
            both = (product[0] + 1j * product[1])[:, : self.n_filters]
            filtered[:] = _fft.irfft(both, self._size, axis=0)[: self.length]
        return Z.reshape(len(Z), self.length * self.n_filters)


def _padded(B: Floats) -> Floats:
    """Add columns of zeros up to a multiple of ``LANES``."""
    extra = -B.shape[-1] % LANES
    return np.ascontiguousarray(np.pad(B, [(0, 0)] * (B.ndim - 1) + [(0, extra)]))


# The kernels have no fastmath, which would allow another order of sums and fused products.


@jit()
def _product(X, B, out):  # type: ignore[no-untyped-def]
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


@jit()
def _convolve(X, taps, Z):  # type: ignore[no-untyped-def]
    n, w, d = X.shape
    q, _, r = taps.shape
    for i in range(n):
        for p in range(q):
            for f in range(d):
                for t in range(w):
                    x = X[i, t, f]
                    for j in range(r):
                        Z[i, p + t, j] += x * taps[p, f, j]


@jit()
def _by_frequency(spectrum, real, imaginary, product):  # type: ignore[no-untyped-def]
    n, d, r = real.shape
    for m in range(n):
        for f in range(d):
            a, b = spectrum[m, f].real, spectrum[m, f].imag
            for j in range(r):
                product[0, m, j] += a * real[m, f, j] - b * imaginary[m, f, j]
                product[1, m, j] += a * imaginary[m, f, j] + b * real[m, f, j]
