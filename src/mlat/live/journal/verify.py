"""``python -m mlat.live.journal.verify JOURNAL MODEL [RECORDING]``: checks of a journal.

They are what must be true whatever happened while it was written: no step is lost, doubled or out
of order, and every prediction is that of a session that never stopped. Nobody may be writing it.
Exit status 1: something is wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...base.checks import Bools, Floats
from ...base.errors import InputError, MlatError
from ...classifier.classifier import StreamClassifier
from ...classifier.model_file import load
from ...stream.stream import Stream
from ..core.options import BEFORE
from ..core.session import LiveSession
from ..core.steps import Predictions, Steps
from ..page.hub import MOST_STEPS
from ..sources.replay import read_recording
from ..sources.source import Arrival
from .journal import JournalContents, read_journal
from .records import Flushed, Input, joinable, joined
from .writer import first_difference, read_snapshot, replay


class BrokenError(Exception):
    """Something is wrong with a journal or a session; the message is one line."""


def read_unbroken(folder: Path) -> JournalContents:
    """Read a journal.

    Raises
    ------
    BrokenError
        If it is damaged.
    """
    try:
        return read_journal(folder)
    except InputError as error:
        raise BrokenError(str(error)) from None


def check_journal(
    folder: Path, classifier: StreamClassifier, recording: Steps | None = None
) -> list[str]:
    """Check a journal; return a line for each property that holds.

    Raises
    ------
    BrokenError
        At the first that does not.
    """
    contents = read_unbroken(folder)
    if not contents.n_segments:
        raise BrokenError(f"{folder}: no journal is there")
    rest = f"; {contents.unfinished} bytes of an unfinished one at the end"
    found = [
        f"{len(contents.records)} records in {contents.n_segments} segments, none missing, none "
        f"damaged{rest if contents.unfinished else ''}"
    ]
    session = LiveSession(classifier, **_options(contents))
    if session.state.made_by.model != contents.head["model"]:
        raise BrokenError(f"{folder}: is the journal of another model")
    found.append(check_steps(contents))
    if contents.records.first == 0:
        if recording is not None:
            found.append(check_recording(contents, recording))
        _check_replay(contents, session)
        found.append("all equal those of a session that never stopped")
        found.append(check_predict(contents, classifier))
    found.append(check_snapshots(contents, classifier, folder))
    return found


def check_steps(contents: JournalContents) -> str:
    """Check that every accepted step has one prediction, in order."""
    told = contents.records.predictions  # which follow each other, or they were not read
    if contents.records.first == 0 and told.first != 0:
        raise BrokenError(f"record 0: step {told.first} where 0 should be")
    return f"{len(told)} predictions, every step once and in order"


def check_recording(contents: JournalContents, recording: Steps) -> str:
    """Check that the steps are the first ones of the recording, bit by bit, each once."""
    values = _values(contents)
    if len(values) > len(recording):
        raise BrokenError(f"it holds {len(values)} steps of a recording of {len(recording)}")
    expected = recording.values[: len(values)]
    same = ((values == expected) | (np.isnan(values) & np.isnan(expected))).all(axis=1)
    if not same.all():
        step = int(np.argmin(same))
        raise BrokenError(f"step {step} is not that of the recording: lost, doubled or changed")
    n_steps = 0
    for arrival in _arrivals(contents):
        n_steps += len(arrival.steps)
        number, is_count, _ = arrival.position.partition(":")  # a count of messages, or a row
        if number != str(n_steps if is_count else n_steps - 1):
            raise BrokenError(f"after {n_steps} steps the source was at {arrival.position!r}")
    return f"{len(values)} of {len(recording)} steps of the recording, each once and in order"


def check_predict(contents: JournalContents, classifier: StreamClassifier) -> str:
    """Check that the states are those that ``predict`` gives for the whole stream."""
    why_not = _why_not_predict(contents)
    if why_not:
        return f"not compared with predict: {why_not}"
    kept, values = contents.records.predictions, _values(contents)
    values[kept.reasoned(lambda why: why.startswith("dead channel"))] = np.nan
    recordings = np.cumsum(_gaps(kept, contents.head["options"], classifier.usual_step_))
    expected = classifier.predict(
        Stream(values, recordings=recordings, channels=classifier.channels_),
        filtered=contents.head["options"]["filtered"],
    )
    expected[kept.reasoned(bool)] = classifier.unknown_
    wrong = kept.states() != expected.astype(object)
    if wrong.any():
        one, state = kept[int(wrong.argmax())], expected[wrong.argmax()]
        raise BrokenError(f"step {one.step} is {one.state!r} ({one.why}), predict says {state!r}")
    return "all equal predict on the whole stream"


def check_snapshots(contents: JournalContents, classifier: StreamClassifier, folder: Path) -> str:
    """Check that a session restored from each snapshot gives the same predictions."""
    n_snapshots = 0
    for path in sorted(folder.glob("state-*.snapshot")):
        snapshot = read_snapshot(path)
        if snapshot is None:
            raise BrokenError(f"{path}: damaged, though it was written whole")
        if snapshot.record > contents.records.first + len(contents.records):
            raise BrokenError(f"{path}: after record {snapshot.record}, which is not there")
        session = LiveSession(classifier, **_options(contents))
        try:
            session.restore(snapshot.session)
        except InputError as error:
            raise BrokenError(f"{path}: {error}") from None
        _check_replay(contents, session, snapshot.record, f"{path}: from there ")
        n_snapshots += 1
    return f"{n_snapshots} snapshots, from each of which a session goes on alike"


def _check_replay(
    contents: JournalContents, session: LiveSession, first: int = 0, where: str = ""
) -> None:
    """Check that a session predicts the same, bit by bit, from the records from ``first`` on."""
    records, all_kept = contents.records, contents.records.predictions
    n_before = max(0, first - records.first)
    kept = all_kept.part([0, *records.ends][n_before], len(all_kept))
    inputs = [one for inputs in records.inputs[n_before:] for one in inputs]
    again = Predictions.joined(_replay(session, inputs))
    at = first_difference(kept, again)
    if at is not None:
        one, other = asdict(kept[at]), asdict(again[at])
        name = next(name for name, was in one.items() if repr(was) != repr(other[name]))
        raise BrokenError(
            f"{where}step {one['step']}: {name} is {one[name]!r} in the journal, a session says "
            f"{other[name]!r}"
        )
    if len(kept) != len(again):
        raise BrokenError(f"{where}it holds {len(kept)} predictions, a session makes {len(again)}")


def _replay(session: LiveSession, inputs: Sequence[Input]) -> Iterator[Predictions]:
    """Yield what a session predicts from inputs.

    Steps are pushed in the longest pieces possible, not in those of the records.
    """
    waiting: list[Arrival] = []
    for one in [*inputs, None]:
        if isinstance(one, Arrival):
            waiting.append(one)
            continue
        for arrived in map(joined, joinable(waiting)):
            yield replay(session, arrived)
        waiting.clear()
        if one is not None:
            yield replay(session, one)


def _arrivals(contents: JournalContents) -> list[Arrival]:
    return contents.records.whole.arrivals


def _values(contents: JournalContents) -> Floats:
    """The steps as they arrived, of shape (n, d)."""
    none = np.empty((0, len(contents.head["channels"])))
    return np.concatenate([none, *(arrival.steps.values for arrival in _arrivals(contents))])


def _options(contents: JournalContents) -> dict[str, Any]:
    """Those of the head; examples may reach back further in a session that an older mlat began."""
    options: dict[str, Any] = contents.head["options"]
    return BEFORE | options | {"teachable": max(options["teachable"], MOST_STEPS)}


def _why_not_predict(contents: JournalContents) -> str:
    options = contents.head["options"]
    if not all(isinstance(one, Arrival | Flushed) for one in contents.records.whole.inputs):
        return "states were taught"
    if options["missing"] != "abstain":
        return f"missing={options['missing']}"
    if options.get("adapt", "off") != "off":
        return f"adapt={options['adapt']}"
    if options["order_by"] != "none":
        return f"order_by={options['order_by']}"
    if len(contents.records.predictions) != len(_values(contents)):
        return "steps were refused"
    return ""


def _gaps(told: Predictions, options: dict[str, Any], usual_step: float | None) -> Bools:
    """True at each step that does not follow the one before it."""
    longest = np.full(len(told), math.inf)
    if options["max_gap"] or options["rate"]:
        longest[:] = options["max_gap"] or 1.5 / options["rate"]
    elif usual_step is not None:
        longest[:] = 1.5 * usual_step
        # Where the first 21 steps are further apart or nearer, their own distance counts then.
        times = np.empty(0) if told.time is None else told.time
        first = times[~np.ma.getmaskarray(times)][:21]
        own = float(np.median(np.diff(first))) if len(first) == 21 else usual_step
        if not 1 / 1.5 <= own / usual_step <= 1.5 and own > 0:
            longest[21:] = 1.5 * own
    gaps = np.zeros(len(told), bool)
    if told.seq is not None:
        gaps[1:] |= np.ma.filled(told.seq[1:] - told.seq[:-1] > 1, False)
    if told.time is not None:
        gaps[1:] |= np.ma.filled(told.time[1:] - told.time[:-1] > longest[1:], False)
    return gaps


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the journal that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mlat.live.journal.verify",
        description="Check a live journal: no step lost, doubled, out of order or predicted anew.",
    )
    parser.add_argument("journal", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path, nargs="?", help="what was played to it")
    args = parser.parse_args(arguments)
    try:
        classifier = load(args.model)
        recording = args.recording and read_recording(args.recording, tuple(classifier.channels_))
        lines = check_journal(args.journal, classifier, recording)
    except BrokenError as error:
        print(f"verify: WRONG: {error}", file=sys.stderr)
        return 1
    except MlatError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    for line in lines:
        print(f"verify: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
