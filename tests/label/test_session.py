"""A session is what its edits made it, whenever the process ends and starts again."""

import contextlib
import csv
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mlat import InputError, Stream
from mlat.base.errors import DiskError
from mlat.label.label_table import Span, read_spans, write_spans
from mlat.label.recording import Recording
from mlat.label.session import LabelSession
from mlat.label.span_list import Stretch

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
        piece = Stretch(start % 12, start % 12 + n, state)
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
                [Stretch(*s[:3]) for s in on_disk if s.recording == f"r{r}.csv"] for r in (0, 1)
            ] == [list(one) for one in self.now]

    def teardown(self):
        self.session.close()


Editing.TestCase.settings = settings(max_examples=12, stateful_step_count=25)
TestEditing = Editing.TestCase


def test_a_table_that_another_program_changed_is_asked_about_then_taken_and_undone(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.close()
    write_spans(session.table, [Span(2, 9, "b", "r0.csv")])
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"another program changed it.*differ: 1.*changed=True"):
        made(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept
    again = made(tmp_path, changed=True)
    assert "another program changed it" in again.notes[0]
    assert again.pieces()[0] == (Stretch(2, 9, "b"),)
    again.undo()
    assert again.pieces()[0] == (Stretch(0, 5, "a"),)
    again.close()


def test_a_row_deleted_by_hand_is_no_table_that_is_behind(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    behind = session.table.read_bytes()
    session.label(0, 7, 9, "b")
    session.close()
    session.table.write_bytes(behind)  # as it was after the first edit
    with pytest.raises(InputError, match="another program changed it"):
        made(tmp_path)
    again = made(tmp_path, changed=True)
    assert again.pieces()[0] == (Stretch(0, 5, "a"),)
    again.close()


@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_table_that_could_not_be_written_is_behind_and_written_anew(tmp_path, n):
    session = made(tmp_path)
    session.label(0, 0, 2, "a")
    with unwritable(session.table):
        for i in range(n):
            session.label(0, 3 + i % 20, 4 + i % 20, f"b{i}")
            assert session.table_error
    now = session.pieces()
    session.close()
    again = made(tmp_path)
    assert not again.notes
    assert again.pieces() == now
    assert len(read_spans(again.table)) == len(now[0])
    again.close()


def test_a_change_by_hand_beside_later_edits_loses_neither(tmp_path):
    session = made(tmp_path)
    for start, state in ((0, "a"), (10, "b"), (20, "c")):
        session.label(0, start, start + 5, state)
    with unwritable(session.table):
        session.label(0, 0, 2, "later")
        session.label(0, 20, 25, "later")
    session.close()
    rows = [(0, 5, "a"), (10, 15, "by hand"), (20, 25, "too"), (27, 29, "new")]
    write_spans(session.table, [Span(*row, "r0.csv") for row in rows])
    again = made(tmp_path, changed=True)
    assert again.pieces()[0] == (
        Stretch(0, 2, "later"),
        Stretch(2, 5, "a"),
        Stretch(10, 15, "by hand"),
        Stretch(20, 25, "later"),  # where both changed it, the log stays
        Stretch(27, 29, "new"),
    )
    again.close()


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "parquet"])
def test_a_table_cut_or_flipped_anywhere_never_beats_the_log(tmp_path, form):
    """Whether it still parses or not."""
    table = tmp_path / f"r.labels.{form}"
    session = LabelSession(recordings((30,)), table)
    for i in range(5):
        session.label(0, 5 * i, 5 * i + 3, f"state {i}")
    now = session.pieces()
    session.close()
    whole, log = table.read_bytes(), table.with_name(table.name + ".log").read_bytes()
    cuts = [whole[:n] for n in range(0, len(whole), 1 + len(whole) // 40)]
    places = range(0, len(whole), 1 + len(whole) // 40)
    flips = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in places]
    for spoilt in (*cuts, *flips):
        table.write_bytes(spoilt)
        said = "nothing"
        try:
            LabelSession(recordings((30,)), table).close()
        except InputError as error:
            said = str(error)
        if said != "nothing":
            assert "move" in said
            assert table.read_bytes() == spoilt
            assert table.with_name(table.name + ".log").read_bytes() == log
            table.unlink()  # as it says
        again = LabelSession(recordings((30,)), table)
        assert again.pieces() == now
        again.close()
        assert [Stretch(*span[:3]) for span in read_spans(table)] == list(now[0])
        table.with_name(table.name + ".log").write_bytes(log)


@contextmanager
def unwritable(table):
    """No file can be put at the table's place, as on a full disk."""
    aside = table.with_name("aside")
    table.rename(aside)
    table.mkdir()
    yield
    table.rmdir()
    aside.rename(table)


@pytest.mark.parametrize(
    ("name", "spans"),
    [
        ("behind", [(0, 5, "a"), (7, 9, "b"), (10, 12, 'ä,"b"')]),
        ("overlapping", [(0, 5, "a"), (6, 15, "c"), (15, 20, "d"), (25, 28, "e")]),
    ],
)
def test_a_log_of_before_whose_table_is_edits_behind_keeps_them_all(tmp_path, name, spans):
    for file in (Path(__file__).parent.parent / "label_logs_v1").glob(f"{name}.*"):
        shutil.copy(file, tmp_path / file.name)
    session = LabelSession(recordings(), tmp_path / f"{name}.labels.csv")
    assert session.pieces() == [tuple(Stretch(*span) for span in spans), (Stretch(2, 4, "b"),)]
    assert session.notes == ["labels that overlapped were shortened"] * (name == "overlapping")
    assert len(read_spans(session.table)) == len(spans) + 1
    if name == "overlapping":
        with pytest.raises(InputError, match="do not come back"):
            session.undo()
        assert len(read_spans(session.table)) == len(spans) + 1
    session.close()


def test_pieces_that_overlap_are_refused_before_anything_is_logged(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    log = session.table.with_name(session.table.name + ".log")
    kept = log.read_bytes()
    for state in "cd":
        with pytest.raises(InputError, match="steps 10 to 15 are given twice"):
            session.fill(
                {1: [Stretch(0, 3, "x")], 0: [Stretch(10, 20, "c"), Stretch(6, 15, state)]}
            )
    assert log.read_bytes() == kept
    session.close()


def test_the_table_is_read_when_the_log_is_locked(tmp_path):
    """Another program that has the labels open may be about to write the table."""
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.table.write_text("half a tab")
    with pytest.raises(DiskError, match="in use"):
        made(tmp_path)
    session.close()


def test_a_table_that_is_changed_while_it_is_open_is_left_and_both_are_kept(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.table.touch()  # the same labels
    session.label(0, 6, 9, "b")
    assert not session.table_error
    rows = [(0, 5, "a"), (6, 9, "by hand")]
    write_spans(session.table, [Span(*row, "r0.csv") for row in rows])
    by_hand = session.table.read_bytes()
    for start in (10, 12):
        session.label(0, start, start + 2, "later")
        assert "changed by another program" in session.table_error
        assert session.table.read_bytes() == by_hand
    session.close()
    with pytest.raises(InputError, match="another program changed it"):
        made(tmp_path)
    again = made(tmp_path, changed=True)
    later = (Stretch(10, 12, "later"), Stretch(12, 14, "later"))
    assert again.pieces()[0] == (Stretch(0, 5, "a"), Stretch(6, 9, "by hand"), *later)
    again.undo()
    assert again.pieces()[0] == (Stretch(0, 5, "a"), Stretch(6, 9, "b"), *later)
    session.table.write_bytes(by_hand)
    again.redo()
    assert again.table_error
    session.table.unlink()
    again.label(0, 20, 25, "c")  # moved away: written anew
    assert not again.table_error
    assert len(read_spans(again.table)) == 5
    again.close()


def test_a_session_without_an_edit_leaves_nothing(tmp_path):
    made(tmp_path).close()
    assert not list(tmp_path.iterdir())


def test_a_recording_that_changed_is_refused_and_the_labels_stay(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.close()
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"r0.csv has changed since .*changed=True"):
        LabelSession(recordings(seed=1), session.table)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept
    again = LabelSession(recordings(seed=1), session.table, changed=True)
    assert again.pieces()[0] == (Stretch(0, 5, "a"),)
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
    assert again.pieces()[0] == (Stretch(0, 5, "a"), Stretch(6, 9, "b"))
    assert len(read_spans(again.table)) == 2
    again.close()


def test_other_recordings_than_those_labelled_are_refused(tmp_path):
    session = made(tmp_path)
    session.label(0, 0, 5, "a")
    session.close()
    with pytest.raises(InputError, match=r"labels of r0.csv, r1.csv"):
        LabelSession(recordings((30,)), tmp_path / "walk.labels.csv")


def test_a_long_table_is_written_beside_the_edits(tmp_path, monkeypatch):
    """An edit does not wait for it; at the end, and after a kill, the table holds them all."""
    monkeypatch.setattr("mlat.label.session.SHORT", 5)
    one = Recording("long.csv", Stream(np.zeros((1000, 1)), channels=["x"]))
    table = tmp_path / "long.labels.csv"
    slow = threading.Event()

    def write_slowly(*args):
        slow.wait(10)
        write_spans(*args)

    session = LabelSession([one], table)
    session.fill({0: [Stretch(i, i + 1, f"s{i % 3}") for i in range(0, 100, 2)]})
    monkeypatch.setattr("mlat.label.session.write_spans", write_slowly)
    for i in range(200, 210):
        session.label(0, 2 * i, 2 * i + 1, "more")  # while the table waits for the disk
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed)
    slow.set()
    session.close()
    assert len(read_spans(table, one.stream)) == 60
    assert not session.table_error
    for folder in (killed, tmp_path):
        with contextlib.closing(LabelSession([one], folder / "long.labels.csv")) as again:
            assert again.version == 11
        assert len(read_spans(folder / "long.labels.csv", one.stream)) == 60


def test_a_line_about_the_table_may_come_after_later_edits(tmp_path):
    """The table is as of the edits that the line says, not as of those before the line."""
    one = Recording("walk.csv", Stream(np.zeros((100, 1)), channels=["x"]))
    session = LabelSession([one], tmp_path / "walk.labels.csv")
    session.label(0, 0, 5, "a")
    old = (tmp_path / "walk.labels.csv").read_bytes()
    digest = session._table
    session.label(0, 10, 15, "b")
    session._log.append({"table": digest, "edits held": 1})
    session.close()
    (tmp_path / "walk.labels.csv").write_bytes(old)
    with contextlib.closing(LabelSession([one], tmp_path / "walk.labels.csv")) as again:
        assert again.version == 2
    assert len(read_spans(tmp_path / "walk.labels.csv", one.stream)) == 2


def test_what_was_labelled_by_hand_is_known_after_a_start_too(tmp_path):
    def by_hand(session):
        return np.flatnonzero(session.by_hand()[0]).tolist()

    session = made(tmp_path)
    session.label(0, 5, 10, "a")
    session.fill({0: [Stretch(0, 20, "b")]}, proposed=True)
    assert by_hand(session) == [*range(5, 10)]
    session.rename("b", "c")
    session.label(0, 12, 15, "a")  # corrects a proposal
    session.clear(0, 5, 7)
    session.label(0, 25, 28, "a")
    session.undo()
    session.move(0, 10, 8)  # the proposal grows by hand
    expected = [7, 8, 9, 12, 13, 14]
    assert by_hand(session) == expected
    session.close()
    again = made(tmp_path)
    assert by_hand(again) == expected
    again.close()
