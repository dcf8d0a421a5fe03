"""A classifier for somebody new, under what it has learned: more references, or other units.

**References.** The windows of the new person join those of the others, of which each is judged by
them. For a window of its own state a reference is right if it is nearer than all of other states;
for one of another state it is wrong if it is nearer than all of that state. What is wrong more
often than right, and for more than a few, goes. So what the others know counts as far as the new
person's few labels agree with it. Forests, which learn in no time, are grown again from what stays
and what is new. Other metrics, and the weights, are those of before.

**Units.** A model that was learned in common units compares each channel by its own mean and
deviation; those of the new person take the place of the others', without a label: of a whole
recording, or live those of the last steps, slowly. Not of a recording that lacks states, whose mean
and deviation are not the person's.

**What it is sure of.** States last, so the windows before and after a window tell its state, too,
where it does not look as it does for the others. A recording without labels is predicted, smoothed
over time, and what is surest of each state joins the references (self-training).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone

from ..base.checks import Bools, Floats, Ints
from ..base.errors import InputError
from ..features.features import Units
from ..metric.forest import Forest
from ..neighbours.references import References, compact
from ..stream.stream import Stream
from ..stream.windows import Windows, sliding_windows
from .committee import Committee
from .confidence import enrolled_confidence
from .experts import MOST_IN_FOREST, Design, experts_with, fair_rows, learn_metric
from .held_out import expect_adapted
from .state_filter import StateFilter, lasting_filter, no_filter, smoothed_proba

if TYPE_CHECKING:
    from .classifier import StreamClassifier

MOST_ASKED = 400  # windows of the new person, evenly spaced, that judge the references of others
BLOCK = 50  # of these at a time
FEW = 0.02  # of these, for which a reference may be wrong: those around a switch are in doubt
# So many usual runs of every state have the usual mean and deviation. With a half of it long states
# were taken for levels of the person on development sets, with the double it took too long.
ROUNDS = 4
# Of development recordings, windows were up to 1.16 times as far from the references by the mean
# and deviation of the recording as without, where these helped; where states lacked, 1.28 to 3
# times (once 1.05).
FARTHER = 1.2
# Self-training. A state that is predicted more often than others is doubted by this power of it.
DOUBT = 0.5
SUREST = 0.8  # the share of the windows of each state that join
MOST_JOIN = 2000
RARE = 1e-3  # no state is taken for rarer
PASSES = 3  # each predicts with what joined in the one before


def enrolled(clf: StreamClassifier, stream: Stream) -> StreamClassifier:
    """The classifier with the windows of a labelled stream among its references."""
    lifted = clf.features_.lift.memory > 0
    own = compact(sliding_windows(stream, clf.width_, stride=clf.stride), between=lifted)
    kept = ~contradicting(clf.experts_, experts_with(clf.experts_, own), clf.committee_)
    for state in clf.classes_[~np.isin(clf.classes_, clf.windows_.y[kept])]:
        if state not in own.y:
            kept |= clf.windows_.y == state
    return _joined(clf, clf.windows_.take(kept), own, stream)


def self_trained(clf: StreamClassifier, stream: Stream) -> StreamClassifier:
    """A classifier with windows of a stream among its references, in the states it predicts."""
    lifted = clf.features_.lift.memory > 0
    new = _like(clf, clf.experts_, clf.committee_)
    proba = first = new.predict_proba(stream)
    for _ in range(PASSES):
        found = surest(clf, proba, stream)
        if found is None:
            break
        told, windows = found
        new = _joined(clf, clf.windows_, compact(windows, between=lifted), told)
        proba = new.predict_proba(stream)
    there = np.isfinite(first).all(axis=1)
    after = proba[there].argmax(axis=1)
    expected = expect_adapted(clf.committee_.expected, first[there], after)
    new.committee_ = replace(new.committee_, expected=expected)
    return new


def surest(clf: StreamClassifier, proba: Floats, stream: Stream) -> tuple[Stream, Windows] | None:
    """A stream in the states of probabilities (T, S), smoothed, and the windows surest of them.

    None without a window, and where runs of the references are shorter than what is looked back
    over: what is around a window then says little of it.
    """
    n_states, overlap = len(clf.classes_), clf.width_ + clf.features_.lift.memory
    there, lasts = np.isfinite(proba).all(axis=1), _usual_run(clf)
    if lasts < overlap or not there.any():
        return None
    lasting = lasting_filter(lasts, np.ones((n_states, n_states)), overlap)
    often = np.maximum(proba[there].mean(axis=0), RARE) ** DOUBT
    proba = proba / often / (proba / often).sum(axis=1, keepdims=True)
    smoothed = smoothed_proba(proba, stream.gap_before, lasting)
    states = np.where(there, clf.classes_[smoothed.argmax(axis=1)], clf.unknown_)
    told = stream.with_states(states, unlabelled=clf.unknown_)
    if not (told.runs.length >= clf.width_).any():
        return None
    windows = sliding_windows(told, clf.width_)
    doubt = -smoothed.max(axis=1)[windows.start + windows.width - 1]
    rows = []
    for state in np.unique(windows.y):
        mine = np.flatnonzero(windows.y == state)
        order = np.argsort(doubt[mine], kind="stable")
        rows.append(mine[order[: int(np.ceil(SUREST * len(mine)))]])
    joining = np.sort(np.concatenate(rows))
    return told, windows.take(joining[fair_rows(windows.y[joining], MOST_JOIN)])


def _joined(
    clf: StreamClassifier, known: Windows, own: Windows, stream: Stream
) -> StreamClassifier:
    """The classifier with references of before, and new ones of a stream."""
    lifted = clf.features_.lift.memory > 0
    known = compact(known, between=lifted)
    experts = experts_with(clf.experts_, known.followed_by(own, led=lifted))
    experts = [_grown_again(expert) for expert in experts]
    new = _like(clf, experts, clf.committee_.enrolled())
    new.confidence_ = enrolled_confidence(
        clf.confidence_,
        experts,
        stream,
        committee=clf.committee_,
        overlap=clf.width_ + clf.features_.lift.memory,
        unknown_rate=clf.unknown_rate,
    )
    new.usual_step_, new.thinned_ = stream.usual_step or clf.usual_step_, None
    return new


def _grown_again(expert: References) -> References:
    """The expert with a forest of all its references, if it has a forest."""
    if not isinstance(expert.metric, Forest):
        return expert
    steps = expert.steps
    seen = replace(expert.windows, values=expert.view(steps))
    design = Design("forest", seen.width, metric=expert.metric, most=MOST_IN_FOREST)
    metric = learn_metric(design, seen, MOST_IN_FOREST)
    if metric is None:  # too few states have several windows
        return expert
    return References(expert.windows, expert.features, metric, steps, expert.view)


def contradicting(
    others: Sequence[References], own: Sequence[References], committee: Committee
) -> Bools:
    """Which references of others, shape (n,), tell windows of the new person wrong."""
    states, asked = others[0].windows.y, own[0].windows.y
    right, wrong = np.zeros(len(states), np.int64), np.zeros(len(states), np.int64)
    rows = np.arange(len(asked))[:: max(1, -(-len(asked) // MOST_ASKED))]
    points = [expert.embedded() for expert in others]
    for begin in range(0, len(rows), BLOCK):
        some = rows[begin : begin + BLOCK]
        apart = [cdist(e.embedded(some), Z) for e, Z in zip(own, points, strict=True)]
        distance, same = committee.combine(apart), states == asked[some, None]
        of_same = np.where(same, distance, np.inf).min(axis=1, initial=np.inf, keepdims=True)
        of_others = np.where(same, np.inf, distance).min(axis=1, initial=np.inf, keepdims=True)
        right += (same & (distance < of_others)).sum(axis=0)
        # What the others do not know at all they cannot know better.
        wrong += (~same & (distance < of_same) & np.isfinite(of_same)).sum(axis=0)
    return (wrong > right) & (wrong > FEW * len(rows))


def in_units(clf: StreamClassifier, units: Units) -> StreamClassifier:
    """A classifier of common units for a stream whose channels have this mean and deviation."""
    old = cast(Units, clf.units_)
    windows = replace(clf.windows_, values=old.converted(clf.windows_.values, units))
    experts = experts_with(clf.experts_, windows, clf.features_.in_units(old, units))
    new = _like(clf, experts, clf.committee_)
    new.units_ = units
    return new


def in_own_units(clf: StreamClassifier, stream: Stream) -> StreamClassifier | None:
    """A classifier of common units in those of a stream; None where it then knows it less well.

    The mean and deviation of a recording that lacks states are not those of the person: by them its
    windows are farther from all references than as they are.

    Warns
    -----
    UserWarning
        If it is None.
    """
    own = in_units(clf, Units.of(stream))
    nearest = (model.class_distances(stream).min(axis=1) for model in (own, clf))
    there = (far[np.isfinite(far)] for far in nearest)
    moved, here = (float(np.median(far)) if len(far) else 0.0 for far in there)
    if moved <= FARTHER * here:
        return own
    warnings.warn(
        "the model is not adapted: by the mean and deviation of this recording its windows are "
        f"{moved / max(here, 1e-9):.1f} times as far from what was learned as without, as where a "
        "recording lacks states; take one with the usual states in their usual shares",
        UserWarning,
        stacklevel=3,
    )
    return None


def followed_units(clf: StreamClassifier) -> tuple[Units, float] | None:
    """The units that a live session brings its stream to, and of how many steps its own are.

    None for a classifier that compares channels as they are, or is adapted to somebody.
    """
    if clf.units_ is None or clf.units_.adapted:
        return None
    return clf.units_, ROUNDS * len(clf.classes_) * _usual_run(clf)


def _usual_run(clf: StreamClassifier) -> float:
    """The median length of the runs of the references."""
    windows = clf.windows_
    lengths = [np.ptp(windows.start[rows]) + windows.width for _, rows in windows.by_run()]
    return float(np.median(lengths))


def with_taught(
    clf: StreamClassifier,
    runs: Sequence[tuple[Floats, Ints, str | int]],
    state_filter: StateFilter,
    states: Sequence[str | int],
) -> StreamClassifier:
    """A new classifier, with windows that a session was taught after the references it has.

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
    lifted = clf.features_.lift.memory > 0
    begin = np.cumsum([0, *[len(steps) for steps, _, _ in runs]])[:-1]
    n_windows = [len(start) for _, start, _ in runs]
    taught = Windows(
        np.concatenate([steps for steps, _, _ in runs]),
        clf.width_,
        np.concatenate([b + start for b, (_, start, _) in zip(begin, runs, strict=True)]),
        np.repeat(np.arange(len(runs)), n_windows),
        np.repeat(np.array([state for _, _, state in runs]), n_windows),
        np.repeat(begin, n_windows),
    )
    windows = compact(clf.windows_, between=lifted).followed_by(taught, led=lifted)
    kept, place = np.unique(windows.y), {state: i for i, state in enumerate(states)}
    if len(kept) < 2:
        raise InputError(
            f"a model needs windows of two states, and there are some of {kept[0]!s} only; teach "
            "another state, too"
        )
    new = _like(clf, experts_with(clf.experts_, windows), clf.committee_)
    rows = [place[state] for state in new.classes_.tolist()]
    new.confidence_ = replace(clf.confidence_, state_filter=_ordered(state_filter, rows))
    return new


def _like(
    clf: StreamClassifier, experts: Sequence[References], committee: Committee
) -> StreamClassifier:
    """A classifier that differs in its references alone."""
    new = cast("StreamClassifier", clone(clf))
    new._set_fitted(experts, committee, clf.channels_, clf.n_neighbors_)
    new.units_, new.confidence_ = clf.units_, clf.confidence_
    new.usual_step_, new.thinned_ = clf.usual_step_, clf.thinned_
    return new


def _ordered(state_filter: StateFilter, rows: Sequence[int]) -> StateFilter:
    """The filter of some of its states, in another order."""
    if not len(state_filter.transition):  # a session without a model knows no switches
        return no_filter(len(rows))
    chosen = state_filter.transition[np.ix_(rows, rows)]
    if len(rows) < len(state_filter.transition):
        chosen = chosen / chosen.sum(axis=1, keepdims=True)
    return StateFilter(chosen, state_filter.tempering)
