"""A session is what its edits made it, whenever the process ends and starts again."""

import csv

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mlat import InputError, Stream
from mlat.label.label_table import Span, read_spans, write_spans
from mlat.label.recording import Recording
from mlat.label.session import LabelSession
from mlat.label.span_list import Piece

LENGTHS = (30, 12)


def recordings(lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Recording(f"r{i}.csv", Stream(rng.normal(size=(n, 2)), channels=["x", "y"]))
        for i, n in enumerate(lengths)
    ]


def made(folder, **options):
    return LabelSession(recordings(), folder / "walk.labels.csv", **options)


class Editing(RuleBasedStateMachine):
    """Edits, undo and redo against a list of whole states; the process may end at any time."""

    def __init__(self):
        super().__init__()
        import tempfile
        from pathlib import Path

        self.folder = Path(tempfile.mkdtemp())
        self.session = made(self.folder)
        self.past, self.future = [], []
        self.now = [(), ()]

    def edit(self, act):
        before = self.session.pieces()
        try:
            act()
        except InputError:
            assert self.session.pieces() == before
            return
        self.past.append(self.now)
        self.now, self.future = self.session.pieces(), []

    places = st.integers(0, 1), st.integers(0, 29), st.integers(1, 9)

    @rule(r=places[0], start=places[1], n=places[2], state=st.sampled_from("abc"))
    def label(self, r, start, n, state):
        self.edit(lambda: self.session.label(r, start, start + n, state))

    @rule(r=places[0], start=places[1], n=places[2])
    def clear(self, r, start, n):
        self.edit(lambda: self.session.clear(r, start, start + n))

    @rule(start=places[1], n=places[2], state=st.sampled_from("abc"))
    def fill(self, start, n, state):
        labelled = [set().union(*(range(p.start, p.end) for p in one)) for one in self.now]
        states = [{t: p.state for p in one for t in range(p.start, p.end)} for one in self.now]
        piece = Piece(start % 12, start % 12 + n, state)
        self.edit(lambda: self.session.fill({0: [piece], 1: [piece]}))
        for r, one in enumerate(self.now):
            after = {t: p.state for p in one for t in range(p.start, p.end)}
            assert all(after[t] == states[r][t] for t in labelled[r])

    @rule(r=places[0], at=places[1])
    def split(self, r, at):
        self.edit(lambda: self.session.split(r, at))

    @rule(r=places[0], edge=places[1], to=places[1])
    def move(self, r, edge, to):
        self.edit(lambda: self.session.move(r, edge, to))

    @rule(a=st.sampled_from("abc"), b=st.sampled_from("abcd"))
    def rename(self, a, b):
        self.edit(lambda: self.session.rename(a, b))

    @precondition(lambda self: self.past)
    @rule()
    def undo(self):
        self.session.undo()
        self.future.append(self.now)
        self.now = self.past.pop()

    @precondition(lambda self: self.future)
    @rule()
    def redo(self):
        self.session.redo()
        self.past.append(self.now)
        self.now = self.future.pop()

    @rule(lost=st.booleans())
    def start_again(self, lost):
        """As after kill -9: nothing is closed in order; the table may be older than the log."""
        version = self.session.version
        self.session.close()
        if lost:
            self.session.table.unlink(missing_ok=True)
        self.session = made(self.folder)
        assert self.session.version == version
        assert not self.session.notes

    @invariant()
    def all_is_as_it_should_be(self):
        assert self.session.pieces() == self.now
        assert self.session.can_undo == bool(self.past)
        assert self.session.can_redo == bool(self.future)
        if self.session.table.exists():
            on_disk = read_spans(self.session.table)
            assert [
                [Piece(*s[:3]) for s in on_disk if s.recording == f"r{r}.csv"] for r in (0, 1)
            ] == [list(one) for one in self.now]

    def teardown(self):
        self.session.close()


Editing.TestCase.settings = settings(max_examples=12, stateful_step_count=25)
TestEditing = Editing.TestCase


def test_a_table_that_another_program_changed_is_taken_and_can_be_undone(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.close()
    write_spans(session.table, [Span(2, 9, "b", "r0.csv")])
    again = made(tmp_path)
    assert "changed by another program" in again.notes[0]
    assert again.pieces()[0] == (Piece(2, 9, "b"),)
    again.undo()
    assert again.pieces()[0] == (Piece(0, 5, "a"),)
    again.close()


def test_a_table_one_edit_behind_the_log_is_written_anew(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    behind = session.table.read_bytes()
    session.label(0, 7, 9, "b")
    session.close()
    session.table.write_bytes(behind)
    again = made(tmp_path)
    assert not again.notes
    assert again.pieces()[0] == (Piece(0, 5, "a"), Piece(7, 9, "b"))
    assert len(read_spans(again.table)) == 2
    again.close()


def test_a_recording_that_changed_is_refused_and_the_labels_stay(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.close()
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"r0.csv has changed since .*--changed"):
        LabelSession(recordings(seed=1), session.table)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept
    again = LabelSession(recordings(seed=1), session.table, changed=True)
    assert again.pieces()[0] == (Piece(0, 5, "a"),)
    again.close()


def test_a_recording_that_only_grew_goes_on(tmp_path):
    long = np.random.default_rng(0).normal(size=(40, 2))
    for n, label in ((30, "a"), (40, "b")):
        one = Recording("r.csv", Stream(long[:n], channels=["x", "y"]))
        session = LabelSession([one], tmp_path / "r.labels.csv")
        session.label(0, n - 5, n, label)
        session.close()
    assert [span.state for span in read_spans(tmp_path / "r.labels.csv")] == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(0, 5, "a"), (3, 8, "b")], "overlaps"),
        ([(4, 4, "a")], "end is the first step after"),
        ([(0, 99, "a")], "only 30 steps"),
        ([(0, 5, "")], "no state"),
        ([(0, "x", "a")], "number of a step"),
    ],
)
def test_a_table_that_is_wrong_is_refused_and_stays(tmp_path, rows, says):
    table = tmp_path / "r.labels.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("start", "end", "state"), *rows])
    before = table.read_bytes()
    with pytest.raises(InputError, match=says):
        LabelSession(recordings((30,)), table)
    assert table.read_bytes() == before


def test_ten_thousand_states_with_hostile_names(tmp_path):
    one = Recording("r.csv", Stream(np.arange(20_000.0)[:, None] % 7, channels=["x"]))
    table = tmp_path / "r.labels.parquet"
    names = [f"<img src=x onerror=alert({i})>,\"'" for i in range(10_000)]
    write_spans(table, [Span(2 * i, 2 * i + 2, name) for i, name in enumerate(names)])
    session = LabelSession([one], table)
    session.label(0, 0, 1, "=1+1")
    assert session.states[:10_000] == names
    session.close()
    again = LabelSession([one], table)
    assert again.pieces() == session.pieces()
    again.close()


def test_a_table_that_cannot_be_written_is_said_and_the_log_has_the_edit(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.table.unlink()
    session.table.mkdir()  # in the way
    session.label(0, 6, 9, "b")
    assert "folder" in session.table_error
    session.close()
    session.table.rmdir()
    again = made(tmp_path)
    assert again.pieces()[0] == (Piece(0, 5, "a"), Piece(6, 9, "b"))
    assert len(read_spans(again.table)) == 2
    again.close()


def test_other_recordings_than_those_labelled_are_refused(tmp_path):
    made(tmp_path).close()
    with pytest.raises(InputError, match=r"labels of r0.csv, r1.csv"):
        LabelSession(recordings((30,)), tmp_path / "walk.labels.csv")
