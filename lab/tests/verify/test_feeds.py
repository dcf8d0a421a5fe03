"""Examples that were answered are in the journal, each once and in order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mlat.base.checks import Floats
from mlat.live.core.steps import Steps
from mlat.live.journal.records import Example, Input, Undone
from mlat.live.journal.verify import BrokenError
from mlat.live.sources.source import Arrival
from mlat_lab.verify.feeds import Teacher, as_it_came, free_port

SENT = [("a", 1, True), ("b", 2, False), ("a", 3, True), ("b", 4, True)]


def kept(*examples: tuple[str, int]) -> list[Input]:
    return [Example(*one) for one in examples]


@pytest.fixture
def teacher() -> Teacher:
    made = Teacher(["a", "b"], free_port(), random.Random(0))
    made.sent = SENT
    return made


def test_one_that_was_not_answered_may_be_there_or_not(teacher):
    whole = [(state, n) for state, n, _ in SENT]
    assert teacher.check(kept(*whole)).startswith("4 examples, among them all 3 that were answered")
    assert teacher.check(kept(*whole[:1], *whole[2:])).startswith("3 examples")


def test_one_that_was_not_answered_is_not_taken_for_an_equal_one_later(teacher):
    teacher.sent = [("a", 1, False), ("b", 2, False), ("a", 1, True), ("b", 2, True)]
    assert teacher.check(kept(("a", 1), ("b", 2))).startswith("2 examples, among them all 2")
    with pytest.raises(BrokenError, match="2 windows of 'b' were answered and are lost"):
        teacher.check(kept(("a", 1), ("a", 1)))


def test_each_of_two_teachers_has_its_own_examples():
    first, second = (
        Teacher([state], free_port(), random.Random(0), undoes=state == "a") for state in "ab"
    )
    first.sent, second.sent = [("a", 1, True), ("(undo)", 0, True)], [("b", 2, True)]
    both = [Example("b", 2), Example("a", 1), Undone()]
    assert first.check(both).startswith("2 examples")
    assert second.check(both).startswith("1 examples")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([("a", 1), ("b", 4)], "3 windows of 'a' were answered and are lost"),
        ([("a", 1), ("a", 3)], "4 windows of 'b' were answered and are lost"),
        ([("a", 3), ("a", 1), ("b", 4)], "1 windows of 'a' were answered and are lost"),
        ([("a", 1), ("a", 3), ("b", 4), ("b", 4)], "is there twice"),
        ([("a", 1), ("b", 2), ("b", 2), ("a", 3), ("b", 4)], "are lost"),
    ],
)
def test_a_lost_or_doubled_one_is_found(teacher, found, why):
    with pytest.raises(BrokenError, match=why):
        teacher.check(kept(*found))


def test_a_step_that_a_broker_sends_early_is_told_from_one_that_is_lost_or_doubled():
    recording = Steps(np.random.default_rng(0).normal(size=(8, 2)))

    def sent(values: Floats) -> list[Input]:
        return [Arrival(Steps(values), "8")]

    for came, early in (([0, 1, 2, 3, 4, 5, 6, 7], 0), ([0, 6, 7, 1, 2, 3, 4, 5], 2)):
        found, n = as_it_came(recording, sent(recording.values[came]))
        assert (found.values == recording.values[came]).all()
        assert n == early
    changed = recording.values.copy()
    changed[3, 1] += 1e-12
    for wrong in (recording.values[:7], recording.values[[0, 0, *range(1, 7)]], changed):
        assert as_it_came(recording, sent(wrong)) == (recording, 0)
