"""A forest as a metric: against scikit-learn's own trees."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

import mlat
from mlat.base.errors import InputError
from mlat.metric.forest import Forest
from mlat.stream.windows import sliding_windows
from mlat.synthetic import rotating_states


@pytest.fixture(scope="module")
def windows():
    return sliding_windows(rotating_states(), 8)


def test_a_point_is_what_the_trees_say(windows):
    X = windows.X
    flat = X.reshape(len(X), -1)
    forest = Forest(20, 2, random_state=3).fit(X, windows.y)
    trees = ExtraTreesClassifier(
        20, min_samples_leaf=2, class_weight="balanced", random_state=3
    ).fit(flat, windows.y)
    new = np.random.default_rng(0).normal(size=flat.shape)
    np.testing.assert_allclose(forest.transform(new), trees.predict_proba(new), atol=1e-12)


def test_changes_along_the_paths_sum_to_the_point(windows):
    forest = Forest(20).fit(windows.X, windows.y)
    X = windows.X[::7]
    changes = forest.changes(X)
    assert changes.shape == (len(X), forest.n_features_in_, len(forest.states_))
    points = forest.value_[forest.roots_].mean(axis=0) + changes.sum(axis=1)
    np.testing.assert_allclose(points, forest.transform(X), atol=1e-12)


def test_a_window_has_the_same_point_in_any_company(windows):
    embed = Forest(20).fit(windows.X, windows.y).embedding()
    alone = np.concatenate([embed(windows.X[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(alone, embed(windows.X)[:50])


@pytest.mark.parametrize("given", [{"n_estimators": 0}, {"min_samples_leaf": "3"}, {"width": 1.5}])
def test_parameters_are_checked(windows, given):
    with pytest.raises(InputError, match=next(iter(given))):
        Forest(**given).fit(windows.X, windows.y)


def test_one_state_is_refused(windows):
    with pytest.raises(InputError, match="two states"):
        Forest().fit(windows.X, np.zeros(len(windows.X)))


def test_values_beyond_single_precision_have_a_point(windows):
    forest = Forest(5).fit(windows.X, windows.y)
    far = np.full((1, *windows.X.shape[1:]), 1e100)
    np.testing.assert_allclose(forest.transform(far).sum(), 1)


def test_it_is_a_metric_of_a_classifier():
    train, test = rotating_states(), rotating_states(random_state=1)
    clf = mlat.StreamClassifier(8, metric=Forest(50)).fit(train)
    assert clf.score(test, test.states) > 0.4  # of four states
    distances, rows = clf.kneighbors(test, 3)
    known = rows[:, 0] >= 0
    assert (np.diff(distances[known]) >= 0).all()
