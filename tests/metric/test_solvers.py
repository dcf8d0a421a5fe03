import numpy as np
import pytest

import mlat
from mlat.metric import problem as filter_losses
from mlat.metric import solve_admm, solve_filter, solve_lmnn, toeplitz
from mlat.metric.filter import _shrinkage
from mlat.metric.lmnn import MahalanobisObjective, shrinkage_penalty
from mlat.metric.problem import ConvolutionLoss, DiagonalLoss, blocks_loss
from problems import alignment, central_differences, planted_problem, random_problem


def loss_of(problem, M):
    root = np.linalg.cholesky(M + 1e-10 * np.trace(M) / len(M) * np.eye(len(M)))
    return problem.margin_loss()(problem.flat @ root)[0]


@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
def test_lmnn_and_admm_objective_by_finite_differences(shrinkage):
    problem = random_problem(1, shrinkage=shrinkage)
    objective = MahalanobisObjective(problem)
    centre = np.random.default_rng(0).normal(size=(12, 12))
    objective.penalties = [*shrinkage_penalty(problem), (0.7, (centre + centre.T) / 2)]
    L = 0.4 * np.random.default_rng(2).normal(size=(7, 12))
    np.testing.assert_allclose(objective(L)[1], central_differences(objective, L), atol=1e-5)


@pytest.mark.parametrize("way", [ConvolutionLoss, DiagonalLoss])
@pytest.mark.parametrize("q", [2, 4, 6])
def test_filter_objective_by_finite_differences(way, q):
    problem = random_problem(1)
    stretches = filter_losses.unfold(problem.X, problem.start, problem.run)
    loss = way(problem, stretches) if way is DiagonalLoss else way(problem)
    H = 0.4 * np.random.default_rng(2).normal(size=(q, 2, 3))
    np.testing.assert_allclose(loss(H)[1], central_differences(loss, H), atol=1e-5)


def test_filter_shrinkage_by_finite_differences():
    problem = random_problem(1, shrinkage=3.0)
    blocks = toeplitz.project_to_blocks(np.random.default_rng(0).normal(size=(12, 12)), 4)

    def fun(A):
        return _shrinkage(problem, A)

    # A(0) is one symmetric block: its two triangles move together.
    gradient, numeric = fun(blocks)[1], central_differences(fun, blocks)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)
    M0 = problem.scale * np.eye(12)
    apart = np.linalg.norm(toeplitz.to_matrix(blocks) - M0) ** 2
    assert fun(blocks)[0] == pytest.approx(problem.relative_weight(3.0) / 2 * apart)


def test_both_ways_of_the_filter_end_at_the_same_metric(monkeypatch):
    problem = random_problem(2, lengths=(60, 60, 60), codes=(0, 1, 2))
    solutions = []
    for below in (0.0, np.inf):
        monkeypatch.setattr(filter_losses, "CONVOLVE_BELOW", below)
        expected = ConvolutionLoss if below else DiagonalLoss
        assert isinstance(blocks_loss(problem, 4, 3), expected)
        solutions.append(solve_filter(problem, max_iter=15, tol=0.0))
    np.testing.assert_allclose(solutions[0].taps, solutions[1].taps, atol=1e-6)
    assert solutions[0].loss == pytest.approx(solutions[1].loss, rel=1e-9)


def test_every_solver_lowers_the_loss_and_keeps_its_constraint():
    problem = random_problem(4, gap="run")
    start = problem.initial_loss
    lmnn = solve_lmnn(problem, max_iter=60, tol=1e-6)
    filtered = solve_filter(problem, max_iter=60, tol=1e-6)
    admm = solve_admm(problem, max_iter=100)
    M_filter = toeplitz.to_matrix(toeplitz.autocorrelation(filtered.taps, 4))
    M_both = toeplitz.to_matrix(admm.blocks)
    assert lmnn.loss < min(filtered.loss, admm.loss, start) + 1e-9
    assert filtered.loss < start
    for M in (M_filter, M_both):
        assert toeplitz.is_toeplitz(M, 4)
        assert toeplitz.is_psd(M)
    assert toeplitz.is_psd(admm.L.T @ admm.L)
    assert loss_of(problem, M_filter) == pytest.approx(filtered.loss, rel=1e-5)


def test_admm_converges_by_boyds_rule_and_its_two_answers_agree():
    problem = random_problem(4, gap="run")
    admm = solve_admm(problem, max_iter=300, tol=1e-3)
    last = admm.history[-1]
    assert admm.converged
    assert last["primal"] <= last["primal_tolerance"]
    assert last["dual"] <= last["dual_tolerance"]
    assert {"iteration", "objective", "primal", "dual"} <= set(last)
    assert toeplitz.residual(admm.L.T @ admm.L, 4) < 5e-3
    assert loss_of(problem, toeplitz.to_matrix(admm.blocks)) == pytest.approx(admm.loss, rel=0.02)


def test_more_taps_close_the_gap_between_filter_and_admm():
    """The taps' metrics are part of all PSD Toeplitz ones; a longer filter reaches more of them."""
    problem = random_problem(5, lengths=(40, 40, 40), codes=(0, 1, 2))
    admm = solve_admm(problem, max_iter=300)
    best = loss_of(problem, toeplitz.to_matrix(admm.blocks))
    losses = [
        solve_filter(problem, n_taps=q, max_iter=300, tol=1e-7).loss for q in (1, 2, 4, 8, 16)
    ]
    assert losses[0] > losses[1] > losses[2] > losses[3] * 0.999
    assert losses[-1] == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("solve", [solve_lmnn, solve_filter, solve_admm])
def test_shrinkage_leads_to_the_scaled_identity(solve):
    far = solve(random_problem(6), max_iter=50, tol=1e-4)
    near = solve(random_problem(6, shrinkage=1e4), max_iter=50, tol=1e-4)
    problem = random_problem(6)
    M0 = problem.scale * np.eye(12)

    def metric(solution):
        if hasattr(solution, "taps"):
            return toeplitz.to_matrix(toeplitz.autocorrelation(solution.taps, 4))
        return solution.L.T @ solution.L

    assert np.linalg.norm(metric(near) - M0) < 0.01 * np.linalg.norm(M0)
    assert np.linalg.norm(metric(far) - M0) > 0.1 * np.linalg.norm(M0)


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
    """w*d = 9000: the matrix alone would take 650 MB."""
    import tracemalloc

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
    assert peak < 200e6
