"""Enrolment: what was learned stays, the references are new."""

import numpy as np
import pytest

import mlat
from mlat import Stream, StreamClassifier
from mlat.base.errors import InputError
from mlat.classifier.model_file import to_bytes
from mlat.synthetic import rotating_states

SENSORS = {"n_channels": 4, "drift": 0.3, "noise": 0.3}
train = rotating_states(**SENSORS)
other = rotating_states(**SENSORS, mixture_state=1, runs_per_state=1, random_state=3)
again = rotating_states(**SENSORS, mixture_state=1, random_state=4)


@pytest.fixture(scope="module", params=["auto", "mlat", "euclidean"])
def learned(request):
    return StreamClassifier(8, metric=request.param, unknown_rate=0.05).fit(train)


def test_what_was_learned_stays_and_the_references_are_new(learned):
    before = to_bytes(learned)
    new = learned.enrol(other)
    assert to_bytes(learned) == before
    assert len(new.windows_) == len(mlat.sliding_windows(other, 8))
    np.testing.assert_array_equal(new.windows_.X, mlat.sliding_windows(other, 8).X)
    np.testing.assert_array_equal(new.mean_, learned.mean_)
    for old, mine in zip(learned.experts_, new.experts_, strict=True):
        assert mine.metric is old.metric
        assert mine.view is old.view
    assert new.confidence_.calibration == learned.confidence_.calibration
    assert new.confidence_.farthest != learned.confidence_.farthest
    np.testing.assert_array_equal(
        new.confidence_.state_filter.transition, learned.confidence_.state_filter.transition
    )


def test_distances_are_to_the_new_references_under_the_old_metric(learned):
    """The slow way: each expert's own map of every window, and the nearest of each state."""
    new = learned.enrol(other)
    features = new.features_(again)
    found = []
    for expert in learned.experts_:
        width = expert.windows.width
        references = mlat.sliding_windows(other, 8)
        plain = learned.features_.of_runs(references)
        ends = references.start + 8
        seen = expert.view(plain)
        Z = expert.embed(np.stack([seen[end - width : end] for end in ends]))
        z = expert.embed(expert.view(features)[None, 60 - width : 60])
        d = np.linalg.norm(Z - z, axis=1)
        found.append([d[references.y == state].min() for state in new.classes_])
    expected = new.committee_.combine(np.array(found)[:, None])[0]
    np.testing.assert_allclose(new.class_distances(again)[59], expected, rtol=1e-6)


def test_it_is_saved_and_read(learned, tmp_path):
    new = learned.enrol(other)
    new.save(tmp_path / "new.mlat")
    back = mlat.load(tmp_path / "new.mlat")
    np.testing.assert_array_equal(back.predict(again), new.predict(again))
    np.testing.assert_array_equal(
        back.predict_proba(again, filtered=True), new.predict_proba(again, filtered=True)
    )
    twice = back.enrol(other)
    np.testing.assert_array_equal(twice.predict(again), new.predict(again))


def test_enrolling_the_training_stream_changes_no_prediction(learned):
    np.testing.assert_array_equal(learned.enrol(train).predict(again), learned.predict(again))


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


def test_other_states():
    clf = StreamClassifier(8, metric="euclidean").fit(train)
    some = other.states.copy()
    some[some == "fast"] = ""
    with pytest.warns(UserWarning, match="no window of fast"):
        fewer = clf.enrol(other.with_states(some))
    assert "fast" not in fewer.classes_
    assert fewer.predict_proba(again, filtered=True)[20:].sum(axis=1) == pytest.approx(1.0)
    renamed = np.where(other.states == "fast", "slow", other.states)
    with pytest.warns(UserWarning, match="no window of fast"):
        named = clf.enrol(other.values, renamed)
    assert "slow" in named.classes_
    assert np.isfinite(named.predict_proba(again, filtered=True)[20:]).all()


def test_what_cannot_be_enrolled():
    clf = StreamClassifier(8, metric="euclidean").fit(train)
    with pytest.raises(InputError, match="X has 2 features"):
        clf.enrol(other.values[:, :2], other.states)
    with pytest.raises(InputError, match="which are names"):
        clf.enrol(other.values, np.ones(len(other), int))
    with pytest.raises(InputError, match="label at least two states"):
        clf.enrol(other.with_states(["fast"] * len(other)))
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
