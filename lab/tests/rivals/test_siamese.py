"""The siamese LSTM: its network against a slow oracle, its pairs, and what only order tells."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from doc_examples import DOCS, run_examples
from mlat import InputError
from mlat_lab.rivals import EuclideanKNN
from mlat_lab.rivals.siamese import SiameseLSTM, draw_pairs

torch = pytest.importorskip("torch")  # nothing above imports it


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def two_pulses(n, seed, width=20):
    """A pulse in each of two channels, at random moments; the label is which comes first.

    A step on its own, and a channel on its own without the other, say nothing.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = 0.2 * rng.normal(size=(n, width, 2))
    first, second = np.sort(rng.permuted(np.tile(np.arange(width), (n, 1)), axis=1)[:, :2]).T
    X[np.arange(n), first, y] += 1.5
    X[np.arange(n), second, 1 - y] += 1.5
    return X, y


def small(n=40, seed=0, width=5, d=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, width, d)) + y[:, None, None], y


def tiny(**parameters):
    """A network that takes no time."""
    usual = {"n_units": 4, "max_iter": 3, "validation": None, "random_state": 0}
    return SiameseLSTM(**{**usual, **parameters})


@pytest.fixture(scope="module")
def fitted():
    X, y = small()
    return tiny(max_iter=5).fit(X, y)


def naive_last_hidden(model, window):
    """An LSTM (Hochreiter & Schmidhuber 1997, with a forget gate), one step after the other."""
    weights = {name: w.astype(np.float64) for name, w in model.weights_.items()}
    bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
    h = c = np.zeros(model.n_units)
    for x in (window - model.mean_) / model.scale_:
        gates = weights["weight_ih_l0"] @ x + weights["weight_hh_l0"] @ h + bias
        put, keep, cell, show = np.split(gates, 4)
        put, keep, show = (1 / (1 + np.exp(-g)) for g in (put, keep, show))
        c = keep * c + put * np.tanh(cell)
        h = show * np.tanh(c)
    return h


def test_a_window_becomes_the_last_hidden_state(fitted):
    X, _ = small(n=6, seed=1)
    expected = [naive_last_hidden(fitted, window) for window in X]
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=1e-9)


def test_time_is_the_sequence_and_windows_do_not_see_each_other(fitted):
    X, _ = small(n=30, seed=1)
    hidden = fitted.transform(X)
    np.testing.assert_allclose(fitted.transform(X[::-1]), hidden[::-1], rtol=1e-12)
    np.testing.assert_allclose(fitted.transform(X[7:8]), hidden[7:8], rtol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X[::-1]), fitted.predict(X)[::-1])
    assert np.abs(fitted.transform(X[:, ::-1]) - hidden).max(axis=1).min() > 1e-4


