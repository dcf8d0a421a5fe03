"""A session goes on where its journal ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ..prediction import Prediction
from ..session import LiveSession
from .journal import Identity, Journal
from .records import Arrived, Input, Taught, encode_predictions
from .snapshots import Snapshots

# Distances may differ in their last digits between machines; states may not.
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the source resumes, and what was done to get there."""

    position: str
    snapshot: int | None
    records: int
    steps: int


def identity_of(session: LiveSession) -> Identity:
    """Whose journal the one of a session is."""
    of = session.state.made_by
    return Identity(of.model, tuple(session.model.clf.channels_), of.options.as_dict())


def advance(session: LiveSession, one: Input) -> list[Prediction]:
    """What a session makes of one input."""
    if isinstance(one, Arrived):
        return session.push(one.steps) if len(one.steps) else []
    if isinstance(one, Taught):
        session.teach(one.state, n=one.n)
        return []
    return session.flush()


def recover(journal: Journal, snapshots: Snapshots, session: LiveSession) -> Recovered:
    """Bring a new session to where the journal ends.

    The newest snapshot that opens is restored, and the records after it are classified again:
    this must give the predictions that they hold.
    """
    snapshots.tidy()
    record, position, found, n_steps = 0, "", None, 0
    for snapshot in snapshots.read():
        if snapshot.record > journal.end:
            raise InputError(
                f"{journal.folder} ends at record {journal.end}, but a snapshot was taken after "
                f"record {snapshot.record}: records are lost; put back a copy of the segments"
            )
        session.restore(snapshot.session)
        record, position, found = snapshot.record, snapshot.position, snapshot.record
        break
    for number, batch in enumerate(journal.batches(record), record):
        predictions = [p for one in batch.inputs for p in advance(session, one)]
        if not agree(predictions, batch.predictions):
            raise InputError(
                f"{journal.folder}, record {number}: {_difference(predictions, batch.predictions)}"
                "; the model or mlat has changed since it was written: use those it was written "
                "with, or choose another --journal"
            )
        for one in batch.inputs:
            if isinstance(one, Arrived):
                position = one.position or position
                n_steps += len(one.steps)
    return Recovered(position, found, journal.end - record, n_steps)


def agree(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> bool:
    """Whether predictions are the same, distances and probabilities up to rounding."""
    if encode_predictions(ours) == encode_predictions(theirs):  # as it almost always is
        return True
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(one: Prediction, other: Prediction) -> bool:
    return _told(one) == _told(other) and np.allclose(
        (one.proba, one.distance, *one.shares),
        (other.proba, other.distance, *other.shares),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        equal_nan=True,
    )


def _told(one: Prediction) -> tuple[object, ...]:
    # Not the neighbours: of two equally near ones a last digit decides.
    return one.step, one.state, one.why, one.seq, one.time, len(one.shares)


def _difference(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> str:
    for one, other in zip(ours, theirs, strict=False):
        if not _same(one, other):
            return (
                f"step {other.step} was {other.state!s} at distance {other.distance:.6g} and is "
                f"now {one.state!s} at {one.distance:.6g}"
            )
    return f"it holds {len(theirs)} predictions and now there are {len(ours)}"
