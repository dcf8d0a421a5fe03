"""Live steps of a committee: the states of ``predict``, however the stream is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from live_models import ENERGY, fitted, sizes
from live_oracles import comparable, probabilities, push_all, recordings, states
from mlat import Stream, StreamClassifier
from mlat.classifier.decision import ExpertSearches, decide, incremental_searches
from mlat.live.core.many import Many
from mlat.neighbours.incremental import IncrementalSearch
from mlat.neighbours.points import StepSearch
from mlat.synthetic import rotating_states
from state_streams import clusters

TRAIN = rotating_states(run_length=60, runs_per_state=2, n_channels=3, noise=0.3)
COMMITTEES = {
    "as wide as given": lambda: StreamClassifier(6, reach=8).fit(TRAIN),
    "of different widths": lambda: StreamClassifier(14, reach=8).fit(TRAIN),
    "that knows what it does not know": lambda: StreamClassifier(12, reach=8, unknown_rate=0.2).fit(
        TRAIN
    ),
    "of numbers": lambda: StreamClassifier(12, reach=6, scale=False).fit(
        TRAIN.values, TRAIN.codes + 3
    ),
}
_learned: dict = {}
committees = st.sampled_from(sorted(COMMITTEES))
OPTIONS = {"far": None, "dead": "off"}


def committee(name):
    if name not in _learned:
        _learned[name] = COMMITTEES[name]()
    assert len(_learned[name].experts_) > 1
    return _learned[name]


def in_doubt(searches, results):
    return decide(searches.rule, *results[:3], searches.limit).doubt


def walk(seed, n=80):
    """A stream that is like the training stream in places, with a loud and a quiet part."""
    rng = np.random.default_rng(seed)
    like = rotating_states(run_length=n // 4, runs_per_state=1, n_channels=3, random_state=seed)
    values = like.values[:n] + 0.4 * rng.normal(size=(n, 3))
    begin = rng.integers(0, n - 10)
    values[begin : begin + 10] *= rng.choice([0.1, 1.0, 8.0])
    return values


def test_forests_have_a_search_of_their_own():
    clf = committee("of different widths")
    assert [expert.windows.width for expert in clf.experts_] == [14, 1, 1, 1]
    kinds = [type(search) for search in incremental_searches(clf)]
    assert kinds == [IncrementalSearch, StepSearch, StepSearch, StepSearch]


@settings(max_examples=40)
@given(
    name=committees,
    search=st.sampled_from(["exact", "incremental"]),
    filtered=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    missing=st.lists(st.integers(0, 79), max_size=3),
    jumps=st.sets(st.integers(1, 79), max_size=2),
    sizes=sizes,
)
def test_any_chunking_gives_the_states_of_predict(
    name, search, filtered, seed, missing, jumps, sizes
):
    """Missing values and gaps among them; probabilities too where they are exact."""
    clf = committee(name)
    values = walk(seed)
    values[missing, 1] = np.nan
    gap = np.isin(np.arange(80), sorted(jumps))
    seq = np.arange(80) + 10 * np.cumsum(gap)
    live = clf.live(search=search, filtered=filtered, **OPTIONS)
    predictions = push_all(live, values, sizes, seq=seq)
    stream = Stream(values, recordings=recordings(gap))
    assert states(predictions) == clf.predict(stream, filtered=filtered).tolist()
    proba = probabilities(predictions, len(clf.classes_))
    want = clf.predict_proba(stream, filtered=filtered)
    if search == "exact" or filtered:
        np.testing.assert_array_equal(proba, want)
        least = clf.class_distances(stream).min(axis=1)
        np.testing.assert_array_equal([p.distance for p in predictions], least)
    else:
        np.testing.assert_allclose(proba, want, atol=1e-3)
    whole = clf.live(search=search, filtered=filtered, **OPTIONS)
    assert comparable(whole.push(values, seq)) == comparable(predictions)


@settings(max_examples=20)
@given(
    name=committees,
    seed=st.integers(0, 2**32 - 1),
    examples=st.lists(st.tuples(st.integers(15, 79), st.integers(0, 5), st.integers(1, 2))),
    missing=st.integers(0, 79),
    sizes=sizes,
)
def test_taught_windows_count_the_same_in_every_search(name, seed, examples, missing, sizes):
    clf = committee(name)
    known = [*clf.classes_.tolist(), *(["new", "newer"] if clf.unknown_ == "" else [91, 92])]
    values = walk(seed)
    values[missing] = np.nan
    told = {}
    for search in ("exact", "incremental"):
        live, done = clf.live(search=search, max_taught=5, **OPTIONS), 0
        predictions = []
        for step, state, n in [*sorted(examples), (80, 0, 0)]:
            predictions += push_all(live, values[done:step], sizes)
            done = step
            if n and (step <= missing or step - missing > 16):
                live.teach(known[state], n)
        told[search] = states(predictions)
        again = clf.live(search=search, max_taught=5, **OPTIONS)
        again.restore(live.snapshot())
        assert again.snapshot() == live.snapshot()
    assert told["incremental"] == told["exact"]


@settings(max_examples=25)
@given(
    name=committees,
    search=st.sampled_from(["exact", "incremental"]),
    filtered=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    stop=st.integers(0, 79),
    missing=st.integers(0, 79),
)
def test_a_restored_session_goes_on_as_the_first(name, search, filtered, seed, stop, missing):
    clf = committee(name)
    values = walk(seed)
    values[missing] = np.nan
    live = clf.live(search=search, filtered=filtered, **OPTIONS)
    live.push(values[:stop])
    other = clf.live(search=search, filtered=filtered, **OPTIONS)
    other.push(walk(seed + 1)[:17])
    other.restore(live.snapshot())
    assert other.snapshot() == live.snapshot()
    rest = comparable(push_all(other, values[stop:], [1, 3]))
    assert rest == comparable(live.push(values[stop:]))
    assert other.snapshot() == live.snapshot()


@settings(max_examples=15)
@given(name=committees, seed=st.integers(0, 2**16), stop=st.integers(0, 79))
def test_many_streams_are_each_what_a_session_says(name, seed, stop):
    clf = committee(name)
    values = np.stack([walk(seed + i) for i in range(3)], axis=1)
    values[np.random.default_rng(seed).random((80, 3)) < 0.02] = np.nan
    many = Many(clf, 3)
    told = [many.push(step) for step in values[:stop]]
    again = Many(clf, 3)
    again.restore(many.to_arrays())
    told += [again.push(step) for step in values[stop:]]
    for i in range(3):
        alone = clf.live(search="incremental", **OPTIONS)
        session = push_all(alone, values[:, i], [7])
        assert [t[0][i] for t in told] == states(session)
        assert [t[0][i] for t in told] == clf.predict(values[:, i]).tolist()
        distance = [p.distance for p in session]
        np.testing.assert_array_equal([t[1][i] for t in told], distance)


@pytest.mark.parametrize("nudge", [0.0, 1e-16, 1e-15, 1e-12, 1e-9, 1e-6])
def test_equal_references_of_two_states(nudge):
    """The same runs under two names, up to the last bits: only exact distances tell them apart."""
    rng = np.random.default_rng(8)
    run = np.cumsum(rng.normal(size=(80, 2)), axis=0)
    other = run * (1 + nudge * rng.normal(size=run.shape))
    far = rng.normal(size=(60, 2)) + 9
    stream = Stream(np.concatenate([run, far, other]), np.repeat(["b", "c", "a"], [80, 60, 80]))
    clf = StreamClassifier(6, reach=5, held_out=False).fit(stream)
    probe = np.concatenate([run[10:60], 3 * rng.normal(size=(60, 2)), other[5:50], far[:40]])
    live = clf.live(search="incremental", **OPTIONS)
    assert states(push_all(live, probe, [1, 4])) == clf.predict(probe).tolist()
    searches = ExpertSearches(clf, incremental_searches(clf))
    results = searches.push(searches.start(), clf.features_(Stream(probe)))
    ends = slice(clf.width_ - 1, None)
    doubt = in_doubt(searches, results)[ends]
    ahead = np.sort(clf.class_distances(probe)[ends], axis=1)
    tied = ahead[:, 1] <= ahead[:, 0] * (1 + 1e-12)
    assert doubt[tied].all()
    if nudge <= 1e-15:
        assert tied.sum() > 40
    assert not doubt[-30:].any()  # far from both: the bounds decide


def test_more_equal_references_than_are_compared_one_by_one():
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [np.zeros((200, 2)), np.full((200, 2), 1e-13), rng.normal(size=(90, 2))]
    )
    clf = StreamClassifier(4, reach=4, held_out=False).fit(
        values, np.repeat(["a", "b", "c"], [200, 200, 90])
    )
    probe = rng.normal(scale=0.1, size=(60, 2))
    probe[20:40] = 0.0
    live = clf.live(search="incremental", **OPTIONS)
    assert states(live.push(probe)) == clf.predict(probe).tolist()


@pytest.mark.parametrize("size", [1e3, 1e9, 1e20, 1e150])
def test_a_burst_of_huge_values_passes(size):
    clf = committee("of different widths")
    values = walk(5, 200)
    values[40:42, 1] = size
    live = clf.live(search="incremental", **OPTIONS)
    assert states(push_all(live, values, [1, 5])) == clf.predict(values).tolist()


def test_windows_at_the_very_limit():
    """A limit that is the distance of a window, where a rounding error would change the answer."""
    clf = committee("of different widths")
    values = walk(11, 120)
    least = clf.class_distances(values).min(axis=1)
    for step in (30, 60, 90):
        searches = ExpertSearches(clf, incremental_searches(clf), float(least[step]))
        results = searches.push(searches.start(), clf.features_(Stream(values)))
        assert in_doubt(searches, results)[step]


def test_doubt_is_rare_on_ordinary_streams():
    clf = committee("of different widths")
    searches = ExpertSearches(clf, incremental_searches(clf))
    values = np.concatenate([walk(seed, 200) for seed in range(10)])
    results = searches.push(searches.start(), clf.features_(Stream(values)))
    ends = slice(clf.width_ - 1, None)
    doubt = in_doubt(searches, results)[ends]
    assert doubt.mean() < 0.01


def test_two_channels_of_energy():
    clf = StreamClassifier(5, reach=6).fit(ENERGY)
    for filtered in (False, True):
        live = clf.live(search="incremental", filtered=filtered, **OPTIONS)
        values = ENERGY.values[::-1].copy()
        told = push_all(live, values, [2])
        assert states(told) == clf.predict(values, filtered=filtered).tolist()


def test_a_snapshot_of_a_committee_is_small(tmp_path):
    """2,505 references of 27 channels."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2550, 27)) + np.repeat(np.eye(5, 27), 510, axis=0)
    clf = StreamClassifier(10, held_out=False).fit(values, np.repeat(list("abcde"), 510))
    assert len(clf.windows_) == 2505
    live = clf.live()
    live.push(rng.normal(size=(300, 27)))
    assert live.model.search == "incremental"
    assert len(live.snapshot()) < 144 * 1024
    assert len(clf.live(filtered=True).snapshot()) < 144_000


def test_one_expert_has_the_arrays_it_had():
    """So snapshots from before there were committees still open."""
    live = fitted("filter").live(search="incremental")
    arrays = live.state.incremental[0]
    assert list(arrays) == ["ring", "products", "sums", "count"]
    assert Many(fitted("filter"), 2).to_arrays().keys() == {
        *arrays, "lift_ring", "lift_sums", "lift_count"
    }  # fmt: skip
    taught = mlat.StreamClassifier(4, metric="euclidean").fit(clusters(0, [40, 40])).live()
    assert len(taught.state.taught.columns) == 1
