"""Explanations: the parts of a distance, what a model goes by, which states it confuses."""

from .attribution import Parts, split
from .confusions import Confusions, count_confusions
from .experts import Expert, experts_of
from .explanation import Explanation, Opinion, explain
from .usage import Usage, measure_usage

__all__ = [
    "Confusions",
    "Expert",
    "Explanation",
    "Opinion",
    "Parts",
    "Usage",
    "count_confusions",
    "experts_of",
    "explain",
    "measure_usage",
    "split",
]
