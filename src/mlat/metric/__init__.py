"""Phase II: a metric over windows, by the large-margin loss."""

from . import toeplitz
from .embedding import Mahalanobis
from .estimators import LMNN, MLAT
from .forest import Forest
from .problem import Problem
from .solvers import Record, Solution, solve_admm, solve_filter, solve_lmnn

__all__ = [
    "LMNN",
    "MLAT",
    "Forest",
    "Mahalanobis",
    "Problem",
    "Record",
    "Solution",
    "solve_admm",
    "solve_filter",
    "solve_lmnn",
    "toeplitz",
]
