"""Constant arrays in C, and steps as they are stored in them."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, Ints
from ..base.errors import InputError

# Stored numbers: their C type, and the largest whole number.
STORED = {64: ("double", 0), 32: ("float", 0), 16: ("short", 2**15 - 1), 8: ("signed char", 127)}
EXTREME = {64: 1e100, 32: 1e15, 16: 1e15, 8: 1e15}  # deviations: further away counts as missing
ABOVE = 128  # that a step of 8 bits is stored above what it is, where rows are narrow
X_BITS = {8: 10, 16: 4}  # more, of a feature in its stored unit in whole numbers
BYTES = {
    "unsigned char": 1, "signed char": 1, "short": 2, "unsigned short": 2, "int": 4, "int32_t": 4,
}  # fmt: skip
PER_LINE = 12
DECLARED = ("mlat_input_bits",)
SHORT = "unsigned short"
SQUARE_LEVELS = 2**16 - 1  # of a stored square of that type


def quantised(steps: Floats, bits: int) -> tuple[Floats, Floats]:
    """Steps (T, F) as they are stored, and the unit of each feature, (F,)."""
    whole = STORED[bits][1]
    if not whole:
        rounded = steps if bits == 64 else steps.astype(np.float32).astype(np.float64)
        return rounded, np.ones(steps.shape[1])
    largest = np.abs(steps).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0) / whole
    unit = unit.astype(np.float32).astype(np.float64)
    return np.clip(np.rint(steps / unit), -whole, whole), unit


class Tables:
    """Constant arrays, and how many bytes they take."""

    def __init__(self, suffix: str) -> None:
        self.suffix, self.before = suffix, ""
        self._arrays: list[tuple[str, str, Callable[[Any], str], NDArray[Any]]] = []
        self.n_bytes = 0

    def number(self, value: float) -> str:
        if not isfinite(value):
            raise InputError(f"the model holds {value}, which no table can")
        # As many digits as tell every number of that precision from every other.
        if self.suffix:
            return f"{max(-3e38, min(3e38, value)):.8e}f"
        return f"{value:.16e}"

    def real(self, name: str, values: NDArray[Any]) -> None:
        if not np.isfinite(values).all():
            raise InputError(f"{name} of the model are not all numbers that a table can hold")
        kind = "float" if self.suffix else "double"
        self._arrays.append((name, kind, self.number, values))
        self.n_bytes += len(values) * (4 if self.suffix else 8)

    def whole(self, name: str, values: Ints, kind: str) -> None:
        self._arrays.append((name, kind, str, values))
        self.n_bytes += len(values) * BYTES[kind]

    def stored(self, name: str, values: NDArray[Any], kind: str) -> None:
        """Numbers of references, which are whole where their type is."""
        if kind in BYTES:
            self.whole(name, values.astype(np.int64).ravel(), kind)
        else:
            self.real(name, values.ravel())

    def text(self) -> str:
        """All of them in C, which takes far longer than to say their sizes."""
        return "\n".join([self.before, *(_array(*one) for one in self._arrays), ""])


def _array(name: str, kind: str, number: Callable[[Any], str], values: NDArray[Any]) -> str:
    items = list(map(number, values.tolist())) or ["0"]  # C knows no empty array
    rows = [", ".join(items[i : i + PER_LINE]) for i in range(0, len(items), PER_LINE)]
    # What the header declares can be seen from elsewhere.
    kept = "" if name in DECLARED else "static "
    return f"{kept}const {kind} {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};"
