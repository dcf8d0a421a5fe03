import numpy as np
import pytest

from mlat.metric import solve_admm, solve_filter, toeplitz
from mlat.metric.problem import relative_weight
from mlat.metric.solvers import MahalanobisObjective, shrinkage_of_blocks, shrinkage_penalty
from problems import central_differences, loss_of, random_problem


def test_filter_shrinkage_by_finite_differences():
    problem = random_problem(1, shrinkage=3.0)
    blocks = toeplitz.project_to_blocks(np.random.default_rng(0).normal(size=(12, 12)), 4)

    def fun(A):
        return shrinkage_of_blocks(problem, A)

    # A(0) is one symmetric block: its two triangles move together.
    gradient, numeric = fun(blocks)[1], central_differences(fun, blocks)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)
    M0 = problem.scale * np.eye(12)
    apart = np.linalg.norm(toeplitz.to_matrix(blocks) - M0) ** 2
    assert fun(blocks)[0] == pytest.approx(relative_weight(problem, 3.0) / 2 * apart)


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


@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
def test_lmnn_and_admm_objective_by_finite_differences(shrinkage):
    problem = random_problem(1, shrinkage=shrinkage)
    objective = MahalanobisObjective(problem)
    centre = np.random.default_rng(0).normal(size=(12, 12))
    objective.penalties = [*shrinkage_penalty(problem), (0.7, (centre + centre.T) / 2)]
    L = 0.4 * np.random.default_rng(2).normal(size=(7, 12))
    np.testing.assert_allclose(objective(L)[1], central_differences(objective, L), atol=1e-5)


def test_admm_converges_by_boyds_rule_and_its_two_answers_agree():
    problem = random_problem(4, gap="run")
    admm = solve_admm(problem, max_iter=300, tol=1e-3)
    last = admm.history[-1]
    assert admm.converged
    assert last["primal"] <= last["primal_tolerance"]
    assert last["dual"] <= last["dual_tolerance"]
    assert {"iteration", "objective", "primal", "dual"} <= set(last)
    assert toeplitz.residual(admm.found.T @ admm.found, 4) < 5e-3
    assert loss_of(problem, toeplitz.to_matrix(admm.blocks)) == pytest.approx(admm.loss, rel=0.02)
