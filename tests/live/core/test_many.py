"""Many streams at once: each is what it would be alone, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat import InputError, Stream
from mlat.live.core.many import Many

LIFTS = {
    "none": {},
    "running": {"lift": ["identity", "running_magnitude", "difference"]},
    "whitened": {"lift": ["identity", "low_pass"], "whiten": True},
}


def labelled(seed=0, d=3, length=60):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3 * length, d)) + 1.2 * np.repeat(np.eye(3, d), length, axis=0)
    return Stream(values, np.repeat(["a", "b", "c"], length))


def classifier(lift="none", **more):
    return mlat.StreamClassifier(
        width=5, metric=mlat.MLAT(max_iter=2, n_targets=1), **{**LIFTS[lift], **more}
    ).fit(labelled())


def streams(n, steps=70, seed=1, missing=0.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(steps, n, 3)) + np.repeat(rng.normal(size=(steps // 10, n, 3)), 10, 0)
    values[rng.random((steps, n)) < missing, 1] = np.nan
    return values


@pytest.mark.parametrize(
    ("n", "k", "lift"),
    [
        (1, 1, "none"),
        (3, 1, "whitened"),
        (4, 3, "running"),
        (37, 1, "running"),
        (37, 3, "whitened"),
    ],
)
def test_each_stream_is_what_a_search_of_its_own_finds(n, k, lift):
    clf = classifier(lift, n_neighbors=k)
    many, values = Many(clf, n), streams(n)
    results = [many.results(step)[1] for step in values]
    for stream in range(n):
        alone = Many(clf, 1)
        for step, decision in zip(values, results, strict=True):
            own = alone.results(step[stream : stream + 1])[1]
            for name in decision._fields:
                got, want = (getattr(d, name)[at] for d, at in ((decision, stream), (own, 0)))
                np.testing.assert_array_equal(got, want, err_msg=name)
        session = clf.live(search="incremental", far=None, dead="off").push(values[:, stream])
        for told, decision in zip(session, results, strict=True):
            np.testing.assert_array_equal(told.distance, decision.distance[stream])
            known = decision.rows[stream]
            assert told.neighbours == tuple(known[known >= 0])
            assert told.state == (
                clf.classes_[decision.codes[stream]] if len(told.neighbours) else ""
            )


@pytest.mark.parametrize("lift", LIFTS)
@pytest.mark.parametrize(("k", "unknown_rate"), [(1, 0.0), (1, 0.1), (3, 0.1)])
def test_states_and_probabilities_are_those_of_predict(lift, k, unknown_rate):
    """Missing values among them: a segment ends, and the next begins anew."""
    clf = classifier(lift, n_neighbors=k, unknown_rate=unknown_rate)
    values = streams(9, missing=0.03)
    assert np.isnan(values).any()
    many = Many(clf, 9)
    told = [many.push(step) for step in values]
    for stream in range(9):
        whole = Stream(values[:, stream])
        states = clf.predict(whole)
        np.testing.assert_array_equal([t[0][stream] for t in told], states)
        distance = clf.kneighbors(whole)[0][:, 0]
        np.testing.assert_allclose([t[1][stream] for t in told], distance, rtol=1e-4)
        proba = clf.predict_proba(whole)
        want = np.full(len(whole), np.nan)
        known = states != ""
        want[known] = proba[known, np.searchsorted(clf.classes_, states[known])]
        np.testing.assert_allclose([t[2][stream] for t in told], want, rtol=1e-3)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), lift=st.sampled_from(sorted(LIFTS)))
def test_streams_with_steps_at_different_times(seed, lift):
    """Steps of some streams at a time give what each stream gives for itself."""
    clf = MODELS.setdefault(lift, classifier(lift))
    rng = np.random.default_rng(seed)
    values, many = streams(4, 40, seed, missing=0.05), Many(clf, 4)
    alone = [Many(clf, 1) for _ in range(4)]
    place = np.zeros(4, int)
    for _ in range(60):
        present = (rng.random(4) < 0.7) & (place < 40)
        step = values[np.minimum(place, 39), np.arange(4)]
        states, distance, proba = many.push(step, present)
        for i in range(4):
            if not present[i]:
                assert states[i] == ""
                assert np.isnan([distance[i], proba[i]]).all()
                continue
            one = alone[i].push(step[i : i + 1])
            assert states[i] == one[0][0]
            np.testing.assert_array_equal([distance[i], proba[i]], [one[1][0], one[2][0]])
        place += present


MODELS: dict = {}


def test_a_snapshot_goes_on_where_it_was():
    clf = classifier("running")
    values, many = streams(6, missing=0.02), Many(clf, 6)
    for step in values[:33]:
        many.push(step)
    again = Many(clf, 6)
    again.restore(many.to_arrays())
    for step in values[33:]:
        for a, b in zip(many.push(step), again.push(step), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(InputError, match="another number of streams"):
        Many(clf, 5).restore(many.to_arrays())


def test_memory_of_a_stream_is_that_of_its_arrays():
    clf = classifier("running")
    few, more = Many(clf, 2), Many(clf, 50)
    assert few.bytes_per_stream == more.bytes_per_stream
    arrays = more.to_arrays()
    assert 50 * more.bytes_per_stream == sum(a.nbytes for a in arrays.values())
    before = more.bytes_per_stream
    for step in streams(50):
        more.push(step)
    assert more.bytes_per_stream == before


def test_what_does_not_fit_is_refused():
    clf = classifier()
    with pytest.raises(InputError, match="n_streams must be a whole number"):
        Many(clf, 0)
    with pytest.raises(InputError, match=r"has shape \(2, 3\), not \(2, 4\)"):
        Many(clf, 2).push(np.zeros((2, 4)))
    with pytest.raises(InputError, match="present must be 2 truth values"):
        Many(clf, 2).push(np.zeros((2, 3)), [1, 0])
    lmnn = mlat.StreamClassifier(width=5, metric=mlat.LMNN(max_iter=2)).fit(labelled())
    with pytest.raises(InputError, match="exactly Toeplitz"):
        Many(lmnn, 2)


def test_an_extreme_value_ends_the_segment_of_its_stream():
    clf = classifier("running")
    values = streams(2, steps=40)
    values[12, 1, 0] = 1e155
    missing = values.copy()
    missing[12, 1, 0] = np.nan
    here, there = Many(clf, 2), Many(clf, 2)
    for step, other in zip(values, missing, strict=True):
        for a, b in zip(here.push(step), there.push(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("threads", [2, 3, 50])
def test_threads_change_nothing(threads):
    clf, values = classifier("running"), streams(7, missing=0.05)
    one, several = Many(clf, 7), Many(clf, 7, threads=threads)
    present = np.random.default_rng(3).random((len(values), 7)) < 0.8
    for step, there in zip(values, present, strict=True):
        for got, want in zip(several.push(step, there), one.push(step, there), strict=True):
            np.testing.assert_array_equal(got, want)
    for got, want in zip(several.to_arrays().values(), one.to_arrays().values(), strict=True):
        np.testing.assert_array_equal(got, want)
