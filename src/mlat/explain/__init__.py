"""Why: what a distance consists of, what a model goes by, which states it confuses."""

from .attribution import Parts, split
from .confusions import Confusions, count_confusions
from .explanation import Explanation, explain
from .usage import Usage, usage

__all__ = [
    "Confusions",
    "Explanation",
    "Parts",
    "Usage",
    "count_confusions",
    "explain",
    "split",
    "usage",
]
