"""The references of a classifier: computed when needed, held once."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import mlat
from mlat import StreamClassifier
from mlat.neighbours.references import steps_inside
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import sliding_windows
from mlat.synthetic import rotating_states

LIFT = ["identity", "running_deviation"]
TRAIN = rotating_states(n_channels=3, run_length=40, noise=0.3)


@pytest.mark.parametrize("metric", ["euclidean", mlat.MLAT(max_iter=3), mlat.LMNN(max_iter=3)])
def test_embedded_references_are_the_windows_in_the_learned_space(metric, monkeypatch):
    clf = StreamClassifier(8, metric=metric, lift=LIFT, whiten=True).fit(TRAIN)
    references, windows = clf.references_, clf.windows_
    X = np.stack([clf.reference_features_[s : s + 8] for s in windows.start])
    np.testing.assert_array_equal(references[:], X)
    seen = clf.references_.view(X)
    learned = seen.reshape(len(seen), -1) if clf.metric_ is None else clf.metric_.transform(seen)
    expected = references.embed(seen)
    assert expected.shape[1] == min(learned.shape[1], seen[0].size)  # the smallest such space
    np.testing.assert_allclose(pdist(expected), pdist(learned), rtol=1e-12)
    np.testing.assert_array_equal(references.embedded(), expected)
    np.testing.assert_array_equal(references.nearest.mean, expected.mean(axis=0))
    assert references.n_dimensions == expected.shape[1]
    some = np.array([5, 0, 17])
    monkeypatch.setattr("mlat.neighbours.references.BLOCK", 2)
    np.testing.assert_array_equal(references.embedded(some), expected[some])
    np.testing.assert_array_equal(references.classes[references.codes], windows.y)


def test_a_run_is_lifted_once():
    """Once in fit; again only where a model file is read."""
    lifted = []

    class Counting(mlat.Lift):
        def transform(self, X):
            lifted.append(len(X))
            return super().transform(X)

    StreamClassifier(8, metric="euclidean", lift=Counting(LIFT), held_out=False).fit(TRAIN)
    assert lifted == TRAIN.runs.length.tolist()


@pytest.mark.parametrize("n_neighbors", [1, 5])
def test_what_is_held_is_less_than_twice_the_windows(n_neighbors):
    """A point is held in double and in single precision, in the one search that is used."""
    train = rotating_states(n_channels=20, run_length=300)
    clf = StreamClassifier(10, metric="euclidean", n_neighbors=n_neighbors)
    clf.fit(TRAIN).predict(TRAIN)  # compiled before it is measured
    tracemalloc.start()
    clf.fit(train)
    assert len(clf.references_.nearest) == len(clf.references_)  # it is there
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * clf.references_.embedded().nbytes


@pytest.mark.parametrize("stride", [1, 3, 50])
def test_steps_inside_windows(stride):
    windows = sliding_windows(TRAIN, 8, stride=stride)
    for between in (False, True):
        expected = np.zeros(len(TRAIN), bool)
        for _, rows in windows.by_run():
            starts = windows.start[rows]
            if between:
                expected[starts.min() : starts.max() + 8] = True
            for start in starts:
                expected[start : start + 8] = True
        np.testing.assert_array_equal(steps_inside(windows, between=between), expected)


@pytest.mark.parametrize("metric", ["euclidean", mlat.MLAT(max_iter=2)])
def test_a_search_that_is_built_block_by_block_is_that_of_all_at_once(metric, monkeypatch):
    monkeypatch.setattr("mlat.neighbours.references.BLOCK", 37)
    clf = mlat.StreamClassifier(6, metric=metric).fit(rotating_states(n_channels=3, noise=0.4))
    references = clf.references_
    at_once = ClassDistances(references.embedded(), references.codes, len(references.classes))
    vars(references).pop("by_class", None)
    for name in ("points", "mean", "rows", "scale"):
        found = getattr(references.by_class.nearest, name)
        np.testing.assert_array_equal(found, getattr(at_once.nearest, name))
