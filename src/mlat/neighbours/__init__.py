"""The nearest references of a window, exactly, and the states they vote for."""

from .class_distances import ClassDistances
from .references import References
from .search import NearestNeighbors
from .votes import vote

__all__ = ["ClassDistances", "NearestNeighbors", "References", "vote"]
