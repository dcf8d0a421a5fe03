"""Features: what a metric sees of each step of a stream.

Channels are scaled, lifted (:mod:`mlat.features.lifts`) and scaled again. :func:`learn_features`
learns the scaling from labelled runs, and :class:`Features` is the causal map that results. A
:class:`View` is what one expert sees of it: some of the features, which may be whitened
(:func:`whitening`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints, ShortRepr
from ..base.fixed_order import Product, exponent_of, power_above
from ..stream.stream import Stream
from ..stream.windows import Windows
from .lifts import Lift

# A lifted channel with a smaller deviation is constant up to rounding: channels are near 1.
CONSTANT = 1e-10
# A column that varies by a smaller fraction of its size is constant up to rounding.
STILL = 1e-12
# A value more deviations than this from the mean says nothing but that something is wrong, and
# distances to it would overflow: it counts as missing.
EXTREME = 1e100
# Columns that keep their own scale keep it up to these powers of two: squares of squares of such
# values neither overflow nor vanish.
ORDINARY = 100
LARGEST = np.finfo(np.float64).max
POWER, SHRINKAGE = 0.5, 0.1  # of whitening


@dataclass(frozen=True, eq=False, repr=False)
class Scaling(ShortRepr):
    """``(x - mean) / scale`` for each column."""

    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, steps: Floats, least: float = 0.0) -> Scaling:
        """To mean 0 and variance 1 over the steps (n, d); up to ``least`` a column is constant.

        The steps are of any finite size.
        """
        largest = np.abs(steps).max(axis=0)
        # Each column in units of its own power of two: no sum overflows or vanishes.
        exponent = np.frexp(largest)[1]
        small = np.ldexp(steps, -exponent)
        mean = np.ldexp(small.mean(axis=0), exponent)
        deviation = np.ldexp(small.std(axis=0), exponent)
        # A constant column is centred only. Its deviation is a rounding error, and so is all that
        # is left of it: at most 1, whatever its size.
        rounding = STILL * largest
        constant = deviation <= np.maximum(rounding, least)
        return cls(mean, np.where(constant, np.maximum(rounding, 1.0), deviation))

    @classmethod
    def none(cls, n_columns: int) -> Scaling:
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @classmethod
    def own(cls, steps: NDArray[np.floating]) -> Scaling:
        """None for steps (n, d) of an ordinary size; else one power of two for all columns."""
        exponent = exponent_of(steps)
        n_columns = steps.shape[1]
        if abs(exponent) <= ORDINARY:
            return cls.none(n_columns)
        return cls(np.zeros(n_columns), np.full(n_columns, power_above(np.abs(steps).max())))

    def __call__(self, X: NDArray[np.floating]) -> Floats:
        if self._half:  # the same digits, where a difference would overflow
            return (X / 2 - self.mean / 2) / (self.scale / 2)
        return (X - self.mean) / self.scale

    @cached_property
    def _half(self) -> bool:
        return exponent_of([self.mean, self.scale]) > 1000

    @property
    def factors(self) -> tuple[float, Floats, Floats]:
        """As :class:`~mlat.features.lifts.Scalings` has them."""
        return 0.5 if self._half else 1.0, self.mean, self.scale

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each column that is not extreme."""
        with np.errstate(over="ignore"):
            reach = EXTREME * self.scale
            low, high = self.mean - reach, self.mean + reach
        return np.maximum(low, -LARGEST), np.minimum(high, LARGEST)

    def extremes(self, X: NDArray[np.floating]) -> Bools | None:
        """Which finite values (n, d) are extreme; None where none is."""
        low, high = self.limits
        inside: Bools = (low <= X) & (high >= X)
        if inside.all():
            return None
        extreme: Bools = ~inside & np.isfinite(X)
        return extreme if extreme.any() else None


@dataclass(frozen=True, eq=False, repr=False)
class Features(ShortRepr):
    """The map from channels to features, of each step.

    Attributes
    ----------
    channels : Scaling
        Of the d channels.
    lift : Lift
    lifted : Scaling
        Of the d' lifted channels.
    """

    channels: Scaling
    lift: Lift
    lifted: Scaling

    @property
    def n_features(self) -> int:
        return len(self.lifted.mean)

    def in_units(self, units: Units, to: Units) -> Features:
        """The same features of channels in other units than those that were learned."""
        scale = self.channels.scale * to.scale / units.scale
        mean = units.converted(self.channels.mean, to)
        return replace(self, channels=Scaling(mean, scale))

    def without_extremes(self, stream: Stream) -> Stream:
        """The stream, in which extreme values are missing.

        Warns
        -----
        UserWarning
            If there are any.
        """
        extreme = self.channels.extremes(stream.values)
        if extreme is None:
            return stream
        warnings.warn(self.describe(extreme, stream.values, stream.channels), stacklevel=4)
        return stream.without(extreme)

    def describe(self, extreme: Bools, values: NDArray[np.floating], names: Sequence[str]) -> str:
        """What to say of extreme values (n, d)."""
        step, channel = np.argwhere(extreme)[0]
        return (
            f"channel {names[channel]!r} is {values[step, channel]:g}, where "
            f"{self.channels.mean[channel]:g} is the mean that was learned and "
            f"{self.channels.scale[channel]:g} the deviation; values more than {EXTREME:g} "
            "deviations away count as missing; check the sensor and its unit"
        )

    def __call__(self, stream: Stream) -> Floats:
        """The features of each step, shape (T, d'); NaN where a value is missing."""
        scaled = stream.with_values(self.channels(stream.values))
        return self.lifted(self.lift.transform(scaled))

    def of_runs(self, windows: Windows) -> Floats:
        """The features of the runs that windows lie in. Each run is lifted on its own."""
        features = np.full((len(windows.values), self.n_features), np.nan)
        first = windows.first_needed()
        for _, rows in windows.by_run():
            start, stop = first[rows].min(), windows.start[rows].max() + windows.width
            run = self.channels(windows.values[start:stop])
            features[start:stop] = self.lifted(self.lift.transform(run))
        return features


