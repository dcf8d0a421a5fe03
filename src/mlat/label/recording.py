"""A recording that is labelled: its steps, its time, and what it is known by.

A live session's journal is one, too, with what the session predicted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Floats, ShortRepr
from ..base.errors import InputError
from ..live.journal.journal import PATTERN, read_journal
from ..live.page.hub import WaitingValues
from ..stream.stream import Stream
from .envelopes import Envelopes
from .span_list import Stretch, runs_of

HASHED = 1 << 16  # steps that are hashed at a time


@dataclass(frozen=True, eq=False, repr=False)
class LivePredictions(ShortRepr):
    """What a live session predicted for each step, and its confidence."""

    states: NDArray[Any]  # "" where unknown
    confidence: Floats  # NaN where unknown


@dataclass(frozen=True, eq=False, repr=False)
class Recording(ShortRepr):
    """A stream with the name that its labels have in the table."""

    name: str
    stream: Stream
    predicted: LivePredictions | None = None
    given_rate: float | None = None
    _digests: dict[int, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.stream)

    @cached_property
    def rate(self) -> float | None:
        """Steps a second; None where that is not known."""
        step = self.stream.usual_step
        return self.given_rate or (1 / step if step else None)

    def labels(self) -> list[Stretch]:
        """The states that the stream has already, as spans."""
        codes, names = self.stream.codes, self.stream.classes.tolist()
        runs = (edges.tolist() for edges in runs_of(codes))
        return [
            Stretch(start, end, str(names[codes[start]]))
            for start, end in zip(*runs, strict=True)
            if codes[start] >= 0
        ]

    @cached_property
    def envelopes(self) -> Envelopes:
        return Envelopes(self.stream.values)

    @property
    def digest(self) -> str:
        return self.digest_of(len(self))

    def digest_of(self, n: int) -> str:
        """What the first ``n`` steps are known by: it changes with any value or channel."""
        if n not in self._digests:
            kind = self.stream.values.dtype.str
            head = "\n".join([kind, *self.stream.channels])
            digest = hashlib.blake2b(head.encode(), digest_size=16)
            for first in range(0, n, HASHED):
                part = self.stream.values[first : min(n, first + HASHED)]
                digest.update(np.ascontiguousarray(part).data)
            self._digests[n] = digest.hexdigest()
        return self._digests[n]

    def describe(self) -> dict[str, Any]:
        """What a page has to know of it."""
        shape = self.envelopes
        return {
            "name": self.name,
            "steps": len(self),
            "channels": list(self.stream.channels),
            "rate": self.rate,
            "middle": shape.middle.tolist(),
            "half": shape.half.tolist(),
            "digest": self.digest,
            "blocks": shape.blocks,
        }


def is_journal(path: Path) -> bool:
    """Whether a folder is a journal."""
    return path.is_dir() and any(path.glob(PATTERN))


def read_journal_recording(folder: Path) -> Recording:
    """Read the steps that a session accepted, in their order; the journal is not changed.

    A session may go on with the journal meanwhile: what it has on disk by now is read. Examples are
    not labels, for they are about windows of the past.

    Raises
    ------
    InputError
        If the journal is damaged.
    DiskError
    """
    contents, waiting = read_journal(folder), WaitingValues()
    channels, told = tuple(contents.head.get("channels", ())), contents.records.predictions
    arrived = contents.records.arrived(len(channels))
    values = [waiting.match(steps, some) for steps, some in arrived]
    if not len(told):
        raise InputError(f"{folder}: the journal holds no step yet")
    time = told.time
    if time is None or np.ma.is_masked(time) or not (np.diff(time) > 0).all():
        time = None
    states = np.where(told.reasoned(bool), "", np.array([*map(str, told.names)])[told.codes])
    stream = Stream(np.concatenate(values), channels=channels, time=time)
    return Recording(folder.name, stream, LivePredictions(states, told.proba))
