"""The search without lags: its sums are exact, and its bound holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat import InputError, Stream, StreamClassifier
from mlat.live.search.incremental import IncrementalSearch, found_nothing
from mlat.live.search.lagless import WIDEST, LaglessSearch


def labelled(seed, d=3, lengths=(40, 25, 60, 33), scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    runs = [
        0.3 * np.cumsum(rng.normal(size=(n, d)), axis=0) + np.cos(i % 3 + np.arange(d))
        for i, n in enumerate(lengths)
    ]
    names = np.repeat([f"state {i % 3}" for i in range(len(lengths))], lengths)
    return Stream(scale * np.concatenate(runs) + offset, names)


def fitted(stream, width=6, n_taps=1, **more):
    metric = "euclidean" if n_taps is None else mlat.MLAT(n_taps=n_taps, max_iter=2, n_targets=1)
    return StreamClassifier(width, metric=metric, **more).fit(stream)


def found_by(search, state, seen):
    found = found_nothing(1, len(seen), search.n_classes, 0)[0]
    n = len(seen)
    search.fill(state, np.ascontiguousarray(seen), np.zeros(n, np.int64), np.ones(n, bool), found)
    return found


def query(clf, seed, n=120, like=None):
    rng = np.random.default_rng(seed)
    values = 0.2 * np.cumsum(rng.normal(size=(n, clf.n_channels_)), axis=0)
    values += rng.normal(size=values.shape)
    if like is not None:
        values = like.std() * values + like.mean(axis=0)
    return Stream(values), clf.features_(Stream(values))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, WIDEST),
    d=st.integers(1, 5),
    power=st.integers(-8, 8),
    offset=st.sampled_from([0.0, 1.0, 1e4, 1e8]),
    scale=st.booleans(),
    euclidean=st.booleans(),
)
def test_the_bound_holds_and_the_nearest_is_among_the_candidates(
    seed, width, d, power, offset, scale, euclidean
):
    training = labelled(seed, d, (34, 31, 27, 40), scale=10.0**power, offset=offset)
    clf = fitted(training, width, None if euclidean else 1, scale=scale)
    search = LaglessSearch.of(clf.references_)
    stream, seen = query(clf, seed + 1, 60, like=training.values)
    found = found_by(search, search.start(), seen)
    ends = np.arange(width - 1, 60)
    exact = clf.class_distances(stream)[ends]
    assert (np.abs(found.nearest[ends] ** 2 - exact**2).max(axis=1) <= found.bound[ends]).all()
    windows = np.stack([seen[end - width + 1 : end + 1] for end in ends])
    nearest, rows = search.by_state(found, ends, windows)
    np.testing.assert_array_equal(nearest, exact)
    assert (clf.windows_.y[rows] == clf.classes_).all()
    # Without a window nothing is told.
    assert np.isnan(found.bound[: width - 1]).all()


@settings(max_examples=20)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_any_chunking_and_any_snapshot_is_bitwise_the_same(data, seed):
    clf = fitted(labelled(3))
    search = LaglessSearch.of(clf.references_)
    _, seen = query(clf, seed)
    whole, state = found_by(search, search.start(), seen), search.start()
    cuts = sorted(data.draw(st.sets(st.integers(0, 119), max_size=12)))
    parts = []
    for part in np.split(seen, cuts):
        parts.append(found_by(search, state, part))
        again = search.restored(state.to_arrays())
        for name in state.__slots__:
            np.testing.assert_array_equal(getattr(again, name), getattr(state, name), err_msg=name)
        state = again
    for name in ("nearest", "rows", "bound", "n_candidates"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)


def test_sums_never_drift():
    """After many steps, loud ones among them, the sums are those of a state that saw the last."""
    clf = fitted(labelled(5), 7)
    search = LaglessSearch.of(clf.references_)
    rng = np.random.default_rng(6)
    state = search.start()
    for _ in range(5):
        found_by(search, state, rng.normal(size=(2000, 3)) * rng.choice([0.1, 1.0, 30.0]))
    tail = rng.normal(size=(7, 3))
    found_by(search, state, tail)
    fresh = search.start()
    found_by(search, fresh, tail)
    np.testing.assert_array_equal(state.products, fresh.products)


@pytest.mark.parametrize("size", [1e4, 1e13, 1e30, 1e160])
def test_a_burst_of_huge_values_passes(size):
    clf = fitted(labelled(11), 6)
    search = LaglessSearch.of(clf.references_)
    _, seen = query(clf, 12, 60)
    seen[40:42, 1] = size
    found = found_by(search, search.start(), seen)
    assert (found.bound[40:47] == np.inf).all()
    assert (found.n_candidates[40:47] == -1).all()
    calm = np.r_[5:40, 47:60]
    assert np.isfinite(found.bound[calm]).all()
    fresh = found_by(search, search.start(), seen[42:])
    np.testing.assert_array_equal(fresh.nearest[5:], found.nearest[47:])


def test_it_agrees_with_the_search_for_any_lags():
    clf = fitted(labelled(7, 4), 8, None, lift=["identity", "low_pass"], whiten=True)
    lagless = LaglessSearch.of(clf.references_)
    other = IncrementalSearch.of(clf.references_, n_neighbors=0)
    _, seen = query(clf, 8)
    mine = found_by(lagless, lagless.start(), seen)
    theirs = found_by(other, other.start(), seen)
    apart = np.abs(mine.nearest[7:] ** 2 - theirs.nearest[7:] ** 2).max(axis=1)
    assert (apart <= mine.bound[7:] + theirs.bound[7:]).all()
    # Only the errors of one window count, not those of a whole period.
    assert (mine.bound[70:] < theirs.bound[70:] / 3).all()
    assert lagless.operations["incremental"] < other.operations["incremental"]


def test_only_narrow_windows_without_lags():
    stream = labelled(17)
    assert LaglessSearch.of(fitted(stream, n_taps=2).references_) is None
    assert LaglessSearch.of(fitted(stream, WIDEST + 1).references_) is None
    assert LaglessSearch.of(fitted(stream, stride=2).references_) is None
    search = LaglessSearch.of(fitted(stream).references_)
    with pytest.raises(InputError, match="a state has ring, count"):
        search.restored({"ring": np.zeros((1, 6, 3))})


def test_references_without_any_spread():
    values = np.zeros((60, 2))
    values[30:] = 1.0
    clf = StreamClassifier(4, metric="euclidean", scale=False).fit(
        values, np.repeat(["a", "b"], 30)
    )
    search = LaglessSearch.of(clf.references_)
    seen = np.random.default_rng(0).normal(size=(30, 2))
    found = found_by(search, search.start(), seen)
    exact = clf.class_distances(seen)
    assert (np.abs(found.nearest[3:] ** 2 - exact[3:] ** 2).max(axis=1) <= found.bound[3:]).all()
