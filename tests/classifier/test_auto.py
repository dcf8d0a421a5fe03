"""The classifier that decides for itself: any labelled stream gets a sensible one, without fuss."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mlat
from mlat import InputError, Lift, Stream, StreamClassifier
from mlat.classifier.selection import Trial
from state_streams import clusters, energy_states, level_states


def fit(stream, **options):
    """Without a word: a warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return StreamClassifier(**options).fit(stream)


def with_constant(stream, channels):
    values = stream.values.copy()
    values[:, channels] = 7.1
    return Stream(values, stream.states, recordings=stream.recordings)


def fresh_clusters(seed, n_states, n_channels=2):
    """Without a switch: a lift that looks far back is as late at one as it looks back."""
    return clusters(seed, [60] * n_states, n_channels, recordings=True)


EDGES = {
    "one run of each state": lambda seed: clusters(seed, [150, 150, 150]),
    "two states": lambda seed: clusters(seed, [100, 100]),
    "60 channels": lambda seed: clusters(seed, [65, 65, 65], n_channels=60),
    "20 windows of each state": lambda seed: clusters(seed, [29, 29, 29]),
    "20 windows of each state, twice": lambda seed: clusters(seed, [29] * 6, states="abcabc"),
    "2000 windows against 30": lambda seed: clusters(seed, [2009, 39]),
    "2000 windows against 30, twice": lambda seed: clusters(seed, [1009, 24] * 2, states="abab"),
    "a channel that stands still": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [1]),
    "only one channel moves": lambda seed: with_constant(clusters(seed, [90] * 3, 3), [0, 2]),
    "one state has no second episode": lambda seed: clusters(seed, [80, 80, 80], states="aba"),
}


@pytest.mark.parametrize("name", EDGES)
def test_every_stream_gets_a_sensible_classifier(name):
    train = EDGES[name](0)
    clf = fit(train, budget=0.5 if "60" in name else 60)
    fresh = fresh_clusters(1, len(train.classes), train.n_channels)
    if "channel" in name and "60" not in name:
        still = np.flatnonzero(np.ptp(train.values, axis=0) == 0)
        fresh = with_constant(fresh, still)
    assert clf.classes_.tolist() == train.classes.tolist()
    assert clf.score(fresh) > 0.95
    proba = clf.predict_proba(fresh)
    assert np.isfinite(proba).all(axis=1).sum() == (61 - clf.width_) * len(train.classes)
    assert len(clf.selection_.chosen) > 10


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_state_of_one_window_disturbs_no_other(repeats):
    """One window a run has no target to learn from; it is a reference, as good as it can be."""
    train = clusters(0, [90, 90, 10] * repeats, states="abc" * repeats)
    clf = fit(train)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert (clf.windows_.y == "c").sum() == repeats
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    assert clf.predict(train.values[:190], filtered=True).shape == (190,)


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_any_kind(seed):
    train, fresh = clusters(seed, [80, 80]), fresh_clusters(seed + 5, 2)
    clf = fit(train, budget=1)
    single = fit(Stream(train.values.astype(np.float32), train.states), budget=1)
    assert single.score(Stream(fresh.values.astype(np.float32), fresh.states)) > 0.9
    numbered = fit(Stream(np.round(10 * train.values).astype(int), train.codes + 4), budget=1)
    predicted = numbered.predict(np.round(10 * fresh.values).astype(int))
    assert numbered.unknown_ == -1
    assert set(predicted) == {-1, 4, 5}
    assert np.mean(predicted == fresh.codes + 4) > 0.85
    assert clf.predict(fresh).dtype.kind == "U"


def test_a_width_wider_than_some_runs():
    """What it settles on is narrower, so the short run gives windows after all."""
    train = clusters(0, [100, 100, 15])
    clf = fit(train, width=20)
    assert clf.width_ == 10
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    short = Stream(train.values[200:], train.states[200:])
    assert clf.score(short) == 1.0  # its own reference, from the beginning of a recording


