"""A metric that is given: used as it is, and the form in which other metrics are saved."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import mlat
from mlat.base.errors import InputError
from mlat.metric import Mahalanobis
from mlat.synthetic import rotating_states

train, test = rotating_states(), rotating_states(random_state=1)


def test_distances_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    L, X = rng.normal(size=(3, 8)), rng.normal(size=(5, 4, 2))
    metric = Mahalanobis(L).fit(X)
    Z = metric.transform(X)
    difference = (X[0] - X[1]).ravel()
    assert ((Z[0] - Z[1]) ** 2).sum() == pytest.approx(difference @ metric.metric_ @ difference)
    np.testing.assert_allclose(Mahalanobis(L, width=4).fit_transform(X.reshape(5, 8)), Z)
    np.testing.assert_array_equal(clone(metric).fit(X).transform(X), Z)
    np.testing.assert_allclose(Mahalanobis().fit_transform(X), X.reshape(5, 8))
    assert list(metric.get_feature_names_out()) == ["mahalanobis0", "mahalanobis1", "mahalanobis2"]


@pytest.mark.parametrize(
    ("L", "message"),
    [(np.ones((2, 7)), r"shape \(r, 8\)"), (np.ones(8), "shape"), ([[np.nan] * 8], "NaN")],
)
def test_what_is_no_map_of_the_windows(L, message):
    with pytest.raises(InputError, match=message):
        Mahalanobis(L).fit(np.zeros((2, 4, 2)))
    with pytest.raises(InputError, match="windows of 3 steps and 2 channels"):
        Mahalanobis(np.ones((2, 8))).fit(np.zeros((2, 4, 2))).transform(np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    "metric",
    [
        PCA(4, whiten=True),
        LinearDiscriminantAnalysis(),
        make_pipeline(StandardScaler(), PCA(4)),
        Mahalanobis(np.random.default_rng(0).normal(size=(5, 8 * train.n_channels))),
    ],
    ids=["PCA", "LDA", "pipeline", "Mahalanobis"],
)
@pytest.mark.parametrize("whiten", [False, True])
def test_a_linear_metric_of_ones_own_is_saved_as_its_map(metric, whiten, tmp_path):
    clf = mlat.StreamClassifier(8, metric=metric, whiten=whiten).fit(train)
    clf.save(tmp_path / "m.mlat")
    back = mlat.load(tmp_path / "m.mlat")
    assert type(back.metric_) is Mahalanobis
    np.testing.assert_allclose(back.class_distances(test), clf.class_distances(test), rtol=1e-6)
    np.testing.assert_allclose(back.predict_proba(test), clf.predict_proba(test), rtol=1e-5)
    back.save(tmp_path / "again.mlat")
    assert (tmp_path / "again.mlat").read_bytes() == (tmp_path / "m.mlat").read_bytes()
    refitted = clone(back).fit(train)  # nothing is learned: the same map
    np.testing.assert_allclose(refitted.class_distances(test), clf.class_distances(test), rtol=1e-6)
    live = back.live()
    told = [p.state for row in test.values[:30] for p in live.push(row)]
    assert told == back.predict(test)[:30].tolist()


class Learned(mlat.MLAT):
    """A class of one's own over ours."""


def test_others_are_refused_by_name(tmp_path):
    clf = mlat.StreamClassifier(8, metric=FunctionTransformer(np.square)).fit(train)
    with pytest.raises(InputError, match=r"FunctionTransformer cannot be saved: .* not linear"):
        clf.save(tmp_path / "m.mlat")
    own = mlat.StreamClassifier(8, metric=Learned(max_iter=3)).fit(train)
    own.save(tmp_path / "m.mlat")
    back = mlat.load(tmp_path / "m.mlat")
    assert back.metric_.name == "Learned"
    np.testing.assert_allclose(back.class_distances(test), own.class_distances(test), rtol=1e-6)
