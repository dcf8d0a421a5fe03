"""The log: whatever happens to its last line, all before it is there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from full_disk import fill_the_disk
from mlat import InputError
from mlat.base.errors import DiskError
from mlat.label.session import EditLog

HEAD = {"format": "mlat label log", "version": 1}
values = st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@settings(max_examples=25)
@given(st.lists(st.dictionaries(st.text("ab"), values), min_size=1, max_size=5), st.data())
def test_a_log_that_breaks_off_anywhere_keeps_all_whole_records(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("log") / "x.log"
    log = EditLog(path, HEAD)
    ends = []
    for record in records:
        log.append(record)
        ends.append(path.stat().st_size)
    log.close()
    whole = path.read_bytes()
    ends.insert(0, whole.index(b"\n") + 1)
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    log = EditLog(path, HEAD)
    kept = sum(end <= size for end in ends)
    assert log.head == HEAD
    assert log.records == records[: max(0, kept - 1)]
    assert log.cut == (size - max((end for end in ends if end <= size), default=0))
    log.append({"more": 1})
    log.close()
    again = EditLog(path, HEAD)
    assert again.records == [*records[: max(0, kept - 1)], {"more": 1}]
    again.close()


@pytest.mark.parametrize("line", [0, 1, 2])
def test_damage_before_the_end_is_found_and_nothing_is_cut(tmp_path, line):
    path = tmp_path / "x.log"
    log = EditLog(path, HEAD)
    for n in range(3):
        log.append({"n": n})
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    for spoilt in (
        [*lines[:line], lines[line].replace(b'"', b"'", 1), *lines[line + 1 :]],
        [*lines[:line], *lines[line + 1 :]],  # a line is gone
    ):
        content = b"".join(spoilt)
        path.write_bytes(content)
        with pytest.raises(InputError, match="damaged in line"):
            EditLog(path, HEAD)
        assert path.read_bytes() == content


def test_a_byte_that_changed_anywhere_is_found_and_nothing_is_cut(tmp_path):
    """In the last line, too: it was acknowledged, and is not taken for an unfinished one."""
    path = tmp_path / "x.log"
    log = EditLog(path, HEAD)
    for n in range(2):
        log.append({"n": n})
    log.close()
    whole = path.read_bytes()
    for i in range(len(whole)):
        for bit in (1, 16):
            spoilt = whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :]
            path.write_bytes(spoilt)
            with pytest.raises(InputError, match="is damaged in line"):
                EditLog(path, HEAD)
            assert path.read_bytes() == spoilt


@pytest.mark.parametrize(
    "content", [b"x", b"my notes", b"deadbeef ", b"notes of mine, without an end", b"a\nb\n"]
)
def test_another_file_is_left_alone(tmp_path, content):
    path = tmp_path / "x.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"no log of labels|damaged in line 1"):
        EditLog(path, HEAD)
    assert path.read_bytes() == content


def test_only_one_process_has_it_open(tmp_path):
    log = EditLog(tmp_path / "x.log", HEAD)
    with pytest.raises(DiskError, match="in use"):
        EditLog(tmp_path / "x.log", HEAD)
    log.close()


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(tmp_path):
    path = tmp_path / "x.log"
    log = EditLog(path, HEAD)
    n, said = fill_the_disk(lambda n: log.append({"n": n, "text": "x" * 30}), 400)
    log.close()
    assert n > 2
    assert "x.log" in said
    assert "make room" in said
    log = EditLog(path, HEAD)
    assert (log.cut, [record["n"] for record in log.records]) == (0, list(range(n + 1)))
    log.close()
