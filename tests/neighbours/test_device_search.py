"""The search on a device of PyTorch gives what the search on the processor gives, bit by bit."""

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from mlat import InputError, StreamClassifier
from mlat.neighbours import device_search
from mlat.neighbours.search import ClassDistances
from mlat.synthetic import rotating_states


def make_search(rng, n, r, n_classes):
    points = rng.normal(size=(n, r)).round(1)  # many are equally far, or the same
    return ClassDistances(points, rng.integers(0, n_classes, n), n_classes)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 6), st.integers(1, 5))
def test_the_nearest_of_each_state(seed, n, r, n_classes):
    rng = np.random.default_rng(seed)
    search = make_search(rng, n, r, n_classes)
    asked = rng.normal(size=(9, r)).round(1)
    for wanted, found in zip(
        search.query_rows(asked), search.query_rows(asked, device="cpu"), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 6), st.data())
def test_the_k_nearest(seed, n, r, data):
    rng = np.random.default_rng(seed)
    nearest = make_search(rng, n, r, 3).nearest
    k = data.draw(st.integers(1, n))
    asked = rng.normal(size=(9, r)).round(1)
    for wanted, found in zip(nearest.query(asked, k), nearest.query(asked, k, "cpu"), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_few_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    search = make_search(rng, 200, 4, 3)
    asked = rng.normal(size=(50, 4))
    wanted = search.query_rows(asked)
    monkeypatch.setattr(device_search, "AT_ONCE", 700)
    monkeypatch.setattr(device_search, "IN_DOUBLE", 5)
    for one, other in zip(search.query_rows(asked, device="cpu"), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("strange", [np.nan, 1e200, np.inf])
def test_points_that_are_too_far_for_single_precision(strange):
    rng = np.random.default_rng(1)
    search = make_search(rng, 50, 4, 2)
    asked = rng.normal(size=(5, 4))
    asked[2, 1] = strange
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = search.query_rows(asked)
        found = search.query_rows(asked, device="cpu")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "settings",
    [{"metric": "euclidean"}, {"metric": "euclidean", "n_neighbors": 3}, {"metric": "auto"}],
    ids=["nearest", "votes", "committee"],
)
def test_predictions_are_the_same(settings):
    clf = StreamClassifier(8, **settings).fit(rotating_states(random_state=0))
    stream = rotating_states(random_state=1)
    wanted = clf.predict_proba(stream), clf.predict(stream), clf.class_distances(stream)
    clf.set_params(device="cpu")
    found = clf.predict_proba(stream), clf.predict(stream), clf.class_distances(stream)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_metric_is_learned_on_the_device():
    stream = rotating_states(random_state=0)
    plain = StreamClassifier(8, metric="mlat").fit(stream)
    on_device = StreamClassifier(8, metric="mlat", device="cpu").fit(stream)
    assert on_device.metric_.loss_ == pytest.approx(plain.metric_.loss_, rel=1e-2)
    assert on_device.metric_.loss_ != plain.metric_.loss_  # single precision: it was the device


def test_a_device_that_is_not_there():
    with pytest.raises(InputError, match="PyTorch cannot use the device 'nonsense' here"):
        StreamClassifier(8, device="nonsense").fit(rotating_states(random_state=0))
