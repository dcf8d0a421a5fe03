"""The arithmetic of C: the tables of a model with floating point, and without.

Without it a channel comes as a whole number in a power of two of its own, is scaled to 1/65536 of a
deviation, and every feature is computed in the unit in which the references' steps are stored, with
a few more digits (``X_BITS``). The metric between such units is a matrix of 16-bit numbers; all
sums have 64 bits, and shifts are chosen here so that none can overflow, whatever the stream does.
Logarithms and powers are computed digit by digit.

How far that can change a distance is known. A feature that is off by ``δ`` moves it by at most
``sqrt(δ·|M|δ)``, by the triangle inequality; rounding of products changes its square by at most
``e``, and so a distance D by at most ``min(sqrt(e), e / D)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..features.lifts import CHANGE, DEVIATION
from .plain_forest import StoredForest
from .plain_model import PlainExpert, PlainModel, short_bits
from .tables import EXTREME, SHORT, SQUARE_LEVELS, STORED, X_BITS, Tables

SCALED_BITS = 16  # of a scaled channel, after the point
VALUE_BITS, LOG_BITS = 20, 24  # of statistics of a lift; of logarithms
COARSEST = 2.0**10  # a unit of the input, in those of a scaled channel: 1/64 of a deviation
LARGEST_BITS = 23  # of such a feature, all in all
TYPES = """\
/* Whole numbers only. A value is given as v * 2^mlat_input_bits[channel], MLAT_NO_VALUE where it
 * is missing. Probabilities and distances are told in 65536ths; a distance of a model with one
 * expert in typical distances. */
typedef int32_t mlat_real;
typedef int64_t mlat_square;

