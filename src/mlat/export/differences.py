"""Differences of references that are not stored: they follow from steps beside each other.

The feature ``difference`` of a step is its channel less that of the step before. Where the channel
itself is a feature, too, a device has it from the two stored steps. A step before the first window
of every stretch is stored for that, the *lead*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.checks import Floats, Ints
from .plain_forest import PlainForest
from .plain_lift import DIFFERENCE, VALUE
from .plain_model import PlainModel
from .slow_features import reordered, stretches

CLOSE = 1e-6  # of a deviation
SMOOTH = 4.0  # a channel whose largest value is so many times its largest difference


def with_leads(model: PlainModel) -> PlainModel:
    """The model with a lead before every stretch, and with such differences as its last features.

    Differences are then not centred, which changes no distance between steps. A channel that is
    smooth keeps them: in its coarse units they would be rounded too much. Nothing changes where
    none is left, where they are not those of the steps, or where leads are there already.
    """
    identity = _identity_of(model)
    derived = np.flatnonzero(identity >= 0)
    if model.lead or not len(derived):
        return model
    of = identity[derived]
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
    mean = model.feature_mean.copy()
    mean[derived] = 0.0
    change = (model.feature_mean - mean) / model.feature_scale
    whole = replace(
        model,
        steps=np.concatenate(parts),
        start=model.start + np.searchsorted(first, model.start, side="right"),
        feature_mean=mean,
        experts=tuple(
            one.moved(change) if isinstance(one, PlainForest) else one for one in model.experts
        ),
        identity=identity,
    )
    return reordered(whole, np.argsort(identity >= 0, kind="stable"))


def derive(steps: Floats, unit: Floats, model: PlainModel) -> tuple[Floats, Floats]:
    """Steps as they are stored (T, F) and units (F,), with differences as the device has them."""
    if model.identity is not None:
        derived = np.flatnonzero(model.identity >= 0)
        of = model.identity[derived]
        steps, unit = steps.copy(), unit.copy()
        unit[derived] = unit[of] * model.feature_scale[of] / model.feature_scale[derived]
        steps[:, derived] = np.diff(steps[:, of], axis=0, prepend=steps[:1, of])
    return steps, unit


def _identity_of(model: PlainModel) -> Ints:
    """For differences that need not be stored, the feature that is the channel; -1 for all else."""
    lift = model.lift
    found = np.full(len(lift.sources), -1)
    plain = (lift.floors == 0) & model.is_compared
    largest = np.abs(model.steps).max(axis=0) * model.feature_scale
    for f in np.flatnonzero((lift.sources == DIFFERENCE) & plain):
        same = (lift.sources == VALUE) & plain & (lift.channels == lift.channels[f])
        for i in np.flatnonzero(same)[:1]:
            if largest[i] <= SMOOTH * largest[f]:
                found[f] = i
    return found
