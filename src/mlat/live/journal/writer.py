"""Keeps a session in its journal, and brings a new session to the end of it.

So that a restart replays only some records, there are snapshots of the session, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.append_log import decode_frame, encode_frame
from ...base.checks import is_whole
from ...base.checksummed import ANYTHING, TEXT, mapped, one_of, record
from ...base.disk import atomic_write, disk_errors
from ...base.errors import InputError
from ..core.session import LiveSession
from ..core.steps import NO_PREDICTIONS, Predictions
from ..sources.source import Arrival
from .journal import REMEDY, Journal
from .records import (
    SNAPSHOT,
    Batch,
    Example,
    Flushed,
    Input,
    Records,
    Taught,
    Undone,
    decode_json,
)

SNAPSHOT_STEPS, SNAPSHOT_SECONDS = 10_000, 60.0
LAST_RECORDS = 2000  # for a page to show again: with one step each, 20 seconds at 100 Hz
# Distances may differ between machines in their last digits; states may not.
TOLERANCE = 1e-6
_VERSION = 1
KEPT = 3
_SNAPSHOTS = "state-*.snapshot"
_HEAD = record({"version": one_of(_VERSION), "position": TEXT})
_LENGTH = struct.Struct("<I")


class JournalWriter:
    """Keeps on disk what a session does. A thread waits for the disk, not the event loop.

    Parameters
    ----------
    journal : Journal
    snapshot_steps : int
        Take a snapshot after this many steps, or after a minute with at least one step.
    keep : int, optional
        Delete segments that every snapshot covers, except the newest ``keep``. Default keeps all.

    Attributes
    ----------
    position : str
        Where the source resumes after all that is on disk.
    steps : int
        Since the last snapshot.
    restored : int or None
        The first record after the snapshot that `recover` restored.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        snapshot_steps: int = SNAPSHOT_STEPS,
        keep: int | None = None,
    ) -> None:
        self.journal, self._snapshots, self._keep = journal, Snapshots(journal.folder), keep
        self._max_steps = snapshot_steps
        self.position, self.steps, self._since = "", 0, time.monotonic()
        self.restored: int | None = None

    def recover(self, session: LiveSession) -> None:
        """Restore the newest good snapshot, then classify the records after it again.

        Raises
        ------
        InputError
            If this gives other predictions than those in the journal, or records are missing.
        """
        journal, first = self.journal, 0
        self._snapshots.tidy()
        snapshot = next(self._snapshots.read(), None)
        if snapshot is not None:
            if snapshot.record > journal.end:
                raise InputError(
                    f"{journal.folder} ends at record {journal.end}, but a snapshot was taken "
                    f"after record {snapshot.record}: records are lost; put back a copy of the "
                    "segments"
                )
            with _said_of(f"{journal.folder}, the snapshot after record {snapshot.record - 1}"):
                session.restore(snapshot.session)
            first = self.restored = snapshot.record
            self.position = snapshot.position
        for some in journal.records(first):
            several = f"s {some.first} to {some.first + len(some) - 1}"
            record = f"record{several if some.inputs[1:] else f' {some.first}'}"
            with _said_of(f"{journal.folder}, {record}"):
                ours = [replay(session, one) for one in some.whole.inputs]
                _check_alike(Predictions.joined(ours), some.predictions)
            self.position = some.whole.position or self.position
            self.steps += some.whole.n_steps

    def last_records(self) -> Iterator[Records]:
        """Yield the last records, oldest first."""
        return self.journal.records(max(self.journal.begin, self.journal.end - LAST_RECORDS))

    async def append(self, batch: Batch) -> None:
        """Write a record. When this returns, it is on disk."""
        await asyncio.to_thread(self.journal.append, batch)
        self.position = batch.position or self.position
        self.steps += batch.n_steps

    async def snapshot_if_due(self, session: LiveSession) -> None:
        """Take a snapshot if there were enough steps, or there was enough time, since the last."""
        waited = time.monotonic() - self._since
        if self.steps >= self._max_steps or waited >= SNAPSHOT_SECONDS:
            await self.snapshot(session)

    async def snapshot(self, session: LiveSession) -> None:
        """Take a snapshot if there were steps since the last one."""
        if self.steps:
            taken = Snapshot(self.journal.end, self.position, session.snapshot())
            await asyncio.to_thread(self._write, taken)
            self.steps, self._since = 0, time.monotonic()

    def _write(self, snapshot: Snapshot) -> None:
        self.journal.flush()  # a snapshot must not be on disk before the records it counts
        self._snapshots.write(snapshot)
        if self._keep is not None:
            self.journal.delete_before(self._snapshots.oldest_record(), keep=self._keep)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a session after all records before number ``record``.

    ``position`` is where the source resumes; ``session`` is what ``LiveSession.snapshot`` returned.
    """

    record: int
    position: str
    session: bytes


class Snapshots:
    """The snapshots in the folder of a journal, of which the newest three are kept."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def write(self, snapshot: Snapshot) -> Path:
        """Write a snapshot, whole or not at all, and delete the oldest."""
        path = self.folder / f"state-{snapshot.record:016d}.snapshot"
        with disk_errors(self.folder, REMEDY):
            with atomic_write(path) as temporary:
                temporary.write_bytes(encode_snapshot(snapshot))
            for old in self._files()[KEPT:]:
                old.unlink()
        return path

    def read(self) -> Iterator[Snapshot]:
        """Yield the snapshots, newest first, without damaged ones."""
        for path in self._files():
            snapshot = read_snapshot(path)
            if snapshot is not None:
                yield snapshot

    def oldest_record(self) -> int:
        """Return the first record after the oldest snapshot; 0 without any."""
        return min((s.record for s in self.read()), default=0)

    def tidy(self) -> None:
        """Remove temporary files that a crash left behind."""
        for rest in self.folder.glob(".????????????.snapshot"):
            with suppress(OSError):
                rest.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(_SNAPSHOTS), reverse=True)


