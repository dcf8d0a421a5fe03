"""A classifier and a transformer of sktime, over panels (instances, channels, time)."""

from __future__ import annotations

from typing import Any

from sktime.classification.base import BaseClassifier
from sktime.transformations.base import BaseTransformer

from ..base.checks import Floats
from .panel import ClassifierOfPanels, TransformerOfPanels


class MLATClassifier(ClassifierOfPanels, BaseClassifier):  # type: ignore[misc]
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

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        return [{"metric": "mlat"}, {"metric": "euclidean", "n_neighbors": 2, "scale": False}]


class MLATTransformer(TransformerOfPanels, BaseTransformer):  # type: ignore[misc]
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

    def _transform(self, X: Floats, y: Any = None) -> Any:
        import pandas as pd

        return pd.DataFrame(self.panel_.transform(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        return [{"metric": "mlat"}, {"metric": "lmnn", "scale": False}]
