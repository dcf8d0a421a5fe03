"""Phase II: a metric over windows, by the large-margin loss."""

from . import toeplitz
from .admm import solve_admm
from .estimators import LMNN, MLAT
from .filter import solve_filter
from .forest import Forest
from .lmnn import solve_lmnn
from .mahalanobis import Mahalanobis
from .problem import MarginProblem, Problem, Record, Solution

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
