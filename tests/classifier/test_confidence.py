"""Calibrated probabilities, the unknown state, and filtered states at a switch."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from held_out_streams import learn, turning
from mlat import InputError, Stream, StreamClassifier
from mlat.classifier.confidence import (
    SOFT,
    Calibration,
    fit_calibration,
    fit_threshold,
    least_distance,
)
from mlat.synthetic import rotating_states
from state_streams import clusters, late_by, level_states

seeds = st.integers(0, 2**32 - 1)
ALPHAS = (0.01, 0.05, 0.1)
TURNS = {"backwards": -0.11, "forwards": 0.11, "still": 0.0}


# Calibration


def random_distances(seed, n=30):
    """Distances of many scales, with equal ones and zeros."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(1, 6))
    nearest = np.exp(rng.normal(scale=rng.choice([0.1, 3.0]), size=(n, n_classes)))
    if rng.random() < 0.5:
        nearest = np.floor(nearest)
    return nearest * 10.0 ** rng.integers(-30, 30)


def drawn_by_the_model(beta, rng, n=4000, n_classes=4):
    """Distances, and states drawn with the probabilities that the model gives them."""
    nearest = np.exp(rng.normal(scale=0.5, size=(n, n_classes)))
    typical = np.median(nearest.min(axis=1))
    weight = (nearest / typical + SOFT) ** -beta
    proba = weight / weight.sum(axis=1, keepdims=True)
    codes = (rng.random((n, 1)) > np.cumsum(proba, axis=1)).sum(axis=1)
    return nearest, codes


