"""A stream that is predicted piece by piece: whatever the pieces, the bits of the whole."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import mlat
from mlat.classifier.classifier import PiecePredictor
from mlat.neighbours.votes import vote
from mlat.synthetic import rotating_states

train = rotating_states(random_state=0)
MODELS = {
    "auto": {"width": 12},
    "votes": {"width": 5, "metric": "euclidean", "n_neighbors": 3, "unknown_rate": 0.2},
    "one step": {"width": 1, "metric": "euclidean"},
    "lifted": {
        "width": 7,
        "metric": mlat.MLAT(max_iter=3),
        "lift": mlat.Lift(["identity", "running_deviation", "difference"], 9),
        "whiten": True,
        "unknown_rate": 0.1,
    },
}


@pytest.fixture(scope="module", params=MODELS)
def clf(request):
    return mlat.StreamClassifier(**MODELS[request.param]).fit(train)


def broken_stream(seed: int) -> mlat.Stream:
    """A stream with gaps in time, recordings, missing and extreme values."""
    rng = np.random.default_rng(seed)
    values = rotating_states(random_state=seed % 5).values[:400].copy()
    values[rng.random(values.shape) < 0.004] = np.nan
    values[rng.integers(400), 0] = 1e150
    time = np.cumsum(np.where(rng.random(400) < 0.02, 5.0, 1.0))
    recordings = np.sort(rng.integers(0, 3, 400))
    return mlat.Stream(values, time=time, recordings=recordings, channels=train.channels)


def naive(clf, stream, filtered):
    """Step by step from the public parts: distances over the whole stream, then one decision."""
    confidence = clf.confidence_
    nearest = clf.class_distances(stream)
    known = ~np.isnan(nearest[:, 0])
    proba = confidence.calibration.proba(nearest)
    learned = confidence.calibration
    odds = (nearest[known] / learned.typical + learned.soft) ** -learned.beta
    np.testing.assert_allclose(proba[known], odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)
    codes, novel = nearest[known].argmin(axis=1), nearest.min(axis=1) > confidence.threshold
    if clf.n_neighbors_ > 1:
        distances, rows = clf.kneighbors(stream)
        of = clf.references_.codes[rows[known]]
        codes, proba[known] = vote(of, distances[known], len(clf.classes_))
        novel = distances[:, 0] > confidence.threshold
    if filtered:
        starts = np.zeros(len(stream), bool)
        starts[clf.as_stream(stream).segments.start] = True
        proba = confidence.filter(starts, proba, clf.n_neighbors_)[0]
        codes = proba[known].argmax(axis=1)
    states = np.full(len(stream), clf.unknown_, dtype=clf.classes_.dtype)
    states[known] = clf.classes_[codes]
    states[novel] = clf.unknown_
    broken = naive_breaks(clf.as_stream(stream), clf.width_)
    if clf.n_neighbors_ > 1:
        distance = clf.kneighbors(stream)[0][:, 0]
    else:
        distance = clf.class_distances(stream).min(axis=1)
    return states, proba, clf.ends_window(stream), *broken, distance


def naive_breaks(stream, width):
    by, since = [], []
    for step in range(len(stream)):
        n, cause = 0, -1
        for back in range(step, -1, -1):
            if stream.missing[back]:
                cause = int(np.isnan(stream.values[back]).argmax())
                break
            n += 1
            if stream.gap_before[back]:
                break
        by.append(-2 if n >= width else cause)
        since.append(min(n, width))
    return by, since


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 30), st.lists(st.integers(0, 400), max_size=8), st.booleans())
@pytest.mark.filterwarnings("ignore:channel")
def test_any_pieces_give_the_whole(clf, seed, cuts, filtered):
    stream = broken_stream(seed)
    whole = naive(clf, stream, filtered)
    predictor = PiecePredictor(clf, filtered=filtered)
    edges = [0, *sorted(cuts), len(stream)]
    parts = [predictor.push(stream[a:b]) for a, b in pairwise(edges)]
    for field, expected in zip(zip(*parts, strict=True), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(field), expected)
    np.testing.assert_array_equal(clf.predict(stream, filtered=filtered), whole[0])
    np.testing.assert_array_equal(clf.predict_proba(stream, filtered=filtered), whole[1])


def test_of_extreme_values_it_warns_once(clf):
    stream = broken_stream(3)
    predictor = PiecePredictor(clf)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for begin in range(0, 400, 50):
            part = stream[begin : begin + 50]
            predictor.push(part.with_values(np.where(part.values > 0, 1e150, part.values)))
    assert len(caught) == 1
    assert "count as missing" in str(caught[0].message)


@pytest.mark.parametrize("n_neighbors", [1, 3])
def test_threads_and_blocks_change_nothing(n_neighbors, monkeypatch):
    metric = mlat.MLAT(max_iter=2, n_targets=1)
    clf = mlat.StreamClassifier(8, metric=metric, n_neighbors=n_neighbors).fit(rotating_states())
    stream = rotating_states(random_state=1)
    with threadpool_limits(1):
        states, proba = clf.predict(stream), clf.predict_proba(stream)
    monkeypatch.setattr("mlat.neighbours.references.LEAST_BLOCK", 50)
    with threadpool_limits(2):
        np.testing.assert_array_equal(clf.predict(stream), states)
        np.testing.assert_array_equal(clf.predict_proba(stream), proba)
