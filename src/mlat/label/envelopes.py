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
from ..base.compiled import jit
from ..live.page.model_view import usual_range

FIRST, FACTOR = 16, 4
PIECE = 1024  # blocks of a piece
COARSEST = 2048  # blocks at most of the last level, which a page always has
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
        self.blocks = [1]
        self._levels: list[Singles] = []
        block, level = FIRST, None
        while len(self._levels) == 0 or len(self._levels[-1]) > COARSEST:
            n = max(1, -(-len(values) // block))
            made = np.full((n, values.shape[1], 2), np.nan, np.float32)
            if level is None:
                _first_level(values, self.middle, self.half, block, made)
            else:
                _next_level(level, FACTOR, made)
            level = made
            self._levels.append(made)
            self.blocks.append(block)
            block *= FACTOR

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


@jit()
def _first_level(values, middle, half, block, made):  # type: ignore[no-untyped-def]
    T, d = values.shape
    for i in range(made.shape[0]):
        for t in range(i * block, min(T, (i + 1) * block)):
            for c in range(d):
                z = np.float32((values[t, c] - middle[c]) / half[c])
                # Also true where nothing is there yet; never for a missing value.
                if z == z:
                    if not made[i, c, 0] <= z:
                        made[i, c, 0] = z
                    if not made[i, c, 1] >= z:
                        made[i, c, 1] = z


@jit()
def _next_level(finer, factor, made):  # type: ignore[no-untyped-def]
    n, d = finer.shape[0], finer.shape[1]
    for i in range(made.shape[0]):
        for k in range(i * factor, min(n, (i + 1) * factor)):
            for c in range(d):
                low, high = finer[k, c, 0], finer[k, c, 1]
                if low == low:
                    if not made[i, c, 0] <= low:
                        made[i, c, 0] = low
                    if not made[i, c, 1] >= high:
                        made[i, c, 1] = high