def calibration_error(proba, codes, n_bins=10):
    """Expected calibration error of the most probable state."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return sum(
        abs(confidence[place == b].mean() - right[place == b].mean()) * (place == b).mean()
        for b in np.unique(place)
    )


@given(seeds, st.floats(0.02, 400))
def test_probabilities_fall_with_the_distance(seed, beta):
    nearest = random_distances(seed)
    proba = Calibration(beta, float(np.median(nearest)) or 1.0).proba(nearest)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba >= 0).all()
    for d, p in zip(nearest, proba, strict=True):
        order = np.argsort(d, kind="stable")
        assert (np.diff(p[order]) <= 0).all()
        for value in np.unique(d):
            assert len(set(p[d == value])) == 1


@given(seeds)
def test_the_unit_of_distance_does_not_matter(seed):
    nearest = random_distances(seed)
    codes = np.random.default_rng(seed).integers(0, nearest.shape[1], len(nearest))
    one = fit_calibration(nearest, codes)
    other = fit_calibration(nearest * 2.0**40, codes)
    np.testing.assert_allclose(other.beta, one.beta, rtol=1e-6)
    np.testing.assert_allclose(other.proba(nearest * 2.0**40), one.proba(nearest), atol=1e-6)


def test_probabilities_are_the_formula():
    nearest = np.array([[1.0, 3.0, 0.2]])
    weight = (nearest[0] / 2.0 + SOFT) ** -1.7
    np.testing.assert_allclose(Calibration(1.7, 2.0).proba(nearest)[0], weight / weight.sum())


def test_duplicates_share_and_missing_windows_have_none():
    nearest = np.array([[0.0, 0.0, 1.0], [np.nan] * 3, [0.0, 0.0, 0.0], [1.0, np.inf, 1.0]])
    proba = Calibration(300.0, 1.0).proba(nearest)
    np.testing.assert_allclose(proba[0], [0.5, 0.5, 0], atol=1e-12)
    assert np.isnan(proba[1]).all()
    np.testing.assert_allclose(proba[2], 1 / 3)
    np.testing.assert_allclose(proba[3], [0.5, 0, 0.5])
    assert np.isnan(Calibration(1.0, 1.0).proba(np.full((1, 2), np.inf))).all()
    assert Calibration(1.0, 1.0).proba(np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("beta", [0.5, 3.0, 12.0])
def test_the_right_power_is_found_and_comes_true(beta):
    rng = np.random.default_rng(0)
    calibration = fit_calibration(*drawn_by_the_model(beta, rng))
    assert calibration.beta == pytest.approx(beta, rel=0.1)
    nearest, codes = drawn_by_the_model(beta, rng)
    assert calibration_error(calibration.proba(nearest), codes) < 0.03


@given(seeds)
def test_the_log_loss_is_the_least(seed):
    """Of the smoothed targets, against a plain search over powers."""
    nearest = random_distances(seed)
    n_classes = nearest.shape[1]
    codes = np.random.default_rng(seed + 1).integers(0, n_classes, len(nearest))
    calibration = fit_calibration(nearest, codes)
    smoothing = 2 / (len(codes) + 2)
    target = np.eye(n_classes)[codes] * (1 - smoothing) + smoothing / n_classes

    def loss(beta):
        proba = Calibration(beta, calibration.typical).proba(nearest)
        return -(target * np.log(np.maximum(proba, 1e-300))).sum(axis=1).mean()

    assert loss(calibration.beta) <= min(map(loss, np.exp(np.linspace(-4, 6, 60)))) + 1e-4


def test_copies_of_few_windows_do_not_make_it_sure():
    """All right: only the number of independent windows limits its confidence."""
    nearest = np.tile([[1.0, 2.0], [2.0, 1.0]], (50, 1))
    codes = np.tile([0, 1], 50)
    alone = fit_calibration(nearest, codes)
    blocks = fit_calibration(nearest, codes, np.arange(100) // 25)
    assert alone.proba(nearest).max() == pytest.approx(101 / 102, abs=1e-3)  # Platt's targets
    assert blocks.proba(nearest).max() == pytest.approx(5 / 6, abs=1e-3)


def test_windows_without_a_reference_are_passed_over():
    rng = np.random.default_rng(3)
    nearest, codes = drawn_by_the_model(2.0, rng, n=200)
    known = fit_calibration(nearest, codes)
    more = np.concatenate([nearest, [[np.nan] * 4, [np.inf, 1.0, 1.0, 1.0]]])
    assert fit_calibration(more, np.append(codes, [0, 0])) == known


def test_nothing_to_learn_from_is_hardly_a_preference():
    for nearest in (np.empty((0, 2)), np.full((3, 2), np.nan), np.full((3, 2), np.inf)):
        calibration = fit_calibration(nearest, np.zeros(len(nearest), int))
        proba = calibration.proba(np.array([[1.0, 2.0]]))[0]
        assert 0.5 < proba[0] < 0.51
    same = fit_calibration(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(same.proba(np.zeros((1, 2))), 0.5)


def test_it_is_a_few_numbers():
    calibration = fit_calibration(*drawn_by_the_model(2.0, np.random.default_rng(0), n=100))
    assert Calibration(**json.loads(json.dumps(asdict(calibration)))) == calibration


def test_on_a_stream_it_comes_true_and_beats_certainty():
    errors, losses, uniform = [], [], np.log(3)
    for seed in range(4):
        learned = learn(turning(seed, runs_per_state=4, noise=1.1))
        calibration = fit_calibration(learned.held_out, learned.codes, learned.blocks)
        new = turning(100 + seed, runs_per_state=8, noise=1.1)
        proba = calibration.proba(learned.nearest(new))
        known = ~np.isnan(proba[:, 0])
        codes = new.codes[known]
        errors.append(calibration_error(proba[known], codes))
        losses.append(-np.log(proba[known][np.arange(len(codes)), codes]).mean())
    assert np.mean(errors) < 0.1
    assert np.mean(losses) < 0.8 * uniform


def test_bad_input_to_a_calibration_is_named():
    with pytest.raises(InputError, match=r"not \(3, 2\) and \(2,\)"):
        fit_calibration(np.ones((3, 2)), np.zeros(2, int))


# Unknown states


def naive_threshold(nearest, alpha, blocks):
    """The smallest distance with enough weight at or below it, or the largest there is."""
    distance = [min(row) for row in nearest]
    n_blocks = len(set(blocks))
    for level in sorted(distance):
        weight = 0.0
        for block in set(blocks):
            own = [d for d, b in zip(distance, blocks, strict=True) if b == block]
            weight += sum(d <= level for d in own) / len(own) / (n_blocks + 1)
        if weight >= 1 - alpha - 1e-12:
            return level
    return max(distance)


@given(seeds, st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 0.9]))
def test_the_threshold_is_the_naive_one(seed, alpha):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    nearest = rng.integers(0, 20, (n, 3)).astype(float)
    blocks = rng.integers(0, 6, n)
    assert fit_threshold(nearest, alpha, blocks) == naive_threshold(nearest, alpha, blocks)
    alone = fit_threshold(nearest, alpha)
    assert alone == naive_threshold(nearest, alpha, list(range(n)))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_independent_windows_raise_the_false_alarms_asked_for(alpha):
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(300):
        threshold = fit_threshold(rng.exponential(size=(199, 1)), alpha)
        rates.append(np.exp(-threshold))  # the true rate of that threshold
    assert np.mean(rates) == pytest.approx(alpha, rel=0.15)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_blocks_of_near_copies_raise_no_more_than_asked_for(alpha):
    """Windows of a block share a level: the windows are many, what they say is little."""
    rng = np.random.default_rng(1)
    rates = []
    for _ in range(200):
        level = rng.normal(size=120)
        nearest = np.repeat(level, 20)[:, None] + 0.1 * rng.normal(size=(2400, 1))
        threshold = fit_threshold(nearest, alpha, np.repeat(np.arange(120), 20))
        new = rng.normal(size=2000) + 0.1 * rng.normal(size=2000)
        rates.append((new > threshold).mean())
    assert alpha / 4 < np.mean(rates) <= alpha * 1.1


def test_fresh_streams_raise_about_the_false_alarms_asked_for_and_unseen_states_are_found():
    alarms, found = [], []
    for seed in range(6):
        learned = learn(turning(seed, runs_per_state=4, run_length=300))
        known = learned.nearest(turning(100 + seed, runs_per_state=6, run_length=200))
        unseen = learned.nearest(turning(200 + seed, {"fast": 0.23}, runs_per_state=5))
        thresholds = [fit_threshold(learned.held_out, a, learned.blocks) for a in ALPHAS]
        alarms.append([(least_distance(known) > t).mean() for t in thresholds])
        found.append([(least_distance(unseen) > t).mean() for t in thresholds])
    rates, fractions = np.mean(alarms, axis=0), np.mean(found, axis=0)
    assert (rates > np.array(ALPHAS) / 4).all(), rates
    assert (rates < np.array(ALPHAS) * 2).all(), rates
    # At 1 % the threshold is about the largest of a hundred blocks, and half go unnoticed.
    assert (fractions > [0.4, 0.85, 0.85]).all(), fractions


def test_no_rate_no_alarms():
    nearest = np.ones((3, 2))
    assert fit_threshold(nearest, 0.0) == np.inf
    assert fit_threshold(np.full((3, 2), np.nan), 0.1) == np.inf


def test_missing_windows_are_passed_over_and_raise_no_alarm():
    nearest = np.array([[1.0, 9.0], [np.nan, np.nan], [9.0, 2.0], [3.0, 9.0]])
    assert fit_threshold(nearest, 0.25) == fit_threshold(nearest[[0, 2, 3]], 0.25) == 3.0
    np.testing.assert_array_equal(least_distance(nearest), [1.0, np.nan, 2.0, 3.0])


def test_bad_input_to_a_threshold_is_named():
    for alpha in (-0.1, 1.0, np.nan):
        with pytest.raises(InputError, match="alpha must be from 0 to less than 1"):
            fit_threshold(np.ones((2, 2)), alpha)
    with pytest.raises(InputError, match=r"not \(2,\)"):
        fit_threshold(np.ones(2), 0.1)


# The classifier


def rotations(seed):
    return rotating_states(
        TURNS, n_channels=3, run_length=120, runs_per_state=4, noise=0.8, random_state=seed
    )


def levels(seed):
    return level_states(seed, run_length=120, n_runs=4, gap=1.0)


@pytest.fixture(scope="module", params=[rotations, levels], ids=lambda make: make.__name__)
def learned(request):
    """A classifier that decided for itself, and streams that it has not seen."""
    clf = StreamClassifier(unknown_rate=0.1).fit(request.param(0))
    return clf, [request.param(seed) for seed in (1, 2, 3)]


def within_one_state(clf, stream):
    """Steps whose window and the earlier steps of its features are of one state."""
    since = np.zeros(len(stream), int)
    for start, stop, _ in stream.runs:
        since[start:stop] = np.arange(stop - start)
    return since >= clf.width_ - 1 + clf.features_.lift.memory


def test_probabilities_are_probabilities(learned):
    clf, streams = learned
    proba = clf.predict_proba(streams[0])
    assert proba.shape == (len(streams[0]), len(clf.classes_))
    assert np.isnan(proba[: clf.width_ - 1]).all()
    seen = proba[clf.width_ - 1 :]
    assert (seen >= 0).all()
    np.testing.assert_allclose(seen.sum(axis=1), 1)
    predicted = clf.predict(streams[0])[clf.width_ - 1 :]
    named = predicted != ""
    if clf.n_neighbors_ == 1:
        np.testing.assert_array_equal(clf.classes_[seen.argmax(axis=1)][named], predicted[named])


def test_with_one_neighbour_the_most_probable_state_is_the_one_predicted():
    clf = StreamClassifier(n_neighbors=1).fit(levels(0))
    assert clf.n_neighbors_ == 1
    fresh = levels(1)
    proba = clf.predict_proba(fresh)[clf.width_ - 1 :]
    predicted = clf.predict(fresh)[clf.width_ - 1 :]
    np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], predicted)


def test_they_come_true_as_often_as_they_say(learned):
    clf, streams = learned
    confidence, right = [], []
    for stream in streams:  # with their switches, as a live stream has them
        inside = clf.ends_window(stream)
        proba = clf.predict_proba(stream)[inside]
        confidence.append(proba.max(axis=1))
        right.append(clf.classes_[proba.argmax(axis=1)] == stream.states[inside])
    confidence, right = np.concatenate(confidence), np.concatenate(right)
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.05)
    bins = np.digitize(confidence, [0.5, 0.7, 0.9])
    off = 0.0
    for b in range(4):
        if (bins == b).sum():
            off += (bins == b).mean() * abs(confidence[bins == b].mean() - right[bins == b].mean())
    assert off < 0.08  # the expected calibration error
    # The more confident, the oftener right.
    assert right[bins == 3].mean() > right[bins == 1].mean() + 0.1
    assert right[bins == 3].mean() > 0.95


def test_false_alarms_are_no_more_than_asked_for(learned):
    clf, streams = learned
    alarms = [(clf.predict(s) == "")[within_one_state(clf, s)].mean() for s in streams]
    assert 0.001 < np.mean(alarms) < 0.1 + 0.05


def test_false_alarms_are_as_many_as_asked_for_where_nothing_is_learned():
    """With the Euclidean distance the training windows are like new ones, so the rate is met."""
    rates = []
    for seed in range(0, 40, 4):
        clf = StreamClassifier(metric="euclidean", unknown_rate=0.1).fit(levels(seed))
        fresh = levels(seed + 1)
        rates.append((clf.predict(fresh) == "")[within_one_state(clf, fresh)].mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.03)


def test_a_state_never_seen_is_unknown():
    clf = StreamClassifier(unknown_rate=0.05).fit(clusters(0, [150, 150, 150]))
    strange = Stream(clusters(1, [100]).values + 30)
    assert (clf.predict(strange) == "").all()
    never = StreamClassifier().fit(clusters(0, [150, 150, 150]))
    assert (never.predict(strange)[never.width_ - 1 :] != "").all()
    assert never.confidence_.threshold == np.inf


@pytest.mark.parametrize("k", [1, 5])
def test_windows_like_no_reference_count_as_wrong(k):
    train, fresh = clusters(0, [100, 100]), clusters(1, [100, 100])
    clf = StreamClassifier(metric="euclidean", n_neighbors=k, unknown_rate=0.05).fit(train)
    values = fresh.values.copy()
    values[50:80] += 100
    stream = Stream(values, fresh.states)
    predicted = clf.predict(stream)
    assert (predicted[50:80] == "").all()
    assert clf.score(stream) == pytest.approx(np.mean((predicted == fresh.states)[9:]))


def test_filtered_states_do_not_depend_on_the_future(learned):
    clf, streams = learned
    stream = streams[0][:300]
    whole = clf.predict(stream, filtered=True)
    proba = clf.predict_proba(stream, filtered=True)
    for stop in (1, clf.width_, 150):
        np.testing.assert_array_equal(clf.predict(stream[:stop], filtered=True), whole[:stop])
        values = stream.values.copy()
        values[stop:] += 1e3
        changed = clf.predict_proba(Stream(values, channels=stream.channels), filtered=True)
        np.testing.assert_array_equal(changed[:stop], proba[:stop])


def test_filtered_states_are_steadier_and_late_by_how_much():
    """Channels as they are, ten steps: half a width late, and a width with the filter."""
    train, stream = (level_states(seed, run_length=200, n_runs=4, gap=1.0) for seed in (0, 1))
    clf = StreamClassifier(metric="mlat").fit(train)
    late, right, switches = [], [], []
    for filtered in (False, True):
        predicted = clf.predict(stream, filtered=filtered)
        codes = np.where(predicted == "", -1, np.searchsorted(clf.classes_, predicted))
        late.append(late_by(stream.codes, codes))
        right.append(np.mean(codes == stream.codes))
        switches.append((np.diff(codes) != 0).sum())
    assert np.isfinite(late).all()
    plain, steady = np.median(late, axis=1)
    assert plain <= clf.width_
    assert plain <= steady <= 2 * clf.width_
    assert switches[1] < switches[0] / 2
    assert right[1] > right[0]


def test_the_filter_forgets_at_a_gap():
    clf = StreamClassifier(metric="euclidean").fit(clusters(0, [100, 100]))
    values = clusters(1, [60, 60]).values
    cut = Stream(values, recordings=np.arange(120) >= 60)
    joined = np.concatenate([clf.predict(values[:60], filtered=True)] * 2)
    joined[60:] = clf.predict(values[60:], filtered=True)
    np.testing.assert_array_equal(clf.predict(cut, filtered=True), joined)


def test_values_beyond_all_numbers_are_unknown_and_forgotten():
    clf = StreamClassifier(held_out=False).fit(clusters(0, [150, 150]))
    values = clusters(1, [300]).values
    calm = clf.predict_proba(values)
    values[50] = 1e200
    shaken = clf.predict_proba(values)
    lift = clf.features_.lift
    after = 50 + 2 * lift.reach + 2 + clf.width_
    np.testing.assert_array_equal(shaken[:50], calm[:50])
    # Sums over the last steps start again after a missing one, and round otherwise.
    np.testing.assert_allclose(shaken[after:], calm[after:], rtol=1e-9)
    np.testing.assert_array_equal(clf.predict(values) == "", np.isnan(shaken).any(axis=1))
