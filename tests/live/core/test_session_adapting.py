"""A session that follows the units of a new person."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_oracles import assert_as_batch, comparable, push_all
from live_runs import TRAIN, WIDTH, arrivals, run, same
from mlat import InputError, Stream, StreamClassifier
from mlat.classifier.intake import LEAST
from mlat.live import LiveSession
from mlat.live.journal.verify import check_journal
from mlat.synthetic import rotating_states


def person(seed, **sizes):
    """Somebody whose sensors have levels and scales of their own."""
    stream = rotating_states(n_channels=3, noise=0.3, run_length=30, random_state=seed, **sizes)
    rng = np.random.default_rng(1000 + seed)
    return stream.with_values(stream.values * np.exp(rng.normal(size=3)) + rng.normal(size=3))


PEOPLE = [person(seed) for seed in range(4)]
CLF = StreamClassifier(WIDTH, metric="euclidean").fit(PEOPLE, groups=["ann", "bob", "cy", "dee"])
NEW = person(8, runs_per_state=20)
SOME = NEW.values[:150].copy()
SOME[40, 1] = np.nan


def converted(values, steps):
    """The slow way: each step by the mean and the variance of those before and itself."""
    common, rate = CLF.units_, 1 / steps
    mean, variance, result = np.zeros(3), np.ones(3), values.astype(float)
    for step in result:
        if not np.isnan(step).any():
            own = (step - common.mean) / common.scale
            away = own - mean
            mean = mean + rate * away
            variance = (1 - rate) * (variance + rate * away * away)
            own = (own - mean) / np.sqrt(np.maximum(variance, LEAST))
            step[:] = own * common.scale + common.mean
    return result


def usual_rounds(clf):
    """Four of the usual runs of each state."""
    runs = [np.ptp(clf.windows_.start[rows]) + WIDTH for _, rows in clf.windows_.by_run()]
    return 4 * len(clf.classes_) * float(np.median(runs))


@settings(max_examples=20)
@given(st.lists(st.integers(1, 40), max_size=4))
@pytest.mark.filterwarnings("ignore:this model was learned from several groups")
def test_it_is_predict_on_a_stream_in_common_units_for_any_chunking(sizes):
    assert CLF.units_ is not None
    live = CLF.live(search="exact", far=None)
    assert live.model.options.adapt == "auto"
    assert_as_batch(CLF, push_all(live, SOME, sizes), converted(SOME, usual_rounds(CLF)))


def test_it_becomes_right_and_goes_back():
    before = np.mean([p.state for p in CLF.live(adapt="off").push(NEW.values)] == NEW.states)
    live = CLF.live()
    told = np.array([p.state for p in live.push(NEW.values)])
    half = len(NEW) // 2
    assert (told[half:] == NEW.states[half:]).mean() > before + 0.1
    seen = live.units
    assert seen.adapted
    np.testing.assert_allclose(seen.mean, NEW.values.mean(axis=0), atol=0.5)
    live.push(3 * NEW.values + 5)  # strapped on anew
    moved = live.units
    live.push(NEW.values)
    assert (np.abs(live.units.mean - seen.mean) < 0.2 * np.abs(moved.mean - seen.mean)).all()


def test_a_snapshot_goes_on_alike():
    whole = comparable(CLF.live().push(SOME))
    live = CLF.live()
    live.push(SOME[:70])
    again = CLF.live()
    again.restore(live.snapshot())
    assert comparable(again.push(SOME[70:])) == whole[70:]
    with pytest.raises(InputError, match="adapt='auto', this session has adapt='off'"):
        CLF.live(adapt="off").restore(live.snapshot())


def test_a_journal_has_what_was_followed(tmp_path):
    never_stopped = CLF.live().push(SOME)
    run(arrivals([20] * 4, SOME[:80]), tmp_path, clf=CLF)
    _, told = run(arrivals([20] * 8, SOME), tmp_path, clf=CLF)
    assert same(told, never_stopped[80:])
    found = check_journal(tmp_path, CLF, None)
    assert "all equal those of a session that never stopped" in found
    assert "not compared with predict: adapt=auto" in found
    with pytest.raises(InputError, match="begun with adapt=auto, now it is off"):
        run([], tmp_path, clf=CLF, adapt="off")


@pytest.mark.filterwarnings("ignore:this model was learned from several groups")
def test_it_is_off_where_there_is_nothing_to_follow_or_nobody_wants_it():
    plain = StreamClassifier(WIDTH, metric="euclidean").fit(TRAIN)
    for clf, options in ((CLF, {"adapt": "off"}), (CLF.adapt(NEW), {}), (plain, {})):
        live = LiveSession(clf, search="exact", far=None, **options)
        assert live.units is None
        assert live.model.options.adapt == "off"
        assert_as_batch(clf, live.push(SOME), Stream(SOME))


def test_a_channel_that_stands_still_is_not_blown_up():
    live = CLF.live(dead="off")
    still = SOME[:1].repeat(20_000, axis=0)
    assert np.isfinite([p.distance for p in live.push(still)[WIDTH:]]).all()
    assert (live.units.scale > 0).all()


def test_what_is_taught_is_kept_for_this_person():
    live = CLF.live()
    live.push(NEW.values[:400])
    live.teach("new", n=5)
    model = live.taught_model()
    assert model.units_.adapted
    np.testing.assert_allclose(model.units_.mean, live.units.mean)
    # The windows that were taught are again as the sensor gave them, but for what it has followed.
    np.testing.assert_allclose(
        model.windows_.values[-1], NEW.values[399], atol=0.05 * NEW.values.std()
    )
    assert model.predict(NEW.values[:400])[-1] == "new"
