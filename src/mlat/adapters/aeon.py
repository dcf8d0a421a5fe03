"""A classifier and a transformer of aeon, over collections (n, channels, time)."""

from __future__ import annotations

from typing import Any

from aeon.classification.base import BaseClassifier
from aeon.transformations.collection import BaseCollectionTransformer
from numpy.typing import NDArray

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
    """

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "algorithm_type": "distance",
        "X_inner_type": "numpy3D",
    }

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"metric": "mlat"}


class MLATTransformer(TransformerOfPanels, BaseCollectionTransformer):  # type: ignore[misc]
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

    def _transform(self, X: Floats, y: NDArray[Any] | None = None) -> Floats:
        return self.panel_.transform(X)
