"""The problem's two filter losses, and what every solver makes of a problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.metric import solve_admm, solve_filter, solve_lmnn, toeplitz
from mlat.metric.problem import ConvolutionLoss, DiagonalLoss, FilterLoss, Problem, Unit
from mlat.metric.targets import select_targets
from mlat.stream.windows import Windows
from problems import central_differences, loss_of, random_problem

WAYS = {
    "along the runs": lambda problem: DiagonalLoss(problem, problem.segments()),
    "through the embedding": ConvolutionLoss,
    "from a linear map": lambda problem: FilterLoss(problem.linear_loss(), problem.width),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("q", [2, 4, 6])
def test_filter_objective_by_finite_differences(way, q):
    loss = WAYS[way](random_problem(1))
    H = 0.4 * np.random.default_rng(2).normal(size=(q, 2, 3))
    np.testing.assert_allclose(loss(H)[1], central_differences(loss, H), atol=1e-5)


class OneWay(Problem):
    def filter_loss(self):
        return WAYS[self.way](self)


def test_all_ways_of_the_filter_end_at_the_same_metric():
    problem = random_problem(2, lengths=(60, 60, 60), codes=(0, 1, 2))
    solutions = []
    for way in WAYS:
        one = OneWay(problem.windows, problem.targets)
        object.__setattr__(one, "way", way)
        solutions.append(solve_filter(one, max_iter=15, tol=0.0))
    for other in solutions[1:]:
        np.testing.assert_allclose(solutions[0].found, other.found, atol=1e-6)
        assert solutions[0].loss == pytest.approx(other.loss, rel=1e-9)


def test_the_way_goes_by_overlap_and_size():
    overlapping = random_problem(2, lengths=(60, 60, 60), codes=(0, 1, 2))
    assert isinstance(overlapping.filter_loss(), DiagonalLoss)
    rows = np.arange(0, len(overlapping), 5)
    spaced = overlapping.windows.take(rows)
    spaced = Problem(spaced, select_targets(spaced, 2))
    assert isinstance(spaced.filter_loss(), FilterLoss)
    wide = random_problem(lengths=(10, 10), codes=(0, 1), width=8)
    assert isinstance(wide.filter_loss(), ConvolutionLoss)


def test_steps_are_shared_by_values_not_by_claimed_starts():
    problem = random_problem(0)
    X = problem.flat().reshape(-1, problem.width, problem.n_channels)
    start, run = problem.windows.start, problem.windows.run
    X[5, 0, 0] += 1  # no longer the continuation of window 4
    joined = Windows.of_array(X, problem.codes, start, run)
    np.testing.assert_array_equal(joined.X, X)
    assert len(Problem(joined, problem.targets).segments()) == 6
    assert len(joined.values) == len(problem.windows.values) + problem.width - 1


def test_every_solver_lowers_the_loss_and_keeps_its_constraint():
    problem = random_problem(4, gap="run")
    start = problem.initial_loss
    lmnn = solve_lmnn(problem, max_iter=60, tol=1e-6)
    filtered = solve_filter(problem, max_iter=60, tol=1e-6)
    admm = solve_admm(problem, max_iter=100)
    M_filter = toeplitz.to_matrix(toeplitz.autocorrelation(filtered.found, 4))
    M_both = toeplitz.to_matrix(admm.blocks)
    assert lmnn.loss < min(filtered.loss, admm.loss, start) + 1e-9
    assert filtered.loss < start
    for M in (M_filter, M_both):
        assert toeplitz.is_toeplitz(M, 4)
        assert toeplitz.is_psd(M)
    assert toeplitz.is_psd(admm.found.T @ admm.found)
    assert loss_of(problem, M_filter) == pytest.approx(filtered.loss, rel=1e-5)


@pytest.mark.parametrize("solve", [solve_lmnn, solve_filter, solve_admm])
def test_shrinkage_leads_to_the_scaled_identity(solve):
    far = solve(random_problem(6), max_iter=50, tol=1e-4)
    near = solve(random_problem(6, shrinkage=1e4), max_iter=50, tol=1e-4)
    problem = random_problem(6)
    M0 = problem.scale * np.eye(12)

    def metric(solution):
        if solve is solve_filter:
            return toeplitz.to_matrix(toeplitz.autocorrelation(solution.found, 4))
        return solution.found.T @ solution.found

    assert np.linalg.norm(metric(near) - M0) < 0.01 * np.linalg.norm(M0)
    assert np.linalg.norm(metric(far) - M0) > 0.1 * np.linalg.norm(M0)


@given(st.integers(0, 2**32 - 1), st.integers(-1000, 1000))
def test_the_largest_range_is_near_1(seed, power):
    values = np.ldexp(np.random.default_rng(seed).normal(size=(20, 3)) + np.arange(3), power)
    unit = Unit.of(values.min(axis=0), values.max(axis=0))
    assert 0.5 <= np.ptp(unit(values), axis=0).max() < 1
    np.testing.assert_array_equal(np.ldexp(unit(values), unit.exponent), values)


def test_the_largest_numbers_have_a_unit():
    values = np.array([[-1.0], [1.0]]) * np.finfo(float).max
    unit = Unit.of(values.min(axis=0), values.max(axis=0))
    assert np.abs(unit(values)).max() < 1


def test_what_does_not_vary_is_subtracted_where_it_towers_above_the_rest():
    values = np.array([[1e300, 1.0, 7.0], [1e300, 2.0, 7.0]])
    np.testing.assert_array_equal(
        Unit.of(values.min(axis=0), values.max(axis=0))(values), [[0, 0.5, 3.5], [0, 1, 3.5]]
    )
    assert not Unit.of(values[0], values[0])(values[:1]).any()
