"""DECADE: expected alignment against all paths, its loss and search against slow oracles."""

import itertools
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
from mlat import LMNN, InputError
from mlat_lab.rivals import MDTW, MetricKNN, dtw
from mlat_lab.rivals.decade import (
    DECADE,
    Draws,
    ExpectedAlignment,
    MarginLearner,
    draw_paths,
    drawn_distances,
    meeting_weights,
    step_probabilities,
)
from mlat_lab.rivals.networks import Split, Task, hold_out

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="needs PyTorch")
seeds = st.integers(0, 2**32 - 1)

# ---------------------------------------------------------------- expected alignment


def naive_squared(x, y, p, q, weights):
    """Along the paths p and q (n_draws, longest), one place after the other."""
    total = 0.0
    for draw, place in np.ndindex(weights.shape):
        apart = x[p[draw, place]] - y[q[draw, place]]
        total += weights[draw, place] * (apart @ apart)
    return total


def violation(distances):
    """By how much the worst triplet breaks the triangle inequality."""
    return (distances[:, None, :] - distances[:, :, None] - distances[None, :, :]).max()


def all_paths(width, length):
    for moves in itertools.combinations(range(1, length), width - 1):
        yield np.searchsorted(moves, np.arange(length), side="right")


@settings(max_examples=40)
@given(seeds, st.integers(1, 9), st.integers(1, 6), st.integers(1, 5))
def test_paths_go_from_the_first_step_to_the_last_and_skip_none(seed, width, n_draws, n):
    steps, weights = draw_paths(n, width, n_draws, np.random.RandomState(seed))
    lengths = (weights > 0).sum(axis=1)
    assert ((lengths >= width) & (lengths <= 2 * width - 1)).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1 / n_draws)
    for series, draw in np.ndindex(n, n_draws):
        path = steps[series, draw, : lengths[draw]]
        assert path[0] == 0
        assert path[-1] == width - 1
        assert set(np.diff(path)) <= {0, 1}


def test_all_paths_of_a_length_are_equally_likely():
    steps, weights = draw_paths(4000, 3, 6, np.random.RandomState(0))
    for length in (3, 4, 5):
        drawn = steps[:, (weights > 0).sum(axis=1) == length, :length].reshape(-1, length)
        expected = {tuple(path) for path in all_paths(3, length)}
        found, counts = np.unique(drawn, axis=0, return_counts=True)
        assert {tuple(path) for path in found} == expected
        np.testing.assert_allclose(counts / len(drawn), 1 / len(expected), atol=0.03)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_meetings_are_those_of_all_pairs_of_paths(width):
    expected = np.zeros((width, width))
    for length in range(width, 2 * width):
        paths = np.array(list(all_paths(width, length)))
        at = np.stack([(paths == a).mean(axis=0) for a in range(width)], axis=1)
        np.testing.assert_allclose(step_probabilities(width, length), at)
        for p, q in itertools.product(paths, paths):
            np.add.at(expected, (p, q), 1 / (len(paths) ** 2 * length * width))
    found = meeting_weights(width)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(found.sum(axis=1), 1 / width)
    assert np.linalg.eigvalsh(found).min() > -1e-15


@settings(max_examples=30)
@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_distances_along_paths_are_the_obvious_ones(seed, width, n_draws):
    rng = np.random.RandomState(seed)
    F, G = rng.normal(size=(3, width, 2)), rng.normal(size=(2, width, 2))
    steps, weights = draw_paths(5, width, n_draws, rng)
    found = drawn_distances(F, G, Draws(steps[:3], weights), Draws(steps[3:], weights))
    for i, j in np.ndindex(3, 2):
        expected = naive_squared(F[i], G[j], steps[i], steps[3 + j], weights)
        assert found[i, j] ** 2 == pytest.approx(expected)


@settings(max_examples=60)
@given(seeds, st.integers(1, 8), st.integers(1, 6), st.floats(0.01, 100))
def test_it_is_a_pseudo_metric_while_series_keep_their_paths(seed, width, n_draws, scale):
    rng = np.random.RandomState(seed)
    # Repeated values make many series at distance 0 of each other and many tight triangles.
    F = scale * rng.randint(0, 3, size=(9, width, 2)).astype(float)
    draws = draw_paths(len(F), width, n_draws, rng)
    distances = drawn_distances(F, F, draws, draws)
    np.testing.assert_array_equal(distances, distances.T)
    assert (np.diag(distances) == 0).all()
    assert violation(distances) <= 1e-12 * scale
    expected = ExpectedAlignment(width).distances(F, F)
    assert violation(expected) <= 1e-12 * scale


