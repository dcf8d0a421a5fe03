"""Cross-validation without leaks, for windows and for streams, with scikit-learn's own tools.

Windows of one run overlap, and windows that follow each other are nearly the same. A splitter that
does not know of runs puts one into the training part and its neighbour into the test part, and a
score of nearly 1 then says nothing. :mod:`.splitters` keeps them apart; :mod:`.unknown` has what
scikit-learn's metrics and ensembles need where a stream has no state to predict.
"""

from .splitters import GappedBlocks, WholeRecordings, WholeRuns
from .unknown import EveryStep, judged

__all__ = ["EveryStep", "GappedBlocks", "WholeRecordings", "WholeRuns", "judged"]
