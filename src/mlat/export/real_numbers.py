"""The tables of C in floating point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.checks import Floats
from .plain_forest import StoredForest
from .plain_model import PlainExpert, PlainModel, short_bits
from .tables import EXTREME, SHORT, SQUARE_LEVELS, Tables


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
