"""The journal: what was appended is read again, whatever happened to the end of the file."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from full_disk import fill_the_disk
from live_oracles import columns
from mlat.base.append_log import decode_frame, decode_frames, encode_frame
from mlat.base.errors import DiskError, InputError
from mlat.live import Prediction, Steps
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.records import (
    BATCH,
    Batch,
    Example,
    Flushed,
    encode_batch,
)
from mlat.live.sources import Arrival

WALK = Identity("model-1", ("x", "y"), {"missing": "abstain", "hold": 5})


def prediction(step: int, **changes: object) -> Prediction:
    fields = {
        "state": "walk",
        "proba": 0.75,
        "distance": 1.5,
        "neighbours": (3, 1),
        "why": "",
        "seq": step,
        "time": step / 100,
        "probabilities": (0.75, 0.25),
        "agreement": 1.0,
    }
    return Prediction(step=step, **{**fields, **changes})


def batch(first: int, n: int = 3) -> Batch:
    values = np.arange(first, first + 2 * n, dtype=float).reshape(n, 2)
    values[0, 0] = np.nan
    steps = Steps(values, np.arange(first, first + n), np.arange(first, first + n) / 100)
    told = columns([prediction(first + i) for i in range(n)])
    return Batch([Arrival(steps, f"row {first + n}")], told)


def filled(folder: Path, n: int, **options: object) -> list[bytes]:
    """A journal of n records; their payloads."""
    batches = [batch(3 * i) for i in range(n)]
    with Journal(folder, WALK, **options) as journal:
        for i, one in enumerate(batches):
            assert journal.append(one) == i
    return [encode_batch(one) for one in batches]


def batches_of(journal: Journal, first: int = 0) -> list[Batch]:
    return [batch for some in journal.records(first) for batch in some.batches()]


def payloads_in(folder: Path, after: int = 0) -> list[bytes]:
    with Journal(folder, WALK) as journal:
        return [encode_batch(one) for one in batches_of(journal, after)]


# One journal, again and again


def test_records_are_read_in_order(tmp_path):
    payloads = filled(tmp_path, 5)
    assert payloads_in(tmp_path) == payloads
    assert payloads_in(tmp_path, after=3) == payloads[3:]
    assert payloads_in(tmp_path, after=5) == []


def test_it_goes_on_where_it_ended(tmp_path):
    filled(tmp_path, 2)
    with Journal(tmp_path, WALK) as journal:
        assert (journal.end, journal.cut) == (2, 0)
        journal.append(Batch([Flushed()], columns([prediction(6)])))
        name = journal.name
    with Journal(tmp_path, WALK) as journal:
        assert journal.end == 3
        assert journal.name == name
        *_, last = batches_of(journal)
    assert last.inputs == [Flushed()]
    assert last.predictions == [prediction(6)]


def test_segments_rotate(tmp_path):
    payloads = filled(tmp_path, 9, segment_size=1000)
    with Journal(tmp_path, WALK) as journal:
        segments = journal.segments()
        assert len(segments) > 2
        assert [encode_batch(one) for one in batches_of(journal)] == payloads
        assert [encode_batch(one) for one in batches_of(journal, 7)] == payloads[7:]


def test_old_segments_go_only_when_asked(tmp_path):
    payloads = filled(tmp_path, 9, segment_size=1)  # every record a segment of its own
    with Journal(tmp_path, WALK) as journal:
        assert len(journal.segments()) == 9
        assert [p.name[6:22] for p in journal.delete_before(4, keep=2)] == [
            f"{i:016d}" for i in range(4)
        ]
        assert [encode_batch(one) for one in batches_of(journal, 4)] == payloads[4:]
        assert len(journal.delete_before(9, keep=2)) == 3
        assert len(journal.segments()) == 2
        with pytest.raises(InputError, match="begins at record 7, but record 4 is needed"):
            batches_of(journal, 4)


def test_a_missing_segment_is_noticed(tmp_path):
    filled(tmp_path, 4, segment_size=1)
    (tmp_path / f"steps-{2:016d}.journal").unlink()
    with pytest.raises(InputError, match="lacks the records 2 to 2"):
        payloads_in(tmp_path)


def test_two_processes_do_not_share_it(tmp_path):
    with Journal(tmp_path, WALK):
        with pytest.raises(DiskError, match="in use by another mlat live"):
            Journal(tmp_path, WALK)
        program = (
            "import sys\nfrom mlat.base.errors import DiskError\n"
            "from mlat.live.journal.journal import *\n"
            "try: Journal(sys.argv[1], Identity('model-1', ('x', 'y'), {}))\n"
            "except DiskError as error: print(error)"
        )
        said = subprocess.run(
            [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
        )
        assert "in use by another mlat live" in said.stdout
    Journal(tmp_path, WALK).close()


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (Identity("model-2", ("x", "y"), WALK.options), "journal of another model"),
        (Identity("model-1", ("x", "z"), WALK.options), "journal of another model"),
        (Identity("model-1", ("x", "y"), {"missing": "hold"}), "begun with missing=abstain"),
    ],
)
def test_another_session_is_refused(tmp_path, other, line):
    filled(tmp_path, 1)
    with pytest.raises(InputError, match=line):
        Journal(tmp_path, other)
    assert len(payloads_in(tmp_path)) == 1  # and the lock was let go


def test_an_option_that_is_newer_than_the_journal_had_its_default(tmp_path):
    filled(tmp_path, 1)
    Journal(tmp_path, Identity("model-1", ("x", "y"), {**WALK.options, "reorder": 0})).close()
    with pytest.raises(InputError, match="begun with reorder=0, now it is 3"):
        Journal(tmp_path, Identity("model-1", ("x", "y"), {**WALK.options, "reorder": 3}))


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        Journal(tmp_path / "file", WALK)


# Torn ends


@pytest.fixture
def no_waiting(monkeypatch):
    """For tests that look at what is in the files, not at when it is on the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


