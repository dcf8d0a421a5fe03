import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mlat
from mlat import InputError
from mlat.metric import toeplitz
from mlat.metric.embedding import metric_array
from mlat.synthetic import rotating_states
from problems import alignment, planted_problem


@pytest.fixture(scope="module")
def windows():
    return mlat.sliding_windows(rotating_states(run_length=40, n_channels=3), 8)


def fitted(metric, windows):
    return metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)


ESTIMATORS = [
    mlat.LMNN(),
    mlat.LMNN(target_gap=0, shrinkage=1.0),
    mlat.MLAT(),
    mlat.MLAT(solver="admm"),
    mlat.MLAT.as_in_paper(),
    mlat.MLAT(n_filters=1, n_taps=2),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", ESTIMATORS, ids=repr)
def test_transform_is_the_metric(metric, windows):
    metric = fitted(clone(metric), windows)
    Z = metric.transform(windows.X)
    flat = windows.X.reshape(len(windows), -1)
    i, j = np.array([0, 5, 9]), np.array([100, 44, 10])
    M, apart = metric.metric_, flat[i] - flat[j]
    np.testing.assert_allclose(
        ((Z[i] - Z[j]) ** 2).sum(axis=1), np.einsum("ni,ij,nj->n", apart, M, apart), rtol=1e-8
    )
    np.testing.assert_allclose(M, metric.components_.T @ metric.components_, atol=1e-9)
    assert toeplitz.is_psd(M)
    np.testing.assert_array_equal(metric.transform(flat), Z)
    assert len(metric.get_feature_names_out()) == Z.shape[1]
    assert metric.history_[-1]["iteration"] == metric.n_iter_


@pytest.mark.parametrize("metric", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("stride", [1, 3])
def test_windows_of_a_stream_are_learned_from_as_they_are(metric, stride):
    stream = rotating_states(run_length=40, n_channels=3)
    windows = mlat.sliding_windows(stream, 8, stride=stride)
    values = windows.values.copy()
    values[np.setdiff1d(np.arange(len(values)), windows.start[:, None] + np.arange(8))] = np.nan
    metric = clone(metric).set_params(max_iter=15)  # before rounding errors have grown
    arrays = fitted(clone(metric), windows)
    whole = clone(metric).fit(replace(windows, values=values))
    if stride == 1:  # otherwise an array has the steps of each window for itself
        np.testing.assert_array_equal(whole.metric_, arrays.metric_)
    np.testing.assert_allclose(whole.metric_, arrays.metric_, atol=1e-10)
    assert whole.loss_ == pytest.approx(arrays.loss_, rel=1e-10)
    np.testing.assert_array_equal(whole.transform(windows), whole.transform(windows.X))


def test_windows_of_a_stream_are_checked(windows):
    with pytest.raises(InputError, match="windows have 8 steps but width is 5"):
        mlat.MLAT(width=5).fit(windows)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mlat.MLAT().fit(windows, windows.y[1:])
    values = windows.values.copy()
    values[windows.start[5] + 2, 1] = np.inf
    step = windows.start[5] + 2
    with pytest.raises(InputError, match=f"NaN or infinity at step {step}, channel 1; leave out"):
        mlat.MLAT().fit(replace(windows, values=values))
    renamed = np.where(windows.y == windows.y[0], "a", "b")
    metric = mlat.MLAT(max_iter=2).fit(windows, renamed)
    np.testing.assert_array_equal(
        metric.blocks_, mlat.MLAT(max_iter=2).fit(replace(windows, y=renamed)).blocks_
    )


def test_windows_of_a_stream_are_never_laid_out():
    windows = mlat.sliding_windows(rotating_states(run_length=600, n_channels=2), 200)
    tracemalloc.start()
    mlat.MLAT(max_iter=1, n_targets=3).fit(windows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(windows) * 200 * 2 * np.dtype(float).itemsize


def test_flat_and_folded_windows_give_the_same_model(windows):
    folded = fitted(mlat.MLAT(max_iter=10), windows)
    flat = mlat.MLAT(width=8, max_iter=10).fit(
        windows.X.reshape(len(windows), -1), windows.y, start=windows.start, run=windows.run
    )
    np.testing.assert_array_equal(folded.blocks_, flat.blocks_)
    assert folded.blocks_.shape == (8, 3, 3)


@pytest.mark.parametrize("metric", ESTIMATORS, ids=repr)
def test_same_seed_same_model(metric, windows):
    first, second = fitted(clone(metric), windows), fitted(clone(metric), windows)
    np.testing.assert_array_equal(first.metric_, second.metric_)


WAYS = [
    {"solver": "filter"},
    {"solver": "admm"},
    {"solver": "filter", "n_filters": 1, "n_taps": 2},
    {"solver": "filter", "working_set": True},
]


@pytest.mark.parametrize("way", WAYS, ids=repr)
@pytest.mark.parametrize("before", WAYS, ids=repr)
def test_a_second_fit_leaves_nothing_of_the_first(before, way, windows):
    few = windows.take(np.arange(0, len(windows), 2))
    fresh = fitted(mlat.MLAT(max_iter=3, **way), windows)
    again = fitted(mlat.MLAT(max_iter=3, **before), few)
    again.set_params(**clone(fresh).get_params())
    assert vars(fitted(again, windows)).keys() == vars(fresh).keys()
    for of in (lambda m: metric_array(m, 8, 3), lambda m: m.transform(windows.X)):
        np.testing.assert_array_equal(of(again), of(fresh))
    for name in ("blocks_", "components_", "loss_", "n_windows_used_", "loss_bound_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fresh, name))


def test_more_filters_than_channels_use_the_seed(windows):
    models = [
        fitted(mlat.MLAT(n_filters=5, max_iter=5, random_state=seed), windows) for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(models[0].taps_, models[1].taps_)
    assert not np.array_equal(models[0].taps_, models[2].taps_)


def test_without_times_neighbouring_rows_of_a_state_are_a_run(windows):
    order = np.lexsort((windows.start, windows.run))
    X, y = windows.X[order], windows.y[order]
    given = mlat.MLAT(max_iter=5).fit(X, y, start=windows.start[order], run=windows.run[order])
    guessed = mlat.MLAT(max_iter=5).fit(X, y)
    np.testing.assert_allclose(given.blocks_, guessed.blocks_, atol=1e-9)


def test_the_papers_form_is_algorithm_1_and_nothing_else():
    parameters = mlat.MLAT.as_in_paper(n_targets=1).get_params()
    assert parameters["solver"] == "admm"
    assert parameters["target_gap"] == 0
    assert parameters["shrinkage"] == 0
    assert parameters["n_targets"] == 1


def test_a_start_is_taken(windows):
    first = fitted(mlat.MLAT(max_iter=30), windows)
    again = fitted(mlat.MLAT(max_iter=30, init=first.taps_), windows)
    assert again.n_iter_ < first.n_iter_ or again.loss_ < first.loss_
    free = fitted(mlat.LMNN(max_iter=30), windows)
    assert (
        fitted(mlat.LMNN(max_iter=30, init=free.components_), windows).loss_ <= free.loss_ * 1.001
    )


def test_inside_pipeline_and_grid_search(windows):
    flat = windows.X.reshape(len(windows), -1)
    pipeline = make_pipeline(
        StandardScaler(), mlat.MLAT(width=8, max_iter=5), KNeighborsClassifier(1)
    )
    search = GridSearchCV(pipeline, {"mlat__n_taps": [2, 8]}, cv=2, error_score="raise")
    search.fit(flat, windows.y)
    assert search.best_params_["mlat__n_taps"] in (2, 8)
    pipeline.fit(flat, windows.y, mlat__start=windows.start, mlat__run=windows.run)
    assert pipeline.score(flat, windows.y) > 0.9


def test_verbose_prints_each_iteration(windows, capsys):
    metric = fitted(mlat.LMNN(max_iter=3, verbose=1), windows)
    assert capsys.readouterr().out.count("[LMNN] iteration") == metric.n_iter_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_targets": 0}, "n_targets must be a whole number of at least 1 or None, not 0"),
        ({"n_targets": 2.5}, "n_targets must be a whole number"),
        ({"target_gap": "walk"}, 'target_gap must be a whole number of at least 0 or "run"'),
        ({"push_weight": 1.5}, "push_weight must be a number from 0 to 1, not 1.5"),
        ({"shrinkage": -1}, "shrinkage must be a number of at least 0"),
        ({"solver": "sgd"}, 'solver must be "filter" or "admm", not \'sgd\''),
        ({"rho": 0.0}, "rho must be a number"),
        ({"n_taps": 0}, "n_taps must be a whole number of at least 1"),
        ({"init": "pca"}, 'init must be "identity" or an array'),
        ({"init": np.zeros((2, 2))}, r"init has shape \(2, 2\), this problem needs"),
        ({"init": np.full((2, 3, 3), np.nan)}, "init holds NaN or infinity"),
        ({"width": 7}, "windows have 8 steps but width is 7"),
        ({"n_targets": 1000}, r"fewer windows \(66\) than n_targets \(1000\)"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": -1.0}, "tol must be"),
    ],
)
def test_bad_parameters_get_one_line(windows, parameters, message):
    with pytest.raises(InputError, match=message) as caught:
        fitted(mlat.MLAT(**parameters), windows)
    assert "\n" not in str(caught.value)


def test_bad_windows_get_one_line(windows):
    X, y = windows.X, windows.y
    broken = X.copy()
    broken[3, 2, 1] = np.nan
    place = "X holds NaN in window 3, step 2, channel 1; leave out"
    with pytest.raises(InputError, match=place):
        mlat.MLAT().fit(broken, y)
    with pytest.raises(InputError, match=place):
        mlat.MLAT(max_iter=1).fit(X, y).transform(broken)
    with pytest.raises(InputError, match="one class, backwards"):
        mlat.MLAT().fit(X[y == "backwards"], y[y == "backwards"])
    with pytest.raises(InputError, match="26 features do not fold into windows of width 8"):
        mlat.MLAT(width=8).fit(np.zeros((20, 26)), [0, 1] * 10)
    with pytest.raises(InputError, match=r"start must have one entry per window \(264\)"):
        mlat.MLAT().fit(X, y, start=[1, 2])
    with pytest.raises(InputError, match="start must hold whole numbers"):
        mlat.MLAT().fit(X, y, start=np.linspace(0, 1, len(X)))
    metric = mlat.MLAT(max_iter=1).fit(X, y)
    with pytest.raises(InputError, match="8 steps and 2 channels, but the metric was learned on 8"):
        metric.transform(X[:, :, :2])


def test_runs_may_be_named(windows):
    names = np.array([f"run {r}" for r in windows.run])
    named = mlat.MLAT(max_iter=2).fit(windows.X, windows.y, start=windows.start, run=names)
    numbered = fitted(mlat.MLAT(max_iter=2), windows)
    np.testing.assert_allclose(named.blocks_, numbered.blocks_, atol=1e-12)


def test_a_constant_stream_does_not_break_it():
    X = np.zeros((20, 4, 2))
    metric = mlat.MLAT().fit(X, [0] * 10 + [1] * 10)
    assert np.isfinite(metric.blocks_).all()


def test_the_scale_of_the_data_does_not_matter(windows):
    """The start is scaled to the data, so units do not matter."""
    metrics = [fitted(mlat.MLAT(max_iter=20), windows)]
    X = windows.X * 1e6
    metrics.append(mlat.MLAT(max_iter=20).fit(X, windows.y, start=windows.start, run=windows.run))
    np.testing.assert_allclose(metrics[0].blocks_, metrics[1].blocks_ * 1e12, rtol=1e-3, atol=1e-3)


def test_a_fit_by_another_solver_leaves_nothing_of_the_one_before(windows):
    metric = fitted(mlat.MLAT(max_iter=3), windows)
    for solver in ("admm", "filter"):
        assert metric.blocks_.shape[0] == metric.width_
        assert metric.components_.ndim == 2
        again = fitted(metric.set_params(solver=solver), windows)
        fresh = fitted(clone(metric), windows)
        assert hasattr(again, "taps_") == (solver == "filter")
        for name in ("blocks_", "components_", "metric_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(fresh, name))
        np.testing.assert_array_equal(
            metric_array(again, 8, 3), fresh.blocks_ if solver == "filter" else fresh.metric_
        )


@pytest.mark.parametrize("solver", ["filter", "admm"])
def test_reading_what_was_learned_keeps_nothing(windows, solver):
    metric = fitted(mlat.MLAT(max_iter=3, solver=solver), windows)
    before = set(vars(metric))
    assert all(getattr(metric, name) is not None for name in ("blocks_", "components_", "metric_"))
    assert set(vars(metric)) == before


@pytest.mark.parametrize("solver", ["filter", "admm"])
def test_a_planted_toeplitz_metric_is_recovered_better_than_by_lmnn(solver):
    """Few windows, and the truth is Toeplitz: the constraint must pay."""
    for seed in range(3):
        planted, (X, y), _ = planted_problem(seed, n_per_state=20)
        found = mlat.MLAT(solver=solver, target_gap=0, push_weight=0.5).fit(X, y)
        free = mlat.LMNN(target_gap=0, push_weight=0.5).fit(X, y)
        assert alignment(found.metric_, planted) > alignment(free.metric_, planted) + 0.08
        assert alignment(found.metric_, planted) > alignment(np.eye(len(planted)), planted)


def test_a_long_window_never_forms_the_full_matrix():
    """The whole fit takes a fraction of the memory of the matrix alone."""
    rng = np.random.default_rng(0)
    width, d = 1500, 6
    runs = [
        rng.normal(size=(width + 39, d)) + np.sin(np.arange(width + 39) / f)[:, None]
        for f in (3, 5)
    ]
    stream = mlat.Stream.join(
        [mlat.Stream(r, [s] * len(r)) for r, s in zip(runs, "ab", strict=True)]
    )
    windows = mlat.sliding_windows(stream, width)
    tracemalloc.start()
    metric = mlat.MLAT(max_iter=2, n_taps=20).fit(
        windows.X, windows.y, start=windows.start, run=windows.run
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert metric.blocks_.shape == (width, d, d)
    assert peak < 0.3 * np.dtype(float).itemsize * (width * d) ** 2


@pytest.mark.parametrize("metric", [mlat.MLAT(max_iter=2), mlat.LMNN(max_iter=2)])
@pytest.mark.parametrize("target_gap", ["run", 5])
def test_windows_in_random_order_need_start_and_run(metric, target_gap):
    windows = mlat.sliding_windows(rotating_states(n_channels=3), width=6)
    mixed = windows.take(np.random.default_rng(0).permutation(len(windows)))
    metric = clone(metric).set_params(target_gap=target_gap)
    when = {"start": mixed.start, "run": mixed.run}
    for some in ({}, {"start": mixed.start}, {"run": mixed.run}):
        with pytest.warns(UserWarning, match="seem to be in random order.*give start and run"):
            metric.fit(mixed.X, mixed.y, **some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.fit(mixed.X, mixed.y, **when)
        metric.fit(windows.X, windows.y)
        metric.set_params(target_gap=0).fit(mixed.X, mixed.y)


@pytest.mark.parametrize("metric", [mlat.MLAT(max_iter=2), mlat.LMNN(max_iter=2)])
def test_windows_that_are_folded_wrongly_give_a_warning(metric):
    windows = mlat.sliding_windows(rotating_states(n_channels=3), width=6)
    flat = windows.X.reshape(len(windows), -1)
    with pytest.warns(UserWarning, match=r"X has shape \(\d+, 3, 6\) and seems to be transposed"):
        clone(metric).fit(windows.X.transpose(0, 2, 1), windows.y)
    with pytest.warns(UserWarning, match="6 steps of 3 channels, and are folded into 18 of 1"):
        clone(metric).fit(flat, windows.y)
    with pytest.warns(UserWarning, match="6 steps of 3 channels, and are folded into 9 of 2"):
        clone(metric).set_params(width=9).fit(flat, windows.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(metric).fit(windows.X, windows.y)
        clone(metric).set_params(width=6).fit(flat, windows.y)


def test_windows_without_a_state_are_refused():
    windows = mlat.sliding_windows(
        mlat.Stream(np.random.default_rng(0).normal(size=90), ["a"] * 40 + [""] * 10 + ["b"] * 40),
        width=6,
        labelled=False,
    )
    with pytest.raises(InputError, match="10 of 85 windows have no state; leave them out"):
        mlat.MLAT().fit(windows.X, windows.y)


@settings(max_examples=15)
@given(st.integers(0, 3), st.integers(-450, 450))
@example(1, 450)
@example(1, -450)
@example(2, -60)  # near 1e-18, where a gradient once seemed to vanish
def test_windows_in_any_unit_give_the_same_metric(of, power):
    """To the last bit: the embedding is the same, and what is reported is in the windows' unit."""
    metrics = [
        mlat.MLAT(max_iter=4),
        mlat.MLAT(solver="admm", max_iter=3, shrinkage=0.1),
        mlat.LMNN(max_iter=4),
        mlat.MLAT(max_iter=3, n_taps=2, n_filters=1, shrinkage=1.0),
    ]
    windows = mlat.sliding_windows(rotating_states(run_length=20, n_channels=2), 5)
    plain, other = fitted(metrics[of], windows), clone(metrics[of])
    other.fit(np.ldexp(windows.X, power), windows.y, start=windows.start, run=windows.run)
    np.testing.assert_array_equal(
        other.transform(np.ldexp(windows.X, power)), plain.transform(windows.X)
    )
    assert other.history_ == plain.history_
    assert (other.loss_, other.message_) == (plain.loss_, plain.message_)
    np.testing.assert_array_equal(other.components_, np.ldexp(plain.components_, -power))
    np.testing.assert_array_equal(other.metric_, np.ldexp(plain.metric_, -2 * power))
    assert other.scale_ == np.ldexp(plain.scale_, -2 * power)


@pytest.mark.parametrize("factor", [1e-18, 3e-7, 1e55, 7e100])
@pytest.mark.parametrize(
    "metric", [mlat.MLAT(max_iter=5), mlat.LMNN(max_iter=5), mlat.MLAT(solver="admm", max_iter=5)]
)
def test_windows_times_any_factor_are_learned_from(windows, metric, factor):
    plain, other = fitted(clone(metric), windows), clone(metric)
    other.fit(factor * windows.X, windows.y, start=windows.start, run=windows.run)
    assert other.loss_ == pytest.approx(plain.loss_, rel=0.05)
    assert other.n_iter_ == 5


def test_a_start_is_in_the_unit_of_the_windows(windows):
    first = fitted(mlat.MLAT(max_iter=3), windows)
    again = fitted(mlat.MLAT(max_iter=1, init=first.taps_), windows)
    scaled = mlat.MLAT(max_iter=1, init=np.ldexp(first.taps_, 40))
    scaled.fit(np.ldexp(windows.X, -40), windows.y, start=windows.start, run=windows.run)
    assert scaled.loss_ == again.loss_ <= first.loss_


@pytest.mark.parametrize(("factor", "size"), [(1e305, r"\de[+]305"), (1e-200, "5e-200")])
def test_windows_whose_metric_no_number_can_hold_are_refused(windows, factor, size):
    with pytest.raises(InputError, match=rf"differ by about {size} .*; divide them by {size}"):
        mlat.MLAT(max_iter=1).fit(factor * windows.X, windows.y)


def test_a_constant_channel_of_any_size_changes_nothing(windows):
    X = np.array(windows.X)
    X[:, :, 1] = 0.0
    towering = X.copy()
    towering[:, :, 1] = 1e300
    losses = [
        mlat.MLAT(max_iter=4).fit(x, windows.y, start=windows.start, run=windows.run).loss_
        for x in (X, towering)
    ]
    assert losses[0] == losses[1]