def test_a_state_without_windows_is_told_of_once():
    train = clusters(0, [100, 100, 6])
    for metric in ("auto", "euclidean"):
        with pytest.warns(UserWarning, match="no run of c is 10 steps long") as told:
            clf = StreamClassifier(metric=metric, budget=0).fit(train)
        assert len(told) == 1
        assert clf.classes_.tolist() == ["a", "b"]


def test_missing_values_recordings_and_unlabelled_stretches():
    train = clusters(0, [120, 120, 120, 120], states="abab")
    values, states = train.values.copy(), train.states.copy()
    values[[50, 130, 131, 300], [0, 1, 0, 1]] = np.nan
    states[200:240] = ""
    recordings = np.arange(480) // 160
    clf = fit(Stream(values, states, recordings=recordings))
    assert clf.score(fresh_clusters(1, 2)) > 0.95
    fresh = clusters(1, [100, 100])
    broken = fresh.values.copy()
    broken[70, 1] = np.nan
    predicted = clf.predict(Stream(broken, recordings=np.arange(200) >= 150))
    unknown = np.flatnonzero(predicted == "")
    w = clf.width_ - 1
    expected = [*range(w), *range(70, 71 + w), *range(150, 150 + w)]
    assert unknown.tolist() == expected


def test_a_channel_that_stands_still_within_runs_adds_no_noise():
    """As a switch or a setting does: its deviation is nothing, and not the rounding of it."""

    def with_setting(stream, seed):
        level = np.random.default_rng(seed).choice([0.1, 0.7, 0.3], size=len(stream.runs))
        return Stream(
            np.column_stack([stream.values, np.repeat(level, stream.runs.length)]), stream.states
        )

    train = with_setting(energy_states(0, n_runs=3, run_length=150), 0)
    clf = fit(train, budget=0)  # the usual: channels and running energies
    setting = clf.feature_channels_ == 2
    names = np.array(clf.feature_names_)[setting]
    features = clf.features(train)[10:]
    for name, feature in zip(names, features[:, setting].T, strict=True):
        if "deviation" in name or "difference" in name:
            reach = clf.features_.lift.reach
            inside = [feature[a:b][reach + 10 : -10] for a, b, _ in train.runs]
            assert max(np.abs(part).max() for part in inside) < 1e-9


# What it says of itself


def test_the_selection_tells_what_was_tried_and_why():
    clf = fit(energy_states(0), reach=30)
    selection = clf.selection_
    assert len(selection.trials) > 5
    assert all(isinstance(trial, Trial) for trial in selection.trials)
    assert selection.choice in [trial.choice for trial in selection.trials]
    assert selection.chosen == str(selection.choice)
    assert f"energies over {selection.choice.reach} steps" in selection.chosen
    assert selection.choice.reach <= 30
    assert f"{len(selection.trials)} choices tried" in selection.why
    assert "standard errors" in selection.why
    # And the classifier is what was chosen.
    choice = selection.choice
    assert (clf.width_, clf.n_neighbors_) == (choice.width, choice.n_neighbors)
    assert clf.features_.lift.get_params() == choice.make_lift().get_params()
    assert (clf.features_.mixing is not None) == choice.whiten
    assert type(clf.metric_) is type(choice.make_metric())
    assert len(clf.feature_names_) == clf.features_.n_features == len(clf.feature_channels_)


def test_what_is_given_is_not_chosen():
    stream = level_states(0, run_length=60, n_runs=1)
    for metric in ("euclidean", "mlat", "lmnn", mlat.MLAT(max_iter=2)):
        clf = fit(stream, metric=metric, lift=["identity", "low_pass"], whiten=True, width=7)
        assert clf.selection_ is None
        assert (clf.width_, clf.n_neighbors_) == (7, 1)
        assert clf.feature_names_ == ("x0", "x1", "mean of x0", "mean of x1")
        assert clf.features_.mixing.shape == (4, 4)
    assert isinstance(fit(stream, metric="lmnn").metric_, mlat.LMNN)
    assert fit(stream, metric="euclidean").metric_ is None


