"""Phase II: a metric over windows, by the large-margin loss."""

from . import toeplitz
from .estimators import LMNN, MLAT
from .forest import Forest
from .mahalanobis import Mahalanobis
from .problem import MarginProblem, Problem, Record, Solution
from .solvers import solve_admm, solve_filter, solve_lmnn

__all__ = [
    "LMNN",
    "MLAT",
    "Forest",
    "Mahalanobis",
    "MarginProblem",
    "Problem",
    "Record",
    "Solution",
    "solve_admm",
    "solve_filter",
    "solve_lmnn",
    "toeplitz",
]
