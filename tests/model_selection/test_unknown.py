"""The unknown state in scikit-learn's metrics and ensembles."""

import matplotlib as mpl
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import ConfusionMatrixDisplay, f1_score, log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from mlat import StreamClassifier
from mlat.model_selection import EveryStep, GappedBlocks, judged
from mlat.synthetic import rotating_states

mpl.use("agg")
CV = GappedBlocks(3, gap=20)


@pytest.fixture(scope="module")
def stream():
    return rotating_states(run_length=100, n_channels=3)


@pytest.fixture(scope="module")
def clf():
    return StreamClassifier(12, metric="euclidean")


def test_judged_scores_are_over_the_judged_steps(stream, clf):
    X, y = stream, stream.states
    np.testing.assert_array_equal(
        cross_val_score(clf, X, y, cv=CV, scoring=judged("accuracy")),
        cross_val_score(clf, X, y, cv=CV),
    )
    f1, loss = [], []
    for train, test in CV.split(X, y):
        fitted, part = clone(clf).fit(stream[train]), stream[test]
        kept = fitted.ends_window(part)
        f1.append(f1_score(part.states[kept], fitted.predict(part)[kept], average="macro"))
        loss.append(-log_loss(part.states[kept], fitted.predict_proba(part)[kept]))
    np.testing.assert_allclose(cross_val_score(clf, X, y, cv=CV, scoring=judged("f1_macro")), f1)
    np.testing.assert_allclose(
        cross_val_score(clf, X, y, cv=CV, scoring=judged("neg_log_loss")), loss
    )
    # Which is what a metric that is not told does not give.
    assert (cross_val_score(clf, X, y, cv=CV, scoring="f1_macro") < np.array(f1) - 0.1).all()


def test_judged_takes_time_by_routing(stream, clf):
    expected = cross_val_score(clf, stream, stream.states, cv=CV, scoring=judged("f1_macro"))
    time = np.arange(len(stream))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_score(
            clone(clf).set_fit_request(time=True),
            stream.values,
            stream.states,
            cv=CV,
            scoring=judged("f1_macro").set_score_request(time=True),
            params={"time": time},
        )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(TypeError, match="recordings and time"):
        judged("f1_macro").set_score_request(sample_weight=True)


def test_the_novel_are_judged_by_their_most_probable_state(stream):
    strict = StreamClassifier(12, metric="euclidean", unknown_rate=0.5).fit(stream)
    other = rotating_states(run_length=60, n_channels=3, random_state=1)
    assert (strict.predict(other)[11:] == "").any()
    known = StreamClassifier(12, metric="euclidean").fit(stream)
    assert judged("f1_macro")(strict, other) == judged("f1_macro")(known, other)


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"])
def test_every_metric_sees_every_step(stream, clf, scoring):
    scores = cross_val_score(EveryStep(clf), stream, stream.states, cv=CV, scoring=scoring)
    assert np.isfinite(scores).all()


def test_every_step_differs_only_where_there_is_no_window(stream, clf):
    every, plain = EveryStep(clf).fit(stream), clone(clf).fit(stream)
    other = rotating_states(run_length=60, n_channels=3, random_state=1)
    known = plain.ends_window(other)
    assert not known.all()
    np.testing.assert_array_equal(every.predict(other)[known], plain.predict(other)[known])
    np.testing.assert_array_equal(
        every.predict_proba(other)[known], plain.predict_proba(other)[known]
    )
    proba = every.predict_proba(other)[~known]
    frequent = [(stream.states == state).mean() for state in plain.classes_]
    np.testing.assert_allclose(proba, np.tile(frequent, (len(proba), 1)))
    assert every.score(other) == (every.predict(other) == other.states).mean()
    assert is_classifier(every)
    assert every.n_features_in_ == 3


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_it_votes_beside_others(stream, clf, voting):
    members = [("stream", EveryStep(clf)), ("steps", KNeighborsClassifier(3))]
    vote = VotingClassifier(members, voting=voting).fit(stream.values, stream.states)
    assert set(vote.predict(stream.values)) <= set(stream.classes)
    alone = VotingClassifier(members[:1], voting=voting).fit(stream.values, stream.states)
    expected = EveryStep(clf).fit(stream).predict(stream)
    np.testing.assert_array_equal(alone.predict(stream.values), expected)


def test_a_confusion_matrix_of_the_states_alone(stream, clf):
    every = EveryStep(clf).fit(stream.values, stream.states)
    shown = ConfusionMatrixDisplay.from_estimator(every, stream.values, stream.states)
    assert shown.display_labels.tolist() == stream.classes.tolist()
    assert shown.confusion_matrix.sum() == len(stream)


def test_cross_val_predict(stream, clf):
    """Each step is judged once, by a classifier that did not learn near it."""
    predicted = cross_val_predict(EveryStep(clf), stream, stream.states, cv=CV)
    assert predicted.shape == (len(stream),)
    assert (predicted == stream.states).mean() > 0.4


@pytest.mark.parametrize("labels", [(False, True), (-1, 1)])
def test_the_two_labels_of_scikit_learn(stream, clf, labels):
    y = np.where(stream.states == stream.classes[0], *labels[::-1])
    every = EveryStep(clf).fit(stream.values, y)
    assert every.classes_.tolist() == list(labels)
    assert every.predict(stream.values).dtype == y.dtype
    right = (every.predict(stream.values) == y).mean()
    assert right > 0.9
    assert every.score(stream.values, y) == right
    assert judged("f1")(every, stream.values, y) > 0.9
    members = [("stream", EveryStep(clf)), ("steps", KNeighborsClassifier(3))]
    vote = VotingClassifier(members).fit(stream.values, y)
    assert set(vote.predict(stream.values)) == set(labels)
