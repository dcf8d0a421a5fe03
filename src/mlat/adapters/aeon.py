"""A classifier and a transformer of aeon, over collections (n, channels, time)."""

from __future__ import annotations

from typing import Any

import numpy as np
from aeon.classification.base import BaseClassifier
from aeon.transformations.collection import BaseCollectionTransformer
from numpy.typing import NDArray

from ..base.checks import Floats
from .panel import PanelClassifier


class MLATClassifier(BaseClassifier):  # type: ignore[misc]
    """The class of the nearest training series, under a learned block-Toeplitz metric.

    Parameters
    ----------
    metric : "mlat", "lmnn", "euclidean" or an estimator, default="mlat"
    n_neighbors : int, default=1
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over all training series.

    Attributes
    ----------
    panel_ : PanelClassifier
        Fitted.
    """

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "algorithm_type": "distance",
        "X_inner_type": "numpy3D",
    }

    def __init__(self, metric: Any = "mlat", n_neighbors: int = 1, scale: bool = True) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.scale = scale
        super().__init__()

    def _fit(self, X: Floats, y: NDArray[Any]) -> MLATClassifier:
        panel = PanelClassifier(self.metric, n_neighbors=self.n_neighbors, scale=self.scale)
        self.panel_ = panel.fit(X, y)
        return self

    def _predict(self, X: Floats) -> NDArray[Any]:
        return self.panel_.predict(X)

    def _predict_proba(self, X: Floats) -> Floats:
        return self.panel_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"metric": "mlat"}


class MLATTransformer(BaseCollectionTransformer):  # type: ignore[misc]
    """Series in the learned space: a table (n, r) whose Euclidean distances are the metric's.

    Parameters
    ----------
    metric : "mlat", "lmnn" or an estimator, default="mlat"
    scale : bool, default=True
    """

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "input_data_type": "Collection",
        "output_data_type": "Tabular",
        "X_inner_type": "numpy3D",
        "requires_y": True,
        "fit_is_empty": False,
    }

    def __init__(self, metric: Any = "mlat", scale: bool = True) -> None:
        self.metric = metric
        self.scale = scale
        super().__init__()

    def _fit(self, X: Floats, y: NDArray[Any] | None = None) -> MLATTransformer:
        self.panel_ = PanelClassifier(self.metric, scale=self.scale).fit(X, np.asarray(y))
        return self

    def _transform(self, X: Floats, y: NDArray[Any] | None = None) -> Floats:
        return self.panel_.transform(X)
