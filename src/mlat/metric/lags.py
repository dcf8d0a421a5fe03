"""Sums over lags: filtering a series, and correlating two, for few lags and for many.

A few lags are summed directly, by one matrix product each; many by the Fourier transform, whose
cost hardly grows with their number. Series have shape (…, T, channels); what lies before the first
step and after the last is zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from ..checks import Floats


def direct_lags(n_channels: int) -> int:
    """Up to how many lags are summed directly.

    A product per lag grows with the channels as the transform's product per frequency does, but
    the transform pays for complex numbers and strides. Timed on series of 2,500 steps, the two
    meet at about 14 lags of 3 channels, 60 to 180 of 8, 120 to 140 of 27 and 130 to 190 of 81.
    """
    return min(128, max(12, n_channels**2))


def causal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m] x[t-m]`` for x (…, T, d) and taps (q, r, d)."""
    T, q = x.shape[-2], min(len(taps), x.shape[-2])
    if q <= direct_lags(x.shape[-1]):
        result = x @ taps[0].T
        for m in range(1, q):
            result[..., m:, :] += x[..., : T - m, :] @ taps[m].T
        return result
    size = fft.next_fast_len(T + q, real=True)
    spectrum = fft.rfft(taps[:q], size, axis=0)
    return _per_frequency(x, spectrum.transpose(0, 2, 1), size)[..., :T, :]


def anticausal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m]ᵀ x[t+m]`` for x (…, T, r) and taps (q, r, d)."""
    T, q = x.shape[-2], min(len(taps), x.shape[-2])
    if q <= direct_lags(x.shape[-1]):
        result = x @ taps[0]
        for m in range(1, q):
            result[..., : T - m, :] += x[..., m:, :] @ taps[m]
        return result
    size = fft.next_fast_len(T + q, real=True)
    return _per_frequency(x, fft.rfft(taps[:q], size, axis=0).conj(), size)[..., :T, :]


def correlations(y: Floats, x: Floats, n_lags: int) -> Floats:
    """``Σ_t y[t+m] ⊗ x[t]`` for m below ``n_lags``, summed over leading axes; (n_lags, dy, dx)."""
    T = x.shape[-2]
    y, x = y.reshape(-1, *y.shape[-2:]), x.reshape(-1, *x.shape[-2:])
    if n_lags <= direct_lags(max(x.shape[-1], y.shape[-1])):
        both = ([0, 1], [0, 1])
        result = np.zeros((n_lags, y.shape[-1], x.shape[-1]))
        for m in range(min(n_lags, T)):
            result[m] = np.tensordot(y[:, m:], x[:, : T - m], axes=both)
        return result
    size = fft.next_fast_len(T + n_lags, real=True)
    y_hat = fft.rfft(y, size, axis=1).transpose(1, 2, 0)
    x_hat = fft.rfft(x, size, axis=1).transpose(1, 0, 2)
    lagged: Floats = fft.irfft(y_hat @ x_hat.conj(), size, axis=0)
    return lagged[:n_lags]


def _per_frequency(x: Floats, matrices: NDArray[np.complex128], size: int) -> Floats:
    """The series of which every frequency of x (…, T, a) is multiplied by its matrix (F, a, b)."""
    x_hat = fft.rfft(x.reshape(-1, *x.shape[-2:]), size, axis=1).transpose(1, 0, 2)
    product = (x_hat @ matrices).transpose(1, 0, 2)
    result: Floats = fft.irfft(product, size, axis=1)
    return result.reshape(*x.shape[:-2], size, matrices.shape[2])