@dataclass(frozen=True, eq=False, repr=False)
class View(ShortRepr):
    """What an expert sees of the features that all experts share.

    Attributes
    ----------
    columns : array of shape (d_v,), optional
        Which features; default all.
    mixing : array of shape (d_v, d_v), optional
        Their whitening, or None.
    """

    columns: Ints | None = None
    mixing: Floats | None = None

    def __call__(self, features: Floats) -> Floats:
        """From shared features (T, d') to what the expert's metric sees, (T, d_v)."""
        if self.columns is not None:
            features = np.take(features, self.columns, axis=-1)
        return features if self._product is None else self._product(features)

    @cached_property
    def _product(self) -> Product | None:
        return None if self.mixing is None else Product(self.mixing)


class Units(NamedTuple):
    """The mean and deviation of each channel (d,) that every group was brought to.

    ``adapted`` says that they are those of one group, to which a model was adapted.
    """

    mean: Floats
    scale: Floats
    adapted: bool = False

    @classmethod
    def of(cls, stream: Stream) -> Self:
        """Those of a stream of one group, its steps without a state included."""
        own = Scaling.of(stream.values[~stream.missing].astype(np.float64))
        return cls(own.mean, own.scale, True)

    def converted(self, values: NDArray[np.floating], to: Units) -> Floats:
        """Values (n, d) in other units."""
        return (values - self.mean) / self.scale * to.scale + to.mean


def in_common_units(stream: Stream) -> tuple[Stream, Units]:
    """Each group's channels with the mean and deviation that groups have on average.

    How a sensor sits and how strong somebody is, is then no part of what is compared.
    """
    names, group = np.unique(np.asarray(stream.groups), return_inverse=True)
    own = {
        code: Units.of(stream[group == code])
        for code in range(len(names))
        if not stream.missing[group == code].all()
    }
    common = Units(
        np.mean([units.mean for units in own.values()], axis=0),
        np.mean([units.scale for units in own.values()], axis=0),
    )
    values = stream.values.astype(np.float64)
    for code, units in own.items():
        values[group == code] = units.converted(values[group == code], common)
    return stream.with_values(values), common


def learn_features(
    stream: Stream, lift: Lift, *, scale: bool = True
) -> tuple[Features, Floats, Ints]:
    """Scale the channels of a labelled stream, lift its runs, and scale what was lifted.

    Each run is lifted on its own, so that a reference does not depend on the state before it, just
    as a window does not cross a change of state.

    Returns
    -------
    features : Features
    steps : array of shape (T, d')
        The features of the steps of runs; NaN outside.
    codes : array of shape (T,)
        Each step's state; -1 outside runs.
    """
    learned = stream.values[stream.labelled & ~stream.missing].astype(np.float64)
    channels = Scaling.of(learned) if scale else Scaling.own(learned)
    steps = np.full((len(stream), lift.n_features(stream.n_channels)), np.nan)
    codes = np.full(len(stream), -1, np.int64)
    for start, stop, code in stream.runs:
        steps[start:stop] = lift.transform(channels(stream.values[start:stop]))
        codes[start:stop] = code
    lifted = Scaling.none(steps.shape[1])
    # Channels that are not lifted are scaled already, or must keep their own scale.
    if scale and tuple(lift.maps) != ("identity",):
        lifted = Scaling.of(steps[codes >= 0], CONSTANT)
    return Features(channels, lift, lifted), lifted(steps), codes


def whitening(X: Floats, codes: Ints, power: float = POWER, shrinkage: float = SHRINKAGE) -> Floats:
    """W, symmetric, with ``W² = C^-power``: Euclidean distance on ``X @ W`` is that metric.

    A direction that varies much within a state says little about the state. Relevant component
    analysis (Bar-Hillel et al. 2005) uses the metric ``M = C⁻¹``, with C the covariance within
    states. Here it is ``M = C^-power``: power 0 is the Euclidean distance, 1 is relevant component
    analysis. A power of 0.5 is more robust if C is estimated from few runs: a direction that
    happens to vary little in them gets less weight than with power 1.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        The state of each step, as an index from 0; every index occurs.
    shrinkage : float
        From 0 to 1: C is mixed with this fraction of the identity times the mean variance, so that
        it can be inverted even if there are few steps.
    """
    C = within_covariance(X, codes)
    level = np.trace(C) / len(C)
    if level <= 0:  # nothing varies within states
        return np.eye(len(C))
    eigenvalues, vectors = np.linalg.eigh((1 - shrinkage) * C + shrinkage * level * np.eye(len(C)))
    W: Floats = (vectors * eigenvalues ** (-power / 2)) @ vectors.T
    return W


def within_covariance(X: Floats, codes: Ints) -> Floats:
    """The covariance of steps (n, d) around the mean of their state."""
    totals = np.zeros((int(codes.max()) + 1, X.shape[1]))
    np.add.at(totals, codes, X)
    centred = X - (totals / np.bincount(codes)[:, None])[codes]
    covariance: Floats = centred.T @ centred / len(X)
    return covariance
