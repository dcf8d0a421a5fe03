import numpy as np
import pytest

from mlat.metric import solve_admm, solve_filter, toeplitz
from mlat.metric.problem import relative_weight
from mlat.metric.solvers import (
    Curvature,
    MahalanobisObjective,
    minimize,
    shrinkage_of_blocks,
    shrinkage_penalty,
)
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


def rosenbrock(x):
    a, b = x[:-1], x[1:]
    value = (100 * (b - a**2) ** 2 + (1 - a) ** 2).sum()
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * a * (b - a**2) - 2 * (1 - a)
    gradient[1:] += 200 * (b - a**2)
    return value, gradient


def test_it_finds_the_minimum_of_a_curved_valley():
    minimum = minimize(rosenbrock, np.full(10, -1.2), max_iter=500, tol=0.0)
    np.testing.assert_allclose(minimum.found, 1.0, atol=1e-5)
    assert minimum.converged


def test_a_quadratic_takes_few_steps_and_any_shape():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(12, 12))
    A = A @ A.T + np.eye(12)

    def fun(x):
        assert x.shape == (3, 4)
        product = A @ x.ravel()
        return 0.5 * x.ravel() @ product, product.reshape(3, 4)

    minimum = minimize(fun, rng.normal(size=(3, 4)), max_iter=200, tol=0.0)
    assert minimum.found.shape == (3, 4)
    assert np.abs(minimum.found).max() < 1e-5


def test_kinks_do_not_stop_it():
    """A sum of hinges, as in the large-margin loss, from a start on none of them."""
    slopes = np.random.default_rng(1).normal(size=(200, 5))

    def fun(x):
        slack = 1 - slopes @ x
        active = slack > 0
        return slack[active].sum() + 5 * x @ x, -slopes[active].sum(axis=0) + 10 * x

    minimum = minimize(fun, np.zeros(5), max_iter=300, tol=1e-12)
    rng = np.random.default_rng(2)
    for _ in range(200):
        assert fun(minimum.found + 1e-3 * rng.normal(size=5))[0] >= minimum.loss - 1e-9


def test_the_value_never_rises_and_the_callback_sees_each_iteration():
    seen = []
    minimum = minimize(rosenbrock, np.zeros(4), max_iter=30, tol=0.0, listener=seen.append)
    assert [r["iteration"] for r in seen] == list(range(1, minimum.n_iter + 1))
    values = [r["objective"] for r in seen]
    assert values == sorted(values, reverse=True)


def test_a_vanishing_gradient_is_the_end():
    minimum = minimize(lambda x: (3.0, np.zeros_like(x)), np.ones(2))
    assert minimum.converged
    assert (minimum.n_iter, minimum.message) == (0, "the gradient vanished")


def test_memory_equals_the_explicit_inverse_hessian():
    """The recursion gives the BFGS matrix applied to the gradient."""
    rng = np.random.default_rng(0)
    memory = Curvature(size=3)
    pairs = []
    for _ in range(5):
        s = rng.normal(size=6)
        y = s + 0.3 * rng.normal(size=6)
        if s @ y > 0:
            memory.add(s, y)
            pairs.append((s, y))
    kept = pairs[-3:]
    s, y = kept[-1]
    H = (s @ y) / (y @ y) * np.eye(6)
    for s, y in kept:
        V = np.eye(6) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    g = rng.normal(size=6)
    np.testing.assert_allclose(memory.inverse_hessian_times(g), H @ g, atol=1e-10)


def test_a_remembered_curvature_gets_further_in_the_same_steps():
    A = np.diag(np.logspace(0, 3, 8))
    centre = np.ones(8)

    def fun(x):
        return 0.5 * (x - centre) @ A @ (x - centre), A @ (x - centre)

    memory = Curvature()
    minimize(fun, np.zeros(8), max_iter=50, tol=1e-10, memory=memory)
    centre = centre + 0.01
    warm = minimize(fun, np.ones(8), max_iter=3, tol=0.0, memory=memory)
    cold = minimize(fun, np.ones(8), max_iter=3, tol=0.0)
    assert warm.loss < 0.6 * cold.loss
