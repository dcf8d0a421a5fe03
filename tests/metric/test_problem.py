"""The problem's two filter losses, and what every solver makes of a problem."""

from dataclasses import replace

import numpy as np
import pytest

from mlat.metric import problem as module
from mlat.metric import solve_admm, solve_filter, solve_lmnn, toeplitz
from mlat.metric.problem import ConvolutionLoss, DiagonalLoss, segments_of
from problems import central_differences, loss_of, random_problem


@pytest.mark.parametrize("way", [ConvolutionLoss, DiagonalLoss])
@pytest.mark.parametrize("q", [2, 4, 6])
def test_filter_objective_by_finite_differences(way, q):
    problem = random_problem(1)
    loss = way(problem, segments_of(problem)) if way is DiagonalLoss else way(problem)
    H = 0.4 * np.random.default_rng(2).normal(size=(q, 2, 3))
    np.testing.assert_allclose(loss(H)[1], central_differences(loss, H), atol=1e-5)


def test_both_ways_of_the_filter_end_at_the_same_metric(monkeypatch):
    problem = random_problem(2, lengths=(60, 60, 60), codes=(0, 1, 2))
    solutions = []
    for below in (0.0, np.inf):
        monkeypatch.setattr(module, "CONVOLVE_BELOW", below)
        expected = ConvolutionLoss if below else DiagonalLoss
        assert isinstance(problem.filter_loss(4, 3), expected)
        solutions.append(solve_filter(problem, max_iter=15, tol=0.0))
    np.testing.assert_allclose(solutions[0].taps, solutions[1].taps, atol=1e-6)
    assert solutions[0].loss == pytest.approx(solutions[1].loss, rel=1e-9)


def test_segments_follow_the_values_not_the_claimed_starts():
    problem = random_problem(0)
    X = problem.X.copy()
    X[5, 0, 0] += 1  # no longer the continuation of window 4
    segments = segments_of(replace(problem, X=X))
    assert len(segments) == 6
    for rows, steps in segments:
        for i, row in enumerate(rows):
            np.testing.assert_array_equal(X[row], steps[i : i + problem.width])


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
