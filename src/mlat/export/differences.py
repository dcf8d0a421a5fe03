"""Differences of references that are not stored: they follow from steps beside each other.

The feature ``difference`` of a step is its channel less that of the step before. Where the channel
itself is a feature, too, a device has it from the two stored steps. A step before the first window
of every stretch is stored for that, the *lead*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..checks import Floats, Ints
from ..features.lifts import PreparedLift
from .plain_model import PlainModel
from .slow_features import reordered, stretches

DIFFERENCE, IDENTITY = 4, 5  # sources of a lift, as in lift.c
CLOSE = 1e-6  # of a deviation


def identity_of(lift: PreparedLift) -> Ints:
    """For every difference the feature that is its channel itself; -1 for all else."""
    found = np.full(len(lift.sources), -1)
    plain = lift.floors == 0
    for f in np.flatnonzero((lift.sources == DIFFERENCE) & plain):
        same = (lift.sources == IDENTITY) & plain & (lift.channels == lift.channels[f])
        found[f] = np.flatnonzero(same)[0] if same.any() else -1
    return found


def with_leads(model: PlainModel) -> PlainModel:
    """The model with a lead before every stretch, and with such differences as its last features.

    Differences are then not centred, which changes no distance. Nothing changes where there are
    none, where they are not those of the steps, or where leads are there already.
    """
    of = identity_of(model.lift)
    derived = np.flatnonzero(of >= 0)
    if model.lead or not len(derived):
        return model
    of = of[derived]
    ratio = model.feature_scale[of] / model.feature_scale[derived]
    steps = model.steps.copy()
    steps[:, derived] += model.feature_mean[derived] / model.feature_scale[derived]
    first, stop = stretches(model.start, model.width, len(steps))
    again = ratio * np.diff(steps[:, of], axis=0)
    inside = np.ones(len(steps), bool)
    inside[first] = False
    if (np.abs(again - steps[1:, derived])[inside[1:]] > CLOSE).any():
        return model
    parts = []
    for begin, end in zip(first.tolist(), stop.tolist(), strict=True):
        lead = steps[begin].copy()
        lead[of] -= lead[derived] / ratio
        parts += [lead[None], steps[begin:end]]
    order = np.argsort(np.isin(np.arange(len(model.lift.sources)), derived), kind="stable")
    mean = model.feature_mean.copy()
    mean[derived] = 0.0
    start = model.start + np.searchsorted(first, model.start, side="right")
    whole = replace(model, steps=np.concatenate(parts), start=start, feature_mean=mean, lead=1)
    return reordered(whole, order)


def derive(steps: Floats, unit: Floats, model: PlainModel) -> tuple[Floats, Floats]:
    """Steps as they are stored (T, F) and units (F,), with differences as the device has them."""
    if model.lead:
        of = identity_of(model.lift)
        derived = np.flatnonzero(of >= 0)
        of = of[derived]
        steps, unit = steps.copy(), unit.copy()
        unit[derived] = unit[of] * model.feature_scale[of] / model.feature_scale[derived]
        steps[:, derived] = np.diff(steps[:, of], axis=0, prepend=steps[:1, of])
    return steps, unit
