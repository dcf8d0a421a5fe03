"""The unit in which windows are measured before a metric is learned from them.

It is a power of two. Dividing by it changes no digit, so windows in any unit give the same metric,
to the last bit, and neither overflow nor vanish when they are squared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.checks import Floats
from ..base.fixed_order import exponent_of

# A constant channel this many powers of two above all differences is left out: what its rounding
# leaves would be seen beside them.
CONSTANT = 30


@dataclass(frozen=True, eq=False)
class Unit:
    """``2**exponent``, and what is subtracted from each channel first, shape (d,)."""

    exponent: int
    offset: Floats

    @classmethod
    def of(cls, low: Floats, high: Floats) -> Unit:
        """The power of two above the largest range of a channel, for channels from low to high.

        The loss depends on differences alone.
        """
        half_range = high / 2 - low / 2  # a range may overflow
        if not half_range.any():
            return cls(0, low)
        exponent = exponent_of(half_range) + 1
        towers = (half_range == 0) & (np.frexp(low)[1] > exponent + CONSTANT)
        return cls(exponent, np.where(towers, low, 0.0))

    def __call__(self, values: Floats) -> Floats:
        """Values (..., d) in this unit."""
        if self.offset.any():
            values = values - self.offset
        return np.ldexp(values, -self.exponent) if self.exponent else values
