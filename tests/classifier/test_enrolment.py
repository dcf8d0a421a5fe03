"""Enrolment: what was learned stays, the references are new."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import mlat
from mlat import Stream, StreamClassifier
from mlat.base.errors import InputError
from mlat.classifier.experts import experts_with
from mlat.classifier.model_file import to_bytes
from mlat.metric.forest import Forest
from mlat.synthetic import rotating_states

SENSORS = {"n_channels": 4, "drift": 0.3, "noise": 0.3}
train = rotating_states(**SENSORS)
other = rotating_states(**SENSORS, mixture_state=1, runs_per_state=1, random_state=3)
again = rotating_states(**SENSORS, mixture_state=1, random_state=4)


@pytest.fixture(scope="module", params=["auto", "mlat", "euclidean"])
def learned(request):
    return StreamClassifier(8, metric=request.param, unknown_rate=0.05).fit(train)


def own_windows(new):
    """Those of the enrolled stream: the last ones."""
    return new.windows_.X[-len(mlat.sliding_windows(other, 8)) :]


def test_what_was_learned_stays_and_the_new_references_join(learned):
    before = to_bytes(learned)
    new = learned.enrol(other)
    assert to_bytes(learned) == before
    np.testing.assert_array_equal(own_windows(new), mlat.sliding_windows(other, 8).X)
    assert len(mlat.sliding_windows(other, 8)) < len(new.windows_)
    assert len(new.windows_) < len(learned.windows_) + len(mlat.sliding_windows(other, 8))
    np.testing.assert_array_equal(new.mean_, learned.mean_)
    for old, mine in zip(learned.experts_, new.experts_, strict=True):
        grown_again = isinstance(old.metric, Forest)
        assert (mine.metric is old.metric) != grown_again
        assert mine.view is old.view
        if grown_again:  # from all that the new model has
            seen = replace(mine.windows, values=mine.view(mine.steps))
            again = clone(old.metric).fit(seen.X, seen.y)
            np.testing.assert_array_equal(mine.metric.value_, again.value_)
    assert new.confidence_.calibration == learned.confidence_.calibration
    np.testing.assert_array_equal(
        new.confidence_.state_filter.transition, learned.confidence_.state_filter.transition
    )


def test_references_that_contradict_the_new_windows_go(learned):
    """The slow way: every pair of a new window and an old reference, one after the other."""
    new = learned.enrol(other)
    own = experts_with(learned.experts_, new.windows_)
    own = [e.take(np.arange(len(new.windows_))[-len(own_windows(new)) :]) for e in own]
    Z = [(e.embedded(), mine.embedded()) for e, mine in zip(learned.experts_, own, strict=True)]
    states, mine = learned.windows_.y, own[0].windows.y
    rows = range(0, len(mine), -(-len(mine) // 400))
    right, wrong = np.zeros(len(states)), np.zeros(len(states))
    for i in rows:
        apart = [np.linalg.norm(theirs - ours[i], axis=1)[None] for theirs, ours in Z]
        distance = learned.committee_.combine(apart)[0]
        same = states == mine[i]
        right += same & (distance < distance[~same].min())
        wrong += ~same & (distance < distance[same].min())
    gone = (wrong > right) & (wrong > 0.02 * len(rows))
    assert 0 < gone.sum() < len(gone)
    assert len(new.windows_) == (~gone).sum() + len(mine)
    np.testing.assert_array_equal(new.windows_.X[: (~gone).sum()], learned.windows_.X[~gone])


def test_it_is_saved_and_read(learned, tmp_path):
    new = learned.enrol(other)
    new.save(tmp_path / "new.mlat")
    back = mlat.load(tmp_path / "new.mlat")
    np.testing.assert_array_equal(back.predict(again), new.predict(again))
    np.testing.assert_array_equal(
        back.predict_proba(again, filtered=True), new.predict_proba(again, filtered=True)
    )
    assert len(back.windows_) == len(new.windows_)


def test_enrolling_the_training_stream_changes_no_prediction(learned):
    same = learned.enrol(train).predict(again) == learned.predict(again)
    assert same.all() or (learned.metric == "auto" and same.mean() > 0.9)  # forests are grown again


def test_it_knows_the_new_sensors_better_than_the_old_model(learned):
    assert learned.enrol(other).score(again) > learned.score(again)


def test_copies_are_enrolled_once(learned):
    with pytest.warns(UserWarning, match="labelled steps are copies of earlier ones"):
        twice = learned.enrol(Stream.join([other, other]))
    once = learned.enrol(other)
    assert len(twice.windows_) == len(once.windows_)
    assert twice.confidence_.threshold == once.confidence_.threshold


def test_a_live_session_of_it():
    new = StreamClassifier(8, metric="euclidean").fit(train).enrol(other)
    live = new.live()
    told = [p.state for row in again.values[:40] for p in live.push(row)]
    assert told == new.predict(again)[:40].tolist()


def test_states_that_the_stream_lacks_are_still_predicted_and_new_ones_are_added():
    clf = StreamClassifier(8, metric="euclidean").fit(train)
    one = other.with_states(np.where(other.states == "fast", "fast", ""))
    some = clf.enrol(one)
    assert some.classes_.tolist() == clf.classes_.tolist()
    fast = again.states == "fast"
    assert (some.predict(again)[fast] == "fast").mean() > (
        clf.predict(again)[fast] == "fast"
    ).mean()
    named = clf.enrol(other.values, np.where(other.states == "fast", "slow", other.states))
    assert set(named.classes_) == {*clf.classes_, "slow"}
    assert np.isfinite(named.predict_proba(again, filtered=True)[20:]).all()


def test_what_cannot_be_enrolled():
    clf = StreamClassifier(8, metric="euclidean").fit(train)
    with pytest.raises(InputError, match="X has 2 features"):
        clf.enrol(other.values[:, :2], other.states)
    with pytest.raises(InputError, match="which are names"):
        clf.enrol(other.values, np.ones(len(other), int))
    with pytest.raises(InputError, match="has no states"):
        clf.enrol(other.with_states([""] * len(other)))
    with pytest.raises(InputError, match="y is None"):
        clf.enrol(other.values)
    with pytest.raises(ValueError, match="not fitted"):
        StreamClassifier().enrol(other)


def test_several_recordings_and_frames():
    import polars as pl

    clf = StreamClassifier(8, metric="euclidean").fit(train)
    parts = [other[:150], other[150:]]
    joined = clf.enrol(parts)
    assert len(joined.windows_) == len(clf.enrol(Stream.join(parts)).windows_)
    frame = pl.DataFrame(
        {"note": [0.5] * len(other), **dict(zip(other.channels, other.values.T, strict=True))}
    )
    with pytest.warns(UserWarning, match="ignored"):
        of_frame = clf.enrol(frame, other.states)
    np.testing.assert_array_equal(of_frame.windows_.X, clf.enrol(other).windows_.X)
