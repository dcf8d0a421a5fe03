"""Brings a new session to the end of its journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...base.errors import InputError
from ..core.session import LiveSession
from ..core.steps import Prediction
from ..sources.source import Arrival
from .journal import Journal
from .records import Batch, Example, Flushed, Input, Taught, Undone, encode_batch
from .snapshots import Snapshots

# Distances may differ between machines in their last digits; states may not.
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Recovered:
    """How a session was recovered.

    Attributes
    ----------
    position : str
        Where the source resumes.
    snapshot : int or None
        The first record after the snapshot that was restored.
    steps : int
        How many were classified again.
    """

    position: str
    snapshot: int | None
    steps: int


def recover(journal: Journal, snapshots: Snapshots, session: LiveSession) -> Recovered:
    """Restore the newest good snapshot, then classify the records after it again.

    Raises
    ------
    InputError
        If this gives other predictions than those in the journal, or records are missing.
    """
    snapshots.tidy()
    snapshot = next(snapshots.read(), None)
    first, position, n_steps = 0, "", 0
    if snapshot is not None:
        if snapshot.record > journal.end:
            raise InputError(
                f"{journal.folder} ends at record {journal.end}, but a snapshot was taken after "
                f"record {snapshot.record}: records are lost; put back a copy of the segments"
            )
        with _said_of(f"{journal.folder}, the snapshot after record {snapshot.record - 1}"):
            session.restore(snapshot.session)
        first, position = snapshot.record, snapshot.position
    for number, batch in enumerate(journal.batches(first), first):
        with _said_of(f"{journal.folder}, record {number}"):
            predictions = [p for one in batch.inputs for p in replay(session, one)]
        if not _agree(predictions, batch.predictions):
            raise InputError(
                f"{journal.folder}, record {number}: {_difference(predictions, batch.predictions)}"
                "; the model or mlat has changed since it was written: use those it was written "
                "with, or choose another folder for the journal"
            )
        position = batch.position or position
        n_steps += batch.n_steps
    return Recovered(position, None if snapshot is None else first, n_steps)


@contextmanager
def _said_of(where: str) -> Iterator[None]:
    """Say where it was that something was refused."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def replay(session: LiveSession, one: Input) -> Sequence[Prediction]:
    """Give an input to a session again; return its predictions."""
    if isinstance(one, Arrival):
        return session.push(one.steps)
    if isinstance(one, Flushed):
        return session.flush()
    give_example(session, one)
    return []


def give_example(session: LiveSession, one: Taught) -> tuple[str | int, int]:
    """Teach, or undo the last example; returns the state and number of windows it is about."""
    if isinstance(one, Undone):
        return session.undo()
    if isinstance(one, Example):
        session.teach(one.state, n=one.n)
    else:
        session.teach_span(one.state, one.begin, one.end)
    return session.examples[-1]


def _agree(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> bool:
    """Whether predictions are equal, distances and probabilities up to rounding."""
    if encode_batch(Batch([], ours)) == encode_batch(Batch([], theirs)):  # the usual case
        return True
    return len(ours) == len(theirs) and all(map(_close, ours, theirs))


def _close(one: Prediction, other: Prediction) -> bool:
    return _exact_part(one) == _exact_part(other) and np.allclose(
        (one.proba, one.distance, *one.probabilities),
        (other.proba, other.distance, *other.probabilities),
        rtol=TOLERANCE,
        atol=TOLERANCE,
        equal_nan=True,
    )


def _exact_part(one: Prediction) -> tuple[object, ...]:
    # Without the neighbours: rounding decides between two that are equally near.
    return one.step, one.state, one.why, one.seq, one.time, len(one.probabilities)


def _difference(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> str:
    for one, other in zip(ours, theirs, strict=False):
        if not _close(one, other):
            return (
                f"step {other.step} was {other.state!s} at distance {other.distance:.6g} and is "
                f"now {one.state!s} at {one.distance:.6g}"
            )
    return f"it holds {len(theirs)} predictions and now there are {len(ours)}"
