"""Incremental search: distances from those of the step before agree with those of ``predict``."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import mlat
from mlat import InputError, Stream
from mlat.classifier.decision import ExpertSearches, cheaper, incremental_searches
from mlat.live.core.many import Many
from mlat.metric import toeplitz
from mlat.neighbours.incremental import dot_products


def labelled(seed, d=3, lengths=(40, 25, 60, 33), scale=1.0, offset=0.0):
    """Runs of slow noise around a level of their state, two or three states in turn."""
    rng = np.random.default_rng(seed)
    runs, names = [], []
    for i, length in enumerate(lengths):
        slow = 0.3 * np.cumsum(rng.normal(size=(length, d)), axis=0)
        runs.append(slow + rng.normal(size=(length, d)) + np.cos(i % 3 + np.arange(d)))
        names += [f"state {i % 3}"] * length
    return Stream(scale * np.concatenate(runs) + offset, np.array(names))


def fitted(stream, width=6, metric=None, **more):
    if metric is None:
        metric = mlat.MLAT(max_iter=2, n_targets=1)
    return mlat.StreamClassifier(width=width, metric=metric, **more).fit(stream)


class Searching:
    """A stream that is searched incrementally, and what is decided about each of its steps."""

    def __init__(self, clf, limit=np.inf, **more):
        self.clf = clf
        self.experts = ExpertSearches(clf, incremental_searches(clf, **more), limit)
        self.states, self.past = self.experts.start(), np.empty((0, clf.features_.n_features))

    def push(self, features):
        """Results of t steps by name; NaN and -1 where there is no complete window."""
        self.past = np.concatenate([self.past, features])
        found, t = self.experts.push(self.states, features), len(features)
        n = max(0, min(t, len(self.past) - self.clf.width_ + 1))
        result = {name: getattr(found, name)[0] for name in ("nearest", "rows", "bound")}
        result |= {"codes": np.full(t, -1), "exact": np.zeros(t, bool)}
        result |= {
            "distance": np.full(t, np.nan),
            "proba": np.full(result["nearest"].shape, np.nan),
        }
        result["neighbours"] = np.full((t, self.clf.n_neighbors_), -1)
        if n:
            last = slice(t - n, None)
            seen = partial(self.experts.seen, self.past, n)
            some = found.at((slice(None), last))
            decision = self.experts.decide(seen, np.ones(n, bool), some)
            result["codes"][last], result["exact"][last] = decision.codes, decision.doubt
            result["distance"][last], result["proba"][last] = decision.distance, decision.proba
            result["neighbours"][last] = decision.rows
        return SimpleNamespace(**result)


def query(clf, seed, n=150, like=None):
    """A stream that wanders between the levels of the states, and its features."""
    rng = np.random.default_rng(seed)
    d = clf.n_channels_
    values = 0.2 * np.cumsum(rng.normal(size=(n, d)), axis=0) + rng.normal(size=(n, d))
    if like is not None:
        values = like.std() * values + like.mean(axis=0)
    stream = Stream(values)
    return stream, clf.features_(stream)


def naive(clf, seen):
    """Squared distances (t - w + 1, n) to every reference, lag by lag."""
    w, seen = clf.width_, clf.references_.view(seen)
    x = sliding_window_view(seen, w, axis=0).transpose(0, 2, 1)
    y = clf.references_.view(clf.reference_features_)
    y = sliding_window_view(y, w, axis=0).transpose(0, 2, 1)[clf.windows_.start]
    blocks = np.zeros((w, seen.shape[1], seen.shape[1]))
    blocks[0] = np.eye(seen.shape[1])
    if clf.metric_ is not None:
        blocks = clf.metric_.blocks_
    return np.stack([toeplitz.distance(blocks, window, y) for window in x])


def by_state(clf, squared):
    return np.stack([squared[:, clf.windows_.y == c].min(axis=1) for c in clf.classes_], axis=1)


def same(a, b):
    """All results are equal, bit by bit."""
    for name in vars(a):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(
    ("width", "d", "lengths", "metric", "more"),
    [
        (1, 2, (30, 20, 25), None, {}),
        (2, 1, (30, 20, 25), None, {}),
        (6, 3, (40, 25, 60, 33), None, {}),
        (6, 3, (6, 25, 7, 33), None, {}),
        (12, 9, (90, 80, 300), mlat.MLAT(n_taps=4, max_iter=2, n_targets=1), {}),
        (12, 5, (90, 80), mlat.MLAT(n_taps=1, max_iter=2, n_targets=1), {}),
        (6, 3, (40, 25, 60, 33), "euclidean", {}),
        (6, 3, (40, 25, 60, 33), "euclidean", {"whiten": True}),
        (8, 2, (70, 75), None, {"lift": ["identity", "running_magnitude"], "whiten": True}),
        (70, 6, (150, 120), mlat.MLAT(max_iter=1, n_targets=1), {}),
    ],
)
def test_distances_agree_with_naive_ones(width, d, lengths, metric, more):
    clf = fitted(labelled(1, d, lengths), width, metric, **more)
    stream, seen = query(clf, 2)
    result = Searching(clf, anchor=16).push(seen)
    want = by_state(clf, naive(clf, seen))
    ends = slice(width - 1, None)
    assert (np.abs(result.nearest[ends] ** 2 - want).max(axis=1) <= result.bound[ends]).all()
    assert (result.bound[ends] < 0.02 * np.median(want)).all()
    assert np.isnan(result.nearest[: width - 1]).all()
    assert (result.codes[: width - 1] == -1).all()
    np.testing.assert_array_equal(clf.classes_[result.codes[ends]], clf.predict(stream)[ends])
    # The row told for each state is a reference of that state, at that distance.
    assert (clf.windows_.y[result.rows[ends]] == clf.classes_).all()
    told = np.take_along_axis(naive(clf, seen), result.rows[ends], axis=1)
    assert (np.abs(told - want) <= 2 * result.bound[ends, None]).all()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 9),
    d=st.integers(1, 4),
    power=st.integers(-8, 8),
    offset=st.sampled_from([0.0, 1.0, 1e4, 1e8]),
    scale=st.booleans(),
    k=st.sampled_from([1, 1, 3]),
    anchor=st.sampled_from([1, 7, 64]),
)
def test_the_bound_holds_and_the_state_is_that_of_predict(
    seed, width, d, power, offset, scale, k, anchor
):
    training = labelled(seed, d, (14, 11, 17), scale=10.0**power, offset=offset)
    clf = fitted(training, width, scale=scale, n_neighbors=k)
    stream, seen = query(clf, seed + 1, 60, like=training.values)
    result = Searching(clf, anchor=anchor).push(seen)
    ends = slice(width - 1, None)
    exact = clf.class_distances(stream)[ends]
    assert (np.abs(result.nearest[ends] ** 2 - exact**2).max(axis=1) <= result.bound[ends]).all()
    np.testing.assert_array_equal(clf.classes_[result.codes[ends]], clf.predict(stream)[ends])
    distances, rows = clf.kneighbors(stream)
    apart = np.abs(result.distance[ends] ** 2 - distances[ends, 0] ** 2)
    assert (apart <= 2 * result.bound[ends]).all()
    if k > 1:  # votes are counted exactly
        np.testing.assert_array_equal(result.neighbours[ends], rows[ends])


@settings(max_examples=25)
@given(data=st.data(), k=st.sampled_from([1, 3]), seed=st.integers(0, 10**6))
def test_any_chunking_is_bitwise_the_same(data, k, seed):
    clf = fitted(labelled(3), n_neighbors=k)
    _, seen = query(clf, seed, 120)
    whole, search = Searching(clf, anchor=8).push(seen), Searching(clf, anchor=8)
    cuts = sorted(data.draw(st.sets(st.integers(1, 119), max_size=12)))
    parts = [vars(search.push(part)) for part in np.split(seen, cuts)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    same(SimpleNamespace(**joined), whole)


def test_a_segment_begins_as_if_nothing_had_been_before():
    clf = fitted(labelled(4))
    _, seen = query(clf, 5)
    search = Searching(clf)
    search.push(seen + 3.0)
    search.experts.push(search.states, seen[:1], np.zeros(1, np.int64))
    search.past = search.past[:0]
    same(search.push(seen), Searching(clf).push(seen))


def test_arrays_of_a_state_go_on_where_it_was():
    clf = fitted(labelled(6))
    _, seen = query(clf, 7)
    search, again = Searching(clf), Searching(clf)
    search.push(seen[:77])
    again.past, again.states = search.past, again.experts.restored(search.states)
    same(again.push(seen[77:]), search.push(seen[77:]))
    for name, array in search.states[0].items():
        np.testing.assert_array_equal(array, again.states[0][name])


@pytest.mark.parametrize("n", [3, 77])
def test_sums_that_a_snapshot_of_before_lacks_follow_from_its_last_steps(n):
    clf = fitted(labelled(6), metric=mlat.MLAT(n_taps=1, max_iter=2, n_targets=1))
    stream, seen = query(clf, 7)
    search, again = Searching(clf), Searching(clf)
    search.push(seen[:n])
    kept = {name: search.states[0][name] for name in ("ring", "count")}
    again.past, again.states = search.past, again.experts.restored([kept])
    np.testing.assert_array_equal(again.states[0]["ring"], search.states[0]["ring"])
    rest = again.push(seen[n:])
    exact = clf.class_distances(stream)[n:]
    there = ~np.isnan(exact[:, 0])
    apart = np.abs(rest.nearest[there] ** 2 - exact[there] ** 2).max(axis=1)
    assert (apart <= rest.bound[there]).all()
    np.testing.assert_array_equal(rest.codes[there], exact[there].argmin(axis=1))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("nudge", [0.0, 1e-15, 1e-12, 1e-9])
def test_equal_references_of_two_states(k, nudge):
    """The same run under two names, up to a nudge: only the exact comparison tells them apart."""
    rng = np.random.default_rng(8)
    run = rng.normal(size=(50, 2))
    other = run + nudge * rng.normal(size=run.shape)
    far = rng.normal(size=(30, 2)) + 5
    stream = Stream(np.concatenate([run, far, other]), np.repeat(["b", "c", "a"], [50, 30, 50]))
    clf = fitted(stream, 5, mlat.MLAT(max_iter=1, n_targets=1), n_neighbors=k)
    probe = Stream(np.concatenate([run[10:40], rng.normal(size=(60, 2)), other[5:30], far]))
    result = Searching(clf).push(clf.features_(probe))
    told = result.codes >= 0
    np.testing.assert_array_equal(clf.classes_[result.codes[told]], clf.predict(probe)[told])
    if k == 1:
        asked = result.exact
        assert asked.sum() > 50
        exact = clf.class_distances(probe)
        best = exact[asked].min(axis=1)
        np.testing.assert_array_equal(result.distance[asked], best)
        assert not result.exact[-20:].any()  # far from both: the bound decides


def test_more_ties_than_candidates():
    run = np.zeros((200, 2))
    stream = Stream(
        np.concatenate([run, run + 1e-13, np.random.default_rng(9).normal(size=(30, 2))]),
        np.repeat(["a", "b", "c"], [200, 200, 30]),
    )
    for k in (1, 3):
        clf = fitted(stream, 4, "euclidean", n_neighbors=k)
        probe = Stream(np.random.default_rng(10).normal(scale=0.1, size=(30, 2)))
        result = Searching(clf).push(clf.features_(probe))
        np.testing.assert_array_equal(clf.classes_[result.codes[3:]], clf.predict(probe)[3:])


@pytest.mark.parametrize("size", [1e13, 1e30, 1e100])
def test_a_burst_of_huge_values_passes(size):
    clf = fitted(labelled(11), 6)
    search = Searching(clf, anchor=8)
    period = search.experts.searches[0].references.period
    _, seen = query(clf, 12, 60 + 4 * period)
    seen[40:43, 1] = size
    result = search.push(seen)
    calm = np.r_[5:40, 60 + 2 * period : len(seen)]
    want = by_state(clf, naive(clf, np.where(np.abs(seen) < 1e12, seen, 0.0)))
    apart = np.abs(result.nearest[calm] ** 2 - want[calm - 5]).max(axis=1)
    assert (apart <= result.bound[calm]).all()
    assert (result.bound[calm] < 0.05 * np.median(want[calm - 5])).all()
    # Until the burst has left every running sum the bound says that nothing is known.
    assert not result.bound[43] < 1e6


def test_running_sums_do_not_drift():
    clf = fitted(labelled(13, 2, (40, 30)), 5)
    search = Searching(clf, anchor=20)
    rng = np.random.default_rng(14)
    off, bounds = [], []
    for _ in range(20):
        seen = rng.normal(size=(2000, 2)) * rng.choice([0.1, 1.0, 30.0])
        result = search.push(seen)
        want = by_state(clf, naive(clf, seen[-104:]))
        off.append(np.abs(result.nearest[-100:] ** 2 - want).max() / (seen**2).mean())
        bounds.append(result.bound[-100:].max() / (seen**2).mean())
        assert (np.abs(result.nearest[-100:] ** 2 - want).max(axis=1) <= result.bound[-100:]).all()
    assert max(off) < 1e-3
    assert max(bounds[10:]) <= 2 * max(bounds[:10])


def test_a_threshold_is_decided_as_predict_decides_it():
    """Windows at the very distance of the cut, where a rounding error would change the answer."""
    training = labelled(15, 2, (60, 60))
    clf = fitted(training, 5, unknown_rate=0.2)
    stream, seen = query(clf, 16, 200)
    least = clf.class_distances(stream)[4:].min(axis=1)
    for cut in least[[20, 50, 90]].tolist():
        result = Searching(clf, limit=cut).push(seen)
        np.testing.assert_array_equal(result.distance[4:] > cut, least > cut)
        assert 1 <= result.exact.sum() < 20
    assert Many(clf, 1).experts.limit == clf.confidence_.threshold


def test_only_toeplitz_metrics_over_all_windows():
    stream = labelled(17)
    assert incremental_searches(fitted(stream, metric=mlat.LMNN(max_iter=2))) is None
    assert incremental_searches(fitted(stream, metric=mlat.MLAT(solver="admm", max_iter=3))) is None
    assert incremental_searches(fitted(stream, stride=2)) is None
    with pytest.raises(InputError, match="anchor must be a whole number"):
        incremental_searches(fitted(stream), anchor=0)


def test_an_exactly_toeplitz_result_of_admm_is_taken():
    stream = labelled(18)
    clf = fitted(stream, metric=mlat.MLAT(solver="admm", max_iter=2, n_targets=1))
    L = 0.7 * np.eye(clf.width_ * 3)
    clf.metric_.components_, clf.metric_.blocks_ = L, np.zeros((clf.width_, 3, 3))
    clf.metric_.blocks_[0] = 0.49 * np.eye(3)
    _, seen = query(clf, 19)
    result = Searching(clf).push(seen)
    want = by_state(clf, naive(clf, seen))
    assert (np.abs(result.nearest[5:] ** 2 - want).max(axis=1) <= result.bound[5:]).all()


def test_cheaper_where_windows_are_long_enough():
    stream = labelled(20, 4, (300, 300, 300))
    assert not cheaper(incremental_searches(fitted(stream, 1, "euclidean")))
    assert cheaper(incremental_searches(fitted(stream, 20, "euclidean")))
    assert cheaper(incremental_searches(fitted(stream, 20)))


@pytest.mark.parametrize("m", [1, 3, 4, 7, 33])
def test_kernels_multiply_as_matrices_do(m):
    rng = np.random.default_rng(21)
    X, matrix = rng.normal(size=(m, 30)), rng.normal(size=(16 + m, 20))
    first, last = rng.integers(0, 10, m), rng.integers(10, 21, m)
    for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 1e-5)):
        found = np.empty((m, len(matrix)))
        dot_products(X, 4, matrix.astype(dtype), first, last, found)
        for i, (a, b) in enumerate(zip(first, last, strict=True)):
            expected = matrix[:, a:b] @ X[i, 4 + a : 4 + b]
            np.testing.assert_allclose(found[i], expected, atol=tolerance)
