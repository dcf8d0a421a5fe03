"""Nearest neighbours over windows: the interface, Euclidean, MDTW and any learned metric."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mlat
from mlat import LMNN, MLAT, InputError
from mlat.synthetic import rotating_states
from mlat_lab.rivals import LDMLT, MDTW, EuclideanKNN, MetricKNN

# ---------------------------------------------------------------- Euclidean and MDTW


def test_a_band_of_zero_is_euclidean():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 6, 4)), rng.integers(0, 3, 150)
    Q = rng.normal(size=(40, 6, 4))
    peer = KNeighborsClassifier(4, algorithm="brute").fit(X.reshape(150, -1), y)
    expected, nearest = peer.kneighbors(Q.reshape(40, -1))
    for model in (EuclideanKNN(n_neighbors=4), MDTW(n_neighbors=4, band=0)):
        distances, windows = model.fit(X, y).kneighbors(Q)
        np.testing.assert_allclose(distances, expected)
        np.testing.assert_array_equal(windows, nearest)


def test_warping_finds_a_shifted_shape():
    bump = np.exp(-((np.arange(12) - 5.0) ** 2) / 2)
    X = np.stack([bump, np.roll(bump, 3) * 0.5])[:, :, None]
    query = np.roll(bump, 3)[None, :, None]
    assert MDTW().fit(X, ["high", "low"]).predict(query).tolist() == ["high"]
    assert EuclideanKNN().fit(X, ["high", "low"]).predict(query).tolist() == ["low"]


@pytest.mark.parametrize("model", [MDTW(), EuclideanKNN(), LDMLT(max_iter=2)])
def test_flat_and_folded_windows_are_the_same(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5, 3)), np.repeat(["walk", "rest"], 30)
    folded = clone(model).fit(X, y)
    flat = clone(model).set_params(width=5).fit(X.reshape(60, -1), y)
    Q = rng.normal(size=(10, 5, 3))
    distances, windows = folded.kneighbors(Q, 3)
    for other in (flat.kneighbors(Q.reshape(10, -1), 3), flat.kneighbors(Q, 3)):
        np.testing.assert_array_equal(distances, other[0])
        np.testing.assert_array_equal(windows, other[1])
    np.testing.assert_array_equal(windows, folded.kneighbors(Q.tolist(), 3, False))
    np.testing.assert_array_equal(folded.predict(Q), flat.predict(Q.reshape(10, -1)))
    assert folded.predict_proba(Q).sum(axis=1).tolist() == [1.0] * 10


def test_predictions_do_not_follow_the_callers_array():
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(30, 4, 2)), rng.normal(size=(9, 4, 2))
    model = MDTW().fit(X, np.arange(30) % 3)
    before = model.kneighbors(Q)[0]
    X[:] = 0.0
    np.testing.assert_array_equal(model.kneighbors(Q)[0], before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).kneighbors(Q)[0], before)


def test_estimators_live_in_pipelines_and_searches():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 2
    X[y == 1, ::2] += 2.0
    pipeline = make_pipeline(StandardScaler(), MDTW(width=4))
    grid = {"mdtw__band": [0, None], "mdtw__n_neighbors": [1, 3]}
    found = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.9


@pytest.mark.parametrize(
    "name", ["EuclideanKNN", *(pytest.param(n, marks=pytest.mark.slow) for n in ("MDTW", "LDMLT"))]
)
def test_scikit_learn_accepts_it_with_no_check_skipped(name):
    # One of the checks is skipped unless this variable is set before SciPy is first imported.
    code = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        f"from mlat_lab.rivals import {name}\n"
        f"statuses = {{r['status'] for r in check_estimator({name}(), on_skip=None)}}\n"
        "assert statuses == {'passed'}, statuses\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


X_OK, Y_OK = np.zeros((6, 4, 2)), [0, 0, 0, 1, 1, 1]
X_NAN = X_OK.copy()
X_NAN[2, 1, 0] = np.nan


@pytest.mark.parametrize(
    ("do", "line"),
    [
        (lambda: MDTW().fit(X_NAN, Y_OK), "NaN in window 2, step 1, channel 0"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(X_NAN), "NaN in window 2, step 1, channel 0"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(np.zeros((1, 7))), "7 features"),
        (lambda: MDTW().fit(X_OK, Y_OK).predict(np.zeros((1, 2, 4))), r"\(2, 4\).*\(4, 2\)"),
        (lambda: MDTW(width=3).fit(X_OK, Y_OK), r"width is 3"),
        (lambda: MDTW(width=3).fit(np.zeros((6, 8)), Y_OK), "8 features do not fold"),
        (lambda: MDTW(width=0).fit(X_OK, Y_OK), "width must be a whole number .* not 0"),
        (lambda: MDTW(n_neighbors=7).fit(X_OK, Y_OK), "n_neighbors is 7 but there are 6"),
        (lambda: MDTW(n_neighbors=1.5).fit(X_OK, Y_OK), "n_neighbors must be a whole number"),
        (lambda: MDTW().fit(X_OK, Y_OK).kneighbors(X_OK, 9), "n_neighbors is 9 but there are 6"),
        (lambda: MDTW(band=-1).fit(X_OK, Y_OK), "band must be .* not -1"),
        (lambda: MDTW(band=0.5).fit(X_OK, Y_OK), "band must be .* not 0.5"),
    ],
)
def test_bad_input_is_one_clear_line(do, line):
    with pytest.raises(ValueError, match=line) as caught:
        do()
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- a learned metric


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
    """Remembers the times that it was given."""

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


def test_after_a_failed_fit_the_next_one_has_its_own_times(windows):
    model = MetricKNN(metric=Timed())
    with pytest.raises(InputError, match="start must have one entry per window"):
        model.fit(windows.X, windows.y, start=[1, 2])
    model.fit(windows.X, windows.y)
    np.testing.assert_array_equal(model.metric_.start_, np.arange(len(windows)))
