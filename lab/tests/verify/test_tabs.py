"""What was acknowledged of two tabs is there, and only what was not answered may be missing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mlat.live.journal.verify import BrokenError
from mlat_lab.verify.tabs import Tabs

A, B = (10, 20, "walk"), (60, 70, "run")


@pytest.fixture
def tabs(tmp_path):
    """Of them ``A`` was acknowledged; ``found`` is what the program has."""
    made = Tabs(tmp_path / "walk.csv", 100, random.Random(0), [], 0.0)
    made._note([A], [{"version": 1}], False)
    made._labels = lambda port: made._of_spans(made.found)
    return made


def test_what_was_not_answered_may_be_there_or_not(tabs):
    for found in ([A], [A, B]):
        tabs.found = found
        tabs._settle(0, [B])
        assert tabs._now[60] == ("run" if len(found) > 1 else "")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "steps 10 to 19 are '', and should be 'walk'"),
        ([(10, 19, "walk")], "step"),
        ([A, B], "steps 60 to 69 are 'run', and should be ''"),
        ([A, (15, 30, "run")], "labels overlap at step 15"),
    ],
)
def test_what_is_lost_or_was_never_sent_is_found(tabs, found, why):
    tabs.found = found
    with pytest.raises(BrokenError, match=why):
        tabs._settle(0, [])


def test_edits_are_made_in_the_order_of_their_versions(tabs):
    tabs._note([(10, 20, "run"), (10, 20, "sit")], [{"version": 3}, {"version": 2}], False)
    assert set(tabs._now[10:20]) == {"run"}
    assert [set(before[10:20]) for before in tabs._done] == [{""}, {"walk"}, {"sit"}]


def test_a_refusal_is_wrong_unless_the_disk_is_full(tabs):
    refused = [{"error": "all edits before it are kept; make room, and do the last one again"}]
    tabs._note([B], refused, True)
    assert not (tabs._now == "run").any()
    with pytest.raises(BrokenError, match="was refused"):
        tabs._note([B], refused, False)


def test_a_table_that_is_not_what_was_labelled_is_found(tabs):
    tabs._table.write_text("start,end,state\n10,20,walk\n")
    tabs._check_table()
    tabs._table.write_text("start,end,state\n10,21,walk\n")
    with pytest.raises(BrokenError, match="not what was labelled"):
        tabs._check_table()
    assert np.count_nonzero(tabs._now == "walk") == 10