@pytest.mark.usefixtures("no_waiting")
def test_every_cut_of_the_last_records_keeps_the_whole_ones(tmp_path):
    """As a loss of power leaves it: the file ends anywhere."""
    payloads = filled(tmp_path, 3)
    (segment,) = tmp_path.glob("*.journal")
    content = segment.read_bytes()
    stops = [found.stop for found in decode_frames(content, "", last=True)]
    assert len(stops) == 4
    for length in range(len(content)):
        segment.write_bytes(content[:length])
        whole = sum(stop <= length for stop in stops[1:])
        with Journal(tmp_path, WALK) as journal:
            assert journal.end == whole
            expected = max((stop for stop in stops if stop <= length), default=0)
            assert journal.cut == length - expected
            assert [encode_batch(one) for one in batches_of(journal)] == payloads[:whole]
            journal.append(batch(3 * whole))
        assert payloads_in(tmp_path) == [*payloads[:whole], encode_batch(batch(3 * whole))]
        for other in tmp_path.glob("*.journal"):
            assert other == segment


@settings(max_examples=50)
@given(st.data())
def test_rubbish_after_the_end_is_cut(tmp_path_factory, data):
    """A file that grew before its content was written: zeros, or what lay there before."""
    folder = tmp_path_factory.mktemp("journal")
    payloads = filled(folder, 2)
    (segment,) = folder.glob("*.journal")
    content = segment.read_bytes()
    unfinished = bytearray(encode_frame(BATCH, 2, encode_batch(batch(6))))
    hole = data.draw(st.integers(0, len(unfinished) - 1))
    rubbish = data.draw(
        st.sampled_from([bytes(4096), os.urandom(300), content[:40]])
        | st.binary(min_size=1, max_size=300)
    )
    segment.write_bytes(content + unfinished[:hole] + rubbish)
    with Journal(folder, WALK) as journal:
        assert journal.cut == hole + len(rubbish)
        assert [encode_batch(one) for one in batches_of(journal)] == payloads


