"""LMNN-DTW: paths, loss and learning against slow oracles, and a problem it is made for."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mlat
import naive_dtw as naive
from mlat import InputError
from mlat.metric.loss import LargeMarginLoss
from mlat.metric.targets import select_targets
from mlat.stream.windows import Windows
from mlat_lab.bench.dtw import make_windows
from mlat_lab.rivals import LMNNDTW, MDTW, MetricKNN, dtw
from mlat_lab.rivals.dtw import distinct_points
from mlat_lab.rivals.lmnn_dtw import (
    Points,
    Problem,
    align_impostors,
    align_targets,
    learn,
    n_changed,
    nearest_targets,
)
from problems import central_differences

seeds = st.integers(0, 2**32 - 1)
bands = st.sampled_from([None, 0, 1, 3])


def warped(n, seed, width=16, n_noise=4):
    """Which of two channels rises first is the label; when each rises is chance, the rest noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, width, 2 + n_noise))
    when = np.sort(rng.uniform(0, width - 1, size=(n, 2)), axis=1)
    when[:, 1] = np.maximum(when[:, 1], when[:, 0] + 2)
    first, second = (1 / (1 + np.exp(-2 * (np.arange(width) - when[:, [k]]))) for k in (0, 1))
    X[:, :, 0] = np.where(y[:, None] == 0, first, second)
    X[:, :, 1] = np.where(y[:, None] == 0, second, first)
    X[:, :, :2] += 0.15 * rng.normal(size=(n, width, 2))
    return X, y


def some_windows(rng, n=24, width=5, d=2, n_labels=3, overlap=True):
    """Windows of a stream in runs of one label, or unrelated ones, and their codes."""
    codes = np.sort(np.append(np.arange(n_labels).repeat(2), rng.integers(0, n_labels, n)))
    if not overlap:
        return rng.normal(size=(len(codes), width, d)), rng.permutation(codes)
    values = rng.normal(size=(len(codes) + width - 1, d))
    X = np.lib.stride_tricks.sliding_window_view(values, width, axis=0).transpose(0, 2, 1)
    return np.ascontiguousarray(X), codes


def as_points(X):
    return Points(*distinct_points(X), X.shape[1])


