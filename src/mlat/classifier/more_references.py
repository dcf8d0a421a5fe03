"""A classifier with more references, under what it has learned: for what a session was taught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from sklearn.base import clone

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..neighbours.references import compact
from ..stream.windows import Windows
from .classifier import StreamClassifier
from .experts import experts_with
from .state_filter import StateFilter, no_filter


def with_more_references(
    clf: StreamClassifier,
    runs: Sequence[tuple[Floats, Ints, str | int]],
    state_filter: StateFilter,
    states: Sequence[str | int],
) -> StreamClassifier:
    """A new classifier, with windows of more runs as references after those it has.

    Parameters
    ----------
    clf : fitted StreamClassifier
        Also one without references.
    runs : sequence of (steps, start, state)
        The channels (n, d) of successive steps, as their features need them; where windows begin
        among them, in order; and the state of these.
    state_filter : StateFilter
        Of ``states``.
    states : sequence of str or int
        Those of the classifier and new ones, in any order.

    Raises
    ------
    InputError
        If there are windows of fewer than two states.
    """
    old = compact(clf.windows_, between=clf.features_.lift.memory > 0)
    first_run = int(old.run.max()) + 1 if len(old) else 0
    begin = len(old.values) + np.cumsum([0, *[len(steps) for steps, _, _ in runs]])
    n_windows = [len(start) for _, start, _ in runs]
    since = old.since
    if clf.features_.lift.memory:
        since = np.concatenate([old.first_needed(), np.repeat(begin[:-1], n_windows)])
    windows = Windows(
        np.concatenate([old.values, *[steps for steps, _, _ in runs]]),
        old.width,
        np.concatenate([old.start, *[b + s for b, (_, s, _) in zip(begin, runs, strict=False)]]),
        np.concatenate([old.run, np.repeat(first_run + np.arange(len(runs)), n_windows)]),
        np.concatenate([old.y, np.repeat(np.array([state for _, _, state in runs]), n_windows)]),
        since,
    )
    kept, place = np.unique(windows.y), {state: i for i, state in enumerate(states)}
    if len(kept) < 2:
        raise InputError(
            f"a model needs windows of two states, and there are some of {kept[0]!s} only; teach "
            "another state, too"
        )
    experts = experts_with(clf.experts_, windows)
    new = cast(StreamClassifier, clone(clf))
    new._set_fitted(experts, clf.committee_, clf.channels_, clf.n_neighbors_)
    new.usual_step_, new.thinned_ = clf.usual_step_, clf.thinned_
    rows = [place[state] for state in new.classes_.tolist()]
    new.confidence_ = replace(clf.confidence_, state_filter=_ordered(state_filter, rows))
    return new


def _ordered(state_filter: StateFilter, rows: Sequence[int]) -> StateFilter:
    """The filter of some of its states, in another order."""
    if not len(state_filter.transition):  # a session without a model knows no switches
        return no_filter(len(rows))
    chosen = state_filter.transition[np.ix_(rows, rows)]
    chosen = (
        chosen / chosen.sum(axis=1, keepdims=True)
        if len(rows) < len(state_filter.transition)
        else chosen
    )
    return StateFilter(chosen, state_filter.tempering)