#define MLAT_NO_VALUE (-2147483647 - 1)
extern const signed char mlat_input_bits[MLAT_CHANNELS];
"""


class RealNumbers:
    """Single or double precision."""

    source = "in_reals.c"
    missing = "NaN"
    input_bits = None
    anchor = 32.0  # additions after which a running sum begins anew, as in the C

    def __init__(self, bits: int, *, short_squares: bool) -> None:
        self._bits = bits
        self.squares: list[Floats] = []
        self.bounds: list[tuple[float, float]] = []
        real = "double" if bits == 64 else "float"
        self.types = f"typedef {real} mlat_real, mlat_square;\n"
        self.square_type = SHORT if short_squares else real
        self.metric_type = "short" if bits <= 16 else real
        self.bytes_of_real = self.bytes_of_square = 8 if bits == 64 else 4

    def add_channels(self, tables: Tables, model: PlainModel) -> None:
        tables.real("mlat_channel_mean", model.channel_mean)
        tables.real("mlat_channel_scale", model.channel_scale)

    def add_features(self, tables: Tables, model: PlainModel, unit: Floats) -> None:
        tables.real("mlat_feature_floor", model.lift.floors)
        tables.real("mlat_feature_mean", model.feature_mean)
        tables.real("mlat_feature_scale", model.feature_scale * unit)

    def add_probabilities(self, tables: Tables, name: str, values: Floats) -> None:
        tables.real(name, values)

    def add_expert(
        self, tables: Tables, number: int, one: PlainExpert, squares: Floats, units: Floats
    ) -> Sequence[str]:
        metric, metric_unit = one.packed(one.metric * one.units(units)), 1.0
        if self.metric_type == "short":
            metric_unit = 2.0 ** -short_bits(metric)
            whole = np.rint(metric / metric_unit).astype(np.int64)
            tables.whole(f"metric_{number}", whole, self.metric_type)
        else:
            tables.real(f"metric_{number}", metric)
        kept: Floats = squares
        unit, largest = 1.0, float(squares.max(initial=0.0))
        if self.square_type == SHORT:
            unit = max(largest, 1e-30) / SQUARE_LEVELS
            whole = np.clip(np.rint(squares / unit), 0, SQUARE_LEVELS).astype(np.int64)
            tables.whole(f"squares_{number}", whole, self.square_type)
            kept = np.asarray(whole * unit)
        else:
            tables.real(f"squares_{number}", squares)
        self.squares.append(kept)
        return [*map(tables.number, (one.weight, one.typical, metric_unit, unit, 1.0, largest))]

    def of_forest(self, one: StoredForest) -> Sequence[str]:
        number = Tables("" if self._bits == 64 else "f").number
        typical, unit = one.forest.typical / one.point_unit, 2.0**one.threshold_power
        return [*map(number, (one.forest.weight, typical, unit, 1.0, one.point_unit, 0.0))]

    def constants(self, model: PlainModel, limit: float) -> dict[str, str]:
        suffix = "" if self._bits == 64 else "f"
        number = Tables(suffix).number
        threshold = 0.0
        if np.isfinite(limit):
            one = model.experts[0]
            threshold = float(np.log(limit)) if len(model.experts) > 1 else limit / one.typical
        return {
            "SOFT": number(model.soft),
            "BETA": number(model.beta),
            "EXTREME": number(EXTREME[self._bits]),
            "HUGE": "1e300" if self._bits == 64 else "1e38f",
            "TINY": "1e-300" if self._bits == 64 else "1e-30f",
            "NEVER": "(-MLAT_HUGE)",
            "TEMPERING": number(model.tempering),
            "HAS_THRESHOLD": str(int(np.isfinite(limit))),
            "THRESHOLD": number(threshold),
            "ABS(x)": f"fabs{suffix}(x)",
            "SQRT(x)": f"sqrt{suffix}(x)",
            "LOG(x)": f"log{suffix}(x)",
            "EXP(x)": f"exp{suffix}(x)",
        }


class WholeNumbers:
    """Whole numbers of 32 bits, sums of 64.

    Attributes
    ----------
    input_bits : array of shape (d,)
        A value v is given as ``round(v * 2**input_bits)``.
    bounds : list of (float, float)
        Of each expert ``sqrt(δ·|M|δ)`` and ``e``.
    squares : list of arrays of shape (n,)
        ``y·M y`` as they are stored, of each expert whose metric is a matrix.
    """

    source = "in_wholes.c"
    missing = "MLAT_NO_VALUE"
    types = TYPES
    metric_type = "short"
    anchor = np.inf  # sums are exact
    bytes_of_real, bytes_of_square = 4, 8

    def __init__(
        self, model: PlainModel, bits: int, largest: int, *, short_squares: bool, narrow: int = 0
    ) -> None:
        if bits not in X_BITS:
            raise InputError(f"whole numbers are stored in 16 or 8 bits, not {bits}")
        scale, mean = model.channel_scale, model.channel_mean
        if not mean.any() and len(scale) > 1 and (scale == scale[0]).all():
            raise InputError(
                "whole numbers need channels that were scaled: fit the model with scale=True"
            )
        self.square_type = SHORT if short_squares else "int32_t"
        self._narrow = narrow
        self._stored, self._x_bits = STORED[bits][1], X_BITS[bits]
        # A deviation is about 2^SCALED_BITS, and the mean is below 2^30.
        wanted = SCALED_BITS + 1 - np.frexp(scale)[1]
        most = 30 - np.frexp(mean)[1]
        self.input_bits = np.clip(np.minimum(wanted, most), -120, 120)
        # Squares of differences of the last steps have to fit in 64 bits.
        reach_bits = int(np.ceil(np.log2(max(2, model.lift.size))))
        self._extreme = 2 ** min(29, (62 - reach_bits) // 2 - 1)
        self._size_bits = int(np.ceil(np.log2(max(2, largest))))
        self._feature_errors: Floats = np.zeros(0)
        self.bounds: list[tuple[float, float]] = []
        self.squares: list[Floats] = []

    def add_channels(self, tables: Tables, model: PlainModel) -> None:
        ratio = 2.0**SCALED_BITS / np.ldexp(model.channel_scale, self.input_bits)
        factor, shift = _mantissas(ratio, 30)
        if (ratio > COARSEST).any():
            name = model.channels[int(np.argmax(ratio))]
            raise InputError(
                f"channel {name!r} varies too little beside its level for whole numbers of 32 "
                "bits; subtract its level, and fit the model again"
            )
        tables.whole("mlat_input_bits", self.input_bits, "signed char")
        mean = np.rint(np.ldexp(model.channel_mean, self.input_bits)).astype(np.int64)
        tables.whole("mlat_channel_mean", mean, "int32_t")
        tables.whole("mlat_channel_factor", factor, "int32_t")
        tables.whole("mlat_channel_shift", shift, "unsigned char")
        # Half a unit of the input, of the mean and of the result, and the factor's own rounding
        # for values up to 64 deviations.
        self._channel_errors = 2.0**-SCALED_BITS * (ratio + 0.5) + 64 * 2.0**-29

    def add_features(self, tables: Tables, model: PlainModel, unit: Floats) -> None:
        lift = model.lift
        is_log = lift.floors > 0
        change = np.where(is_log, np.log(2.0), 1.0)
        ratio = 2.0 ** (self._x_bits - LOG_BITS) * change / (model.feature_scale * unit)
        factor, shift = _mantissas(ratio, 24)
        mean = np.rint(model.feature_mean / change * 2.0**LOG_BITS)
        if (shift < 0).any() or (np.abs(mean) >= 2.0**31).any():
            raise InputError("a feature is too large or too small for whole numbers of 32 bits")
        floors = np.rint(lift.floors * 2.0**VALUE_BITS).astype(np.int64)
        tables.whole("mlat_feature_floor", floors, "int32_t")
        tables.whole("mlat_feature_mean", mean.astype(np.int64), "int32_t")
        tables.whole("mlat_feature_factor", factor, "int32_t")
        tables.whole("mlat_feature_shift", np.minimum(shift, 63), "unsigned char")
        # A difference is of two values, a deviation from a mean that is rounded itself.
        error = self._channel_errors[lift.channels] * np.where(lift.takes == CHANGE, 2, 1)
        error += 2.0**-SCALED_BITS * (lift.overs == DEVIATION)
        error += 2.0 ** (1 - VALUE_BITS)
        floor = np.where(is_log, lift.floors, 1.0)
        error = np.where(is_log, (error + 2.0**-VALUE_BITS) / floor + 2.0 ** (1 - LOG_BITS), error)
        error /= model.feature_scale
        self._feature_errors = error + unit * (0.5**self._x_bits + 2 * self._stored * 2.0**-23)

    def add_probabilities(self, tables: Tables, name: str, values: Floats) -> None:
        tables.whole(name, np.rint(values * 2.0**30).astype(np.int64), "int32_t")

    def add_expert(
        self, tables: Tables, number: int, one: PlainExpert, squares: Floats, unit: Floats
    ) -> Sequence[str]:
        w, n = one.width, len(one.columns)
        metric = one.metric * one.units(unit)
        if one.n_lags:
            count = w - np.arange(len(metric))
            rows = _row_sums(np.abs(metric))
            spread = np.tensordot(np.where(count == w, 1.0, 2.0) * count, np.abs(one.metric), 1)
            of_steps = self._feature_errors[one.columns]
            moved = np.sqrt(of_steps @ spread @ of_steps)
        else:
            rows = np.abs(metric).sum(axis=1)
            of_steps = np.tile(self._feature_errors[one.columns], w)
            moved = np.sqrt(of_steps @ np.abs(one.metric) @ of_steps)
        most = max(float(np.abs(metric).max()), np.finfo(float).tiny)
        largest_row = max(float(rows.max()), most)
        metric_bits = short_bits(metric)  # times a window it fits in 62 bits
        stored = np.rint(metric * 2.0**metric_bits).astype(np.int64)
        # And a window times that, after a shift, too.
        u_bits = min(30, 61 - LARGEST_BITS - self._size_bits)
        shift = max(0, metric_bits + _exponent(largest_row) + LARGEST_BITS - u_bits)
        shift += (metric_bits + self._x_bits - shift) % 2  # whose root is a whole shift
        square_bits = metric_bits + self._x_bits - shift
        if square_bits + _exponent(float(squares.max(initial=0.0))) > 61:
            raise InputError("the distances of an expert do not fit in whole numbers of 64 bits")
        tables.whole(f"metric_{number}", one.packed(stored), self.metric_type)
        last_digit = 2.0**-square_bits
        kept_bits = 16 if self.square_type == SHORT else 31
        exponent = max(0, _exponent(float(squares.max(initial=0.0))) + square_bits - kept_bits)
        square_unit = 2.0**exponent * last_digit
        whole = np.clip(np.rint(squares / square_unit), 0, 2**kept_bits - 1).astype(np.int64)
        tables.whole(f"squares_{number}", whole, self.square_type)
        kept: Floats = np.asarray(whole * square_unit)
        square_error = square_unit
        if self._narrow:
            # For windows within training's range: its u is rounded once more, and the square.
            most = float(largest_row * 2.0 ** (metric_bits - shift + self._x_bits) * self._stored)
            more = max(_exponent(most / self._narrow), exponent - 15, 0)
            square_error += (2 * self._stored * w * n * 0.5 + 2) * 2.0**more * last_digit
        ratio = 2.0 ** (LOG_BITS - square_bits // 2) / one.typical
        factor, factor_shift = _mantissas(np.array([ratio]), 30)
        # Each number of Mx is rounded where it is shifted; the metric is stored as it is.
        of_u = 0.5 * 2.0**-square_bits if shift else 0.0
        error = 8 * self._stored * w * n * of_u + square_error
        # The last: what is cut off of sums over knots, twice, and of the window's own square.
        self.bounds.append((float(moved), float(error + 3 * last_digit)))
        self.squares.append(kept)
        return (
            str(round(one.weight * 2**LOG_BITS)),
            str(int(factor[0])),
            str(exponent),
            str(shift),
            str(int(factor_shift[0])),
        )

    def of_forest(self, one: StoredForest) -> Sequence[str]:
        typical = one.forest.typical
        ratio = 2.0**LOG_BITS * one.point_unit / typical
        factor, factor_shift = _mantissas(np.array([ratio]), 30)
        # From stored numbers on everything is exact; splits have no bound.
        self.bounds.append((0.0, 0.0))
        return (
            str(round(one.forest.weight * 2**LOG_BITS)),
            str(int(factor[0])),
            "0",
            str(one.threshold_power + self._x_bits),
            str(int(factor_shift[0])),
        )

    def constants(self, model: PlainModel, limit: float) -> dict[str, str]:
        threshold = 0
        if np.isfinite(limit) and len(model.experts) > 1:
            threshold = round(np.log2(limit) * 2**LOG_BITS)
        elif np.isfinite(limit):
            threshold = min(round(limit / model.experts[0].typical * 2**LOG_BITS), 2**40)
        return {
            "SOFT": str(round(model.soft * 2**LOG_BITS)),
            "BETA": f"(int64_t){round(model.beta * 2**16)}",
            "EXTREME": str(self._extreme),
            "LARGEST_X": str(2**LARGEST_BITS - 1),
            "X_BITS": str(self._x_bits),
            "HUGE": "((int64_t)1 << 62)",
            "NEVER": "(-((int64_t)1 << 62))",
            "FURTHEST": "((int64_t)1 << 40)",
            "TEMPERING": f"(int64_t){round(model.tempering * 2**LOG_BITS)}",
            "HAS_THRESHOLD": str(int(np.isfinite(limit))),
            "THRESHOLD": f"(int64_t){threshold}",
        }


def _mantissas(ratio: Floats, bits: int) -> tuple[Ints, Ints]:
    """Whole numbers of so many bits and shifts to the right that make each ratio."""
    fraction, exponent = np.frexp(ratio)
    factor = np.rint(np.ldexp(fraction, bits)).astype(np.int64)
    return np.minimum(factor, 2**bits - 1), (bits - exponent).astype(np.int64)


def _exponent(value: float) -> int:
    """The least power of two that is larger."""
    return int(np.frexp(value)[1])


def _row_sums(blocks: Floats) -> Floats:
    """An upper bound of the row sums of a block-Toeplitz matrix of such lags."""
    total = blocks[0].sum(axis=1)
    for block in blocks[1:]:
        total = total + block.sum(axis=1) + block.sum(axis=0)
    return np.asarray(total)
