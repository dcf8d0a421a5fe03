"""Phase II: a metric over windows, by the large-margin loss."""

from . import toeplitz
from .admm import ADMMSolution, solve_admm
from .estimators import LMNN, MLAT
from .filter import FilterSolution, solve_filter
from .forest import Forest
from .lmnn import LMNNSolution, solve_lmnn
from .mahalanobis import Mahalanobis
from .problem import MarginProblem, Problem, Record

__all__ = [
    "LMNN",
    "MLAT",
    "ADMMSolution",
    "FilterSolution",
    "Forest",
    "LMNNSolution",
    "Mahalanobis",
    "MarginProblem",
    "Problem",
    "Record",
    "solve_admm",
    "solve_filter",
    "solve_lmnn",
    "toeplitz",
]