def test_a_segment_that_was_only_just_made_is_made_again(tmp_path):
    payloads = filled(tmp_path, 2, segment_size=1)
    for content in (b"", b"\xabMLR\x00\x00", bytes(100)):
        (tmp_path / f"steps-{2:016d}.journal").write_bytes(content)
        with Journal(tmp_path, WALK, segment_size=1) as journal:
            assert journal.end == 2
            assert journal.cut == len(content)
    with Journal(tmp_path, WALK, segment_size=1) as journal:
        journal.append(batch(6))
    assert payloads_in(tmp_path) == [*payloads, encode_batch(batch(6))]


# Damage


def test_any_damaged_byte_is_found(tmp_path):
    """In the middle it is refused with its place, and never taken for a torn end."""
    filled(tmp_path, 3)
    (segment,) = tmp_path.glob("*.journal")
    content = segment.read_bytes()
    starts = [0, *(found.stop for found in decode_frames(content, "", last=True))]
    for place in range(starts[-2]):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        segment.write_bytes(damaged)
        begin = max(start for start in starts if start <= place)
        with pytest.raises(InputError, match=rf"{segment.name} is damaged at byte {begin}\b"):
            Journal(tmp_path, WALK)
        assert segment.read_bytes() == bytes(damaged)


def test_the_end_of_an_older_segment_is_no_torn_end(tmp_path):
    filled(tmp_path, 3, segment_size=1)
    older = tmp_path / f"steps-{1:016d}.journal"
    older.write_bytes(older.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{older.name} is damaged at byte"):
        payloads_in(tmp_path)


def cut_off(segment):
    segment.write_bytes(segment.read_bytes()[:-1])


def add_to(segment):
    segment.write_bytes(segment.read_bytes() + b"\0")


def empty(segment):
    segment.write_bytes(b"")


def damage_head(segment):
    content = bytearray(segment.read_bytes())
    content[30] ^= 1
    segment.write_bytes(content)


def lose_last_record(segment):
    content = segment.read_bytes()
    *_, before, _ = [found.stop for found in decode_frames(content, "", last=True)]
    segment.write_bytes(content[:before])


def take_from_another_journal(segment):
    other = segment.parent / "other"
    filled(other, 6, segment_size=900)
    segment.write_bytes((other / segment.name).read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, r"lacks the records 2 to 3, which come before .*; put the missing segment"),
        (cut_off, "is damaged at byte"),
        (add_to, "is damaged at byte"),
        (empty, "is damaged at byte 0"),
        (damage_head, "is damaged at byte 0"),
        (lose_last_record, "lacks the records 3 to 3"),
        (take_from_another_journal, "is of another journal"),
    ],
)
def test_older_segments_are_checked_though_no_record_of_them_is_needed(tmp_path, damage, message):
    """As where a snapshot covers them: opening alone says what is wrong."""
    filled(tmp_path, 6, segment_size=900)
    names = [f"steps-{first:016d}.journal" for first in (0, 2, 4)]
    assert sorted(path.name for path in tmp_path.glob("*.journal")) == names
    Journal(tmp_path, WALK).close()
    damage(tmp_path / names[1])
    with pytest.raises(InputError, match=message):
        Journal(tmp_path, WALK)


def test_long_records_and_heads_are_found_at_the_ends(tmp_path):
    identity = Identity("model-1", tuple(f"channel {i}" for i in range(20_000)), {})
    for _ in range(3):
        with Journal(tmp_path, identity, segment_size=1) as journal:
            journal.append(Batch([Arrival(Steps(np.ones((40_000, 3))))]))
    with Journal(tmp_path, identity) as journal:
        assert len(journal.segments()) == journal.end == 3


HEAD_CHANGES = [
    ("format", "other"),
    ("version", "1"),
    ("version", None),
    ("journal", 3),
    ("model", ["model-1"]),
    ("channels", "xy"),
    ("channels", [1, 2]),
    ("options", []),
    ("options", {"hold": "long"}),
    ("options", {"hold": [5]}),
    ("more", 1),
]