def decoded(moves, width):
    """The pairs of steps of a path that is kept as moves."""
    steps = [(0, 0)]
    move = 0
    while steps[-1] != (width - 1, width - 1):
        code = (int(moves[move // 4]) >> (2 * (move % 4))) & 3
        steps.append((steps[-1][0] + (code & 1), steps[-1][1] + (code >> 1)))
        move += 1
    return steps


def small_problem(seed, overlap=True, k=2, push_weight=0.4, band=None, **options):
    rng = np.random.default_rng(seed)
    X, codes = some_windows(rng, overlap=overlap, **options)
    reach = dtw.check_band(band, X.shape[1], X.shape[1])
    when = {"start": np.arange(len(X)), "run": codes}
    targets = nearest_targets(X, codes, k, band=reach, **when)
    # One window without a target, as a gap may leave it.
    targets[3] = -1
    return Problem(X, codes, targets, push_weight, reach), X, codes, targets


def outer_product(x, y, path):
    """C = P Pᵀ, with a column of P for every pair of steps."""
    P = np.array([x[a] - y[b] for a, b in path]).T
    return P @ P.T


def naive_loss(codes, targets, push_weight, matrix_of, L):
    """The loss and its gradient by the formula; matrix_of gives C of two windows."""
    M, n = L.T @ L, len(codes)
    value, weighed = 0.0, np.zeros_like(M)
    for i in range(n):
        for j in targets[i]:
            if j < 0:
                continue
            near = matrix_of(i, j)
            value += (1 - push_weight) / n * np.sum(M * near)
            weighed += (1 - push_weight) / n * near
            for l in np.flatnonzero(codes != codes[i]):  # noqa: E741
                far = matrix_of(i, l)
                if (hinge := 1 + np.sum(M * near) - np.sum(M * far)) > 0:
                    value += push_weight / n * hinge
                    weighed += push_weight / n * (near - far)
    return value, 2 * L @ weighed


def naive_objective(X, codes, targets, push_weight, L, band=None):
    """The loss along the best paths of all pairs, and its gradient along them."""

    def matrix_of(i, j):
        return outer_product(X[i], X[j], dtw.path(X[i] @ L.T, X[j] @ L.T, band=band))

    return naive_loss(codes, targets, push_weight, matrix_of, L)


# Paths and pairs


@settings(max_examples=20, deadline=None)
@given(seeds, bands, st.booleans(), st.floats(0.0, 3.0))
def test_impostors_are_all_pairs_within_either_radius(seed, band, overlap, slack):
    rng = np.random.default_rng(seed)
    X, codes = some_windows(rng, overlap=overlap)
    n, width, _ = X.shape
    costs = naive.pairwise(X, X, band)
    radius = np.quantile(costs, rng.uniform(0, 0.5, n))
    radius[0] = -np.inf
    reach = dtw.check_band(band, width, width)
    found = align_impostors(as_points(X), codes, radius, slack=slack, band=reach)
    either = np.maximum(radius[:, None], radius[None, :]) + slack
    expected = {
        (i, l)
        for i in range(n)
        for l in range(n)  # noqa: E741
        if codes[i] < codes[l] and costs[i, l] < either[i, l]
    }
    assert sorted(zip(found.left, found.right, strict=True)) == sorted(expected)
    for i, l, cost, moves in zip(*found, strict=True):  # noqa: E741
        assert cost == pytest.approx(costs[i, l])
        path = dtw.path(X[i], X[l], band=band)
        assert decoded(moves, width) == [tuple(pair) for pair in path.tolist()]


def test_impostors_of_many_blocks_and_few_buffers(monkeypatch):
    monkeypatch.setattr("mlat_lab.rivals.lmnn_dtw.BUFFERED_PAIRS", 1)
    monkeypatch.setattr(dtw, "KEPT_BYTES", 20_000)
    rng = np.random.default_rng(0)
    X, codes = some_windows(rng, n=300, n_labels=2)
    costs = dtw.pairwise(X)
    radius = np.full(len(X), np.quantile(costs, 0.3))
    found = align_impostors(as_points(X), codes, radius, slack=0.0, band=5)
    i, l = np.nonzero((costs < radius[0]) & (codes[:, None] < codes))  # noqa: E741
    order = np.lexsort((found.right, found.left))
    np.testing.assert_array_equal(found.left[order], i)
    np.testing.assert_array_equal(found.right[order], l)
    np.testing.assert_array_equal(found.costs[order], costs[i, l])


def test_search_is_given_up_when_too_much_is_violated():
    rng = np.random.default_rng(0)
    X, codes = some_windows(rng)
    costs = dtw.pairwise(X)
    radius = np.quantile(costs, rng.uniform(0, 0.5, len(X)))
    other = codes[:, None] != codes[None, :]
    violated = np.maximum(radius[:, None] - costs, 0.0)[other].sum()
    search = {"slack": 1.0, "band": 5}
    assert align_impostors(as_points(X), codes, radius, most=violated * 1.001, **search) is not None
    assert align_impostors(as_points(X), codes, radius, most=violated * 0.999, **search) is None


@settings(max_examples=15, deadline=None)
@given(seeds, bands)
def test_target_paths_are_the_best(seed, band):
    rng = np.random.default_rng(seed)
    X, _ = some_windows(rng)
    width = X.shape[1]
    targets = rng.integers(-1, len(X), (len(X), 2))
    found = align_targets(as_points(X), targets, dtw.check_band(band, width, width))
    for (i, j), cost, moves in zip(
        np.ndindex(targets.shape), found.costs, found.moves, strict=True
    ):
        y = X[i] if targets[i, j] < 0 else X[targets[i, j]]
        assert cost == pytest.approx(naive.cost(X[i], y, band))
        assert decoded(moves, width) == [tuple(p) for p in dtw.path(X[i], y, band=band).tolist()]


@pytest.mark.parametrize("gap", [0, 3, "run"])
def test_targets_are_the_nearest_permitted_under_warping(gap):
    rng = np.random.default_rng(1)
    X, codes = some_windows(rng, n=60, width=4)
    when = {"start": np.arange(len(X)), "run": codes}
    found = nearest_targets(X, codes, 3, band=4, gap=gap, **when)
    costs = naive.pairwise(X, X)
    for i in range(len(X)):
        same = np.flatnonzero(codes == codes[i])
        steps = np.abs(same - i)
        # One run per label: "run" keeps five windows, or half the run, between.
        least = {0: 1, 3: 3, "run": min(5 * 4, (len(same) - 1) // 2)}[gap]
        permitted = same[(steps >= least) & (steps > 0)]
        expected = permitted[np.argsort(costs[i, permitted], kind="stable")][:3]
        assert found[i, : len(expected)].tolist() == expected.tolist()
        assert (found[i, len(expected) :] == -1).all()
    windows = Windows.of_array(X, codes, when["start"], when["run"])
    euclidean = select_targets(windows, 3, gap=gap, **when)
    assert (found != euclidean).any()


def test_changed_paths_are_counted_over_the_pairs_of_both():
    X, codes = some_windows(np.random.default_rng(0))
    points, radius = as_points(X), np.full(len(X), 4.0)
    fewer = align_impostors(points, codes, radius, slack=0.0, band=5)
    more = align_impostors(points, codes, radius, slack=2.0, band=5)
    straight = align_impostors(points, codes, radius, slack=9.0, band=0)
    assert 0 < len(fewer.left) < len(more.left)
    assert n_changed(fewer, more) == 0
    bent = {
        pair: decoded(moves, 5) != [(a, a) for a in range(5)]
        for *pair, _, moves in zip(*fewer, strict=True)
        for pair in [tuple(pair)]
    }
    both = set(zip(straight.left, straight.right, strict=True)) & set(bent)
    assert n_changed(fewer, straight) == sum(bent[pair] for pair in both) > 0


# The loss along fixed paths


@settings(max_examples=8, deadline=None)
@given(seeds, bands, st.booleans())
def test_loss_and_gradient_are_the_formula(seed, band, overlap):
    problem, X, codes, targets = small_problem(seed, overlap, band=band)
    L = problem.start() + 0.1 * np.random.default_rng(seed).normal(size=(2, 2))
    value, gradient = problem.align(L).loss(L)
    expected, expected_gradient = naive_objective(X, codes, targets, 0.4, L, band)
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-12)


def test_gradient_is_that_of_finite_differences_for_fixed_paths_and_for_the_objective():
    problem, X, codes, targets = small_problem(0)
    rng = np.random.default_rng(1)
    L = problem.start() + 0.2 * rng.normal(size=(2, 2))
    loss = problem.align(L).loss
    for at in (L, L + 0.2 * rng.normal(size=(2, 2))):  # at paths of its own, and of another metric
        np.testing.assert_allclose(loss(at)[1], central_differences(loss, at), rtol=1e-5)
    objective = central_differences(
        lambda at: naive_objective(X, codes, targets, 0.4, at), L, step=1e-5
    )
    # Where no two paths tie the best path does not change for small steps: the same gradient.
    np.testing.assert_allclose(loss(L)[1], objective, rtol=1e-5)


def test_loss_without_warping_is_the_large_margin_loss_of_the_windows():
    problem, X, codes, targets = small_problem(3, band=0)
    L = problem.start()
    Z = (X @ L.T).reshape(len(X), -1)
    expected, _ = LargeMarginLoss(codes, targets, 0.4)(Z)
    aligned = problem.align(L)
    assert aligned.objective == pytest.approx(expected)
    D = ((Z[:, None] - Z) ** 2).sum(axis=2)
    apart = codes[:, None] != codes
    of = [(i, j) for i, row in enumerate(targets) for j in row if j >= 0]
    violated = [(1 + D[i, j] > D[i, apart[i]]).sum() for i, j in of]
    assert aligned.n_violated == sum(violated) > 0


def test_a_metric_that_is_not_better_is_refused():
    problem, *_ = small_problem(0)
    L = problem.start()
    objective = problem.align(L).objective
    assert problem.align(L, objective * 1.001).objective == objective
    assert problem.align(L, objective) is None
    assert problem.align(L / 10, 0.5 * objective) is None


# Learning


@settings(max_examples=8, deadline=None)
@given(seeds, bands, st.booleans(), st.sampled_from([0.1, 0.5, 0.9]))
def test_objective_falls_along_the_paths_and_from_round_to_round(seed, band, overlap, c):
    problem, X, codes, targets = small_problem(seed, overlap, push_weight=c, band=band, d=3)
    found = learn(problem, max_iter=6, n_steps=4)
    *rounds, last = found.rounds
    objectives = [r.objective for r in found.rounds]
    assert all(r.after_steps <= r.objective for r in rounds)
    assert objectives == sorted(objectives, reverse=True)
    assert last.objective < objectives[0]
    # What is kept is what the record says, by the formula.
    assert naive_objective(X, codes, targets, c, found.L, band)[0] == pytest.approx(last.objective)
    assert np.linalg.eigvalsh(found.L.T @ found.L).min() > -1e-12


def test_a_step_that_raises_the_objective_is_halved():
    # Minimised along its paths the loss goes too far: other paths are then shorter.
    X, y = warped(60, 0, width=8)
    model = LMNNDTW(n_steps=50).fit(X, y)
    assert sum(r.n_halvings for r in model.history_) > 0
    objectives = [r.objective for r in model.history_]
    assert objectives == sorted(objectives, reverse=True)
    assert (model.initial_objective_, model.objective_) == (objectives[0], objectives[-1])
    assert model.converged_


def test_learning_ends_when_alignments_stop_changing():
    # Without warping there is one alignment, and its minimum is the end.
    X, y = warped(40, 0, width=4)
    model = LMNNDTW(band=0, n_steps=500, target_gap=0).fit(X, y)
    assert model.message_ == "the alignments stopped changing"
    assert model.converged_
    assert model.n_iter_ == 2
    assert [r.n_changed for r in model.history_] == [0, 0]
    limited = LMNNDTW(max_iter=1, n_steps=1).fit(X, y)
    assert not limited.converged_
    assert limited.message_ == "the iteration limit was reached"


@pytest.mark.parametrize("seed", range(4))
def test_warped_classes_among_noise_are_recognised_where_mdtw_and_lmnn_fail(seed):
    X, y = warped(120, seed)
    X_test, y_test = warped(300, 100 + seed)

    def score(model):
        return model.fit(X, y).score(X_test, y_test)

    rivals = {
        "MDTW": MDTW(),  # aligns, and listens to the noise
        "LMNN": MetricKNN(metric=mlat.LMNN()),  # unlearns the noise, and cannot align
        "LMNN in the literature": MetricKNN(
            metric=mlat.LMNN(n_targets=3, target_gap=0, push_weight=0.5)
        ),
    }
    best = max(score(rival) for rival in rivals.values())
    model = LMNNDTW()
    assert score(model) > 0.97
    assert score(LMNNDTW.as_in_paper()) > 0.94
    assert best < 0.87
    # The channels that matter have nearly all of the metric.
    weight = np.diag(model.metric_)
    assert weight[:2].min() > 100 * weight[2:].max()


# The estimator


def test_distance_and_neighbours_are_dtw_under_the_metric():
    X, y = warped(40, 0)
    Q, _ = warped(6, 1)
    model = LMNNDTW(max_iter=3, band=6).fit(X, y)
    L = model.components_
    np.testing.assert_allclose(L.T @ L, model.metric_)
    expected = np.sqrt(naive.pairwise(Q @ L.T, X @ L.T, 6))
    np.testing.assert_allclose(model.distance(Q), expected)
    np.testing.assert_allclose(model.distance(Q, X[:7]), expected[:, :7])
    distances, windows = model.kneighbors(Q, 3)
    np.testing.assert_array_equal(windows, np.argsort(expected, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :3])
    np.testing.assert_array_equal(model.predict(Q), y[windows[:, 0]])


def test_fits_repeat_to_the_last_bit_flat_or_folded_and_are_kept_when_pickled():
    X, y = warped(60, 0)
    labels = np.where(y == 1, "walk", "rest")
    model = LMNNDTW(max_iter=4).fit(X, labels)
    again = clone(model).fit(X, labels)
    flat = clone(model).set_params(width=16).fit(X.reshape(60, -1), labels)
    kept = pickle.loads(pickle.dumps(model))
    assert model.history_ == again.history_
    for other in (again, flat, kept):
        np.testing.assert_array_equal(other.metric_, model.metric_)
    Q, _ = warped(20, 1)
    np.testing.assert_array_equal(kept.kneighbors(Q)[0], model.kneighbors(Q)[0])
    np.testing.assert_array_equal(flat.predict(Q.reshape(20, -1)), model.predict(Q))
    X[:] = 0.0
    np.testing.assert_array_equal(kept.distance(Q), model.distance(Q))


def test_start_and_run_keep_targets_out():
    X, codes = some_windows(np.random.default_rng(0), n=80, n_labels=2)
    n = len(X)
    run = np.arange(n) // 10
    model = LMNNDTW(target_gap=1000, max_iter=1).fit(X, codes, start=np.arange(n), run=run)
    rows, columns = np.nonzero(model.targets_ >= 0)
    assert len(rows) > n
    assert (run[rows] != run[model.targets_[rows, columns]]).all()
    anywhere = LMNNDTW(target_gap=0, max_iter=1).fit(X, codes, start=np.arange(n), run=run)
    assert (run[:, None] == run[anywhere.targets_]).any()


def test_one_channel_leaves_nothing_to_learn():
    X, y = np.random.default_rng(0).normal(size=(30, 5, 1)), np.arange(30) % 2
    model = LMNNDTW().fit(X, y)
    assert model.message_ == "one channel leaves nothing to learn"
    np.testing.assert_array_equal(model.kneighbors(X, 3)[1], MDTW().fit(X, y).kneighbors(X, 3)[1])


def test_windows_that_are_all_the_same_give_a_finite_metric():
    model = LMNNDTW().fit(np.ones((12, 4, 2)), np.arange(12) % 2)
    assert np.isfinite(model.metric_).all()


@pytest.mark.slow
def test_scikit_learn_accepts_it_with_no_check_skipped():
    # One of the checks is skipped unless this variable is set before SciPy is first imported.
    code = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from mlat_lab.rivals import LMNNDTW\n"
        "statuses = {r['status'] for r in check_estimator(LMNNDTW(), on_skip=None)}\n"
        "assert statuses == {'passed'}, statuses\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


# Speed and size


def test_learning_lowers_the_objective_at_paper_size():
    n, d = 2500, 27
    X, _ = make_windows("stream", n, 7, d)
    model = LMNNDTW(max_iter=3).fit(X, np.arange(n) // 500)
    assert model.objective_ < 0.8 * model.initial_objective_


# Errors

X4 = np.random.default_rng(0).normal(size=(4, 3, 2))


@pytest.mark.parametrize(
    ("parameters", "y", "line"),
    [
        ({}, [1, 1, 1, 1], "at least 2 classes; y holds 1 class, 1"),
        ({"band": 3}, [0, 0, 1, 1], "windows of 3 steps are too short for a band of 3; lower band"),
        ({"band": -1}, [0, 0, 1, 1], "band must be a whole number of steps"),
        ({}, [0, 0, 0, 1], r"state 1 has fewer windows \(1\) than n_targets \(1\) needs"),
        ({"n_targets": 3}, [0, 0, 1, 1], r"fewer windows \(2\) than n_targets \(3\) needs"),
        ({"n_neighbors": 5}, [0, 0, 1, 1], "n_neighbors is 5 but there are 4 windows"),
        ({"n_targets": 0}, [0, 0, 1, 1], "n_targets must be a whole number of at least 1, not 0"),
        ({"push_weight": 2}, [0, 0, 1, 1], "push_weight must be a number from 0 to 1, not 2"),
        ({"max_iter": 0}, [0, 0, 1, 1], "max_iter must be a whole number of at least 1, not 0"),
        ({"n_steps": 1.5}, [0, 0, 1, 1], "n_steps must be a whole number of at least 1, not 1.5"),
        ({"target_gap": "far"}, [0, 0, 1, 1], "or \"run\", not 'far'"),
        ({"tol": -1}, [0, 0, 1, 1], "tol must be a number of at least 0, not -1"),
    ],
)
def test_bad_parameters_are_one_clear_line(parameters, y, line):
    with pytest.raises(InputError, match=line) as caught:
        LMNNDTW(**parameters).fit(X4, y)
    assert "\n" not in str(caught.value)


def test_bad_windows_are_one_clear_line():
    y = [0, 0, 1, 1]
    bad = X4.copy()
    bad[2, 1, 0] = np.nan
    with pytest.raises(InputError, match="X holds NaN in window 2, step 1, channel 0"):
        LMNNDTW().fit(bad, y)
    with pytest.raises(InputError, match="too large to be squared; scale the channels"):
        LMNNDTW().fit(X4 * 1e200, y)
    with pytest.raises(InputError, match=r"start must have one entry per window \(4\)"):
        LMNNDTW().fit(X4, y, start=[0, 1])
    model = LMNNDTW().fit(X4, y)
    with pytest.raises(InputError, match=r"LMNNDTW was fitted on windows of shape \(3, 2\)"):
        model.predict(X4[:, :2])
    with pytest.raises(InputError, match="X holds NaN in window 2"):
        model.distance(bad)
