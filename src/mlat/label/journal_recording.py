"""A live session's journal as a recording: its steps, and what the session predicted for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base.append_log import decode_frames
from ..base.checksummed import ANYTHING, TEXT, mapped
from ..base.disk import disk_errors
from ..base.errors import InputError
from ..live.core.steps import Steps
from ..live.journal.journal import PATTERN, read_batch
from ..live.journal.records import BATCH, HEAD, decode_json
from ..live.page.hub import WaitingValues
from ..stream.stream import Stream
from .recording import LivePredictions, Recording


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
    segments = sorted(folder.glob(PATTERN), key=lambda file: file.name)
    waiting, channels = WaitingValues(), None
    values: list[Any] = []
    predictions: list[Any] = []
    for segment in segments:
        with disk_errors(segment):
            content = segment.read_bytes()
        for frame in decode_frames(content, str(segment), last=segment == segments[-1]):
            if frame.kind == HEAD:
                fields = decode_json(frame.payload, mapped(TEXT, ANYTHING), f"{segment}: the head")
                channels = tuple(str(name) for name in fields["channels"])
            elif frame.kind == BATCH:
                batch = read_batch(segment, frame)
                arrivals = [arrival.steps for arrival in batch.arrivals]
                for steps in arrivals[:-1]:  # as the runner shows the past
                    waiting.match(steps, [])
                width = len(channels or ())
                last = arrivals[-1] if arrivals else Steps(np.empty((0, width)))
                if batch.predictions:
                    if len(arrivals) > 1 and last.seq is None and last.time is None:
                        last = Steps(np.concatenate([steps.values for steps in arrivals]))
                    values.append(waiting.match(last, batch.predictions))
                    predictions += batch.predictions
                elif arrivals:
                    waiting.match(last, [])
    if channels is None or not predictions:
        raise InputError(f"{folder}: the journal holds no step yet")
    time = [p.time for p in predictions]
    known = [p.state if not p.why else "" for p in predictions]
    stream = Stream(
        np.concatenate(values),
        channels=channels,
        time=_rising(time),
    )
    return Recording(
        folder.name,
        stream,
        LivePredictions(
            np.array([str(state) for state in known]),
            np.array([p.proba for p in predictions], dtype=np.float64),
        ),
    )


def _rising(time: list[float | None]) -> Any:
    """The time of the steps, if they all have one and it rises."""
    if any(t is None for t in time):
        return None
    array = np.array(time, dtype=np.float64)
    return array if (np.diff(array) > 0).all() else None
