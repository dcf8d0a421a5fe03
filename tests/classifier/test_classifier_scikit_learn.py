"""A stream classifier is a classifier to scikit-learn."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mlat
from mlat import InputError, Stream, StreamClassifier
from mlat.synthetic import rotating_states

mpl.use("agg")

ALWAYS = {
    "check_classifiers_classes": "numbers the states -1 and 1, and -1 means no state",
    "check_fit1d": "an array (T,) is a stream of one channel",
}
LOOKS_BACK = {
    "check_methods_sample_order_invariance": "features look back: the order of steps matters",
    "check_methods_subset_invariance": "features look back: the steps before matter",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"metric": "euclidean"}, ALWAYS),
        ({"metric": "mlat"}, ALWAYS),
        pytest.param({"held_out": False}, ALWAYS | LOOKS_BACK, marks=pytest.mark.slow),
    ],
    ids=["euclidean", "mlat", "auto"],
)
def test_check_estimator(parameters, expected):
    """Rows of scikit-learn's checks do not follow each other: windows of one step fit them."""
    clf = StreamClassifier(width=1, **parameters)
    results = check_estimator(clf, expected_failed_checks=expected, on_skip=None, on_fail=None)
    wrong = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not wrong
    failed = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert failed == set(expected)  # the list has nothing that passes
    assert len(results) > 50


@pytest.fixture(scope="module")
def stream():
    return rotating_states(run_length=60, n_channels=3)


def test_it_is_a_classifier(stream):
    clf = StreamClassifier(8, metric="euclidean")
    assert isinstance(clf, ClassifierMixin)
    assert is_classifier(clf)
    assert not hasattr(clf, "n_features_in_")
    assert not hasattr(clf, "feature_names_in_")
    clf.fit(stream.values, stream.states)
    assert clf.n_features_in_ == 3
    assert not hasattr(clf, "feature_names_in_")
    frame = pd.DataFrame(stream.values, columns=["ax", "ay", "az"])
    assert clf.fit(frame, stream.states).feature_names_in_.tolist() == ["ax", "ay", "az"]


def test_a_loaded_model_knows_its_features(stream, tmp_path):
    frame = pd.DataFrame(stream.values, columns=["ax", "ay", "az"])
    StreamClassifier(8, metric="euclidean").fit(frame, stream.states).save(tmp_path / "m.mlat")
    assert mlat.load(tmp_path / "m.mlat").feature_names_in_.tolist() == ["ax", "ay", "az"]


def test_y_gives_a_stream_other_states(stream):
    names = np.where(stream.states == "still", "rest", "move")
    clf = StreamClassifier(8, metric="euclidean").fit(stream, names)
    assert clf.classes_.tolist() == ["move", "rest"]
    again = StreamClassifier(8, metric="euclidean").fit(stream.values, names)
    np.testing.assert_array_equal(clf.predict(stream), again.predict(stream))
    with pytest.raises(InputError, match="recordings of its own"):
        clf.fit(stream, recordings=np.zeros(len(stream)))


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_recordings_and_time_for_every_method(stream, make):
    recordings = np.repeat([0, 1], len(stream) // 2)
    time = np.arange(len(stream)) * 0.01
    time[100:] += 1
    order = {"recordings": recordings, "time": time}
    whole = Stream(stream.values, stream.states, **order)
    expected = StreamClassifier(8, metric="euclidean").fit(whole)
    X = make(stream.values)
    if hasattr(X, "columns"):
        X.columns = ["a", "b", "c"]
        whole = whole.with_channels(["a", "b", "c"])
        expected.fit(whole)
    clf = StreamClassifier(8, metric="euclidean").fit(X, stream.states, **order)
    np.testing.assert_array_equal(clf.predict(X, **order), expected.predict(whole))
    assert (clf.predict(X, **order)[100:107] == "").all()
    assert (clf.predict(X, **order)[len(X) // 2 :][:7] == "").all()
    np.testing.assert_array_equal(clf.predict_proba(X, **order), expected.predict_proba(whole))
    assert clf.score(X, stream.states, **order) == expected.score(whole)


def test_routing_through_a_pipeline(stream):
    recordings = np.repeat([0, 1], len(stream) // 2)
    plain = StreamClassifier(8, metric="euclidean")
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), clone(plain))
        with pytest.raises(UnsetMetadataPassedError):
            pipeline.fit(stream.values, stream.states, recordings=recordings)
        clf = clone(plain).set_fit_request(recordings=True)
        clf = clf.set_predict_request(recordings=True).set_score_request(recordings=True)
        pipeline = make_pipeline(StandardScaler(), clf)
        pipeline.fit(stream.values, stream.states, recordings=recordings)
        predicted = pipeline.predict(stream.values, recordings=recordings)
        assert (predicted[len(stream) // 2 :][:7] == "").all()
        assert pipeline.score(stream.values, stream.states, recordings=recordings) > 0.9
    assert set(clf.get_metadata_routing().fit.requests) == {"recordings", "groups", "time"}


def test_steps_count_by_their_weight(stream):
    clf = StreamClassifier(8, metric="euclidean").fit(stream)
    other = rotating_states(run_length=60, n_channels=3, random_state=1)
    first = np.arange(len(other)) < 240
    assert clf.score(other, other.states, first) == clf.score(other[:240])


def test_a_confusion_matrix(stream):
    clf = StreamClassifier(8, metric="euclidean").fit(stream.values, stream.states)
    labels = clf.classes_  # without the unknown state
    shown = ConfusionMatrixDisplay.from_estimator(clf, stream.values, stream.states, labels=labels)
    assert shown.confusion_matrix.sum() == clf.ends_window(stream).sum()
