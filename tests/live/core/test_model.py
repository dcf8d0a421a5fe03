import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlat
from live_models import ENERGY, EXACT, SETTINGS, STREAM, fitted, sizes
from live_oracles import assert_as_batch, comparable, probabilities, push_all, states
from mlat import InputError, StreamClassifier
from mlat.base.checksummed import pack, unpack
from mlat.live import LiveModel, Steps
from model_rewriting import put_inside, rewrite, rewrite_as_version_2
from state_streams import clusters, energy_states


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_step_by_step_is_predict(name, filtered):
    clf = fitted(name)
    live = clf.live(**EXACT, filtered=filtered)
    predictions = push_all(live, STREAM.values, [1])
    assert_as_batch(clf, predictions, STREAM.values, filtered=filtered)
    assert live.counters["accepted"] == len(STREAM)
    assert live.counters["unknown"] == states(predictions).count(clf.unknown_)


@given(st.sampled_from(sorted(SETTINGS)), sizes, st.integers(0, 2**32 - 1), st.booleans())
def test_any_chunking_is_predict(name, sizes, seed, filtered):
    clf = fitted(name)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, 3)) * rng.choice([0.1, 1.0, 5.0], size=3)
    live = clf.live(**EXACT, filtered=filtered)
    assert_as_batch(clf, push_all(live, values, sizes), values, filtered=filtered)


def test_one_channel_in_single_steps():
    # Where a chunk is one number, nothing is computed many at a time.
    rng = np.random.default_rng(0)
    values = np.where(np.arange(300) < 150, 1.0, 3.0) * rng.normal(size=300)
    lift = mlat.Lift(["rectified", "log_magnitude", "running_magnitude"], reach=9)
    clf = StreamClassifier(5, metric="euclidean", lift=lift, whiten=True).fit(
        values, np.repeat(["a", "b"], 150)
    )
    fresh = 2 * rng.normal(size=(200, 1))
    assert_as_batch(clf, push_all(clf.live(**EXACT), fresh, [1]), fresh)


def test_default_options_give_the_states_of_predict():
    clf = fitted("filter")
    predictions = push_all(clf.live(), STREAM.values, [3])
    assert states(predictions) == clf.predict(STREAM.values).tolist()
    np.testing.assert_allclose(
        probabilities(predictions, 4), clf.predict_proba(STREAM.values), atol=1e-6
    )


def test_the_step_function_is_pure():
    model = LiveModel(fitted("lifted"), **EXACT, filtered=True, missing="hold")
    state, _ = model.push(model.start(), STREAM.values[:20])
    before = state.to_bytes()
    holed = STREAM.values[20:40].copy()
    holed[5, 1] = np.nan
    after, told = model.push(state, Steps(holed))
    taught = model.teaching.teach(state, "new")
    assert state.to_bytes() == before
    assert after.to_bytes() != before != taught.to_bytes()
    # And again from the same state, to the same end.
    again, told_again = model.push(state, holed)
    assert again.to_bytes() == after.to_bytes()
    assert comparable(told_again) == comparable(told)


def test_a_far_window_is_unknown_and_keeps_its_probabilities():
    clf = StreamClassifier(4, metric="euclidean").fit(clusters(0, [40, 40, 40]))
    stream = np.linspace([3.0, 1.6], [6.0, 6.0], 50)
    plain = clf.live(search="exact", far=None).push(stream)
    told = clf.live(search="exact").push(stream)
    limit = 3.0 * clf.confidence_.farthest
    nearest = np.nan_to_num(clf.class_distances(stream).min(axis=1))
    far = nearest > limit
    assert 5 < far.sum() < 45
    for p, q, is_far in zip(told, plain, far, strict=True):
        assert p.why == ("far" if is_far else q.why)
        assert p.state == (clf.unknown_ if is_far else q.state)
        assert (p.probabilities, p.neighbours) == (q.probabilities, q.neighbours)
    assert states(plain) == clf.predict(stream).tolist()


def test_farthest_is_the_largest_held_out_distance(tmp_path):
    stream = clusters(0, [40, 40, 40])
    clf = StreamClassifier(4, metric="euclidean").fit(stream)
    farthest = clf.confidence_.farthest
    Z = clf.references_.embedded()
    apart = np.abs(clf.windows_.start[:, None] - clf.windows_.start) >= 18  # half of a run
    other = clf.windows_.y[:, None] != clf.windows_.y
    D = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    assert farthest == pytest.approx(np.where(apart | other, D, np.inf).min(axis=1).max())
    clf.save(tmp_path / "m")
    assert mlat.load(tmp_path / "m").confidence_.farthest == farthest