def read_snapshot(path: Path) -> Snapshot | None:
    """Return the snapshot in a file; as :func:`decode_snapshot`."""
    with disk_errors(path, REMEDY):
        return decode_snapshot(path.read_bytes(), path)


def decode_snapshot(content: bytes, path: Path) -> Snapshot | None:
    """Return the snapshot in the content of a file; None if it is damaged.

    Raises
    ------
    InputError
        If a later version of mlat wrote it.
    """
    found = decode_frame(content)
    if found is None or found.kind != SNAPSHOT or found.stop != len(content):
        return None
    stop = _LENGTH.size + int.from_bytes(found.payload[: _LENGTH.size], "little")
    try:
        head = decode_json(found.payload[_LENGTH.size : stop], mapped(TEXT, ANYTHING), "its head")
        version = head.get("version")
        if not is_whole(version) or version <= _VERSION:
            _HEAD(head, "its head")
    except InputError:
        return None
    if version > _VERSION:
        raise InputError(
            f"{path} has version {version}, this mlat knows up to {_VERSION}; upgrade mlat"
        )
    return Snapshot(found.number, head["position"], found.payload[stop:])


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the content of the file of a snapshot."""
    head = json.dumps({"version": _VERSION, "position": snapshot.position}).encode()
    payload = _LENGTH.pack(len(head)) + head + snapshot.session
    return encode_frame(SNAPSHOT, snapshot.record, payload)


# --- what came in, again


@contextmanager
def _said_of(where: str) -> Iterator[None]:
    """Say where it was that something was refused."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def replay(session: LiveSession, one: Input) -> Predictions:
    """Give an input to a session again; return its predictions."""
    if isinstance(one, Arrival):
        return session.push(one.steps)
    if isinstance(one, Flushed):
        return session.flush()
    give_example(session, one)
    return NO_PREDICTIONS


def give_example(session: LiveSession, one: Taught) -> tuple[str | int, int]:
    """Teach, or undo the last example; returns the state and number of windows it is about."""
    if isinstance(one, Undone):
        return session.undo()
    if isinstance(one, Example):
        session.teach(one.state, n=one.n)
    else:
        session.teach_span(one.state, one.begin, one.end)
    return session.examples[-1]


def first_difference(ours: Predictions, theirs: Predictions, tolerance: float = 0.0) -> int | None:
    """The place of the first prediction that is another one; None if there is none in both.

    With a tolerance figures may differ by rounding, and so may what it decides: which of two
    references that are equally near is the nearest, and how many experts agree.
    """
    n = min(len(ours), len(theirs))
    if not n or ours.first != theirs.first:
        return 0 if n else None
    both = Predictions.joined([ours.part(0, n), theirs.part(0, n)])  # in the same tables
    exact: list[Any] = [both.codes, both.why, *([] if tolerance else [both.neighbours])]
    for own in (both.seq, both.time):
        exact += [] if own is None else [np.ma.getmaskarray(own), np.ma.filled(own, 0)]
    close = [
        both.proba,
        both.distance,
        both.probabilities,
        *([] if tolerance else [both.agreement]),
    ]
    alike = partial(np.isclose, rtol=tolerance, atol=tolerance, equal_nan=True)
    same = [column[:n] == column[n:] for column in exact]
    same += [alike(column[:n], column[n:]) for column in close]
    differs = ~np.logical_and.reduce([one.reshape(n, -1).all(axis=1) for one in same])
    return int(differs.argmax()) if differs.any() else None


def _check_alike(ours: Predictions, theirs: Predictions) -> None:
    """Refuse other predictions than before; distances and probabilities count up to rounding."""
    at = first_difference(ours, theirs, TOLERANCE)
    if at is None and len(ours) == len(theirs):
        return
    found = f"it holds {len(theirs)} predictions and now there are {len(ours)}"
    if at is not None:
        one, other = ours[at], theirs[at]
        found = (
            f"step {other.step} was {other.state!s} at distance {other.distance:.6g} and is now "
            f"{one.state!s} at {one.distance:.6g}"
        )
    raise InputError(
        f"{found}; the model or mlat has changed since it was written: use those it was written "
        "with, or choose another folder for the journal"
    )
