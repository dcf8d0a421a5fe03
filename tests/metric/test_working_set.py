"""Learning from a working set: its loss is the whole one's, and so is what it learns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat.base.errors import InputError
from mlat.metric import loss as loss_module
from mlat.metric import toeplitz
from mlat.metric import working_set as ws
from mlat.metric.problem import FilterLoss
from mlat.synthetic import rotating_states
from problems import central_differences, random_problem


def sample_loss(problem, sample, dtype=np.float64):
    sampler = ws.Sampler(problem)
    sampler.spread = problem.spread(dtype)
    return sampler.loss(sample, dtype)


def random_map(problem, seed=0):
    size = problem.width * problem.n_channels
    noise = np.random.default_rng(seed).normal(size=(size, size))
    return np.sqrt(problem.scale) * (np.eye(size) + 0.2 * noise)


def everything(problem):
    return ws.Sample(np.arange(len(problem)), np.ones(len(problem)))


@pytest.mark.parametrize(("dtype", "off"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_the_sample_of_all_windows_has_the_plain_loss_and_gradient(dtype, off):
    problem = random_problem(seed=3, push_weight=0.3)
    L = random_map(problem)
    value, gradient = sample_loss(problem, everything(problem), dtype)(L)
    plain, plain_gradient = problem.linear_loss()(L)
    assert value == pytest.approx(plain, rel=off)
    np.testing.assert_allclose(gradient, plain_gradient, atol=off * np.abs(gradient).max())


@pytest.mark.parametrize("n", [2, 3])
def test_threads_share_the_tiles(n, monkeypatch):
    problem = random_problem(seed=3, push_weight=0.3)
    L = random_map(problem)
    monkeypatch.setattr(loss_module, "TILE", 7)
    alone = sample_loss(problem, everything(problem))
    monkeypatch.setattr(loss_module, "n_threads", lambda: n)
    assert len(alone.margin.tiles) >= loss_module.MANY_TILES
    value, gradient = alone(L)
    plain, plain_gradient = problem.linear_loss()(L)
    assert value == pytest.approx(plain, rel=1e-12)
    np.testing.assert_allclose(gradient, plain_gradient, atol=1e-12 * np.abs(gradient).max())
    _, violations = alone.value(L)
    monkeypatch.setattr(loss_module, "n_threads", lambda: 1)
    np.testing.assert_allclose(alone.value(L)[1], violations, rtol=1e-12)


def test_the_loss_of_a_sample_is_the_sum_over_its_pairs_with_their_weights():
    problem = random_problem(seed=1, push_weight=0.4)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(problem))[:25])
    sample = ws.Sample(rows, rng.uniform(1, 5, len(rows)))
    L = random_map(problem)
    Z, n, c = problem.flat() @ L.T, len(problem), problem.push_weight
    expected, violations = 0.0, np.zeros(len(rows))
    for i in range(n):
        for j in problem.targets[i]:
            if j >= 0:
                expected += (1 - c) / n * ((Z[i] - Z[j]) ** 2).sum()
    for a, i in enumerate(rows):
        for b, other in enumerate(rows):
            if problem.codes[i] == problem.codes[other]:
                continue
            for j in problem.targets[i]:
                if j < 0:
                    continue
                over = 1 + ((Z[i] - Z[j]) ** 2).sum() - ((Z[i] - Z[other]) ** 2).sum()
                if over > 0:
                    expected += c / n * sample.weight[a] * sample.weight[b] * over
                    violations[a] += sample.weight[b]
                    violations[b] += sample.weight[a]
    loss = sample_loss(problem, sample)
    assert loss(L)[0] == pytest.approx(expected, rel=1e-10)
    value, found = loss.value(L)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(found[: len(rows)] / sample.weight, violations, rtol=1e-10)


@pytest.mark.parametrize("dense", [0.0, 2.0])
def test_gradients_agree_with_differences(dense, monkeypatch):
    """In the map and in the taps; forces by a product, and pair by pair."""
    monkeypatch.setattr(loss_module, "DENSE", dense)
    problem = random_problem(seed=2, lengths=(12, 9, 11), codes=(0, 1, 0), width=3, d=2)
    sample = ws.Sample(np.arange(0, len(problem), 2), np.full((len(problem) + 1) // 2, 2.0))
    loss = sample_loss(problem, sample)
    L = random_map(problem)
    np.testing.assert_allclose(loss(L)[1], central_differences(loss, L), rtol=1e-4, atol=1e-5)
    of_taps = FilterLoss(loss, problem.width)
    H = np.random.default_rng(0).normal(size=(4, 2, 2))
    np.testing.assert_allclose(of_taps(H)[1], central_differences(of_taps, H), rtol=1e-4, atol=1e-4)
    assert of_taps(H)[0] == pytest.approx(loss(toeplitz.convolution_matrix(H, 3))[0], rel=1e-9)


def test_the_taps_of_a_singular_metric_have_a_gradient():
    problem = random_problem(seed=2, lengths=(12, 9, 11), codes=(0, 1, 0), width=3, d=2)
    loss = sample_loss(problem, everything(problem))
    of_taps = FilterLoss(loss, problem.width)
    H = np.zeros((1, 2, 2))
    H[0, 0] = [1.0, 0.5]  # rank one: Cholesky's way does not exist
    value, gradient = of_taps(H)
    plain, plain_gradient = problem.filter_loss()(H)
    assert value == pytest.approx(plain, rel=1e-9)
    np.testing.assert_allclose(gradient, plain_gradient, atol=1e-7 * np.abs(gradient).max())


@given(
    st.lists(st.floats(0.01, 100), min_size=5, max_size=80),
    st.integers(1, 40),
    st.floats(0, 0.99),
)
@settings(max_examples=60, deadline=None)
def test_a_sample_stands_for_all_windows(wanted, size, offset):
    wanted = np.array(wanted)
    size = min(size, len(wanted))
    chance = ws.chances(wanted, size, np.full(len(wanted), 0.001))
    assert (chance > 0).all()
    assert (chance <= 1).all()
    assert chance.sum() == pytest.approx(size, rel=0.1)
    order = np.random.default_rng(0).permutation(len(wanted))
    sample = ws.draw(order, chance[order], offset)
    assert (np.diff(sample.rows) > 0).all()
    assert abs(len(sample) - chance.sum()) <= 1 + 1e-9
    np.testing.assert_allclose(sample.weight, 1 / chance[sample.rows])
    assert set(np.flatnonzero(chance >= 1)) <= set(sample.rows)


@pytest.mark.parametrize("make", [mlat.MLAT, mlat.LMNN])
def test_the_whole_objective_is_within_one_per_cent_of_the_plain_way(make, monkeypatch):
    monkeypatch.setattr(ws, "FIRST", 150)
    stream = rotating_states(
        {"a": 0.05, "b": 0.02}, n_channels=3, run_length=400, noise=0.1, random_state=1
    )
    windows = mlat.sliding_windows(stream, width=6)
    when = {"start": windows.start, "run": windows.run}
    few, all_at_once = (
        make(working_set=way, tol=1e-4).fit(windows.X, windows.y, **when) for way in (True, False)
    )
    assert all_at_once.n_windows_used_ is None
    assert all_at_once.loss_bound_ == 0
    assert few.n_windows_used_ < len(windows)
    assert 0 <= few.loss_bound_ <= ws.WITHIN
    # The loss over all windows, worked out from the metric that was learned.
    again = make(working_set=False, max_iter=1, tol=1e9, init=few.components_ if make is mlat.LMNN
                 else few.taps_).fit(windows.X, windows.y, **when)  # fmt: skip
    whole = again.history_[0]["objective"]
    assert few.loss_ <= 1.01 * all_at_once.loss_
    assert whole <= few.loss_ * (1 + 1e-6)


@pytest.mark.parametrize(("seed", "first"), [(6, 300), (3, 600)])
def test_a_sample_that_happens_to_do_well_has_a_bound_too(seed, first, monkeypatch):
    """The loss fell more on the validation set than on the working set, which is luck."""
    monkeypatch.setattr(ws, "FIRST", first)
    rates = {"a": 0.05, "b": 0.02}
    stream = rotating_states(rates, n_channels=3, run_length=400, noise=0.1, random_state=seed)
    windows = mlat.sliding_windows(stream, width=6)
    few, all_at_once = (
        mlat.MLAT(working_set=way, tol=1e-4).fit(
            windows.X, windows.y, start=windows.start, run=windows.run
        )
        for way in (True, False)
    )
    assert few.n_windows_used_ < len(windows)
    assert 0 < few.loss_bound_ <= ws.WITHIN
    assert few.loss_ <= (1 + few.loss_bound_) * all_at_once.loss_


def test_no_window_of_the_validation_set_is_in_a_working_set(monkeypatch):
    monkeypatch.setattr(ws, "ALL_VALIDATE", 100)
    monkeypatch.setattr(ws, "VALIDATION", 60)
    problem = random_problem(seed=0, lengths=(90, 80, 100, 70), codes=(0, 1, 0, 2))
    sampler = ws.Sampler(problem)
    validation = sampler.validation()
    assert 60 <= len(validation) < len(problem)
    violations = np.random.default_rng(0).uniform(0, 9, len(validation))
    sample = sampler.working_set(70, validation, violations, 0.3)
    assert not set(sample.rows) & set(validation.rows)
    assert set(problem.codes[sample.rows]) == {0, 1, 2}
    assert len(sampler.working_set(1000, validation, violations, 0.3)) == len(problem)
    assert sampler.scale == pytest.approx(problem.scale, rel=1e-5)


def test_a_working_set_that_may_not_grow_says_how_far_off_it_is(monkeypatch):
    monkeypatch.setattr(ws, "LARGEST", 100)
    windows = mlat.sliding_windows(rotating_states(run_length=150, random_state=2), width=8)
    metric = mlat.MLAT(working_set=True).fit(
        windows.X, windows.y, start=windows.start, run=windows.run
    )
    assert metric.n_windows_used_ < 450
    assert metric.loss_bound_ > ws.WITHIN


def test_a_wrong_choice_is_refused():
    with pytest.raises(InputError, match='working_set must be "auto", True or False'):
        mlat.MLAT(working_set="some").fit(np.zeros((9, 2, 2)), np.arange(9) % 2)
