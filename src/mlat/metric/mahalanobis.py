"""A metric that is given, not learned: a linear map of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..base.checks import Floats
from ..base.errors import InputError
from ..stream.windows import as_windows, flatten, fold, window_width
from .embedding import Linear, WindowTransformer


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
