"""Panels of separate series."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import mlat
from mlat import InputError, PanelClassifier, series_windows


@pytest.fixture(scope="module")
def panel():
    """Series of 3 channels and 40 steps, which differ by their frequency."""
    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 12)
    phase = rng.uniform(0, 2 * np.pi, (24, 3, 1))
    speed = np.where(y == "slow", 0.2, 0.6)[:, None, None]
    X = np.sin(speed * np.arange(40) + phase) + 0.2 * rng.normal(size=(24, 3, 40))
    return X, y


def test_every_series_is_a_run(panel):
    X, y = panel
    windows = series_windows(X, y, time_axis=2)
    assert windows.X.shape == (24, 40, 3)
    np.testing.assert_array_equal(windows.X, X.transpose(0, 2, 1))
    assert windows.run.tolist() == list(range(24))
    assert (np.diff(windows.start) == 40).all()
    np.testing.assert_array_equal(series_windows(X.transpose(0, 2, 1), y, time_axis=1).X, windows.X)
    one = series_windows(X[:, 0], y, time_axis=2)
    assert one.X.shape == (24, 40, 1)


def test_an_array_that_looks_transposed():
    smooth = np.cumsum(np.random.default_rng(0).normal(size=(30, 6, 50)), axis=2)
    y = np.arange(30) % 2
    with pytest.warns(UserWarning, match="give time_axis=2"):
        series_windows(smooth, y, time_axis=1)
    with pytest.warns(UserWarning, match="give time_axis=1"):
        series_windows(smooth.transpose(0, 2, 1), y, time_axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series_windows(smooth, y, time_axis=2)


@pytest.mark.parametrize(
    ("shape", "axis", "message"),
    [
        ((4, 3, 9), 0, "time_axis must be 1 or 2"),
        ((4,), 2, "a panel has shape"),
        ((4, 2, 3, 9), 2, "a panel has shape"),
        ((3, 2, 9), 2, "class for each of 3 series"),
    ],
)
def test_what_is_no_panel(shape, axis, message):
    with pytest.raises(InputError, match=message):
        series_windows(np.zeros(shape), ["a"] * 4, time_axis=axis)


@pytest.mark.parametrize("shape", [(4, 0, 9), (4, 2, 0)])
def test_series_of_nothing_are_refused(shape):
    with pytest.raises(InputError, match="0 feature"):
        PanelClassifier().fit(np.zeros(shape), ["a", "a", "b", "b"])


@pytest.mark.parametrize("metric", ["mlat", "lmnn", "euclidean"])
def test_nearest_series(panel, metric):
    """As nearest neighbours by hand, in the space of the metric."""
    X, y = panel
    clf = PanelClassifier(metric).fit(X[::2], y[::2])
    Z, references = clf.transform(X[1::2]), clf.transform(X[::2])
    nearest = ((Z[:, None] - references) ** 2).sum(axis=2).argmin(axis=1)
    assert clf.predict(X[1::2]).tolist() == y[::2][nearest].tolist()
    turned = PanelClassifier(metric, time_axis=1).fit(X[::2].transpose(0, 2, 1), y[::2])
    np.testing.assert_array_equal(turned.predict(X[1::2].transpose(0, 2, 1)), clf.predict(X[1::2]))
    assert clf.predict_proba(X).shape == (24, 2)


def test_a_metric_is_learned_from_other_series_alone(panel):
    """Each row is a run, so all of a class may be targets, though neighbours have one label."""
    X, y = panel
    windows = series_windows(X, y, time_axis=2)
    scaled = (windows.X - windows.X.mean(axis=(0, 1))) / windows.X.std(axis=(0, 1))
    by_hand = mlat.MLAT().fit(scaled, y, start=windows.start, run=windows.run)
    np.testing.assert_allclose(PanelClassifier().fit(X, y).metric_.blocks_, by_hand.blocks_)


def test_wrong_panels(panel):
    X, y = panel
    with pytest.raises(InputError, match="metric must be"):
        PanelClassifier("cosine").fit(X, y)
    with pytest.raises(InputError, match="there are 24 series"):
        PanelClassifier(n_neighbors=25).fit(X, y)
    with pytest.raises(InputError, match="series of 39 steps and 3 channels, but 40"):
        PanelClassifier("euclidean").fit(X, y).predict(X[:, :, 1:])


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_takes_it_for_a_classifier():
    results = check_estimator(PanelClassifier(), on_skip=None, on_fail=None)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e100])
def test_values_beyond_any_distance_are_refused_and_named(value):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2, 5)), np.repeat(["a", "b"], 4)
    fitted = PanelClassifier("euclidean").fit(X, y)
    X[3, 1, 2] = value
    for refuse in (lambda: fitted.predict(X), lambda: PanelClassifier().fit(X, y)):
        with pytest.raises(InputError, match="in series 3, step 2, channel 1"):
            refuse()
