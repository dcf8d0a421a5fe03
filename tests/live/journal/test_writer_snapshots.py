"""Snapshots are written whole, and damaged ones are passed over."""

from __future__ import annotations

import base64
import struct

import pytest

from mlat.base.append_log import encode_frame
from mlat.base.errors import InputError
from mlat.live.journal.records import SNAPSHOT
from mlat.live.journal.writer import Snapshot, Snapshots, read_snapshot

# Version 1 as it was first written: what people have on their disks must always open.
FIRST_SNAPSHOT = (
    "q01MUt/8jyoyAAAAAwAAAAEAAAAAAAAAIwAAAHsidmVyc2lvbiI6IDEsICJwb3NpdGlvbiI6ICJyb3cgMSJ9dGhl"
    "IHNlc3Npb24="
)


def test_the_first_version_still_opens(tmp_path):
    (tmp_path / "a.snapshot").write_bytes(base64.b64decode(FIRST_SNAPSHOT))
    assert read_snapshot(tmp_path / "a.snapshot") == Snapshot(1, "row 1", b"the session")


def test_the_newest_that_opens_is_taken_and_three_are_kept(tmp_path):
    snapshots = Snapshots(tmp_path)
    assert list(snapshots.read()) == []
    for record in range(5):
        snapshots.write(Snapshot(record, f"row {record}", bytes([record]) * 50))
    assert [s.record for s in snapshots.read()] == [4, 3, 2]
    assert snapshots.oldest_record() == 2
    newest = tmp_path / f"state-{4:016d}.snapshot"
    content = newest.read_bytes()
    for broken in (b"", content[:-1], content + b"\0", b"\0" * len(content)):
        newest.write_bytes(broken)
        assert next(iter(snapshots.read())) == Snapshot(3, "row 3", b"\3" * 50)


def test_what_a_crash_left_of_a_snapshot_is_removed(tmp_path):
    snapshots = Snapshots(tmp_path)
    path = snapshots.write(Snapshot(0, "", b"state"))
    (tmp_path / ".0123456789ab.snapshot").write_bytes(b"half")
    snapshots.tidy()
    assert list(tmp_path.iterdir()) == [path]


def test_a_snapshot_with_a_wrong_head_and_a_right_checksum_counts_as_damaged(tmp_path):
    path = tmp_path / "a.snapshot"
    heads = [b"", b"{", b"[]", b'{"version": 1}', b'{"position": ""}', b"[" * 100_000]
    heads += [b'{"version": "1", "position": ""}', b'{"version": 1, "position": 3}']
    for head in heads:
        path.write_bytes(encode_frame(SNAPSHOT, 1, struct.pack("<I", len(head)) + head))
        assert read_snapshot(path) is None
    for payload in (b"", b"\1", b"\xff\xff\xff\xff{}"):
        path.write_bytes(encode_frame(SNAPSHOT, 1, payload))
        assert read_snapshot(path) is None
    later = b'{"version": 2}'
    path.write_bytes(encode_frame(SNAPSHOT, 1, struct.pack("<I", len(later)) + later))
    with pytest.raises(InputError, match="version 2, this mlat knows up to 1; upgrade"):
        read_snapshot(path)
