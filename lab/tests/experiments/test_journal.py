"""The journal: torn lines, noise, a full disk, two runs at once."""

import json
import re
from pathlib import Path

import pytest

from full_disk import fill_the_disk
from imitations import compute, experiment, timeless
from mlat.base.errors import DiskError
from mlat_lab.experiments.journal import Journal, read_results

BEFORE = Path(__file__).parent / "journal_v1.jsonl"


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


def test_a_full_disk_is_said_in_one_line_and_what_is_there_stays(tmp_path):
    path, line = tmp_path / "journal.jsonl", json.loads(BEFORE.read_text().splitlines()[0])
    with Journal(path) as journal:
        n, said = fill_the_disk(lambda n: journal.add({**line, "run": n}), 1500)
    assert re.search(r"cannot be read or written \(.*stays", said)
    assert [result["run"] for result in read_results(path).values()] == list(range(n + 1))
    assert path.read_bytes().count(b"\n") == n + 1


def test_a_journal_of_before_with_torn_lines_goes_on(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(BEFORE.read_bytes())
    for n in (3, 4):
        with Journal(path) as journal:
            assert [job.run for job, _ in journal.results] == list(range(n))
            journal.add({**next(iter(journal.results.values())), "run": n})
    assert len(read_results(path)) == 5


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
