"""How sure the classifier is, when it says unknown, and how its filtered states follow a switch."""

import numpy as np
import pytest

from mlat import Stream, StreamClassifier
from mlat.classifier.state_filter import switch_delay
from mlat.synthetic import rotating_states
from state_streams import clusters, level_states

TURNS = {"backwards": -0.11, "forwards": 0.11, "still": 0.0}


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
    """Steps whose window, and all that its features look back at, are of one state."""
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
    clf = StreamClassifier(n_neighbors=1, budget=1).fit(levels(0))
    assert clf.n_neighbors_ == 1
    fresh = levels(1)
    proba = clf.predict_proba(fresh)[clf.width_ - 1 :]
    predicted = clf.predict(fresh)[clf.width_ - 1 :]
    np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], predicted)


def test_they_come_true_as_often_as_they_say(learned):
    clf, streams = learned
    sure, right = [], []
    for stream in streams:
        inside = within_one_state(clf, stream)
        proba = clf.predict_proba(stream)[inside]
        sure.append(proba.max(axis=1))
        right.append(clf.classes_[proba.argmax(axis=1)] == stream.states[inside])
    sure, right = np.concatenate(sure), np.concatenate(right)
    assert sure.mean() == pytest.approx(right.mean(), abs=0.05)
    bins = np.digitize(sure, [0.5, 0.7, 0.9])
    off = 0.0
    for b in range(4):
        if (bins == b).sum():
            off += (bins == b).mean() * abs(sure[bins == b].mean() - right[bins == b].mean())
    assert off < 0.08  # the expected calibration error
    # Surer is oftener right.
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
    clf = StreamClassifier(metric="mlat").fit(levels(0))
    stream = levels(1)
    starts = np.arange(len(stream)) == 0
    delays, right, switches = [], [], []
    for filtered in (False, True):
        predicted = clf.predict(stream, filtered=filtered)
        codes = np.where(predicted == "", -1, np.searchsorted(clf.classes_, predicted))
        delays.append(switch_delay(stream.codes, codes, starts))
        right.append(np.mean(codes == stream.codes))
        switches.append((np.diff(codes) != 0).sum())
    plain, steady = delays
    assert plain.n_switches == steady.n_switches == 11
    assert plain.missed == steady.missed == 0
    assert plain.first_median <= clf.width_
    assert plain.first_median <= steady.first_median <= 2 * clf.width_
    assert steady.settled_median <= plain.settled_median
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
    clf = StreamClassifier(budget=0).fit(clusters(0, [150, 150]))
    values = clusters(1, [300]).values
    calm = clf.predict_proba(values)
    values[50] = 1e200
    shaken = clf.predict_proba(values)
    lift = clf.features_.lift
    after = 50 + 2 * lift.reach + 2 + clf.width_
    np.testing.assert_array_equal(shaken[:50], calm[:50])
    np.testing.assert_array_equal(shaken[after:], calm[after:])
    np.testing.assert_array_equal(clf.predict(values) == "", np.isnan(shaken).any(axis=1))
