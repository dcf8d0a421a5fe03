"""Windows under a metric: the maps into the space where it is the Euclidean distance.

The maps of our own metrics, a metric that is given and not learned, any transformer over windows,
and the matrix M of a fitted one, also before whitening.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft as _fft
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base.checks import Floats
from ..base.compiled import jit
from ..base.errors import InputError
from ..base.fixed_order import Product, padded
from ..base.work import one_thread
from ..stream.windows import as_windows, check_finite, flatten, fold, window_width
from .toeplitz import convolution_matrix

# From windows (n, w, d) to points (n, r).
Embedding = Callable[[Floats], Floats]

MAX_BASIS = 4000  # values per window up to which a map is evaluated on all unit windows
MOST_VALUES = 1024  # per window up to which the smallest space is sought
# Entries of a convolution's matrix up to which it is as fast as the Fourier transform: with 10
# steps of 27 channels, 210,000 entries, 19 µs a window against 23; with 17 steps 52 against 26.
SMALL = 250_000


class WindowTransformer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    """A metric over windows as a transformer; a subclass adds ``fit`` and ``embedding``.

    Attributes
    ----------
    width_, n_channels_, n_features_in_ : int
        Steps and channels of a window, and their product.
    """

    width_: int
    n_channels_: int
    n_features_in_: int

    @abstractmethod
    def embedding(self) -> Embedding:
        """The map from windows (n, w, d) to the learned space (n, r), prepared for many calls.

        A window maps to the same numbers, to the last bit, whatever windows it comes with.
        """

    def transform(self, X: ArrayLike) -> Floats:
        """Windows (n, w, d) or (n, w*d) in the learned space, where distances are Euclidean."""
        return self.embedding()(self._as_learned(X))

    def _as_learned(self, X: Any) -> Floats:
        """Windows (n, w, d) like those that were learned from."""
        check_is_fitted(self)
        X = as_windows(X)
        learned = self.width_, self.n_channels_
        if isinstance(X, np.ndarray) and X.ndim == 3 and X.shape[1:] != learned:
            raise InputError(
                f"windows of {X.shape[1]} steps and {X.shape[2]} channels, but the metric was "
                f"learned on {self.width_} steps and {self.n_channels_} channels"
            )
        flat = validate_data(
            self, flatten(X), dtype=np.float64, reset=False, ensure_all_finite=False
        )
        return check_finite(flat.reshape(len(flat), *learned))

    @property
    def _n_features_out(self) -> int:
        return len(self.embedding()(np.zeros((1, self.width_, self.n_channels_)))[0])


class Linear:
    """``L x`` for a fixed L of shape (r, w*d) and windows x, (n, w, d): shape (n, r)."""

    def __init__(self, L: Floats) -> None:
        self._product = Product(L.T)

    def __call__(self, X: Floats) -> Floats:
        return self._product(X.reshape(len(X), X.shape[1] * X.shape[2]))


@dataclass(eq=False, repr=False)
class Mahalanobis(WindowTransformer):
    """The distance ``|L (x - y)|`` for an L that is known already; nothing is learned.

    With it a metric that was learned elsewhere can be used and saved as it is. A model file holds
    any linear transformer in this form.

    Parameters
    ----------
    components : array of shape (r, w*d), optional
        L, over the values of a window step by step; default the identity.
    width : int, optional
        Steps per window, for flat windows.
    name : str, optional
        What it was made of, for people.

    Attributes
    ----------
    components_ : array of shape (r, w*d)
    metric_ : array of shape (w*d, w*d)
        ``LᵀL``.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> stream = rotating_states()
    >>> learned = mlat.StreamClassifier(8, metric="lmnn").fit(stream)
    >>> given = mlat.StreamClassifier(8, metric=Mahalanobis(learned.metric_.components_))
    >>> bool((given.fit(stream).predict(stream) == learned.predict(stream)).all())
    True
    """

    components: ArrayLike | None = None
    width: int | None = None
    name: str | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check that L is for such windows (n, w, d) or (n, w*d).

        Raises
        ------
        InputError
            If it is not, or is no matrix of finite numbers.
        """
        X = as_windows(X)
        width = window_width(X, self.width)
        _, self.width_, self.n_channels_ = fold(flatten(X), width).shape
        size = self.width_ * self.n_channels_
        L = np.eye(size) if self.components is None else np.array(self.components, np.float64)
        if L.ndim != 2 or not len(L) or L.shape[1] != size:
            raise InputError(
                f"components must have shape (r, {size}), for windows of {self.width_} steps and "
                f"{self.n_channels_} channels, not {L.shape}"
            )
        if not np.isfinite(L).all():
            raise InputError("components hold NaN or infinity")
        self.components_: Floats = L
        self.n_features_in_ = size
        return self

    def embedding(self) -> Linear:
        """The map from windows (n, w, d) to (n, r), prepared for many calls."""
        return Linear(self.components_)

    @property
    def metric_(self) -> Floats:
        check_is_fitted(self)
        return self.components_.T @ self.components_


