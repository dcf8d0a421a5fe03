"""A journal is what its description says, and one that is damaged or incomplete is not read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import journal_description
from journal_description import BrokenError
from live_runs import CLF, VALUES, arrivals, batches, run, write_journal
from mlat.base.errors import InputError
from mlat.live import LiveSession, Steps
from mlat.live.core.steps import Predictions
from mlat.live.journal.journal import read_journal
from mlat.live.journal.records import Batch, Example, Flushed, SpanExample, Undone
from mlat.live.sources import Arrival

KINDS = {Example: "teach", SpanExample: "teach span", Undone: "undo", Flushed: "flush"}


def assert_as_described(folder: Path) -> None:
    """Both readers find the same."""
    ours, theirs = read_journal(folder), journal_description.read_journal(folder)
    counts = (len(ours.records), ours.n_segments, ours.unfinished, ours.records.first)
    assert counts == (
        theirs.n_records,
        theirs.n_segments,
        theirs.unfinished,
        theirs.first_record,
    )
    assert ours.head == theirs.head
    every = [*enumerate(ours.records.batches(), ours.records.first)]
    inputs = [(record, one) for record, batch in every for one in batch.inputs]
    for (record, one), (number, kind, what) in zip(inputs, theirs.inputs, strict=True):
        assert record == number
        if isinstance(one, Arrival):
            found = {name: getattr(one.steps, name) for name in ("values", "seq", "time")}
            np.testing.assert_equal(found | {"position": one.position}, what)
        else:
            assert (KINDS[type(one)], asdict(one)) == (kind, what)
    made = [(record, asdict(one)) for record, batch in every for one in batch.predictions]
    for _, fields in made:
        fields["neighbours"] = list(fields["neighbours"])
        fields["probabilities"] = list(fields["probabilities"])
    np.testing.assert_equal(made, theirs.predictions)


def test_what_is_written_is_what_is_described(tmp_path):
    run(arrivals([1, 5, 20, 40]), tmp_path / "run")
    session = LiveSession(CLF, teachable=100, order_by="seq", reorder=4)
    first = Steps(VALUES[:30], np.arange(30), np.arange(30) / 100)
    late = Steps(np.where(np.arange(90).reshape(30, 3) == 7, np.nan, VALUES[30:60]), first.seq + 40)
    records = [Batch([Arrival(first, "29")], session.push(first))]
    session.teach("dance", n=2)
    session.teach_span("spin", 5, 20)
    session.undo()
    records.append(Batch([Example("dance", 2), SpanExample("spin", 5, 20), Undone()]))
    both = Predictions.joined([session.push(late), session.flush()])
    records.append(Batch([Arrival(late, "ü"), Flushed()], both))
    write_journal(tmp_path / "all", records)
    last = max((tmp_path / "all").glob("*.journal"))
    for folder in ("run", "all"):
        assert_as_described(tmp_path / folder)
    last.write_bytes(last.read_bytes()[:-1])
    assert_as_described(tmp_path / "all")
    assert_as_described(Path(__file__).parents[2] / "live_journal_v1")


@pytest.mark.parametrize(
    ("read", "error"),
    [(journal_description.read_journal, BrokenError), (read_journal, InputError)],
)
def test_faults_on_disk_are_found(tmp_path, read, error):
    write_journal(tmp_path, batches())
    first, second, *_ = sorted(tmp_path.glob("*.journal"))
    content = first.read_bytes()
    first.write_bytes(content[:-3] + b"xyz")
    with pytest.raises(error, match=r"bad record at byte|damaged at byte"):
        read(tmp_path)
    first.write_bytes(content)
    second.rename(tmp_path / "second")
    with pytest.raises(error, match=r"are missing|lacks the records"):
        read(tmp_path)
