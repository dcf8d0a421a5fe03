"""Block-Toeplitz algebra: matrices in which a dependence depends on the lag alone.

A symmetric block-Toeplitz matrix of ``w × w`` blocks of ``d × d`` (Definition 5, Eq. 3) is given by
its first block column, ``blocks`` of shape (w, d, d): block ``(s, t)`` is
``blocks[s - t]`` on and below the diagonal and ``blocks[t - s].T`` above it, with ``blocks[0]``
symmetric. Everything here is a pure function of arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft as _fft

from ..base.checks import Floats
from ..base.errors import InputError


def to_matrix(blocks: ArrayLike) -> Floats:
    """The (w*d, w*d) matrix of the given blocks (w, d, d)."""
    A = _as_blocks(blocks)
    w, d, _ = A.shape
    # Lags -(w-1) … w-1 in one array; block (s, t) is then a lookup at s - t.
    both = np.concatenate([A[:0:-1].transpose(0, 2, 1), A])
    lag = np.arange(w)[:, None] - np.arange(w)[None, :]
    return both[lag + w - 1].transpose(0, 2, 1, 3).reshape(w * d, w * d)


def project_to_blocks(matrix: ArrayLike, width: int) -> Floats:
    """The blocks of the nearest symmetric block-Toeplitz matrix in the Frobenius norm.

    Every block diagonal is averaged together with the transposed one above (the Z-update, Eq. 10).
    """
    M = _as_square(matrix, width)
    d = len(M) // width
    grid = M.reshape(width, d, width, d).transpose(0, 2, 1, 3)
    grid = (grid + grid.transpose(1, 0, 3, 2)) / 2
    return np.stack([np.diagonal(grid, -m).mean(axis=-1) for m in range(width)])


def project(matrix: ArrayLike, width: int) -> Floats:
    """The nearest symmetric block-Toeplitz matrix in the Frobenius norm."""
    return to_matrix(project_to_blocks(matrix, width))


def residual(matrix: ArrayLike, width: int) -> float:
    """How far a matrix is from block Toeplitz: ``‖M - project(M)‖ / ‖M‖`` (0 for M = 0)."""
    M = _as_square(matrix, width)
    norm = float(np.linalg.norm(M))
    return float(np.linalg.norm(M - project(M, width))) / norm if norm else 0.0


def covariance_residual(X: ArrayLike) -> float:
    """Theorem 1's residual: how far the covariance of windows (n, w, d) is from block Toeplitz.

    For the windows of one long run it falls towards 0 as the run grows.
    """
    windows = np.asarray(X)
    if windows.ndim != 3 or len(windows) < 2:
        raise InputError(f"X must have shape (n, w, d) with n > 1, not {windows.shape}")
    n, w, d = windows.shape
    return residual(np.cov(windows.reshape(n, w * d), rowvar=False).reshape(w * d, w * d), w)


def is_toeplitz(matrix: ArrayLike, width: int, *, rtol: float = 1e-9) -> bool:
    """Whether the matrix is symmetric block Toeplitz, up to a relative residual of ``rtol``."""
    return residual(matrix, width) <= rtol


def is_psd(matrix: ArrayLike, *, rtol: float = 1e-9) -> bool:
    """Whether the smallest eigenvalue is no less than ``-rtol`` times the largest magnitude."""
    M = np.asarray(matrix)
    eigenvalues = np.linalg.eigvalsh((M + M.T) / 2)
    return bool(eigenvalues[0] >= -rtol * max(abs(eigenvalues[-1]), abs(eigenvalues[0])))


def nearest_psd_shift(blocks: ArrayLike) -> Floats:
    """The blocks made positive semidefinite by the smallest multiple of the identity.

    The identity is block Toeplitz, so the result is exactly Toeplitz *and* PSD.
    """
    A = _as_blocks(blocks).copy()
    eigenvalues = np.linalg.eigvalsh(to_matrix(A))
    # The eigenvalues are themselves only known to rounding: shift by that much more.
    rounding = 4 * np.finfo(A.dtype).eps * len(eigenvalues) * np.abs(eigenvalues).max(initial=0)
    if eigenvalues[0] < 0:
        A[0] += (rounding - eigenvalues[0]) * np.eye(A.shape[1])
    return A


def distance(blocks: ArrayLike, X: ArrayLike, Y: ArrayLike) -> Floats:
    """Squared distances (Eq. 1) between windows X and Y of shape (…, w, d), lag by lag.

    ``D = Σ_t δ_tᵀ A(0) δ_t + 2 Σ_{m≥1} Σ_t δ_{t+m}ᵀ A(m) δ_t`` with ``δ = X - Y``; no matrix of
    w*d by w*d is formed.
    """
    A = _as_blocks(blocks)
    delta = np.asarray(X, float) - np.asarray(Y, float)
    w = len(A)
    if delta.shape[-2:] != A.shape[:2]:
        raise InputError(f"windows of shape {delta.shape[-2:]} do not fit blocks for {A.shape[:2]}")
    total: Floats = np.zeros(delta.shape[:-2])
    for m in range(w):
        late, early = delta[..., m:, :], delta[..., : w - m, :]
        total += (1 if m == 0 else 2) * ((late @ A[m]) * early).sum(axis=(-2, -1))
    return total


def squared_norm(blocks: ArrayLike) -> float:
    """``‖M‖²_F`` of the matrix with these blocks, each lag counted as often as it occurs."""
    A = _as_blocks(blocks)
    return float((occurrences(len(A)) * (A**2).sum(axis=(1, 2))).sum())


def occurrences(width: int) -> Floats:
    """How often the block of each lag stands in the matrix, both halves counted."""
    count = (2 * (width - np.arange(width))).astype(np.float64)
    count[0] = width
    return count


def autocorrelation(taps: ArrayLike, width: int) -> Floats:
    """The blocks of ``M = LᵀL`` for the full convolution L with filter taps (q, r, d).

    ``A(m) = Σ_p H(p)ᵀ H(p+m)`` for the lags below ``width``: exactly Toeplitz and, as a Gram
    matrix, exactly PSD.
    """
    H = np.asarray(taps, float)
    q = len(H)
    size = _fft.next_fast_len(q + width, real=True)
    spectrum = _fft.rfft(H, size, axis=0)
    power = spectrum.conj().transpose(0, 2, 1) @ spectrum
    blocks: Floats = _fft.irfft(power, size, axis=0)[:width]
    blocks[0] = (blocks[0] + blocks[0].T) / 2  # symmetric to the last bit
    return blocks


def autocorrelation_gradient(taps: ArrayLike, blocks_gradient: ArrayLike) -> Floats:
    """``dE/dH`` from ``dE/dA``, the adjoint of :func:`autocorrelation`.

    ``dE/dH(p) = Σ_m H(p+m) G(m)ᵀ + H(p-m) G(m)`` for ``G = dE/dA`` of shape (w, d, d).
    """
    H, G = np.asarray(taps, float), np.asarray(blocks_gradient, float)
    q, w = len(H), len(G)
    size = _fft.next_fast_len(2 * q + 2 * w, real=True)
    H_hat = _fft.rfft(H, size, axis=0)
    G_hat = _fft.rfft(G, size, axis=0)
    # Convolution with G and correlation with its transpose, in one product per frequency.
    product = H_hat @ (G_hat + G_hat.conj().transpose(0, 2, 1))
    gradient: Floats = _fft.irfft(product, size, axis=0)[:q]
    return gradient


def convolve(taps: ArrayLike, X: ArrayLike) -> Floats:
    """``L x`` for windows X (n, w, d): the full convolution with taps (q, r, d), (n, w+q-1, r)."""
    H, windows = np.asarray(taps, float), np.asarray(X, float)
    length = windows.shape[1] + len(H) - 1
    size = _fft.next_fast_len(length, real=True)
    H_hat, X_hat = _fft.rfft(H, size, axis=0), _fft.rfft(windows, size, axis=1)
    Z_hat = np.matmul(X_hat.transpose(1, 0, 2), H_hat.transpose(0, 2, 1)).transpose(1, 0, 2)
    filtered: Floats = _fft.irfft(Z_hat, size, axis=1)[:, :length]
    return filtered


def convolution_matrix(taps: ArrayLike, width: int) -> Floats:
    """The matrix L of shape ((w+q-1)*r, w*d) that :func:`convolve` applies."""
    H = np.asarray(taps, float)
    q, r, d = H.shape
    L = np.zeros((width + q - 1, r, width, d))
    for t in range(width):
        L[t : t + q, :, t] = H
    return L.reshape((width + q - 1) * r, width * d)


def convolution_matrix_gradient(
    matrix_gradient: Floats, shape: tuple[int, ...], width: int
) -> Floats:
    """``dE/dH`` for taps of a shape (q, r, d), the adjoint of :func:`convolution_matrix`."""
    q, r, d = shape
    G = matrix_gradient.reshape(width + q - 1, r, width, d)
    total = np.zeros(shape)
    for t in range(width):
        total += G[t : t + q, :, t]
    return total


# Sums over lags. A few lags are summed directly, by one matrix product each; many by the Fourier
# transform, whose cost hardly grows with their number. Series have shape (…, T, channels); before
# the first step and after the last they are zero.


def causal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m] x[t-m]`` for x (…, T, d) and taps (q, r, d)."""
    T, q = x.shape[-2], min(len(taps), x.shape[-2])
    if q <= _direct_lags(x.shape[-1]):
        result = x @ taps[0].T
        for m in range(1, q):
            result[..., m:, :] += x[..., : T - m, :] @ taps[m].T
        return result
    size = _fft.next_fast_len(T + q, real=True)
    spectrum = _fft.rfft(taps[:q], size, axis=0).transpose(0, 2, 1)
    x_hat = _fft.rfft(x.reshape(-1, *x.shape[-2:]), size, axis=1).transpose(1, 0, 2)
    lagged: Floats = _fft.irfft((x_hat @ spectrum).transpose(1, 0, 2), size, axis=1)
    return lagged[:, :T].reshape(*x.shape[:-1], taps.shape[1])


