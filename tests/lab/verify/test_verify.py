"""The verifier finds what is wrong: a journal with each fault in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from live_runs import CLF, VALUES, run
from mlat.lab.verify.__main__ import main
from mlat.lab.verify.checks import check_journal
from mlat.lab.verify.kills import Shown
from mlat.lab.verify.reading import BrokenError, read_journal
from mlat.live import LiveSession, Steps
from mlat.live.journal.journal import Journal
from mlat.live.journal.records import Arrived, Batch, Taught
from mlat.live.journal.recovery import identity_of
from mlat.live.journal.snapshots import Snapshot, Snapshots
from mlat.live.run.output import json_lines

SIZE = 10
RECORDING = Steps(VALUES[:60])


def batches() -> list[Batch]:
    session = LiveSession(CLF)
    parts = [Steps(VALUES[i : i + SIZE]) for i in range(0, 60, SIZE)]
    return [
        Batch([Arrived(part, str((i + 1) * SIZE - 1))], session.push(part))
        for i, part in enumerate(parts)
    ]


def write(folder: Path, kept: list[Batch]) -> None:
    with Journal(folder, identity_of(LiveSession(CLF)), segment_size=2000) as journal:
        for batch in kept:
            journal.append(batch)


def told_otherwise(batch: Batch, **changes: object) -> Batch:
    *most, last = batch.predictions
    return Batch(batch.inputs, [*most, replace(last, **changes)])


def arrived_otherwise(batch: Batch, values: np.ndarray | None = None, position: str = "") -> Batch:
    (arrived,) = batch.inputs
    steps = arrived.steps if values is None else Steps(values)
    return Batch([Arrived(steps, position or arrived.position)], batch.predictions)


def test_a_journal_that_is_right(tmp_path):
    write(tmp_path, batches())
    found = check_journal(tmp_path, CLF, RECORDING)
    assert "60 of 60 steps of the recording, each once and in order" in found
    assert "all equal predict on the whole stream" in found


OTHER = next(str(c) for c in CLF.classes_ if c != batches()[3].predictions[-1].state)
DISTANCE = batches()[3].predictions[-1].distance
FAULTS: dict[str, tuple[Callable[[list[Batch]], list[Batch]], str]] = {
    "lost": (lambda b: b[:2] + b[3:], "step 30 where 20 should be"),
    "twice": (lambda b: b[:3] + b[2:], "step 20 where 30 should be"),
    "out of order": (lambda b: [*b[:2], b[3], b[2], *b[4:]], "step 30 where 20 should be"),
    "another value": (
        lambda b: [*b[:3], arrived_otherwise(b[3], np.nextafter(VALUES[30:40], 9)), *b[4:]],
        "step 30 is not that of the recording",
    ),
    "another position": (
        lambda b: [*b[:3], arrived_otherwise(b[3], position="7"), *b[4:]],
        "after 40 steps the source was at '7'",
    ),
    "another state": (
        lambda b: [*b[:3], told_otherwise(b[3], state=OTHER), *b[4:]],
        "step 39: state is",
    ),
    "a last digit": (
        lambda b: [*b[:3], told_otherwise(b[3], distance=np.nextafter(DISTANCE, 9)), *b[4:]],
        "step 39: distance is",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(tmp_path, fault):
    change, words = FAULTS[fault]
    write(tmp_path, change(batches()))
    with pytest.raises(BrokenError, match=words):
        check_journal(tmp_path, CLF, RECORDING)


def test_faults_on_disk_are_found(tmp_path):
    write(tmp_path, batches())
    first, second, *_ = sorted(tmp_path.glob("*.journal"))
    content = first.read_bytes()
    first.write_bytes(content[:-3] + b"xyz")
    with pytest.raises(BrokenError, match="bad record at byte"):
        read_journal(tmp_path)
    first.write_bytes(content)
    second.rename(tmp_path / "second")
    with pytest.raises(BrokenError, match="are missing"):
        read_journal(tmp_path)


def test_snapshots_are_tried(tmp_path):
    write(tmp_path, batches())
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
    kept = [Batch([Arrived(Steps(VALUES[:30]), "29")], session.push(VALUES[:30]))]
    session.teach("dance", n=2)
    kept.append(Batch([Taught("dance", 2)]))
    kept.append(Batch([Arrived(Steps(VALUES[30:40]), "39")], session.push(VALUES[30:40])))
    write(tmp_path, kept)
    assert "not compared with predict: states were taught" in check_journal(tmp_path, CLF)
    write(tmp_path / "untaught", [kept[0], kept[2]])
    with pytest.raises(BrokenError, match="step 3"):
        check_journal(tmp_path / "untaught", CLF)


def test_what_was_printed_is_compared_with_the_disk(tmp_path):
    write(tmp_path, batches()[:2])
    told = [p for b in batches() for p in b.predictions]
    out = tmp_path / "out"

    def printed(text: str, shown: Shown) -> Shown:
        out.write_text(text)
        shown.check(out, tmp_path)
        return shown

    shown = printed(json_lines(told[:5]), Shown())
    printed(json_lines(told[8:12]), shown)  # 5 to 7 were on disk, but never printed
    with pytest.raises(BrokenError, match="step 11 was printed twice"):
        printed(json_lines(told[11:13]), shown)
    with pytest.raises(BrokenError, match="step 20 was printed, but is not on disk"):
        printed(json_lines(told[19:21]), Shown())
    with pytest.raises(BrokenError, match="step 14 was printed after step 12"):
        printed(json_lines([told[12], told[14]]), Shown())
    with pytest.raises(BrokenError, match="step 3: why was printed as 'far'"):
        printed(json_lines([replace(told[3], why="far")]), Shown())
    with pytest.raises(BrokenError, match="of a step that is not on disk"):
        printed(json_lines(told[18:20]) + '{"step": 20, "sta', Shown())


def test_the_program(tmp_path, capsys):
    CLF.save(tmp_path / "walk.mlat")
    run([], tmp_path / "journal")
    asked = ["check", str(tmp_path / "journal"), str(tmp_path / "walk.mlat")]
    assert main(asked) == 0
    assert "verify: 0 records in 1 segments" in capsys.readouterr().out
    write(tmp_path / "wrong", batches()[1:])
    assert main(["check", str(tmp_path / "wrong"), str(tmp_path / "walk.mlat")]) == 1
    assert capsys.readouterr().err.startswith("verify: WRONG: record 0: step 10 where 0")
    assert main(["check", str(tmp_path / "none"), str(tmp_path / "walk.mlat")]) == 1
    assert main(["check", str(tmp_path / "journal"), str(tmp_path / "none.mlat")]) == 2