def test_distances_are_those_of_the_hidden_states_in_l1(fitted):
    X, y = small()
    other, _ = small(n=7, seed=2)
    h, g = fitted.transform(X), fitted.transform(other)
    apart = np.abs(g[:, None] - h[None]).sum(axis=2)
    np.testing.assert_allclose(fitted.distance(other, X), apart)
    np.testing.assert_allclose(fitted.distance(other), np.abs(g[:, None] - g[None]).sum(axis=2))
    distances, nearest = fitted.kneighbors(other, 3)
    np.testing.assert_array_equal(nearest, np.argsort(apart, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(distances, np.sort(apart, axis=1)[:, :3])
    np.testing.assert_array_equal(fitted.predict(other), y[apart.argmin(axis=1)])


def test_of_windows_equally_near_the_earlier_comes_first():
    X, y = small(n=10)
    model = tiny().fit(np.concatenate([X, X]), np.append(y, y))
    for k in (1, 3):
        assert (model.kneighbors(X, k)[1][:, 0] == np.arange(10)).all()
    np.testing.assert_array_equal(model.kneighbors(X, 2)[1][:, 1], np.arange(10, 20))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.integers(0, 2**32 - 1))
def test_every_window_has_one_partner_of_each_kind(codes, seed):
    _, codes = np.unique(codes, return_inverse=True)
    if codes.max() == 0:
        return
    same, other = draw_pairs(codes, np.random.RandomState(seed))
    assert (codes[same] == codes).all()
    assert (codes[other] != codes).all()
    alone = np.bincount(codes)[codes] == 1
    np.testing.assert_array_equal(same == np.arange(len(codes)), alone)


def test_partners_are_drawn_evenly():
    codes = np.array([0, 1, 0, 2, 1, 0, 2, 0])
    rng = np.random.RandomState(0)
    drawn = np.array([draw_pairs(codes, rng) for _ in range(6000)])
    for i, code in enumerate(codes):
        same, other = (np.bincount(part, minlength=8) / 6000 for part in drawn[:, :, i].T)
        friends = (codes == code) & (np.arange(8) != i)
        np.testing.assert_allclose(same, friends / friends.sum(), atol=0.04)
        np.testing.assert_allclose(other, (codes != code) / (codes != code).sum(), atol=0.04)


def test_the_loss_is_the_squared_error_of_the_similarity():
    # Two labels, each with copies of one window: whatever pairs are drawn, they are the same two.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 5, 3))[[0, 0, 0, 1, 1, 1]], np.repeat([0, 1], 3)
    model = tiny(max_iter=1, learning_rate=1e-12).fit(X, y)
    apart = model.distance(X[:1], X[3:4]).item()
    expected = ((1.0 - 1.0) ** 2 + np.exp(-apart) ** 2) / 2
    assert model.history_[0].loss == pytest.approx(expected, rel=1e-5)


def test_it_begins_by_remembering():
    X, y = small()
    model = tiny(max_iter=1, learning_rate=1e-12).fit(X, y)
    bias = (model.weights_["bias_ih_l0"] + model.weights_["bias_hh_l0"]).reshape(4, 4)
    np.testing.assert_allclose(bias, np.outer([0, 1, 0, 0], np.full(4, 2.5)), atol=1e-6)


def test_gradients_are_clipped():
    """Adadelta forgets the size of gradients, but not at once: its first step shows them."""
    X, y = small()
    kwargs = {"max_iter": 1, "batch_size": 1000}
    free, cut = (tiny(clip=clip, **kwargs).fit(X, y).weights_ for clip in (1e9, 1e-4))
    begin = tiny(learning_rate=1e-12, **kwargs).fit(X, y).weights_
    moved = [np.abs(w["weight_ih_l0"] - begin["weight_ih_l0"]).max() for w in (free, cut)]
    assert 0 < moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_only_the_order_tells_is_learned(seed):
    X, y = two_pulses(240, seed)
    X_test, y_test = two_pulses(300, 100 + seed)
    model = SiameseLSTM(validation=None, max_iter=30, batch_size=16, random_state=seed).fit(X, y)
    score = model.score(X_test, y_test)
    assert score > 0.93
    assert EuclideanKNN().fit(X, y).score(X_test, y_test) < score - 0.1

    def single_steps(X):
        return np.sort(X, axis=1)  # all steps' values, without their order

    unordered = EuclideanKNN().fit(single_steps(X), y)
    assert unordered.score(single_steps(X_test), y_test) < 0.6
    backwards = model.score(X_test[:, ::-1], y_test)
    assert backwards < 0.2, "in reverse, the other pulse comes first"


def test_a_seed_repeats_a_run_to_the_last_bit_and_touches_nothing_else():
    X, y = small()
    theirs = torch.get_rng_state()
    first, second = (tiny(n_jobs=2).fit(X, y) for _ in range(2))
    assert first.history_ == second.history_
    for name, weights in first.weights_.items():
        np.testing.assert_array_equal(weights, second.weights_[name])
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    other = tiny(random_state=1).fit(X, y)
    assert not np.array_equal(first.transform(X), other.transform(X))
    assert torch.equal(torch.get_rng_state(), theirs)
    assert torch.get_num_threads() == 1
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.transform(X), first.transform(X))


