"""Files that only grow: one process, whole entries, nothing left of what failed."""

import os
import threading

import pytest

from full_disk import fill_the_disk
from mlat.base.append_log import AppendLog
from mlat.base.errors import DiskError


def test_only_one_has_it_open_and_it_is_removed_if_it_is_empty(tmp_path):
    first = AppendLog(tmp_path / "lock", in_use="it is in use", then="")
    for _ in range(2):
        with pytest.raises(DiskError, match="it is in use"):
            AppendLog(tmp_path / "lock", in_use="it is in use", then="")
        assert (tmp_path / "lock").exists()
    first.close()
    first.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(DiskError, match=r"none/lock cannot be read or written \(No such file"):
        AppendLog(tmp_path / "none" / "lock", then="")


def test_many_that_open_and_close_it_are_never_two_at_once(tmp_path):
    """An empty file is removed on closing: the next must not lock what is gone."""
    inside, most, opened = [], [], []

    def work():
        for _ in range(200):
            try:
                with AppendLog(tmp_path / "lock", in_use="in use", then=""):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
                    opened.append(1)
            except DiskError:
                continue

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) > 20
    assert max(most) == 1


def test_what_reading_leaves_is_cut_and_what_it_refuses_stays(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"whole half")
    with AppendLog(path, lambda content: 6, then="") as log:
        assert (log.size, log.cut) == (6, 4)
        log.write(b"again")
    assert path.read_bytes() == b"whole again"

    def refuse(content):
        raise DiskError("not mine")

    with pytest.raises(DiskError, match="not mine"):
        AppendLog(path, refuse, then="")
    assert path.read_bytes() == b"whole again"


def test_of_a_write_that_fails_nothing_is_left(tmp_path):
    with AppendLog(tmp_path / "log", then="make room") as log:
        n, said = fill_the_disk(lambda n: log.write(b"%09d\n" % n), 95)
    assert n == 9
    assert "make room" in said
    assert (tmp_path / "log").read_bytes() == b"".join(b"%09d\n" % i for i in range(10))


def test_where_a_part_cannot_be_taken_away_nothing_is_written_after_it(tmp_path, monkeypatch):
    def fail(*_args):
        raise OSError(5, "Input/output error")

    log = AppendLog(tmp_path / "log", then="")
    log.write(b"one")
    monkeypatch.setattr(os, "ftruncate", fail)
    monkeypatch.setattr("mlat.base.append_log.flush_to_disk", fail)
    with pytest.raises(DiskError, match="Input/output error"):
        log.write(b"two")
    with pytest.raises(DiskError, match="is closed after an error"):
        log.write(b"three")