def test_time_warping_is_no_metric():
    x, y, z = [[0.0], [0.0], [0.0]], [[0.0], [0.0], [2.0]], [[0.0], [2.0], [2.0]]
    warped = np.sqrt(dtw.pairwise(np.array([x, y, z])))
    assert warped[0, 2] > warped[0, 1] + warped[1, 2] + 0.8
    draws = draw_paths(3, 3, 8, np.random.RandomState(0))
    assert violation(drawn_distances(np.array([x, y, z]), np.array([x, y, z]), draws, draws)) <= 0


# ---------------------------------------------------------------- the estimator


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ellipses(n, seed, width=12, n_noise=8):
    """Two ellipses that lie across each other, run through at a random, changing pace.

    A step on its own tells a little; noise fills the other channels.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    turns = rng.random((n, 1)) + np.cumsum(rng.exponential(size=(n, width)), axis=1) / width
    along, across = np.cos(2 * np.pi * turns), 0.4 * np.sin(2 * np.pi * turns)
    X = rng.normal(size=(n, width, 2 + n_noise))
    X[:, :, 0] = along + across
    X[:, :, 1] = np.where(y == 1, 1.0, -1.0)[:, None] * (along - across)
    X[:, :, :2] += 0.25 * rng.normal(size=(n, width, 2))
    return X, y


def small(n=40, seed=0, width=5, d=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, width, d)) + y[:, None, None], y


def tiny(**parameters):
    """A network that takes no time."""
    usual = {"hidden": (6,), "n_features": 3, "max_iter": 3, "validation": None, "random_state": 0}
    return DECADE(**{**usual, **parameters})


@needs_torch
def test_draws_tend_to_the_expectation():
    X, y = small()
    model = tiny().fit(X, y)
    expected = model.distance(X[:8], X[8:20])
    errors = []
    for n_draws in (5, 50, 500, 2000):
        drawn = model.distance(X[:8], X[8:20], n_draws=n_draws, random_state=1)
        errors.append(np.sqrt(np.mean((drawn**2 - expected**2) ** 2)))
    # The error of a mean of n independent draws falls as 1/√n: 20 from the first to the last.
    assert errors[-1] < errors[0] / 8
    assert errors == sorted(errors, reverse=True)


@needs_torch
def test_a_fitted_distance_is_a_pseudo_metric():
    X, y = small()
    model = tiny().fit(X, y)
    for distances in (model.distance(X), model.distance(X, n_draws=5, random_state=0)):
        assert (np.diag(distances) == 0).all()
        assert violation(distances) < 1e-12


@needs_torch
def test_the_loss_is_the_papers():
    X, y = small(n=12, width=4)
    rng = np.random.RandomState(3)
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    # Rows 0, 2, 4 … are of label 0; the last target of row 1 is not there.
    targets = np.array([[(i + 2) % 12, (i + 4) % 12] for i in range(12)])
    targets[1, 1] = -1
    everything = Split(np.arange(12), np.empty(0, np.int64))
    X_tensor = torch.as_tensor(X, dtype=torch.float32)
    task = Task(torch, network, X_tensor, y, np.arange(12), y, everything, rng)
    learner = MarginLearner(task, targets, DECADE(n_impostors=3, n_draws=4, batch_size=5))
    rows = np.array([1, 8, 3])
    impostors = learner._impostors()
    draws = draw_paths(12, 4, 4, rng)
    with torch.no_grad():
        F = network(torch.as_tensor(X, dtype=torch.float32)).double().numpy()
        found = float(learner._loss(rows, np.hstack([targets, impostors])[rows], draws))

    def d(i, j):
        return naive_squared(F[i], F[j], draws.steps[i], draws.steps[j], draws.weights)

    expected = 0.0
    for i in rows:
        mine = [j for j in targets[i] if j >= 0]
        for j in mine:
            hinges = [max(0.0, 1 + d(i, j) - d(i, k)) for k in impostors[i]]
            expected += (np.mean(hinges) + 0.1 * d(i, j)) / len(mine)
    assert found == pytest.approx(expected, rel=1e-5)
    apart = ExpectedAlignment(4).distances(F, F)
    apart[y[:, None] == y] = np.inf
    np.testing.assert_array_equal(impostors, np.argsort(apart, axis=1)[:, :3])


@needs_torch
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_warped_classes_among_noise_are_recognised(seed):
    X, y = ellipses(140, seed)
    X_test, y_test = ellipses(300, 100 + seed)
    model = DECADE(validation=None, max_iter=25, batch_size=32, random_state=seed).fit(X, y)
    score = model.score(X_test, y_test)
    assert score > 0.95
    assert score > MDTW().fit(X, y).score(X_test, y_test) + 0.1
    lmnn = MetricKNN(metric=LMNN(n_targets=3, target_gap=0, push_weight=0.5)).fit(X, y)
    assert score > lmnn.score(X_test, y_test) + 0.1


@needs_torch
def test_neighbours_are_the_nearest_by_the_expected_distance():
    X, y = small()
    model = tiny(n_neighbors=3).fit(X[:30], y[:30])
    apart = model.distance(X[30:], X[:30])
    distances, nearest = model.kneighbors(X[30:])
    np.testing.assert_array_equal(nearest, np.argsort(apart, axis=1)[:, :3])
    np.testing.assert_allclose(distances, np.sort(apart, axis=1)[:, :3])
    one = clone(model).set_params(n_neighbors=1).fit(X[:30], y[:30])
    np.testing.assert_array_equal(one.predict(X[30:]), y[apart.argmin(axis=1)])
    for i in (30, 35):
        np.testing.assert_array_equal(model.predict(X[i : i + 1]), model.predict(X[30:])[i - 30])


@needs_torch
def test_a_seed_repeats_a_run_to_the_last_bit_and_touches_nothing_else():
    X, y = small()
    theirs = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (tiny(n_jobs=2).fit(X, y) for _ in range(2))
    assert first.history_ == second.history_
    for name, weights in first.weights_.items():
        np.testing.assert_array_equal(weights, second.weights_[name])
    np.testing.assert_array_equal(first.kneighbors(X)[0], second.kneighbors(X)[0])
    other = tiny(random_state=1).fit(X, y)
    assert not np.array_equal(first.weights_["0.weight"], other.weights_["0.weight"])
    assert torch.equal(torch.get_rng_state(), theirs[0])
    np.testing.assert_array_equal(np.random.get_state()[1], theirs[1])  # noqa: NPY002
    assert torch.get_num_threads() == 1


@needs_torch
def test_the_unit_and_offset_of_a_channel_do_not_matter():
    X, y = small()
    model = tiny().fit(X, y)
    # Powers of two, so that scaling is exact; a channel that never moves becomes 0.
    scaled = tiny().fit(X * [4.0, 0.5], y)
    np.testing.assert_array_equal(model.kneighbors(X)[0], scaled.kneighbors(X * [4.0, 0.5])[0])
    still = np.concatenate([X, np.full((*X.shape[:2], 1), 7.0)], axis=2)
    assert np.isfinite(tiny().fit(still, y).kneighbors(still)[0]).all()


@needs_torch
def test_a_pickled_model_predicts_the_same():
    X, y = small()
    model = tiny().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.kneighbors(X)[0], model.kneighbors(X)[0])


@needs_torch
def test_training_stops_early_and_keeps_the_best_epoch():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4, 3)), np.repeat([0, 1], 60)
    X[:, :, 0] += 0.7 * y[:, None]
    when = {"start": np.arange(120), "run": y}
    model = tiny(validation=0.25, patience=4, max_iter=60).fit(X, y, **when)
    assert model.n_iter_ == len(model.history_) < 60
    accuracy = np.array([epoch.accuracy for epoch in model.history_])
    best = model.best_epoch_
    assert accuracy[best] == accuracy.max()
    as_good = [epoch.loss for epoch in model.history_ if epoch.accuracy == accuracy.max()]
    assert model.history_[best].loss == min(as_good)
    assert accuracy[: model.n_iter_ - 4].max() == accuracy.max()
    # The recorded accuracy is that of those weights, among the windows learned from.
    learn = hold_out(y, when["start"], y, 4, 0.25).learn
    apart = model.distance(X[model.validation_], X[learn])
    right = y[learn][apart.argmin(axis=1)] == y[model.validation_]
    assert right.mean() == pytest.approx(accuracy[best])


@needs_torch
def test_few_windows_are_trained_without_validation_unless_it_was_asked_for():
    X, y = small(n=8)
    with pytest.warns(UserWarning, match="too few windows for a validation block"):
        model = tiny(validation="auto").fit(X, y)
    assert len(model.validation_) == 0
    assert model.n_iter_ == 3
    with pytest.raises(InputError, match=r"^too few windows for a validation block: .*=None$"):
        tiny(validation=0.2).fit(X, y)


@needs_torch
def test_a_device_works_or_is_said_not_to_be_there():
    X, y = small()
    with pytest.raises(InputError, match=r"^there is no device 'cuda:77'; PyTorch .* finds cpu"):
        tiny(device="cuda:77").fit(X, y)
    with pytest.raises(InputError, match="there is no device 'gpu'"):
        tiny(device="gpu").fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="there is no device 'cuda'"):
            tiny(device="cuda").fit(X, y)
        return
    there, here = tiny(device="cuda").fit(X, y), tiny().fit(X, y)
    np.testing.assert_allclose(there.distance(X), here.distance(X), rtol=1e-3, atol=1e-5)


@needs_torch
@pytest.mark.parametrize(
    ("parameters", "y", "line"),
    [
        ({}, [1, 1, 1, 1], "DECADE needs windows of at least 2 classes; y holds 1 class, 1"),
        ({}, [0, 0, 0, 1], r"state 1 has fewer windows \(1\) than n_targets"),
        ({"n_draws": 0}, [0, 0, 1, 1], "n_draws must be a whole number of at least 1, not 0"),
        ({"hidden": 8}, [0, 0, 1, 1], "hidden must be a tuple of units per layer, not 8"),
        ({"hidden": (0,)}, [0, 0, 1, 1], "each of hidden must be a whole number"),
        ({"target_gap": "far"}, [0, 0, 1, 1], 'target_gap must be a whole number .* or "run"'),
        ({"learning_rate": 0}, [0, 0, 1, 1], "learning_rate must be a number"),
        ({"weight_decay": -1}, [0, 0, 1, 1], "weight_decay must be a number of at least 0"),
        ({"validation": 0.9}, [0, 0, 1, 1], "validation must be a share from 0 to 0.5, .*not 0.9"),
        ({"patience": 0}, [0, 0, 1, 1], "patience must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_input_is_one_clear_line(parameters, y, line):
    with pytest.raises(InputError, match=line) as caught:
        tiny(**parameters).fit(np.zeros((4, 3, 2)), y)
    assert "\n" not in str(caught.value)


@needs_torch
def test_bad_windows_are_one_clear_line():
    X, y = small()
    X[3, 1, 0] = np.nan
    with pytest.raises(InputError, match="NaN in window 3, step 1, channel 0"):
        tiny().fit(X, y)
    X[3, 1, 0] = 0.0
    model = tiny().fit(X, y)
    with pytest.raises(InputError, match=r"windows have shape \(4, 2\) but DECADE was fitted on"):
        model.predict(X[:, :4])
    with pytest.raises(InputError, match=r"start must have one entry per window \(40\)"):
        model.fit(X, y, start=[1, 2])
    with pytest.raises(InputError, match="start must hold whole numbers"):
        model.fit(X, y, start=np.linspace(0, 1, 40))


@pytest.mark.slow
@needs_torch
def test_scikit_learn_accepts_it_with_no_check_skipped():
    # One of the checks is skipped unless this variable is set before SciPy is first imported.
    code = (
        "import warnings; warnings.simplefilter('ignore', UserWarning)\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from mlat_lab.rivals.decade import DECADE\n"
        "model = DECADE(max_iter=3, hidden=(8,), n_features=4, n_draws=2, n_jobs=1)\n"
        "statuses = {r['status'] for r in check_estimator(model, on_skip=None)}\n"
        "assert statuses == {'passed'}, statuses\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@needs_torch
def test_page():
    run_examples(DOCS / "evidence/decade.md")
