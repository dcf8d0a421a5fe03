"""Choosing lift, width and metric from the training stream alone."""

from .choice import Choice
from .search import Selection, select

__all__ = ["Choice", "Selection", "select"]
