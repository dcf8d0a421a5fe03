"""The nearest references of a window, exactly, and the states they vote for."""

from .references import References
from .search import ClassDistances, NearestNeighbors
from .votes import vote

__all__ = ["ClassDistances", "NearestNeighbors", "References", "vote"]