@pytest.mark.parametrize(("name", "value"), HEAD_CHANGES)
def test_a_head_with_a_wrong_field_and_a_right_checksum_is_refused(tmp_path, name, value):
    filled(tmp_path, 1)
    (segment,) = tmp_path.glob("*.journal")
    content = segment.read_bytes()
    head = decode_frame(content)
    fields = json.loads(head.payload)
    for change in ({name: value}, None):
        changed = {k: v for k, v in fields.items() if k != name} | (change or {})
        if changed == fields:
            continue
        payload = json.dumps(changed).encode()
        segment.write_bytes(encode_frame(head.kind, 0, payload) + content[head.stop :])
        with pytest.raises(InputError) as caught:
            Journal(tmp_path, WALK)
        assert "\n" not in str(caught.value)
    for payload in (b"", b"{", b"[]", b"null", b"[" * 100_000):
        segment.write_bytes(encode_frame(head.kind, 0, payload) + content[head.stop :])
        with pytest.raises(InputError):
            Journal(tmp_path, WALK)


def test_a_record_that_is_none_with_a_right_checksum_is_refused_with_its_place(tmp_path):
    filled(tmp_path, 2)
    (segment,) = tmp_path.glob("*.journal")
    content = segment.read_bytes()
    for payload in (b"\1", b"\1\xff\0\0\0", b"\2\2\0\0\0{}", b"\x0b\0\0\0\0", b"\4\0\0\0\0"):
        segment.write_bytes(content + encode_frame(BATCH, 2, payload))
        with (
            Journal(tmp_path, WALK) as journal,
            pytest.raises(InputError, match=rf"{segment.name}, record 2: "),
        ):
            batches_of(journal)
    segment.write_bytes(content + encode_frame(3, 2, b""))
    with pytest.raises(InputError, match="has record 2 of kind 3 where 2 should be"):
        Journal(tmp_path, WALK)


def test_a_record_in_a_wrong_place_is_refused(tmp_path):
    filled(tmp_path, 2)
    (segment,) = tmp_path.glob("*.journal")
    with segment.open("ab") as file:
        file.write(encode_frame(BATCH, 1, encode_batch(batch(0))))
    with pytest.raises(InputError, match="has record 1 where 2 should be"):
        Journal(tmp_path, WALK)


@pytest.mark.parametrize(
    ("segment_size", "room"), [(10**6, 100), (10**6, 600), (10**6, 1500), (900, 100), (900, 600)]
)
def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(tmp_path, segment_size, room):
    """Whether it was a record that did not fit, or the head of a new segment."""
    payloads = filled(tmp_path, 2, segment_size=segment_size)
    size = max(file.stat().st_size for file in tmp_path.glob("*.journal"))
    lengths = [1 + i % 3 for i in range(18)]
    more = [batch(6 + sum(lengths[:i]), n) for i, n in enumerate(lengths)]
    with Journal(tmp_path, WALK, segment_size=segment_size) as journal:
        limit = size + room if segment_size > 900 else room
        n, said = fill_the_disk(lambda n: journal.append(more[n]), limit)
    assert re.search(r"cannot be read or written \(.*\); what the journal holds is kept", said)
    assert payloads_in(tmp_path) == [*payloads, *map(encode_batch, more[: n + 1])]


def test_journals_of_before_still_open(tmp_path):
    """Three segments as they were first written, and the beginning of a record."""
    for file in (Path(__file__).parents[2] / "live_journal_v1").iterdir():
        shutil.copy(file, tmp_path)
    with Journal(tmp_path, WALK) as journal:
        assert (journal.end, journal.cut) == (5, 426)
        journal.append(batch(15))
    assert payloads_in(tmp_path) == [encode_batch(batch(3 * i)) for i in range(6)]


# Version 1 as it was first written: what people have on their disks must always open.

