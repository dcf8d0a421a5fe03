"""Explanations: the parts of a distance, what a model goes by, which states it confuses."""

from .attribution import Parts, split
from .confusions import Confusions, count_confusions
from .explanation import Explanation, explain
from .usage import Usage, measure_usage

__all__ = [
    "Confusions",
    "Explanation",
    "Parts",
    "Usage",
    "count_confusions",
    "explain",
    "measure_usage",
    "split",
]
