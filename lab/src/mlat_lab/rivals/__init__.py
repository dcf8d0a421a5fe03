"""The methods MLAT is compared with, as window-level scikit-learn estimators.

`DECADE` and `SiameseLSTM` need PyTorch (the extra "deep"), which is imported when they are fitted.
"""

from .decade import DECADE
from .knn import MDTW, EuclideanKNN, MetricKNN
from .ldmlt import LDMLT
from .lmnn_dtw import LMNNDTW
from .siamese import SiameseLSTM

__all__ = ["DECADE", "LDMLT", "LMNNDTW", "MDTW", "EuclideanKNN", "MetricKNN", "SiameseLSTM"]
