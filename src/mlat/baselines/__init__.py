"""The methods MLAT is compared with, as window-level scikit-learn estimators."""

from .euclidean import EuclideanKNN
from .ldmlt import LDMLT
from .mdtw import MDTW
from .metric_knn import MetricKNN

__all__ = ["LDMLT", "MDTW", "EuclideanKNN", "MetricKNN"]