def test_an_older_model_file_has_no_farthest(tmp_path):
    clf = StreamClassifier(4, metric="euclidean").fit(clusters(0, [40, 40, 40]))
    clf.save(tmp_path / "m")
    without = lambda h, t: h["confidence"].pop("farthest")  # noqa: E731
    old = mlat.load(rewrite_as_version_2(tmp_path / "m", tmp_path / "old", without))
    assert np.isnan(old.confidence_.farthest)
    assert old.live().push(np.full((4, 2), 1e3))[-1].why == ""
    assert clf.live().push(np.full((4, 2), 1e3))[-1].why == "far"
    for wrong in (-1.0, "far", True):
        change = put_inside("confidence", farthest=wrong)
        with pytest.raises(InputError, match=r"confidence\.farthest is"):
            mlat.load(rewrite(tmp_path / "m", tmp_path / "bad", change))


@pytest.mark.parametrize("far", [None, 3.0])
def test_an_unknown_rate_is_that_of_predict(far):
    clf = StreamClassifier(4, metric="euclidean", unknown_rate=0.2).fit(ENERGY)
    values = energy_states(1, run_length=40).values
    live = clf.live(search="exact", far=far)
    assert_as_batch(clf, live.push(values), values)
    assert live.counters["far"] > 5


def smooth_and_noisy():
    """Classifiers of many references that clusters pass over, and of as many that they do not."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2000, 30))
    turning = np.sin(0.01 * np.arange(2000)[:, None] + np.arange(30)) + 0.001 * noise
    states = np.repeat(["a", "b"], 1000)
    return [
        StreamClassifier(5, metric="euclidean").fit(values, states) for values in (turning, noise)
    ]


def test_references_that_clusters_pass_over_are_searched_by_them(monkeypatch):
    smooth, noisy = smooth_and_noisy()
    assert smooth.live().model.search == noisy.live().model.search == "incremental"
    monkeypatch.setattr("mlat.neighbours.search.MANY_REFERENCES", 1)
    smooth, noisy = smooth_and_noisy()
    assert smooth.live().model.search == "exact"
    assert smooth.live(search="incremental").model.search == "incremental"
    assert noisy.live().model.search == "incremental"


def test_a_snapshot_opens_whichever_search_was_chosen(monkeypatch):
    values = smooth_and_noisy()[0].windows_.values[::3] + 0.1
    sessions = []
    for many in (10**9, 1):
        monkeypatch.setattr("mlat.neighbours.search.MANY_REFERENCES", many)
        sessions.append(smooth_and_noisy()[0].live(far=None))
    assert [live.model.search for live in sessions] == ["incremental", "exact"]
    kept = []
    for live in sessions:
        live.push(values[:300])
        live.teach("new")
        kept.append(live.snapshot())
    told = [states(live.push(values[300:])) for live in sessions]
    for live, snapshot, search in zip(sessions, kept[::-1], ("exact", "incremental"), strict=True):
        live.restore(snapshot)
        assert live.model.search == search
        assert live.snapshot() == snapshot
        assert states(live.push(values[300:])) == told[0] == told[1]
    assert {"a", "b", "new"} <= set(told[0])


def test_votes_are_counted_exactly_in_either_search():
    """Also in sessions of before, that followed them by running sums."""
    values = smooth_and_noisy()[0].windows_.values
    clf = StreamClassifier(20, metric="euclidean", n_neighbors=3)
    clf.fit(values, np.repeat(["a", "b"], 1000))
    live = clf.live(far=None)
    assert live.model.search == "exact"
    sums = clf.live(search="incremental", far=None)
    sums.push(values[:300])
    header, arrays, _ = unpack(sums.snapshot(), "")
    header["options"]["search"] = "auto"
    live.restore(pack(header, arrays))
    assert live.model.search == "incremental"
    for session in (live, sums):
        rest = session.push(values[300:900])
        assert states(rest) == clf.predict(values[:900])[300:].tolist()


def test_a_snapshot_of_before_that_kept_the_last_step_of_each_expert_opens():
    clf = fitted("auto")
    live, values = clf.live(search="incremental"), STREAM.values
    live.push(values[:20])
    header, arrays, _ = unpack(live.snapshot(), "")
    for m, expert in enumerate(clf.experts_):
        ring = f"expert{m}.flat.ring"
        if m and ring not in arrays:
            arrays[ring] = np.zeros((1, 1, expert.n_seen))
    again = clf.live(search="incremental")
    again.restore(pack(header, arrays))
    assert again.push(values[20:]) == live.push(values[20:])
