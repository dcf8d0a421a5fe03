"""The squares ``y·M y`` of references in 8 bits: how each differs from the one before it.

References that follow each other share all steps but two, so their squares are near each other. The
first of a run is stored as it is; of every other one a code c, from -127 to 127, which stands for a
change by ``c·|c|`` units. So small changes are stored finely and large ones coarsely. What is coded
is the change from what was decoded before, and no rounding adds up.
"""

from __future__ import annotations

import numpy as np

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from .tables import STORED

CODE = "signed char"
LARGEST_CODE = STORED[8][1]
MOST_UNITS = 2**16 - 2**8  # of a square, with what a code may be off: 16 bits


def code_unit(squares: Floats, first: Ints) -> float:
    """A unit in which every change has a code; ``first`` says where runs begin."""
    change = np.abs(np.diff(squares))
    change[first[1:] - 1] = 0.0
    # One less than the largest code: what was decoded before may be off by as much as a code.
    largest = float(change.max(initial=0.0)) / (LARGEST_CODE - 1) ** 2
    return max(largest, float(np.abs(squares).max(initial=0.0)) / MOST_UNITS, 1e-30)


def encode_squares(squares: Floats, first: Ints, unit: float) -> tuple[Ints, Ints, Floats]:
    """Codes (n,), the first squares of runs in units, and the squares that are decoded (n,)."""
    whole = np.rint(squares / unit).astype(np.int64)
    begins = np.zeros(len(whole), bool)
    begins[first] = True
    codes, decoded = _encoded(whole, begins)
    return codes, whole[first], decoded * unit


@jit()
def _encoded(whole: Ints, begins: Ints) -> tuple[Ints, Ints]:
    codes = np.zeros_like(whole)
    decoded = np.empty_like(whole)
    now = whole[0]
    for i in range(len(whole)):
        if begins[i]:
            now = whole[i]
        change = whole[i] - now
        code = min(int(np.rint(np.sqrt(abs(change)))), LARGEST_CODE)
        codes[i] = code if change >= 0 else -code
        now += codes[i] * code
        decoded[i] = now
    return codes, decoded
