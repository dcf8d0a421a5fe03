import pytest

from mlat.metric import solve_admm, toeplitz
from problems import loss_of, random_problem


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
