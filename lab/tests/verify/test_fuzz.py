"""A short run of the fuzzer; `python -m mlat_lab.verify fuzz` makes longer ones."""

import random

import numpy as np
import pytest

from mlat.base.errors import InputError
from mlat.live.core.session import LiveSession
from mlat_lab.verify import fuzz as fuzzing
from mlat_lab.verify.__main__ import main
from mlat_lab.verify.label_files import make_label_files
from mlat_lab.verify.recordings import make_recordings

LOG = ("label log", "forged")


def test_nothing_but_refusals_and_what_can_be_used():
    report = fuzzing.fuzz(2000, seed=13)
    assert report.failures == []
    assert report.cases == sum(report.outcomes.values()) == 2000
    kinds = {subject.split()[0] for subject, _, _ in report.outcomes}
    assert kinds == {"model", "snapshot", "segment"}
    for outcome in ("refused", "used"):
        assert sum(n for (_, _, what), n in report.outcomes.items() if what == outcome) > 100


@pytest.mark.parametrize("subject", fuzzing.make_subjects(), ids=lambda subject: subject.name)
def test_the_good_files_are_good(subject):
    subject.use(subject.content)


def test_what_is_wrong_is_found():
    """A reader that crashes, one that takes anything, and a message of two lines."""
    good = fuzzing.make_subjects()[0]

    def crash(content):
        raise KeyError("width")

    def take_anything(content):
        pass

    def say_two_lines(content):
        raise InputError("one\ntwo")

    for use in (crash, take_anything, say_two_lines):
        report = fuzzing.Report()
        subject = fuzzing.Subject(good.name, good.content, good.forge, use)
        for case in range(40):
            fuzzing._try_one([subject], case, 0, report)
        assert report.failures
        assert all("\n" not in failure for failure in report.failures)


def test_a_case_can_be_repeated():
    (model, *_) = fuzzing.make_subjects()
    for case in range(20):
        one, other = (model.forge(random.Random(f"0:{case}")) for _ in range(2))
        assert one == other


def test_a_header_that_lies_loses_steps_no_more():
    """With `reached` ten further and the bytes as they were, ten steps were lost in silence."""
    model = fuzzing.make_subjects()[0]
    clf = fuzzing.model_file.from_bytes(model.content, "m")
    live = LiveSession(clf, order_by="seq")
    live.push(np.zeros((5, 2)), seq=np.arange(5))
    good = live.snapshot()
    bad = good.replace(b'\\"reached\\": 4', b'\\"reached\\": 14')
    same_length = good.replace(b'\\"reached\\": 4', b'\\"reached\\": 9')
    assert bad != good != same_length
    for forged in (bad, same_length):
        with pytest.raises(InputError):
            live.restore(forged)


def test_the_command(capsys):
    assert main(["fuzz", "--cases", "60", "--seed", "3"]) == 0
    assert "verify: 60 cases" in capsys.readouterr().out


def test_damaged_recordings_are_refused_or_read(tmp_path):
    for package in ("h5py", "mne", "pyxdf"):  # the readers of some of the formats
        pytest.importorskip(package)
    subjects = make_recordings(tmp_path)
    for subject in subjects:
        subject.use(subject.content)
    report = fuzzing.fuzz(300, seed=5, subjects=subjects)
    assert report.failures == []


def test_forged_logs_and_damaged_tables_of_labels_are_refused_or_possible(tmp_path):
    subjects = make_label_files(tmp_path)
    for subject in subjects:
        subject.use(subject.content)
    report = fuzzing.fuzz(400, seed=5, subjects=subjects)
    assert report.failures == []
    forged = [n for (name, how, _), n in report.outcomes.items() if (name, how) == LOG]
    assert len(forged) == 2, "nothing was refused, or nothing used"


def test_a_text_in_a_table_that_is_not_utf_8_is_refused(tmp_path):
    """Arrow reads it, and fails only when Python asks for it."""
    table = next(one for one in make_label_files(tmp_path) if one.name.endswith(".parquet"))
    at = table.content.index("ü".encode())
    with pytest.raises(InputError, match=r"cannot be read as \.parquet"):
        table.use(table.content[:at] + b"\xc1" + table.content[at + 1 :])