def anticausal(x: Floats, taps: Floats) -> Floats:
    """``Σ_m taps[m]ᵀ x[t+m]`` for x (…, T, r) and taps (q, r, d)."""
    return causal(x[..., ::-1, :], taps.transpose(0, 2, 1))[..., ::-1, :]


def correlations(y: Floats, x: Floats, n_lags: int) -> Floats:
    """``Σ_t y[t+m] ⊗ x[t]`` for m below ``n_lags``, summed over leading axes; (n_lags, dy, dx)."""
    T = x.shape[-2]
    y, x = y.reshape(-1, *y.shape[-2:]), x.reshape(-1, *x.shape[-2:])
    if n_lags <= _direct_lags(max(x.shape[-1], y.shape[-1])):
        both = ([0, 1], [0, 1])
        result = np.zeros((n_lags, y.shape[-1], x.shape[-1]))
        for m in range(min(n_lags, T)):
            result[m] = np.tensordot(y[:, m:], x[:, : T - m], axes=both)
        return result
    size = _fft.next_fast_len(T + n_lags, real=True)
    y_hat = _fft.rfft(y, size, axis=1).transpose(1, 2, 0)
    x_hat = _fft.rfft(x, size, axis=1).transpose(1, 0, 2)
    lagged: Floats = _fft.irfft(y_hat @ x_hat.conj(), size, axis=0)
    return lagged[:n_lags]


def _direct_lags(n_channels: int) -> int:
    """Up to how many lags are summed directly.

    A product per lag grows with the channels as the transform's product per frequency does, but
    the transform pays for complex numbers and strides. Timed on series of 2,500 steps, the two
    meet at about 14 lags of 3 channels, 60 to 180 of 8, 120 to 140 of 27 and 130 to 190 of 81.
    """
    return min(128, max(12, n_channels**2))


def _as_blocks(blocks: ArrayLike) -> Floats:
    A = np.asarray(blocks, dtype=np.float64)
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        raise InputError(f"blocks must have shape (w, d, d), not {A.shape}")
    return A


def _as_square(matrix: ArrayLike, width: int) -> Floats:
    M = np.asarray(matrix, float)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or width < 1 or len(M) % width:
        raise InputError(
            f"a matrix of shape {M.shape} does not divide into {width} by {width} square blocks"
        )
    return M
