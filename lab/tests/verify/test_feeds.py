"""Lessons that were answered are in the journal, each once and in order."""

from __future__ import annotations

import random

import pytest

from mlat.live.journal.description import BrokenError, JournalContents
from mlat_lab.verify.feeds import Lessons, free_port

SENT = [("a", 1, True), ("b", 2, False), ("a", 3, True), ("b", 4, True)]


def kept(*lessons: tuple[str, int]) -> JournalContents:
    inputs = [(i, "teach", {"state": state, "n": n}) for i, (state, n) in enumerate(lessons)]
    return JournalContents(inputs=inputs)


@pytest.fixture
def lessons() -> Lessons:
    made = Lessons(["a", "b"], free_port(), random.Random(0))
    made.sent = SENT
    return made


def test_one_that_was_not_answered_may_be_there_or_not(lessons):
    whole = [(state, n) for state, n, _ in SENT]
    assert lessons.check(kept(*whole)).startswith("4 lessons, among them all 3 that were answered")
    assert lessons.check(kept(*whole[:1], *whole[2:])).startswith("3 lessons")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([("a", 1), ("b", 4)], "3 windows of 'a' was answered and is lost"),
        ([("a", 1), ("a", 3)], "4 windows of 'b' was answered and is lost"),
        ([("a", 3), ("a", 1), ("b", 4)], "1 windows of 'a' was answered and is lost"),
        ([("a", 1), ("a", 3), ("b", 4), ("b", 4)], "is there twice"),
        ([("a", 1), ("b", 2), ("b", 2), ("a", 3), ("b", 4)], "is lost"),
    ],
)
def test_a_lost_or_doubled_one_is_found(lessons, found, why):
    with pytest.raises(BrokenError, match=why):
        lessons.check(kept(*found))
