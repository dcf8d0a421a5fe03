"""Phase II: the solvers. Pure functions from a :class:`MarginProblem` to a solution."""

from .admm import ADMMSolution, solve_admm
from .filter import FilterSolution, solve_filter
from .lmnn import LMNNSolution, solve_lmnn
from .problem import MarginProblem, Problem, Record

__all__ = [
    "ADMMSolution",
    "FilterSolution",
    "LMNNSolution",
    "MarginProblem",
    "Problem",
    "Record",
    "solve_admm",
    "solve_filter",
    "solve_lmnn",
]
