"""A live session's journal as a recording: its steps, and its predictions as proposals."""

import time

import numpy as np
import pytest

import mlat
from label_server import STATES, Labelling, states_stream
from mlat.base.disk import next_free
from mlat.label.learner import set_aside
from mlat.label.recording import Recording, is_journal, read_journal_recording
from mlat.label.span_list import Stretch
from mlat.live import Steps
from mlat.live.journal.journal import Identity, Journal
from mlat.live.journal.records import Batch
from mlat.live.sources.source import Arrival


def journal(folder, clf, stream, size=37):
    """What ``mlat live`` writes of a stream."""
    session = clf.live()
    with Journal(folder, Identity.of(session), segment_size=20_000) as kept:
        for first in range(0, len(stream), size):
            part = slice(first, first + size)
            steps = Steps(stream.values[part], time=stream.time[part])
            kept.append(Batch([Arrival(steps, str(first))], session.push(steps)))


@pytest.mark.slow
def test_the_circle(tmp_path):
    """A journal is opened, its predictions are proposals; learned again, the old model stays."""
    clf = mlat.StreamClassifier(25, metric="euclidean").fit(states_stream(1, seed=3))
    clf.save(tmp_path / "walk.mlat")
    stream = states_stream(2)
    journal(tmp_path / "journal", clf, stream)
    assert is_journal(tmp_path / "journal")
    assert not is_journal(tmp_path)
    recording = read_journal_recording(tmp_path / "journal")
    np.testing.assert_array_equal(recording.stream.values, stream.values)
    np.testing.assert_array_equal(recording.stream.time, stream.time)
    predicted = clf.predict(stream)
    assert recording.predicted.states.tolist() == predicted.tolist()
    assert round(recording.rate, 6) == 50
    model = tmp_path / "walk.mlat"
    kept = model.read_bytes()
    with Labelling(tmp_path, [recording], model=model) as served:
        learner = served.server.learner
        until(lambda: learner.proposed(0)[1])
        found = learner.proposed(0)[1]
        right = sum((stream.states[p.start : p.end] == p.state).sum() for p in found)
        assert right > 0.7 * len(stream)
        for k in range(6):
            served.session.label(0, 300 * k + 20, 300 * k + 280, STATES[k % 3])
        learner.compare()
        until(lambda: learner.comparison)
        both = learner.comparison
        assert "error" not in both, both
        assert both["old"]["steps"] == both["new"]["steps"] > 100
        assert both["new"]["balanced"] > 0.7
        assert set(both["new"]["recall"]) == set(both["tests"]) == set(STATES)
        assert both["untested"] == []
        new = learner.save(model)
        assert new.name == "walk-2.mlat"
        again = mlat.load(new)
        assert len(again.windows_) > len(clf.windows_)  # its references are among them
    assert model.read_bytes() == kept


def test_stretches_shorter_than_a_second_are_judged_by(tmp_path):
    """What is learned has windows that fit the runs, so must what judges it."""
    stream = states_stream(2)
    recording = Recording("walk.csv", mlat.Stream(stream.values, time=stream.time))
    with Labelling(tmp_path, [recording], width=None) as served:
        for k in range(6):
            served.session.label(0, 300 * k + 20, 300 * k + 60, STATES[k % 3])
        learner = served.server.learner
        learner.compare()
        until(lambda: learner.comparison)
        assert learner.comparison["untested"] == []
        assert learner.comparison["tests"] == dict.fromkeys(sorted(STATES), 1)


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def bouts_set_aside(spans, by_hand, width=3, apart=5):
    masks = [np.zeros(100, dtype=bool) for _ in spans]
    for mask, stretches in zip(masks, by_hand, strict=True):
        for start, end in stretches:
            mask[start:end] = True
    tests, rest = set_aside(spans, masks, width, apart)
    return [[tuple(p) for p in some] for some in tests], [[tuple(p) for p in some] for some in rest]


def test_bouts_set_aside_leave_every_state_something_to_learn_from():
    spans = [[Stretch(10 * k, 10 * k + 5, "ab"[k % 2]) for k in range(7)], [Stretch(0, 3, "c")]]
    tests, rest = bouts_set_aside(spans, [[(0, 70)], [(0, 3)]])
    assert {p[2] for some in tests for p in some} == {"a", "b"}
    assert {p[2] for some in rest for p in some} == {"a", "b", "c"}
    assert sorted(p for some in (*tests, *rest) for p in some) == sorted(
        p for some in spans for p in some
    )


def test_only_hand_labels_judge_and_whole_bouts_are_left_out():
    # The slivers beside a hand label were proposals; so was all of the second bout of "b".
    rows = [(0, 20, "a"), (20, 30, "b"), (30, 33, "a"), (33, 40, "a"), (40, 42, "a")]
    spans = [[Stretch(*row) for row in [*rows, (50, 60, "b"), (70, 80, "b")]]]
    tests, rest = bouts_set_aside(spans, [[(0, 30), (33, 40)]])
    assert tests == [[(33, 40, "a")]]
    assert rest == [[(0, 20, "a"), (20, 30, "b"), (50, 60, "b"), (70, 80, "b")]]
    assert bouts_set_aside(spans, [[(0, 30)]])[0] == [[]]  # a sliver is no second bout
    assert bouts_set_aside(spans, [[(0, 20), (70, 80), (50, 52)]])[0] == [[]]  # too short
    assert bouts_set_aside(spans, [[(50, 60), (70, 80)]], apart=10)[0] == [[]]  # one bout
    assert bouts_set_aside(spans, [[(50, 60), (70, 80)]], apart=9)[0] == [[(70, 80, "b")]]


def test_a_file_that_is_there_is_kept(tmp_path):
    path = tmp_path / "walk.mlat"
    assert next_free(path) == path
    path.touch()
    (tmp_path / "walk-2.mlat").touch()
    assert next_free(path).name == "walk-3.mlat"
