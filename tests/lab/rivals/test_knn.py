import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.estimator_checks import check_estimator

import mlat
from mlat import LMNN, MLAT, InputError
from mlat.lab.rivals import EuclideanKNN, MetricKNN
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def windows():
    return mlat.sliding_windows(rotating_states(run_length=40), width=6)


@pytest.mark.parametrize("metric", [None, LMNN(), MLAT(), MLAT.as_in_paper(max_iter=5)], ids=str)
def test_scikit_learn_conformance_with_no_check_skipped(metric):
    checks = check_estimator(MetricKNN(metric=metric), on_skip=None)
    assert {check["status"] for check in checks} == {"passed"}


def test_without_a_metric_it_is_the_euclidean_search(windows):
    X, y = windows.X, windows.y
    ours, plain = MetricKNN(n_neighbors=3).fit(X, y), EuclideanKNN(n_neighbors=3).fit(X, y)
    for found, expected in zip(ours.kneighbors(X), plain.kneighbors(X), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_neighbours_are_the_nearest_after_the_transformer(windows):
    train, test = windows.take(np.arange(0, 200)), windows.take(np.arange(200, len(windows)))
    model = MetricKNN(metric=LMNN(n_targets=1, max_iter=10)).fit(train.X, train.y)
    Z, references = model.metric_.transform(test.X), model.metric_.transform(train.X)
    brute = np.linalg.norm(Z[:, None] - references[None], axis=2)
    distances, nearest = model.kneighbors(test.X)
    np.testing.assert_allclose(distances[:, 0], brute.min(axis=1))
    np.testing.assert_array_equal(nearest[:, 0], brute.argmin(axis=1))
    np.testing.assert_array_equal(model.predict(test.X), train.y[nearest[:, 0]])


class Timed(TransformerMixin, BaseEstimator):
    """Remembers what it was told of time."""

    def fit(self, X, y, *, start=None, run=None):
        self.start_, self.run_, self.shape_ = start, run, X.shape
        return self

    def transform(self, X):
        return X.reshape(len(X), -1)


class Timeless(TransformerMixin, BaseEstimator):
    def fit(self, X, y):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 2 * X.reshape(len(X), -1)


def test_time_goes_to_a_metric_that_takes_it_and_to_no_other(windows):
    flat = windows.X.reshape(len(windows), -1)
    model = MetricKNN(width=6, metric=Timed())
    model.fit(flat, windows.y, start=windows.start, run=windows.run)
    assert model.metric_.shape_ == windows.X.shape
    np.testing.assert_array_equal(model.metric_.start_, windows.start)
    np.testing.assert_array_equal(model.metric_.run_, windows.run)
    assert not hasattr(model.metric, "start_"), "the given metric is left as it was"
    model = MetricKNN(metric=Timeless()).fit(windows.X, windows.y, start=windows.start)
    assert model.score(windows.X, windows.y) == 1.0


def test_targets_apart_in_time_need_the_time(windows):
    metric = MLAT(target_gap=10, max_iter=5)
    timed = MetricKNN(metric=metric)
    timed.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    same = clone(metric).fit(windows.X, windows.y, start=windows.start, run=windows.run)
    np.testing.assert_allclose(timed.metric_.blocks_, same.blocks_)


def test_a_failed_fit_leaves_nothing_behind(windows):
    model = MetricKNN(metric=LMNN())
    with pytest.raises(InputError, match="start must have one entry per window"):
        model.fit(windows.X, windows.y, start=[1, 2])
    assert not hasattr(model, "_when")