def test_neighbours_given():
    train, fresh = clusters(0, [100, 100, 100]), fresh_clusters(1, 3)
    clf = fit(train, n_neighbors=5)
    assert clf.n_neighbors_ == 5
    distances, rows = clf.kneighbors(fresh)
    assert rows.shape == (180, 5)
    shares = clf.predict_proba(fresh)[~np.isnan(distances[:, 0])]
    np.testing.assert_allclose(shares * 5, np.round(shares * 5), atol=1e-9)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert clf.score(fresh) > 0.95
    assert np.mean(clf.predict(fresh, filtered=True) == fresh.states) > 0.8


def test_the_same_stream_gives_the_same_classifier():
    train, fresh = clusters(0, [80, 80]), clusters(1, [60, 60])
    first, second = fit(train, budget=1e9), fit(train, budget=1e9)
    assert first.selection_.choice == second.selection_.choice
    np.testing.assert_array_equal(first.predict_proba(fresh), second.predict_proba(fresh))
    assert clone(first).get_params() == first.get_params()


def test_metric_matrix_is_the_distance():
    """Over windows of features, whitening included: kneighbors by hand."""
    train = energy_states(0, run_length=100)
    for metric in ("euclidean", mlat.MLAT(max_iter=3)):
        clf = fit(
            train, metric=metric, lift=["identity", "running_deviation"], whiten=True, width=4
        )
        M, fresh = clf.metric_matrix(), energy_states(1, run_length=20)
        distances, rows = clf.kneighbors(fresh)
        query = clf.features(fresh)[30:34].ravel()
        start = clf.windows_.start[rows[33, 0]]
        off = query - clf.reference_features_[start : start + 4].ravel()
        assert distances[33, 0] == pytest.approx(np.sqrt(off @ M @ off))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lift": ["identity"]}, 'metric="auto" chooses lift and whitening itself; leave them out'),
        ({"whiten": True}, 'metric="auto" chooses lift and whitening itself'),
        ({"metric": "cosine"}, 'metric must be "auto", "euclidean", "mlat", "lmnn" or an'),
        ({"reach": 0}, "reach must be a whole number of at least 1, not 0"),
        ({"reach": 2.5}, r"reach must be .* not 2\.5"),
        ({"reach": "far"}, "reach must be .* not 'far'"),
        ({"budget": -1}, "budget must be a number of seconds, at least 0, not -1"),
        ({"budget": "long"}, "budget must be a number of seconds"),
        ({"budget": None}, "budget must be a number of seconds"),
        ({"budget": float("nan")}, "budget must be a number of seconds"),
        ({"unknown_rate": 1}, "unknown_rate must be from 0 to less than 1, not 1"),
        ({"unknown_rate": -0.1}, "unknown_rate must be from 0"),
        ({"unknown_rate": float("nan")}, "unknown_rate must be from 0"),
        ({"unknown_rate": "some"}, "unknown_rate must be from 0"),
        ({"unknown_rate": True}, "unknown_rate must be from 0"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_neighbors": 1.5}, "n_neighbors must be at least 1"),
        ({"width": 0}, "width must be a whole number of steps"),
        ({"step": 0}, "step must be a whole number of steps"),
        ({"metric": "mlat", "lift": "identity"}, "maps must list some of"),
        ({"metric": "mlat", "lift": 3}, "maps must list some of"),
        ({"metric": "mlat", "lift": ["cube"]}, "maps must name some of .* not 'cube'"),
        ({"metric": "mlat", "lift": Lift(["low_pass"], 0)}, "reach must be a whole number"),
        ({"metric": "mlat", "lift": {"identity": [5]}}, r"identity names channels \[5\]"),
    ],
)
def test_bad_parameters_get_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        StreamClassifier(**options).fit(clusters(0, [40, 40]))
    assert "\n" not in str(caught.value)
