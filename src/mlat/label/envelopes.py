"""The shape of a long recording at every zoom: minimum and maximum of blocks of steps.

Level 0 is the steps themselves. A block of level k has ``FIRST * FACTOR**(k - 1)`` steps. All
levels are computed once; a page asks for pieces of the level that fits its zoom, so what it draws
does not depend on how long the recording is.

Values are sent relative to the usual range of their channel: -1 and 1 are its ends. So single
precision is enough, whatever the unit of the channel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Singles
from ..live.page.model_view import usual_range

FIRST, FACTOR = 16, 4
PIECE = 1024  # blocks of a piece
COARSEST = 2048  # blocks at most of the last level, which a page always has
AT_ONCE = FIRST << 12  # steps that are made relative at once
SAMPLED = 20_000  # steps from which the usual ranges are estimated


class Envelopes:
    """The levels of one recording.

    Parameters
    ----------
    values : array of shape (T, d)
        NaN where a value is missing; a block of missing values alone is NaN.

    Attributes
    ----------
    middle, half : arrays of shape (d,)
        The usual range of each channel.
    blocks : list of int
        Steps of a block of each level, 1 first.
    """

    def __init__(self, values: NDArray[np.floating]) -> None:
        self._values = values
        every = max(1, len(values) // SAMPLED)
        self.middle, self.half = usual_range(values[::every])
        parts = (
            relative(values[first : first + AT_ONCE], self.middle, self.half)
            for first in range(0, max(1, len(values)), AT_ONCE)
        )
        self._levels = [np.concatenate([_ranges(part, part, FIRST) for part in parts])]
        self.blocks = [1, FIRST]
        while len(last := self._levels[-1]) > COARSEST:
            self._levels.append(_ranges(last[..., 0], last[..., 1], FACTOR))
            self.blocks.append(self.blocks[-1] * FACTOR)

    def n_pieces(self, level: int) -> int:
        n = len(self._values) if level == 0 else len(self._levels[level - 1])
        return -(-n // PIECE)

    def piece(self, level: int, number: int) -> Singles:
        """Shape (n, d) of level 0, (n, d, 2) of others: minimum and maximum."""
        part = slice(number * PIECE, (number + 1) * PIECE)
        if level == 0:
            return relative(self._values[part], self.middle, self.half)
        return self._levels[level - 1][part]


def relative(values: NDArray[np.floating], middle: Floats, half: Floats) -> Singles:
    """Values relative to the usual range of their channel."""
    with np.errstate(over="ignore"):
        return ((values - middle) / half).astype(np.float32)


def _ranges(low: Singles, high: Singles, factor: int) -> Singles:
    """Minimum and maximum (n, d, 2) of blocks of so many; NaN where nothing else is in one."""
    begins = np.arange(0, len(low), factor)
    return np.stack([np.fmin.reduceat(low, begins), np.fmax.reduceat(high, begins)], axis=2)
