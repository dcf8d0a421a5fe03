"""A classifier as C99: one header and one source, without allocation.

The algorithm is in ``interface.h`` and ``algorithm.c`` beside this file; what is written here are
the sizes and the tables. References are stored as steps, which overlapping windows share, in 32, 16
or 8 bits; all sums are in single precision, or with 64 bits in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats, Ints
from ..errors import InputError
from .plain_model import PlainModel

# Stored numbers: their C type, and the largest whole number.
STORED = {64: ("double", 0), 32: ("float", 0), 16: ("short", 2**15 - 1), 8: ("signed char", 127)}
EXTREME = {64: 1e100, 32: 1e15, 16: 1e15, 8: 1e15}  # deviations: further away counts as missing
BYTES = {"unsigned char": 1, "signed char": 1, "short": 2, "unsigned short": 2, "int": 4}
PER_LINE = 12


@dataclass(frozen=True)
class CSource:
    """The text of a library, and what it takes.

    Attributes
    ----------
    header, source : str
        Of ``mlat.h`` and ``mlat.c``.
    flash : int
        Bytes of its tables.
    ram : int
        Bytes of one stream's memory, ``sizeof(mlat)`` but for padding.
    products : int
        Multiplications for each step.
    """

    header: str
    source: str
    flash: int
    ram: int
    products: int


def write_c(
    model: PlainModel,
    *,
    bits: int = 32,
    filtered: bool = False,
    hold: int = 0,
    far: float | None = None,
    spare: int = 0,
) -> CSource:
    """The C of a model.

    Parameters
    ----------
    bits : 64, 32, 16 or 8
        Of a stored number of a reference; with 64 everything is in double precision.
    filtered : bool
        Whether states go through the state filter.
    hold : int
        For how many steps in a row a missing value is the channel's last one.
    far : float, optional
        As in :meth:`PlainModel.limit`.
    spare : int
        References that can be taught.
    """
    if bits not in STORED:
        raise InputError(f"bits must be one of {', '.join(map(str, STORED))}, not {bits}")
    if len(model.states) > 2**15 or len(model.steps) >= 2**31 // max(1, model.steps.shape[1]):
        raise InputError("the model has too many states or references for tables in C")
    limit = model.limit(far)
    real, suffix = ("double", "") if bits == 64 else ("float", "f")
    steps, unit = quantised(model.steps, bits)
    d, F, S, n = len(model.channels), model.steps.shape[1], len(model.states), len(model.start)
    stored, whole = STORED[bits]
    tables = _Tables(real, suffix)
    tables.add("mlat_channel_mean", model.channel_mean)
    tables.add("mlat_channel_scale", model.channel_scale)
    tables.whole("mlat_feature_channel", model.lift.channels, "unsigned short")
    tables.whole("mlat_feature_source", model.lift.sources, "unsigned char")
    tables.add("mlat_feature_floor", model.lift.floors)
    tables.add("mlat_feature_mean", model.feature_mean)
    tables.add("mlat_feature_scale", model.feature_scale)
    tables.add("mlat_unit", unit)
    if whole:
        tables.whole("mlat_steps", steps.astype(np.int64).ravel(), stored)
    else:
        tables.add("mlat_steps", steps.ravel())
    tables.whole("mlat_start", model.start, "unsigned short" if len(steps) < 2**16 else "int")
    tables.whole("mlat_state_of", model.codes, "unsigned char" if S <= 256 else "short")
    if filtered:
        tables.add("mlat_transition", model.transition.ravel())
        tables.add("mlat_stationary", model.stationary)
    experts, products = [], 0
    for number, one in enumerate(model.experts):
        ranges = _ranges(one.columns)
        metric = one.blocks if one.blocks is not None else one.matrix
        assert metric is not None
        n_lags = 0 if one.blocks is None else len(one.blocks)
        squares = one.squares(steps * unit, model.start + model.width - one.width)
        tables.whole(f"columns_{number}", one.columns, "unsigned short")
        tables.whole(f"ranges_{number}", ranges.ravel(), "unsigned short")
        tables.add(f"metric_{number}", metric.ravel())
        tables.add(f"squares_{number}", squares)
        size, c = one.width * len(one.columns), len(one.columns)
        fields = [
            *(str(one.width), str(c), str(n_lags), str(int(one.blocks is None)), str(len(ranges))),
            *(f"columns_{number}", f"ranges_{number}", f"metric_{number}", f"squares_{number}"),
            *(tables.number(one.weight), tables.number(one.typical)),
        ]
        experts.append(f"    {{{', '.join(fields)}}},")
        of_metric = size * size if one.blocks is None else c * c * one.width * (2 * n_lags - 1)
        products += of_metric + (n + spare + 2) * size
    largest = max(one.width * len(one.columns) for one in model.experts)
    memory = model.lift.size
    sizes: dict[str, int] = {
        "CHANNELS": d, "STATES": S, "FEATURES": F, "WIDTH": model.width, "REFERENCES": n,
        "EXPERTS": len(model.experts), "NEIGHBORS": model.n_neighbors, "LARGEST": largest,
        "REMEMBERS": int(model.lift.remembers), "MEMORY": memory, "REACH": memory - 1,
        "FILTERED": int(filtered), "HOLD": hold, "SPARE": spare,
    }  # fmt: skip
    header = _text("interface.h")
    header = header.replace(
        "/*SIZES*/", "\n".join(f"#define MLAT_{k} {v}" for k, v in sizes.items())
    )
    header = header.replace("/*REAL*/", real)
    constants = {
        "SOFT": tables.number(model.soft),
        "BETA": tables.number(model.beta),
        "EXTREME": tables.number(EXTREME[bits]),
        "HUGE": "1e300" if bits == 64 else "1e38f",
        "TEMPERING": tables.number(model.tempering),
        "HAS_THRESHOLD": str(int(np.isfinite(limit))),
        "THRESHOLD": tables.number(limit) if np.isfinite(limit) else "0",
        "ABS(x)": f"fabs{suffix}(x)",
        "SQRT(x)": f"sqrt{suffix}(x)",
        "LOG(x)": f"log{suffix}(x)",
        "EXP(x)": f"exp{suffix}(x)",
    }
    names = [
        f"const char *const {name}[] = {{\n{_strings(values)}\n}};"
        for name, values in (
            ("mlat_state_names", model.states),
            ("mlat_channel_names", model.channels),
        )
    ]
    source = "\n".join(
        [
            '/* Written by `mlat export`; see mlat.h. */\n\n#include "mlat.h"\n',
            "#include <math.h>\n#include <string.h>\n",
            *(f"#define MLAT_{name} {value}" for name, value in constants.items()),
            f"\ntypedef {stored} mlat_stored;\n",
            *names,
            "",
            *tables.lines,
            "",
            _text("algorithm.c").replace("/*EXPERTS*/", "\n".join(experts)),
        ]
    )
    ram = _ram(sizes, 8 if bits == 64 else 4)
    flash = tables.n_bytes + sum(
        len(name.encode()) + 5 for name in (*model.states, *model.channels)
    )
    return CSource(header, source, flash, ram, products)


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


class _Tables:
    """Constant arrays, and how many bytes they take."""

    def __init__(self, real: str, suffix: str) -> None:
        self.real, self.suffix = real, suffix
        self.lines: list[str] = []
        self.n_bytes = 0

    def number(self, value: float) -> str:
        if not np.isfinite(value):
            raise InputError(f"the model holds {value}, which no table can")
        if self.suffix:
            value = float(np.clip(value, -3e38, 3e38))
            text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
        else:
            text = np.format_float_scientific(value, unique=True, trim="0")
        return f"{text}{self.suffix}"

    def add(self, name: str, values: NDArray[Any]) -> None:
        self._add(name, self.real, map(self.number, values.tolist()), len(values))
        self.n_bytes += len(values) * (4 if self.suffix else 8)

    def whole(self, name: str, values: Ints, kind: str) -> None:
        self._add(name, kind, map(str, values.tolist()), len(values))
        self.n_bytes += len(values) * BYTES[kind]

    def _add(self, name: str, kind: str, values: Iterable[str], n: int) -> None:
        items = list(values)
        rows = [", ".join(items[i : i + PER_LINE]) for i in range(0, n, PER_LINE)]
        self.lines.append(
            f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};"
        )


def _ranges(columns: Ints) -> Ints:
    """Columns as pairs: the first of those that follow each other, and how many they are."""
    begins = np.append(0, np.flatnonzero(np.diff(columns) != 1) + 1)
    lengths = np.diff(np.append(begins, len(columns)))
    return np.stack([columns[begins], lengths], axis=1)


def _strings(values: Sequence[str]) -> str:
    return ",\n".join(f"    {c_string(value)}" for value in values)


def c_string(text: str) -> str:
    """A text as a C string of ASCII, from which nothing in it can break out.

    >>> c_string('a"b')
    '"a\\\\042b"'
    """
    safe = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;=()")
    # Always three digits, so that one that follows is not taken for a part of it.
    return '"' + "".join(chr(b) if b in safe else f"\\{b:03o}" for b in text.encode()) + '"'


def _ram(sizes: dict[str, int], real: int) -> int:
    d, S, F, w = (sizes[name] for name in ("CHANNELS", "STATES", "FEATURES", "WIDTH"))
    reals = w * F + 2 * sizes["LARGEST"] + S + d
    wholes = d + 5
    if sizes["REMEMBERS"]:
        reals += sizes["MEMORY"] * d
    if sizes["NEIGHBORS"] > 1:
        reals, wholes = reals + sizes["NEIGHBORS"], wholes + sizes["NEIGHBORS"]
    if sizes["FILTERED"]:
        reals, wholes = reals + S, wholes + 1
    if sizes["SPARE"]:
        reals += sizes["SPARE"] * (w * F + sizes["EXPERTS"])
        wholes += sizes["SPARE"] + 2
    return real * reals + 4 * wholes


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
