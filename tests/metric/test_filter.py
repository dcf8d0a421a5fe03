import numpy as np
import pytest

from mlat.metric import solve_admm, solve_filter, toeplitz
from mlat.metric.filter import shrinkage_of_blocks
from mlat.metric.problem import relative_weight
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
