"""What is computed of each channel, in the words of the exported code.

A map that is not in ``TAKES`` is refused by its name: C and ONNX have to be told of it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..features.lifts import Lift

# What a feature takes of its channel, as lift.c numbers it: before VALUE, of its past, too.
MEAN, MAGNITUDE, DEVIATION, DIFFERENCES, DIFFERENCE, VALUE, RECTIFIED = range(7)
TAKES = {
    "identity": VALUE,
    "rectified": RECTIFIED,
    "log_magnitude": RECTIFIED,
    "difference": DIFFERENCE,
    "low_pass": MEAN,
    "running_magnitude": MAGNITUDE,
    "running_deviation": DEVIATION,
    "running_difference": DIFFERENCES,
}


@dataclass(frozen=True, eq=False)
class PlainLift:
    """Of each feature (F,) its source and channel, and what is added before its logarithm, 0 for
    none; ``size`` is how many steps are remembered."""

    sources: Ints
    channels: Ints
    floors: Floats
    size: int

    @classmethod
    def of(cls, lift: Lift, n_channels: int) -> PlainLift:
        sources: list[int] = []
        for name in lift.maps:
            if name not in TAKES:
                raise InputError(f"the map {name!r} cannot be exported yet; fit a model without it")
            of = lift.maps[name] if isinstance(lift.maps, Mapping) else None
            sources += [TAKES[name]] * (n_channels if of is None else len(of))
        made = lift.prepared(n_channels)
        return cls(np.array(sources), made.channels, made.floors, made.size)

    @property
    def remembers(self) -> bool:
        return bool((self.sources < VALUE).any())