def smallest_space(embed: Embedding, width: int, n_features: int) -> Embedding:
    """A linear map of windows (n, w, d) into the smallest space with the same distances.

    A convolution gives more coordinates than a window has values, which span no more dimensions
    than these. With the factors ``L = Q R`` the distances under R are those under L.
    """
    size = width * n_features
    if size > MOST_VALUES:
        return embed
    Lt = embed(np.eye(size).reshape(size, width, n_features))
    if Lt.shape[1] <= size:
        return embed
    with one_thread():
        R = np.linalg.qr(Lt.T, mode="r")
    return Linear(np.asarray(R))


def convolution(taps: Floats, width: int) -> Embedding:
    """:func:`mlat.metric.toeplitz.convolve` for fixed taps (q, r, d) and windows of a fixed width.

    By the matrix where that is small, else by the fast Fourier transform.
    """
    n_taps, n_filters, d = taps.shape
    if (width + n_taps - 1) * n_filters * width * d <= SMALL:
        return Linear(convolution_matrix(taps, width))
    return Convolution(taps, width)


class Convolution:
    """The same by the transform of each window on its own, so that its rounding does not depend on
    the others."""

    def __init__(self, taps: Floats, width: int) -> None:
        n_taps, self.n_filters, _ = taps.shape
        self.length = width + n_taps - 1
        self._size = _fft.next_fast_len(self.length, real=True)
        spectrum = _fft.rfft(taps, self._size, axis=0).transpose(0, 2, 1)
        self._real, self._imaginary = padded(spectrum.real), padded(spectrum.imag)

    def __call__(self, X: Floats) -> Floats:
        windows = np.ascontiguousarray(X, dtype=np.float64)
        Z = np.empty((len(windows), self.length, self.n_filters))
        for window, filtered in zip(windows, Z, strict=True):
            spectrum = _fft.rfft(window, self._size, axis=0)
            product = np.zeros((2, *self._real.shape[::2]))
            _by_frequency(spectrum, self._real, self._imaginary, product)
            both = (product[0] + 1j * product[1])[:, : self.n_filters]
            filtered[:] = _fft.irfft(both, self._size, axis=0)[: self.length]
        return Z.reshape(len(Z), self.length * self.n_filters)


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


# As in `base.fixed_order`: no fastmath, every product and every sum in one fixed order.


@jit()
def _by_frequency(spectrum, real, imaginary, product):  # type: ignore[no-untyped-def]
    n, d, r = real.shape
    for m in range(n):
        for f in range(d):
            a, b = spectrum[m, f].real, spectrum[m, f].imag
            for j in range(r):
                product[0, m, j] += a * real[m, f, j] - b * imaginary[m, f, j]
                product[1, m, j] += a * imaginary[m, f, j] + b * real[m, f, j]
