"""Features of each step: lifts, scaling and whitening."""

from .features import Features
from .lifts import Lift

__all__ = ["Features", "Lift"]
