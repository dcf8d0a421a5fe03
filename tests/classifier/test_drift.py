"""Drift: channels outside what the references cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import StreamClassifier
from mlat.classifier.drift import MARGIN, DriftWatch
from mlat.classifier.empty import empty_classifier
from mlat.synthetic import rotating_states

train, again = rotating_states(random_state=0), rotating_states(random_state=1)


@pytest.fixture(scope="module")
def clf():
    return StreamClassifier(8, metric="euclidean").fit(train)


def watched(clf, values, at=()):
    watch = DriftWatch(clf)
    for part in np.split(values, at):
        watch.push(part)
    return watch.found()


def test_a_stream_like_that_of_training_has_none(clf):
    assert watched(clf, train.values) == []
    assert watched(clf, again.values) == []


def test_a_channel_that_moved_is_named_with_how_far_and_since_when(clf):
    values = again.values.copy()
    values[200:, 1] += 4 * clf.scale_[1]
    (found,) = watched(clf, values)
    assert found.channel == clf.channels_[1]
    assert 4 - 2 * MARGIN < found.by < 4
    assert 192 <= found.since <= 200
    assert found.share == pytest.approx(1 - 200 / len(values), abs=0.05)
    assert "higher than in training" in str(found)
    values[200:, 1] -= 8 * clf.scale_[1]
    assert watched(clf, values)[0].by < -MARGIN


def test_it_does_not_depend_on_missing_values_and_a_moment_is_none(clf):
    values = again.values.copy()
    values[::7] = np.nan
    assert watched(clf, values) == []
    values[100:116] += 50 * clf.scale_
    assert watched(clf, values) == []


@given(st.lists(st.integers(0, len(again)), max_size=6))
def test_any_chunking_finds_the_same(clf, at):
    values = again.values + 3 * clf.scale_
    chunks, whole = watched(clf, values, sorted(at)), watched(clf, values)
    assert [one._replace(by=0.0) for one in chunks] == [one._replace(by=0.0) for one in whole]
    assert [one.by for one in chunks] == pytest.approx([one.by for one in whole])


def test_a_model_without_references_covers_everything():
    assert watched(empty_classifier(2), np.full((100, 2), 1e6)) == []
