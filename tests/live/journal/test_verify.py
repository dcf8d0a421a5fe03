"""The verifier finds what is wrong: every kind of fault in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from live_oracles import columns
from live_runs import CLF, VALUES, batches, run, write_journal
from mlat.live import LiveSession, Steps
from mlat.live.journal.records import Batch, Example
from mlat.live.journal.verify import BrokenError, check_journal, main
from mlat.live.journal.writer import Snapshot, Snapshots
from mlat.live.sources import Arrival

RECORDING = Steps(VALUES[:60])


def predicted_otherwise(batch: Batch, **changes: object) -> Batch:
    *most, last = batch.predictions
    return Batch(batch.inputs, columns([*most, replace(last, **changes)]))


def arrived_otherwise(batch: Batch, values: np.ndarray | None = None, position: str = "") -> Batch:
    (arrived,) = batch.inputs
    steps = arrived.steps if values is None else Steps(values)
    return Batch([Arrival(steps, position or arrived.position)], batch.predictions)


def test_a_journal_that_is_right(tmp_path):
    write_journal(tmp_path, batches())
    found = check_journal(tmp_path, CLF, RECORDING)
    assert "60 of 60 steps of the recording, each once and in order" in found
    assert "all equal predict on the whole stream" in found


OTHER = next(str(c) for c in CLF.classes_ if c != batches()[3].predictions[-1].state)
DISTANCE = batches()[3].predictions[-1].distance
FAULTS: dict[str, tuple[Callable[[list[Batch]], list[Batch]], str]] = {
    "lost": (lambda b: b[:2] + b[3:], "step 30 where 20 should be"),
    "twice": (lambda b: b[:3] + b[2:], "step 20 where 30 should be"),
    "out of order": (lambda b: [*b[:2], b[3], b[2], *b[4:]], "step 20 where 40 should be"),
    "another value": (
        lambda b: [*b[:3], arrived_otherwise(b[3], np.nextafter(VALUES[30:40], 9)), *b[4:]],
        "step 30 is not that of the recording",
    ),
    "another position": (
        lambda b: [*b[:3], arrived_otherwise(b[3], position="7"), *b[4:]],
        "after 40 steps the source was at '7'",
    ),
    "another state": (
        lambda b: [*b[:3], predicted_otherwise(b[3], state=OTHER), *b[4:]],
        "step 39: state is",
    ),
    "a last digit": (
        lambda b: [*b[:3], predicted_otherwise(b[3], distance=np.nextafter(DISTANCE, 9)), *b[4:]],
        "step 39: distance is",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(tmp_path, fault):
    change, words = FAULTS[fault]
    write_journal(tmp_path, change(batches()))
    with pytest.raises(BrokenError, match=words):
        check_journal(tmp_path, CLF, RECORDING)


def test_snapshots_are_tried(tmp_path):
    write_journal(tmp_path, batches())
    session = LiveSession(CLF)
    session.push(VALUES[:20])
    Snapshots(tmp_path).write(Snapshot(2, "19", session.snapshot()))
    assert "1 snapshots, from each of which a session goes on alike" in check_journal(tmp_path, CLF)
    session.push(VALUES[20:21])  # a step too far
    Snapshots(tmp_path).write(Snapshot(3, "29", session.snapshot()))
    with pytest.raises(BrokenError, match="from there step 30"):
        check_journal(tmp_path, CLF)


def test_taught_states_are_compared_with_a_session(tmp_path):
    session = LiveSession(CLF)
    kept = [Batch([Arrival(Steps(VALUES[:30]), "29")], session.push(VALUES[:30]))]
    session.teach("dance", n=2)
    kept.append(Batch([Example("dance", 2)]))
    kept.append(Batch([Arrival(Steps(VALUES[30:40]), "39")], session.push(VALUES[30:40])))
    write_journal(tmp_path, kept)
    assert "not compared with predict: states were taught" in check_journal(tmp_path, CLF)
    write_journal(tmp_path / "untaught", [kept[0], kept[2]])
    with pytest.raises(BrokenError, match="step 3"):
        check_journal(tmp_path / "untaught", CLF)


def test_the_program(tmp_path, capsys):
    CLF.save(tmp_path / "walk.mlat")
    run([], tmp_path / "journal")
    model = str(tmp_path / "walk.mlat")
    assert main([str(tmp_path / "journal"), model]) == 0
    assert "verify: 0 records in 1 segments" in capsys.readouterr().out
    write_journal(tmp_path / "wrong", batches()[1:])
    assert main([str(tmp_path / "wrong"), model]) == 1
    assert capsys.readouterr().err.startswith("verify: WRONG: record 0: step 10 where 0")
    assert main([str(tmp_path / "none"), model]) == 1
    assert main([str(tmp_path / "journal"), str(tmp_path / "none.mlat")]) == 2
