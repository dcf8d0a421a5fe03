"""The settings of a classifier: given ones are used, others are chosen, bad ones are named."""

import warnings

import numpy as np
import pytest

import mlat
from mlat import InputError, Lift, Stream, StreamClassifier
from state_streams import clusters, level_states


def fit(stream, **options):
    """A warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return StreamClassifier(**options).fit(stream)


def fresh_clusters(seed, n_states, n_channels=2):
    """Without a switch: a lift that looks far back is as late at one as it looks back."""
    return clusters(seed, [60] * n_states, n_channels, recordings=True)


def test_what_is_given_is_not_chosen():
    stream = level_states(0, run_length=60, n_runs=1)
    for metric in ("euclidean", "mlat", "lmnn", mlat.MLAT(max_iter=2)):
        clf = fit(stream, metric=metric, lift=["identity", "low_pass"], whiten=True, width=7)
        assert len(clf.experts_) == 1
        assert (clf.width_, clf.n_neighbors_) == (7, 1)
        assert clf.feature_names_ == ("x0", "x1", "mean of x0", "mean of x1")
        assert clf.references_.view.mixing.shape == (4, 4)
    assert isinstance(fit(stream, metric="lmnn").metric_, mlat.LMNN)
    assert fit(stream, metric="euclidean").metric_ is None


def test_neighbours_given():
    train, fresh = clusters(0, [100, 100, 100]), fresh_clusters(1, 3)
    clf = fit(train, metric="euclidean", n_neighbors=5)
    assert clf.n_neighbors_ == 5
    distances, rows = clf.kneighbors(fresh)
    assert rows.shape == (180, 5)
    proba = clf.predict_proba(fresh)[~np.isnan(distances[:, 0])]
    np.testing.assert_allclose(proba * 5, np.round(proba * 5), atol=1e-9)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert clf.score(fresh) > 0.95
    assert np.mean(clf.predict(fresh, filtered=True) == fresh.states) > 0.8


def test_wide_windows_of_many_channels_are_narrowed():
    """As many values as MLAT over the channels can learn from, so a short run gives windows."""
    train = clusters(0, [100, 100, 15], n_channels=30)
    clf = fit(train, width=20)
    assert clf.width_ == 10
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.score(fresh_clusters(1, 2, 30)) > 0.95
    short = Stream(train.values[200:], train.states[200:])
    assert clf.score(short) == 1.0  # its own reference, from the beginning of a recording


def test_a_state_without_windows_gets_one_warning():
    train = clusters(0, [100, 100, 6])
    for metric in ("auto", "euclidean"):
        with pytest.warns(UserWarning, match="no run of c is 10 steps long") as caught:
            clf = StreamClassifier(metric=metric, held_out=False).fit(train)
        assert len(caught) == 1
        assert clf.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": None}, 'metric must be "auto", "euclidean", "mlat", "lmnn" or an'),
        ({"lift": ["identity"]}, 'metric="auto" has lifts and whitening of its own; leave'),
        ({"whiten": True}, 'metric="auto" has lifts and whitening of its own'),
        ({"metric": "cosine"}, 'metric must be "auto", "euclidean", "mlat", "lmnn" or an'),
        ({"reach": 0}, "reach must be a whole number of at least 1 or None, not 0"),
        ({"reach": 2.5}, r"reach must be .* not 2\.5"),
        ({"reach": "far"}, "reach must be .* not 'far'"),
        ({"unknown_rate": 1}, "unknown_rate must be a number from 0 to less than 1, not 1"),
        ({"unknown_rate": -0.1}, "unknown_rate must be a number from 0"),
        ({"unknown_rate": float("nan")}, "unknown_rate must be a number from 0"),
        ({"unknown_rate": "some"}, "unknown_rate must be a number from 0"),
        ({"unknown_rate": True}, "unknown_rate must be a number from 0"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1"),
        ({"n_neighbors": 1.5}, "n_neighbors must be a whole number of at least 1"),
        ({"n_neighbors": 5}, "for 5 neighbours give one metric"),
        ({"width": 0}, "width must be a whole number of at least 1"),
        ({"stride": 0}, "stride must be a whole number of at least 1"),
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


@pytest.mark.parametrize("offset", [1e12, -1e13, 1e16])
def test_an_offset_that_hides_the_variation_is_told(offset):
    stream = level_states(0, run_length=60, n_runs=1)
    values = stream.values + np.array([offset, 0.0])
    with pytest.warns(UserWarning, match=r"channel 'x0': its offset is .* times its variation"):
        StreamClassifier(metric="euclidean").fit(values, stream.states)
    values[:, 0] = offset
    fit(Stream(values, stream.states), metric="euclidean")  # a constant hides nothing
    fit(Stream(stream.values + 1e9, stream.states), metric="euclidean")
