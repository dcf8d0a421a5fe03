"""From the channels of a stream to what a metric sees at each step.

Channels are scaled, lifted (:mod:`mlat.features.lifts`), scaled again, and perhaps whitened
(:mod:`mlat.features.whitening`): one fixed causal map, learned from the labelled steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..fixed_order import Product
from ..stream.stream import Stream
from ..stream.windows import Windows
from .lifts import Lift
from .whitening import whitening

STILL = 1e-10  # a lifted channel that deviates by less does so by rounding: channels are near 1


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - mean) / scale`` for each column."""

    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, steps: Floats, least: float = 0.0) -> Scaling:
        """To mean 0 and variance 1 over the steps (n, d); ``least`` is what deviates at all."""
        mean = steps.mean(axis=0)
        deviation = steps.std(axis=0)
        # A channel that never moves says nothing: centred it is 0, whatever it is divided by.
        flat = deviation <= np.maximum(1e-12 * np.abs(steps).max(axis=0), least)
        return cls(mean, np.where(flat, 1.0, deviation))

    @classmethod
    def none(cls, n_columns: int) -> Scaling:
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def __call__(self, X: NDArray[np.floating]) -> Floats:
        return (X - self.mean) / self.scale


@dataclass(frozen=True, eq=False)
class Features:
    """What is done to each step before windows are compared.

    Attributes
    ----------
    channels : Scaling
        Of the d channels.
    lift : Lift
    lifted : Scaling
        Of the d' lifted channels.
    mixing : array of shape (d', d'), optional
        The whitening; None for none.
    """

    channels: Scaling
    lift: Lift
    lifted: Scaling
    mixing: Floats | None

    @property
    def n_features(self) -> int:
        return len(self.lifted.mean)

    def plain(self, stream: Stream) -> Floats:
        """The lifted and scaled channels, shape (T, d'); NaN where a value is missing."""
        scaled = Stream._of_checked(**{**stream.__dict__, "values": self.channels(stream.values)})
        return self.lifted(self.lift.transform(scaled))

    def of_runs(self, windows: Windows) -> Floats:
        """The same for the runs that labelled windows lie in, each lifted for itself."""
        plain = np.full((len(windows.values), self.n_features), np.nan)
        for _, rows in windows.by_run():
            start, stop = windows.start[rows].min(), windows.start[rows].max() + windows.width
            run = self.channels(windows.values[start:stop])
            plain[start:stop] = self.lifted(self.lift.transform(run))
        return plain

    def mix(self, plain: Floats) -> Floats:
        """Whitened, if it was asked for; a step rounds alike whatever steps it comes with."""
        return plain if self._product is None else self._product(plain)

    @cached_property
    def _product(self) -> Product | None:
        return None if self.mixing is None else Product(self.mixing)

    def __call__(self, stream: Stream) -> Floats:
        """What a metric sees, shape (T, d')."""
        return self.mix(self.plain(stream))


@dataclass(frozen=True, eq=False)
class Lifted:
    """The runs of a labelled stream under a lift, before anything else is learned from them.

    Attributes
    ----------
    values : array of shape (T, d')
        NaN outside runs. Each run is lifted for itself: a reference knows nothing of the state
        before it, as a window does not reach across a switch.
    codes : array of shape (T,)
        Each step's state; -1 outside runs.
    """

    values: Floats
    codes: NDArray[np.int64]
    channels: Scaling
    lift: Lift

    def features(
        self, steps: NDArray[np.bool_] | None = None, *, scale: bool = True, whiten: bool = False
    ) -> Features:
        """Learn the scaling and the whitening from some of the steps, by default from all."""
        inside = self.codes >= 0 if steps is None else steps & (self.codes >= 0)
        learned = self.values[inside]
        d = self.values.shape[1]
        # Untouched channels are at their scale already, or were meant to keep their own.
        is_plain = tuple(self.lift.maps) == ("identity",)
        scaling = Scaling.none(d) if is_plain or not scale else Scaling.of(learned, STILL)
        mixing = None
        if whiten:
            codes = np.unique(self.codes[inside], return_inverse=True)[1]
            mixing = whitening(scaling(learned), codes)
        return Features(self.channels, self.lift, scaling, mixing)


def lift_runs(stream: Stream, lift: Lift, *, scale: bool = True) -> Lifted:
    """The runs of a labelled stream, scaled and lifted."""
    steps = stream.labelled & ~stream.missing
    channels = (
        Scaling.of(stream.values[steps].astype(np.float64))
        if scale
        else Scaling.none(stream.n_channels)
    )
    values = np.full((len(stream), lift.n_features(stream.n_channels)), np.nan)
    codes = np.full(len(stream), -1, np.int64)
    for start, stop, code in stream.runs:
        values[start:stop] = lift.transform(channels(stream.values[start:stop]))
        codes[start:stop] = code
    return Lifted(values, codes, channels, lift)
