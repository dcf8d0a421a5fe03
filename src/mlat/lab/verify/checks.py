"""What must be true of a journal, whatever happened while it was written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...classifier.classifier import StreamClassifier
from ...errors import InputError
from ...live.core.session import LiveSession
from ...live.core.steps import Prediction, Steps
from ...live.journal.snapshots import Snapshot, read_snapshot
from ...stream.stream import Stream
from .reading import BrokenError, Held, read_journal


def check_journal(
    folder: Path, classifier: StreamClassifier, recording: Steps | None = None
) -> list[str]:
    """Check all of it; what was found right, a line each.

    Raises
    ------
    BrokenError
        At the first thing that is wrong.
    """
    held = read_journal(folder)
    if not held.n_segments:
        raise BrokenError(f"{folder}: no journal is there")
    found = [
        f"{held.n_records} records in {held.n_segments} segments, none missing, none damaged"
        + (f"; {held.unfinished} bytes of an unfinished one at the end" if held.unfinished else "")
    ]
    session = LiveSession(classifier, **held.head["options"])
    if session.state.made_by.model != held.head["model"]:
        raise BrokenError(f"{folder}: is the journal of another model")
    found.append(check_order(held))
    if held.first_record == 0:
        if recording is not None:
            found.append(check_recording(held, recording))
        found.append(check_session(held, session))
        found.append(check_predict(held, classifier))
    found.append(check_snapshots(held, classifier, folder))
    return found


def check_order(held: Held) -> str:
    """Every accepted step has one prediction, in order."""
    steps = [told["step"] for _, told in held.predictions]
    for i, (step, expected) in enumerate(
        zip(steps, range(steps[0] if held.first_record and steps else 0, 2**62), strict=False)
    ):
        if step != expected:
            record = held.predictions[i][0]
            raise BrokenError(f"record {record}: step {step} where {expected} should be")
    return f"{len(steps)} predictions, every step once and in order"


def check_recording(held: Held, recording: Steps) -> str:
    """The steps are the first of the recording, each once, bit by bit."""
    values = held.values
    if len(values) > len(recording):
        raise BrokenError(f"it holds {len(values)} steps of a recording of {len(recording)}")
    same = _same_bits(values, recording.values[: len(values)])
    if not same.all():
        step = int(np.argmin(same))
        raise BrokenError(f"step {step} is not that of the recording: lost, doubled or changed")
    for n_steps, position in held.positions:
        if position != str(n_steps - 1):
            raise BrokenError(f"after {n_steps} steps the source was at {position!r}")
    return f"{len(values)} of {len(recording)} steps of the recording, each once and in order"


def check_session(held: Held, session: LiveSession) -> str:
    """A session that never stopped, fed in pieces of another size, tells the same bit by bit."""
    told = [one for _, one in held.predictions]
    again = list(_replay(held, session))
    for one, other in zip(told, again, strict=False):
        difference = _difference(one, other)
        if difference:
            raise BrokenError(f"step {one['step']}: {difference}")
    if len(told) != len(again):
        raise BrokenError(f"it holds {len(told)} predictions, a session makes {len(again)}")
    return "all equal those of a session that never stopped"


def check_predict(held: Held, classifier: StreamClassifier) -> str:
    """The states are those that ``predict`` tells of the whole stream."""
    why_not = _beyond_predict(held)
    if why_not:
        return f"not compared with predict: {why_not}"
    told = [one for _, one in held.predictions]
    values = held.values.copy()
    values[[one["why"].startswith("dead channel") for one in told]] = np.nan
    recordings = np.cumsum(_gaps(held))
    expected = classifier.predict(
        Stream(values, recordings=recordings, channels=classifier.channels_),
        filtered=held.head["options"]["filtered"],
    )
    for one, state in zip(told, expected.tolist(), strict=True):
        if one["state"] != (classifier.unknown_ if one["why"] else state):
            raise BrokenError(
                f"step {one['step']} is {one['state']!r} ({one['why']}), predict says {state!r}"
            )
    return "all equal predict on the whole stream"


def check_snapshots(held: Held, classifier: StreamClassifier, folder: Path) -> str:
    """From every snapshot that is kept a session goes on to the same end."""
    whole = []
    for path in sorted(folder.glob("state-*.snapshot")):
        snapshot = read_snapshot(path)
        if snapshot is None:
            raise BrokenError(f"{path}: damaged, though it was written whole")
        if snapshot.record > held.first_record + held.n_records:
            raise BrokenError(f"{path}: after record {snapshot.record}, which is not there")
        _check_snapshot(held, classifier, path, snapshot)
        whole.append(snapshot)
    return f"{len(whole)} snapshots, from each of which a session goes on alike"


def _check_snapshot(
    held: Held, classifier: StreamClassifier, path: Path, snapshot: Snapshot
) -> None:
    session = LiveSession(classifier, **held.head["options"])
    try:
        session.restore(snapshot.session)
    except InputError as error:
        raise BrokenError(f"{path}: {error}") from None
    told = [one for record, one in held.predictions if record >= snapshot.record]
    for one, other in zip(told, _replay(held, session, snapshot.record), strict=True):
        difference = _difference(one, other)
        if difference:
            raise BrokenError(f"{path}: from there step {one['step']}: {difference}")


def _replay(held: Held, session: LiveSession, after: int = 0) -> Iterator[Prediction]:
    steps: list[dict[str, Any]] = []
    for record, kind, what in held.inputs:
        if record < after:
            continue
        if kind == "steps":
            if not len(what["values"]):
                continue
            if steps and (steps[-1]["seq"] is None, steps[-1]["time"] is None) != (
                what["seq"] is None,
                what["time"] is None,
            ):
                yield from session.push(_joined(steps))
                steps = []
            steps.append(what)
            continue
        if steps:
            yield from session.push(_joined(steps))
            steps = []
        if kind == "teach":
            session.teach(what["state"], n=what["n"])
        else:
            yield from session.flush()
    if steps:
        yield from session.push(_joined(steps))


def _joined(parts: list[dict[str, Any]]) -> Steps:
    seq, time = (
        None if parts[0][name] is None else np.concatenate([part[name] for part in parts])
        for name in ("seq", "time")
    )
    return Steps(np.concatenate([part["values"] for part in parts]), seq, time)


def _beyond_predict(held: Held) -> str:
    options = held.head["options"]
    if any(kind == "teach" for _, kind, _ in held.inputs):
        return "states were taught"
    if options["missing"] != "abstain":
        return f"missing={options['missing']}"
    if options["order_by"] != "none":
        return f"order_by={options['order_by']}"
    if len(held.predictions) != len(held.values):
        return "steps were refused"
    return ""


def _gaps(held: Held) -> NDArray[np.bool_]:
    """True at each step that does not follow the one before it."""
    options = held.head["options"]
    longest = options["max_gap"] or (1.5 / options["rate"] if options["rate"] else math.inf)
    gaps: list[bool] = []
    seq = time = None
    for _, one in held.predictions:
        jumped = seq is not None and one["seq"] is not None and one["seq"] - seq > 1
        paused = time is not None and one["time"] is not None and one["time"] - time > longest
        gaps.append(jumped or paused)
        seq, time = one["seq"], one["time"]
    return np.array(gaps, dtype=bool)


def _same_bits(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.bool_]:
    return ((ours == theirs) | (np.isnan(ours) & np.isnan(theirs))).all(axis=1)


def _difference(one: dict[str, Any], other: Prediction) -> str:
    for name, value in one.items():
        now = getattr(other, name)
        if isinstance(value, list):
            now, same = list(now), _equal_lists(value, list(now))
        else:
            same = _equal(value, now)
        if not same:
            return f"{name} is {value!r} in the journal, a session says {now!r}"
    return ""


def _equal_lists(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_equal, ours, theirs))


def _equal(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)