FIRST_JOURNAL = (
    "q01MUm9YHS+mAAAAAQAAAAAAAAAAAAAAeyJmb3JtYXQiOiAibWxhdCBsaXZlIGpvdXJuYWwiLCAidmVyc2lvbiI6"
    "IDEsICJqb3VybmFsIjogIjAxMjM0NTY3ODlhYmNkZWYiLCAibW9kZWwiOiAibW9kZWwtMSIsICJjaGFubmVscyI6"
    "IFsieCIsICJ5Il0sICJvcHRpb25zIjogeyJtaXNzaW5nIjogImFic3RhaW4iLCAiaG9sZCI6IDV9fatNTFKkRDqZ"
    "FAEAAAIAAAAAAAAAAAAAAAEyAAAAAwEAAAACAAAABQAAAHJvdyAxAAAAAAAA+H8AAAAAAADwPwcAAAAAAAAAAAAA"
    "AAAA0D8CGAAAAHsic3RhdGUiOiAic2l0IiwgIm4iOiAyfQMAAAAABLYAAAACAAAALAAAAHsic3RhdGVzIjogWyJ3"
    "YWxrIiwgIiJdLCAid2h5IjogWyIiLCAiZmFyIl19AAAAAAAAAAABAAAAAAAAAAAAAQAAAAEAAwAAAAAAAADoPwAA"
    "AAAAAPh/AAAAAAAA+D8AAAAAAAD4PwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAIAAAADAAAA"
    "AAAAAAEAAAAAAAAAAAAAAAAA6D8AAAAAAADQPw=="
)


def test_the_first_version_still_opens(tmp_path):
    (tmp_path / f"steps-{0:016d}.journal").write_bytes(base64.b64decode(FIRST_JOURNAL))
    with Journal(tmp_path, WALK) as journal:
        assert journal.cut == 0
        (found,) = batches_of(journal)
    arrived, example, flushed = found.inputs
    assert arrived.position == "row 1"
    np.testing.assert_array_equal(arrived.steps.values, [[np.nan, 1.0]])
    assert arrived.steps.seq.tolist() == [7]
    assert arrived.steps.time.tolist() == [0.25]
    assert (example, flushed) == (Example("sit", 2), Flushed())
    assert found.predictions[0] == prediction(0)
    assert (found.predictions[1].state, found.predictions[1].why) == ("", "far")
    assert math.isnan(found.predictions[1].proba)


def test_a_later_version_is_refused(tmp_path):
    filled(tmp_path, 1)
    (segment,) = tmp_path.glob("*.journal")
    head = decode_frame(segment.read_bytes())
    later = head.payload.replace(b'"version": 1', b'"version": 2')
    segment.write_bytes(encode_frame(head.kind, 0, later))
    with pytest.raises(InputError, match="version 2, this mlat knows up to 1; upgrade"):
        Journal(tmp_path, WALK)


@pytest.mark.parametrize("what", ["cut", "deleted", "all deleted"])
def test_records_that_are_lost_at_the_end_are_counted(tmp_path, what):
    """A cut between two records looks like a journal that never went further."""
    filled(tmp_path, 6, segment_size=1 if what == "deleted" else 1 << 20)
    with Journal(tmp_path, WALK) as journal:
        assert (journal.end, journal.lost) == (6, 0)
        last = journal.segments()[-1]
    if what == "cut":
        content = last.read_bytes()
        last.write_bytes(content[: [*decode_frames(content, "", last=True)][4].stop])
    else:
        last.unlink()
    left = {"cut": 4, "deleted": 5, "all deleted": 0}[what]
    with Journal(tmp_path, WALK) as journal:
        assert (journal.end, journal.lost, journal.cut) == (left, 6 - left, 0)
    with Journal(tmp_path, WALK) as journal:
        assert journal.lost == 0  # it was said


@pytest.mark.parametrize("content", [b"", b"rubbish", bytes(24)])
def test_a_journal_of_before_knows_of_no_loss(tmp_path, content):
    filled(tmp_path, 3)
    (tmp_path / "reached").write_bytes(content)
    with Journal(tmp_path, WALK) as journal:
        assert (journal.end, journal.lost) == (3, 0)
