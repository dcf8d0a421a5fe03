"""Features that change slowly, stored at some steps only.

A mean or an energy over the last ``reach`` steps changes little from one step to the next. Stored
at every K-th step, a *knot*, and straight in between, it takes a K-th of the room and changes few
decisions. A reference is then such a line, and its distance is exact: the products of a window with
a line are products of a few weighted sums of the window with the knots, and fewer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from .plain_forest import PlainForest
from .plain_lift import N_SLOW
from .plain_model import PlainExpert, PlainModel

MOST = 64  # steps from knot to knot


def with_knots(model: PlainModel, every: int) -> tuple[PlainModel, int]:
    """The model with its slow features after the others, and how many others there are.

    Every stretch of successive steps begins at a knot, and a knot follows its last step. With
    ``every`` 1, or where no feature is slow, there is no knot. Features that no matrix compares
    come last.
    """
    if not 1 <= every <= MOST:
        raise InputError(f"every must be from 1 to {MOST}, not {every}")
    compared = model.is_compared
    slow = compared & (model.lift.sources < N_SLOW) & (every > 1)
    n_fast = int((compared & ~slow).sum())
    if slow.any():
        first = model.start - model.lead
        steps, first = _on_knots(model.steps, first, model.width + model.lead, every)
        model = replace(model, steps=steps, start=first + model.lead)
    return reordered(model, np.argsort(np.where(compared, slow, 2), kind="stable")), n_fast


def reordered(model: PlainModel, order: Ints) -> PlainModel:
    """The same with its features in another order."""
    place = np.argsort(order)
    identity, was = model.identity, np.arange(len(order)) if model.place is None else model.place
    if identity is not None:
        identity = np.where(identity >= 0, place[identity], -1)[order]
    return replace(
        model,
        identity=identity,
        place=was[order],
        lift=model.lift.take(order),
        feature_mean=model.feature_mean[order],
        feature_scale=model.feature_scale[order],
        experts=tuple(_reordered(one, place) for one in model.experts),
        steps=model.steps[:, order],
    )


def stretches(start: Ints, width: int, n_steps: int) -> tuple[Ints, Ints]:
    """Steps that windows hold together: where each such stretch begins, and where it stops."""
    together = np.zeros(n_steps, bool)  # with the step that follows
    for begin in start:
        together[begin : begin + width - 1] = True
    first = np.flatnonzero(np.append(True, ~together[:-1]))
    return first, np.append(first[1:], n_steps)


def between_knots(steps: Floats, every: int, n_fast: int) -> Floats:
    """Steps (T, F) whose slow features are lines from knot to knot."""
    lines = steps.copy()
    at = np.arange(len(steps))
    before = at // every * every
    after = np.minimum(before + every, (len(steps) - 1) // every * every)
    share = ((at - before) / every)[:, None]
    lines[:, n_fast:] = (1 - share) * steps[before, n_fast:] + share * steps[after, n_fast:]
    return lines


def _on_knots(steps: Floats, start: Ints, width: int, every: int) -> tuple[Floats, Ints]:
    """The steps with room between stretches, and where the windows now begin."""
    first, stop = stretches(start, width, len(steps))
    parts, moved = [], np.empty(len(steps), np.int64)
    total = 0
    for begin, end in zip(first.tolist(), stop.tolist(), strict=True):
        n = end - begin
        room = (-(-(n - 1) // every) + 1) * every
        moved[begin:end] = total + np.arange(n)
        # What follows the last step is as it.
        parts.append(steps[np.minimum(begin + np.arange(room), end - 1)])
        total += room
    return np.concatenate(parts), moved[start]


def _reordered(one: PlainExpert | PlainForest, place: Ints) -> PlainExpert | PlainForest:
    columns = place[one.columns]
    if isinstance(one, PlainForest):
        return replace(one, columns=columns)
    order = np.argsort(columns, kind="stable")
    blocks, matrix = one.blocks, one.matrix
    if blocks is not None:
        blocks = blocks[:, order][:, :, order]
    if matrix is not None:
        n = len(order)
        every = (np.arange(one.width)[:, None] * n + order).ravel()
        matrix = matrix[every][:, every]
    return replace(one, columns=columns[order], blocks=blocks, matrix=matrix)
