import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat import Lift, Stream, StreamClassifier
from mlat.features.features import Scaling, View, learn_features, whitening, within_covariance
from mlat.features.lifts import MAPS
from mlat.stream.windows import sliding_windows

ALL = Lift(tuple(MAPS), 15)


def make_stream(seed=0, broken=True):
    """Two states in turn, with an unlabelled segment, a lost value and a second recording."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(300, 3)) * [1.0, 5.0, 0.1] + [0.0, 100.0, -3.0]
    states = np.repeat(["a", "b", "a", "", "b", "a"], 50).astype("<U1")
    if broken:
        values[[20, 220], [1, 2]] = np.nan
    return Stream(values, states, recordings=np.arange(300) >= 250)


@pytest.fixture(scope="module")
def stream():
    return make_stream()


def test_each_run_is_lifted_for_itself(stream):
    features, steps, codes = learn_features(stream, ALL)
    labelled = stream.labelled & ~stream.missing
    scale = Scaling(stream.values[labelled].mean(axis=0), stream.values[labelled].std(axis=0))
    inside = np.zeros(len(stream), bool)
    for start, stop, code in stream.runs:
        inside[start:stop] = True
        run = (stream.values[start:stop] - scale.mean) / scale.scale
        own = features.lifted(ALL.transform(run))
        np.testing.assert_allclose(steps[start:stop], own, atol=1e-9)
        assert (codes[start:stop] == code).all()
    assert np.isnan(steps[~inside]).all()
    assert (codes[~inside] == -1).all()


def test_a_live_stream_goes_on_where_a_run_begins_anew(stream):
    """Segments are lifted across a change of state, runs are not: a reference knows one state."""
    features, runs, _ = learn_features(stream, ALL)
    live = features(stream)
    starts = stream.segments.start.tolist()
    for start, stop, _ in stream.runs:
        if start in starts:
            np.testing.assert_array_equal(live[start:stop], runs[start:stop])
        else:
            settled = slice(start + ALL.memory, stop)
            np.testing.assert_allclose(live[settled], runs[settled], atol=1e-8)
            assert np.abs(live[start] - runs[start]).max() > 0.01
    unlabelled = ~stream.labelled & ~stream.missing
    assert np.isfinite(live[unlabelled]).all()
    np.testing.assert_array_equal(np.isnan(live).any(axis=1), stream.missing)
    np.testing.assert_array_equal(np.isnan(live).all(axis=1), stream.missing)


def test_features_have_mean_0_and_variance_1_over_the_steps_learned_from(stream):
    _, steps, codes = learn_features(stream, ALL)
    scaled = steps[codes >= 0]
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_an_expert_sees_some_features_mixed(stream):
    features, steps, codes = learn_features(stream, ALL)
    X, mixing = steps[codes >= 0], np.array([[1.0, 0.5], [0.5, 2.0]])
    columns = np.array([3, 0])
    np.testing.assert_allclose(View(columns, mixing)(X), X[:, columns] @ mixing)
    np.testing.assert_array_equal(View()(X), X)
    assert np.isnan(features(stream)[20]).all()
    assert np.isfinite(features(stream)[19]).all()


@pytest.mark.parametrize(("scale", "lift"), [(True, None), (False, None), (False, ALL)])
def test_untouched_channels_and_scale_false_keep_their_own(stream, scale, lift):
    features, _, _ = learn_features(stream, lift or Lift(), scale=scale)
    np.testing.assert_array_equal(features.lifted.mean, 0)
    np.testing.assert_array_equal(features.lifted.scale, 1)
    if not scale:
        np.testing.assert_array_equal(features.channels.mean, 0)
        np.testing.assert_array_equal(features.channels.scale, 1)
        direct = (lift or Lift()).transform(stream)
        np.testing.assert_array_equal(features(stream), direct)


@pytest.mark.parametrize("stride", [1, 7, 40])
@pytest.mark.parametrize("whiten", [False, True])
def test_the_references_are_what_the_metric_was_learned_on(stream, stride, whiten):
    class Watching(mlat.LMNN):
        def fit(self, windows, y, **more):
            self.seen_ = windows.X.copy()
            return super().fit(windows, y, **more)

    clf = StreamClassifier(
        width=8, metric=Watching(max_iter=1, n_targets=1), lift=ALL, whiten=whiten, stride=stride
    ).fit(stream)
    features, windows = clf.features_, clf.windows_
    view = np.lib.stride_tricks.sliding_window_view(clf.reference_features_, 8, axis=0)
    of_runs = clf.references_.view(view.transpose(0, 2, 1)[windows.start])
    np.testing.assert_allclose(of_runs, clf.metric_.seen_, rtol=1e-12, atol=1e-12)
    assert np.isnan(clf.reference_features_[[20, 170, 220]]).all()
    again = features.of_runs(sliding_windows(stream, 8, stride=stride))
    np.testing.assert_array_equal(again, clf.reference_features_)


def test_the_references_find_themselves(stream):
    """A window of a run that begins where a segment does is its own reference, at distance 0."""
    clf = StreamClassifier(width=8, metric="euclidean", lift=ALL, whiten=True).fit(stream)
    distances, rows = clf.kneighbors(stream)
    for start in (21, 250):  # after the lost value, and the second recording
        ends = np.arange(start + 7, start + 29)
        np.testing.assert_array_equal(clf.windows_.start[rows[ends, 0]] + 7, ends)
        np.testing.assert_allclose(distances[ends, 0], 0, atol=1e-6)


def test_a_channel_that_never_moves_gives_features_of_nothing():
    values = np.random.default_rng(2).normal(size=(200, 3))
    values[:, 1] = 0.1
    stream = Stream(values, np.repeat(["a", "b"], 100))
    features, _, _ = learn_features(stream, ALL)
    plain = features(stream)
    still = ALL.channels(3) == 1
    assert np.abs(plain[:, still]).max() < 1e-9
    assert np.isfinite(features(stream)).all()
    # It moves for the first time when it is used: still no more than it moved by.
    values[:, 1] = 0.3
    moved = features(Stream(values))[:, still]
    assert np.isfinite(moved).all()


@pytest.mark.parametrize("levels", [(0.1, 0.7), (0.1, 0.7, 0.3), (3.0, 5.0, 5.0, 3.0)])
def test_rounding_is_not_blown_up_to_a_feature(levels):
    """A channel that stands at one level in each run: no deviation, no difference, ever."""
    n = 150
    rng = np.random.default_rng(3)
    values = np.column_stack([np.repeat(levels, n), rng.normal(size=n * len(levels))])
    stream = Stream(values, np.repeat([f"s{i}" for i in range(len(levels))], n))
    lift = Lift(["running_magnitude", "running_deviation", "running_difference"], 50)
    plain = learn_features(stream, lift)[1][:, [0, 2, 4]]
    magnitude, deviation, difference = np.abs(plain).max(axis=0)
    assert max(deviation, difference) < 1e-12
    if len(levels) != 3:  # two levels, as long each: scaled they are 1 and -1, of one magnitude
        assert magnitude < 1e-9
    else:
        assert magnitude > 0.5


def test_scaling_by_hand():
    steps = np.array([[1.0, 5.0, 1e9], [3.0, 5.0, 1e9]])
    scaling = Scaling.of(steps)
    np.testing.assert_array_equal(scaling.mean, [2, 5, 1e9])
    np.testing.assert_array_equal(scaling.scale, [1, 1, 1])
    np.testing.assert_array_equal(scaling(steps), [[-1, 0, 0], [1, 0, 0]])
    tiny = Scaling.of(np.array([[0.0], [1e-100]]))  # a small unit is not a still channel
    np.testing.assert_allclose(tiny.scale, 5e-101)
    assert Scaling.of(np.array([[0.0], [1e-12]]), least=1e-10).scale == [1.0]


def test_single_precision_is_scaled_in_double():
    stream = make_stream(broken=False)
    single = Stream(stream.values.astype(np.float32), stream.states, recordings=stream.recordings)
    features, _, _ = learn_features(single, ALL)
    assert features(single).dtype == np.float64
    double, _, _ = learn_features(stream, ALL)
    np.testing.assert_allclose(features(single), double(stream), atol=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(-1000, 1000))
def test_columns_of_any_size_are_scaled_alike(seed, power):
    steps = np.random.default_rng(seed).normal(size=(40, 3)) + np.arange(3)
    plain, scaled = Scaling.of(steps), Scaling.of(np.ldexp(steps, power))
    np.testing.assert_array_equal(plain.mean, steps.mean(axis=0))
    np.testing.assert_array_equal(plain.scale, steps.std(axis=0))
    np.testing.assert_array_equal(scaled.mean, np.ldexp(plain.mean, power))
    np.testing.assert_array_equal(scaled.scale, np.ldexp(plain.scale, power))
    np.testing.assert_array_equal(scaled(np.ldexp(steps, power)), plain(steps))


@pytest.mark.parametrize("value", [0.1, -1e300, np.finfo(float).max, 5e-324])
def test_a_constant_of_any_size_stays_nothing(value):
    scaled = Scaling.of(np.full((30, 1), value))
    assert np.abs(scaled(np.full((30, 1), value))).max() < 1e-3


def test_the_largest_numbers_are_scaled():
    steps = np.array([[-1.0], [1.0], [-1.0], [1.0]]) * np.finfo(float).max
    np.testing.assert_array_equal(Scaling.of(steps)(steps).ravel(), [-1, 1, -1, 1])


@pytest.mark.parametrize("power", [-900, 0, 900])
def test_extreme_values_are_those_that_no_distance_can_hold(power):
    scaling = Scaling.of(np.ldexp(np.random.default_rng(0).normal(size=(40, 2)), power))
    far = 1e99 if power <= 0 else 1e30  # or beyond all numbers
    steps = scaling.mean + scaling.scale * np.array([[far, -far], [0, 0]])
    assert scaling.extremes(steps) is None
    steps[1] = [np.nan, 1.0 if power < 0 else np.inf]
    extreme = scaling.extremes(steps)
    if power < 0:
        np.testing.assert_array_equal(extreme, [[False, False], [False, True]])
    else:
        assert extreme is None, "infinite and missing values have policies of their own"


def test_unscaled_channels_keep_their_scale_unless_it_is_extreme(stream):
    labelled = stream.values[stream.labelled & ~stream.missing]
    assert (Scaling.own(labelled).scale == 1).all()
    for power in (-900, 900):
        scaling = Scaling.own(np.ldexp(labelled, power))
        largest = np.abs(scaling(np.ldexp(labelled, power))).max()
        assert 0.5 <= largest < 1


def labelled(seed, n=60, d=4, n_states=3):
    rng = np.random.default_rng(seed)
    codes = np.append(np.arange(n_states), rng.integers(n_states, size=n - n_states))
    mixed = (
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        + 5 * rng.normal(size=(n_states, d))[codes]
    )
    return mixed, codes


def naive_covariance(X, codes):
    total = np.zeros((X.shape[1], X.shape[1]))
    for row, code in zip(X, codes, strict=True):
        off = row - X[codes == code].mean(axis=0)
        total += np.outer(off, off)
    return total / len(X)


def power_of(C, power):
    """C to a power, one eigenvector at a time."""
    values, vectors = np.linalg.eigh(C)
    return sum(v**power * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 999),
    power=st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    shrinkage=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_the_metric_is_the_covariance_within_states_to_a_negative_power(seed, power, shrinkage):
    X, codes = labelled(seed)
    C = naive_covariance(X, codes)
    np.testing.assert_allclose(within_covariance(X, codes), C, rtol=1e-10, atol=1e-12)
    shrunk = (1 - shrinkage) * C + shrinkage * np.trace(C) / 4 * np.eye(4)
    W = whitening(X, codes, power, shrinkage)
    np.testing.assert_allclose(W, W.T, atol=1e-9 * np.abs(W).max())
    assert (np.linalg.eigvalsh(W) > 0).all()
    expected = power_of(shrunk, -power)
    np.testing.assert_allclose(W @ W, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


def test_in_full_it_makes_states_round():
    X, codes = labelled(1)
    W = whitening(X, codes, power=1.0, shrinkage=0.0)
    np.testing.assert_allclose(within_covariance(X @ W, codes), np.eye(4), atol=1e-9)


def test_power_nought_is_the_euclidean_distance():
    X, codes = labelled(2)
    np.testing.assert_allclose(whitening(X, codes, power=0.0), np.eye(4), atol=1e-12)


def test_all_shrinkage_is_the_euclidean_distance_but_for_its_scale():
    X, codes = labelled(3)
    W = whitening(X, codes, shrinkage=1.0)
    np.testing.assert_allclose(W / W[0, 0], np.eye(4), atol=1e-10)


@pytest.mark.parametrize("n", [3, 5, 60])
def test_fewer_steps_than_channels_or_equal_channels_are_harmless(n):
    """C is singular; the shrinkage alone makes it invertible, with a ratio of at most 1 + d/s."""
    X, codes = labelled(4, n=n, d=6)
    X[:, 5] = X[:, 4]  # a direction in which nothing ever varies
    W = whitening(X, codes)
    assert np.isfinite(W).all()
    spread = np.linalg.eigvalsh(W @ W)
    if n == 3:  # every step is its state's mean
        np.testing.assert_array_equal(W, np.eye(6))
    else:
        assert spread.max() / spread.min() <= np.sqrt(1 + 0.9 * 6 / 0.1) * (1 + 1e-9)


def test_a_constant_channel_and_a_constant_state():
    X, codes = labelled(5)
    X[:, 1] = 3.0
    X[codes == 2] = X[codes == 2][0]
    W = whitening(X, codes)
    assert np.isfinite(W).all()
    # The constant channel goes with no other, and a state that never moves adds nothing to C.
    np.testing.assert_allclose(W[1, [0, 2, 3]], 0, atol=1e-9)
    moving = codes != 2
    C = within_covariance(X, codes)
    np.testing.assert_allclose(C, within_covariance(X[moving], codes[moving]) * moving.mean())


def test_nothing_varies_at_all():
    codes = np.repeat([0, 1], 5)
    W = whitening(np.eye(2)[codes], codes)
    np.testing.assert_array_equal(W, np.eye(2))


@settings(max_examples=30)
@given(seed=st.integers(0, 999))
def test_what_it_does_not_depend_on(seed):
    X, codes = labelled(seed)
    rng = np.random.default_rng(seed + 1)
    W = whitening(X, codes)
    # Where each state lies, the order of the steps, and what the states are called.
    moved = X + rng.normal(size=(3, 4))[codes] * 100
    np.testing.assert_allclose(whitening(moved, codes), W, rtol=1e-7, atol=1e-9)
    order = rng.permutation(len(X))
    np.testing.assert_allclose(whitening(X[order], codes[order]), W, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(whitening(X, (codes + 1) % 3), W, rtol=1e-9, atol=1e-11)


@settings(max_examples=30)
@given(seed=st.integers(0, 999), factor=st.sampled_from([1e-6, 0.3, 1e4]))
def test_how_it_follows_rotations_and_units(seed, factor):
    X, codes = labelled(seed)
    W = whitening(X, codes)
    R = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    np.testing.assert_allclose(whitening(X @ R, codes), R.T @ W @ R, rtol=1e-6, atol=1e-8)
    # Distances grow with the root of the unit, at power a half; their order stays.
    np.testing.assert_allclose(whitening(X * factor, codes), W / np.sqrt(factor), rtol=1e-7)


def test_a_noisy_channel_counts_less_and_how_much_less():
    rng = np.random.default_rng(6)
    codes = np.repeat([0, 1], 5000)
    X = rng.normal(size=(10_000, 2)) * [1.0, 4.0]
    for power in (0.5, 1.0):
        M = np.square(np.diag(whitening(X, codes, power, shrinkage=0.0)))
        assert M[0] / M[1] == pytest.approx(16**power, rel=0.05)