def test_flat_and_folded_windows_give_the_same_model(fitted):
    X, y = small()
    flat = clone(fitted).set_params(width=5).fit(X.reshape(len(X), -1), y)
    np.testing.assert_array_equal(flat.transform(X), fitted.transform(X))
    assert list(fitted.get_feature_names_out()) == [f"siameselstm{i}" for i in range(4)]


def test_training_stops_early_and_keeps_the_best_epoch():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4, 3)), np.repeat([0, 1], 60)
    X[:, :, 0] += 0.7 * y[:, None]
    when = {"start": np.arange(120), "run": y}
    model = tiny(validation=0.25, patience=3, max_iter=60).fit(X, y, **when)
    assert model.n_iter_ == len(model.history_) < 60
    np.testing.assert_array_equal(model.validation_, [*range(45, 60), *range(105, 120)])
    accuracy = np.array([epoch.accuracy for epoch in model.history_])
    assert accuracy[model.best_epoch_] == accuracy.max()
    learn = [*range(38), *range(60, 98)]
    apart = model.distance(X[model.validation_], X[learn])
    right = y[learn][apart.argmin(axis=1)] == y[model.validation_]
    assert right.mean() == pytest.approx(accuracy[model.best_epoch_])


def test_a_device_works_or_is_said_not_to_be_there():
    X, y = small()
    with pytest.raises(InputError, match=r"^there is no device 'cuda:77'; PyTorch .* finds cpu"):
        tiny(device="cuda:77").fit(X, y)
    if torch.cuda.is_available():
        there, here = tiny(device="cuda").fit(X, y), tiny().fit(X, y)
        np.testing.assert_allclose(there.transform(X), here.transform(X), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "y", "line"),
    [
        ({}, [1, 1, 1, 1], "SiameseLSTM needs windows of at least 2 classes; y holds 1 class, 1"),
        ({"n_units": 0}, [0, 0, 1, 1], "n_units must be a whole number of at least 1, not 0"),
        ({"clip": 0}, [0, 0, 1, 1], "clip must be a number"),
        ({"learning_rate": "fast"}, [0, 0, 1, 1], "learning_rate must be a number .*not 'fast'"),
        ({"validation": 0.2}, [0, 0, 1, 1], "too few windows for a validation block"),
        ({"validation": "some"}, [0, 0, 1, 1], "validation must be a share from 0 to 0.5"),
    ],
)
def test_bad_input_is_one_clear_line(parameters, y, line):
    with pytest.raises(InputError, match=line) as caught:
        tiny(**parameters).fit(np.zeros((4, 3, 2)), y)
    assert "\n" not in str(caught.value)


def test_bad_windows_are_one_clear_line(fitted):
    X, y = small()
    with pytest.raises(InputError, match=r"windows have shape \(4, 2\) but SiameseLSTM was"):
        fitted.transform(X[:, :4])
    X[3, 1, 0] = np.inf
    with pytest.raises(InputError, match="inf in window 3, step 1, channel 0"):
        tiny().fit(X, y)


@pytest.mark.slow
def test_scikit_learn_accepts_it_with_no_check_skipped():
    # One of the checks is skipped unless this variable is set before SciPy is first imported.
    code = (
        "import warnings; warnings.simplefilter('ignore', UserWarning)\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from mlat_lab.rivals.siamese import SiameseLSTM\n"
        "model = SiameseLSTM(n_units=8, max_iter=5, batch_size=32, n_jobs=1)\n"
        "statuses = {r['status'] for r in check_estimator(model, on_skip=None)}\n"
        "assert statuses == {'passed'}, statuses\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_page():
    run_examples(DOCS / "evidence/siamese-lstm.md")
