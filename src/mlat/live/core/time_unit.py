"""Whether the time of the first steps is in seconds, as the rate promises."""

from __future__ import annotations

import numpy as np

from .options import LiveOptions
from .state import LiveState
from .steps import Steps

LOOKED_AT = 20  # differences
OFF = 50  # times
UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}


def check_unit(state: LiveState, steps: Steps, options: LiveOptions) -> None:
    """Say it once if the usual time between the first steps is far from that of the rate."""
    if options.rate is None or steps.time is None or len(state.times) > LOOKED_AT:
        return
    state.times += steps.time[: LOOKED_AT + 1 - len(state.times)].tolist()
    if len(state.times) <= LOOKED_AT:
        return
    usual = float(np.median(np.diff(state.times)))
    ratio = usual * options.rate
    if 1 / OFF <= ratio <= OFF or usual <= 0:
        return
    state.counters["wrong_unit"] += 1
    likely = [name for factor, name in UNITS.items() if 1 / OFF <= ratio / factor <= OFF]
    guess = f"; it looks like {likely[0]}" if likely else ""
    state.warnings.append(
        f"the first steps are {usual:g} apart in time, at {options.rate:g} a second that would be "
        f"{1 / options.rate:g} s{guess}: give time in seconds, or the right rate"
    )
