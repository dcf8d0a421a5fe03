"""The journal: torn lines, noise, a full disk, two runs at once."""

import errno

import pytest

from imitations import compute, experiment, slow_experiment, timeless
from mlat.base.errors import DiskError
from mlat_lab.experiments.journal import Journal, read_results


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    return compute(experiment(), folder)[0], folder


@pytest.mark.parametrize("cut", [1, 30, 400])
def test_a_torn_last_line_is_done_again(computed, tmp_path, cut):
    results, folder = computed
    content = (folder / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(content[:-cut])
    lost = content[-cut:].count(b"\n")
    again, done = compute(experiment(), tmp_path)
    assert timeless(again) == timeless(results)
    # Cutting only the line end tears nothing but that: the line itself is whole.
    assert len(done) == (0 if cut == 1 else lost)
    again, done = compute(experiment(), tmp_path)
    assert done == []


def test_lines_that_are_no_results_are_passed_over(computed, tmp_path):
    results, folder = computed
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    noise = [b"\n", b"null\n", b"[1, 2]\n", b'{"data_set": "one"}\n', b"\xff\x00\n"]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines[:5] + noise + lines[5:]))
    again, done = compute(experiment(), tmp_path)
    assert again == results
    assert done == []


def test_two_runs_do_not_write_to_one_journal(tmp_path):
    pytest.importorskip("fcntl")
    with (
        Journal(tmp_path / "journal.jsonl"),
        pytest.raises(DiskError, match="in use by another run"),
    ):
        Journal(tmp_path / "journal.jsonl")


def test_a_full_disk_is_said_in_one_line_and_what_is_there_stays(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    first = next(iter(compute(slow_experiment(), tmp_path, n_runs=1)[0]))
    before = (tmp_path / "journal.jsonl").read_bytes()
    with Journal(tmp_path / "journal.jsonl") as journal:
        monkeypatch.setattr("mlat_lab.experiments.journal.flush_to_disk", full)
        with pytest.raises(DiskError, match=r"No space left on device.*stays"):
            journal.add(first)
    assert (tmp_path / "journal.jsonl").read_bytes().startswith(before)


def test_a_journal_is_read_while_a_run_writes_to_it(computed, tmp_path):
    results, _ = computed
    path = tmp_path / "journal.jsonl"
    assert read_results(path) == {}
    assert not path.exists()
    with Journal(path) as journal:
        journal.add(results[0])
        assert list(read_results(path).values()) == results[:1]
    with open(path, "ab") as file:
        file.write(b'{"data_set": "on')
    assert len(read_results(path)) == 1
    with pytest.raises(DiskError, match="cannot be read"):
        read_results(tmp_path)
