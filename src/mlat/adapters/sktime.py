"""A classifier and a transformer of sktime, over panels (instances, channels, time)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sktime.classification.base import BaseClassifier
from sktime.transformations.base import BaseTransformer

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

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from mlat.adapters.sktime import MLATClassifier
    >>> X, y = load_unit_test(split="train")
    >>> MLATClassifier().fit(X, y).predict(X).shape
    (20,)
    """

    _tags = {  # noqa: RUF012
        "X_inner_mtype": "numpy3D",
        "capability:multivariate": True,
        "capability:predict_proba": True,
        "classifier_type": "distance",
        "authors": "mlat developers",
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
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        return [{"metric": "mlat"}, {"metric": "euclidean", "n_neighbors": 2, "scale": False}]


class MLATTransformer(BaseTransformer):  # type: ignore[misc]
    """Series in the learned space: a table with a row for each, Euclidean as the metric says.

    Parameters
    ----------
    metric : "mlat", "lmnn" or an estimator, default="mlat"
    scale : bool, default=True

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from mlat.adapters.sktime import MLATTransformer
    >>> X, y = load_unit_test(split="train")
    >>> len(MLATTransformer().fit_transform(X, y))
    20
    """

    _tags = {  # noqa: RUF012
        "scitype:transform-input": "Series",
        "scitype:transform-output": "Primitives",
        "scitype:transform-labels": "Primitives",
        "scitype:instancewise": False,
        "X_inner_mtype": "numpy3D",
        "y_inner_mtype": "numpy1D",
        "requires_y": True,
        "fit_is_empty": False,
        "capability:unequal_length": False,
        "capability:categorical_in_X": False,
        "capability:multivariate": True,
        "authors": "mlat developers",
    }

    def __init__(self, metric: Any = "mlat", scale: bool = True) -> None:
        self.metric = metric
        self.scale = scale
        super().__init__()

    def _fit(self, X: Floats, y: Any = None) -> MLATTransformer:
        self.panel_ = PanelClassifier(self.metric, scale=self.scale).fit(X, np.asarray(y))
        return self

    def _transform(self, X: Floats, y: Any = None) -> Any:
        import pandas as pd

        return pd.DataFrame(self.panel_.transform(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        return [{"metric": "mlat"}, {"metric": "lmnn", "scale": False}]
