"""All that a live session remembers: bounded arrays and counters, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..lifts import LiftState
from ..persistence import Belief
from .counters import Counters
from .fingerprint import Fingerprint
from .policies.dead_channels import Still
from .policies.missing import Held
from .policies.reorder import Order
from .search.flat_search import FlatState
from .search.taught import Taught

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Stretch:
    """The unbroken stretch of steps up to now; empty where the next one begins anew.

    Attributes
    ----------
    lift : LiftState
    features : array of shape (at most w + teachable - 1, d')
        What a metric sees of its last steps.
    raw : array of shape (at most w, d)
        The channels of its last steps.
    length : int
        Steps since it began.
    why : str
        Why the window is not full until the stretch is as long as it.
    """

    lift: LiftState
    features: Floats
    raw: Floats
    length: int = 0
    why: str = "filling"


@dataclass(slots=True)
class LiveState:
    """What ``LiveModel.push`` goes on from.

    Attributes
    ----------
    order : Order
        The reorder buffer, and the last number and time.
    held : Held
    still : Still
    stretch : Stretch
    belief : Belief
        Of the causal filter.
    taught : Taught
    times : list of float
        The times of the first steps, to see whether they are in seconds.
    counters : Counters
    warnings : list of str
        What should be seen to, each said once.
    flat : FlatState or None
        The running sums of the flat search, where it is used.
    made_by : Fingerprint
        The model and the options it belongs to.
    """

    made_by: Fingerprint
    order: Order
    held: Held
    still: Still
    stretch: Stretch
    belief: Belief
    taught: Taught
    times: list[float] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    warnings: list[str] = field(default_factory=list)
    flat: FlatState | None = None

    def copy(self) -> LiveState:
        """One that can go on by itself. Arrays that are replaced and never written are shared."""
        stretch = self.stretch
        return LiveState(
            self.made_by,
            self.order.copy(),
            self.held.copy(),
            self.still.copy(),
            Stretch(stretch.lift, stretch.features, stretch.raw, stretch.length, stretch.why),
            self.belief,
            self.taught,
            [*self.times],
            self.counters.copy(),
            [*self.warnings],
            None if self.flat is None else self.flat.copy(),
        )

    def to_bytes(self) -> bytes:
        """For :meth:`LiveModel.state_from_bytes`."""
        from .state_bytes import to_bytes

        return to_bytes(self)
