import numpy as np
import pytest

from mlat.metric.lmnn import MahalanobisObjective, shrinkage_penalty
from problems import central_differences, random_problem


@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
def test_lmnn_and_admm_objective_by_finite_differences(shrinkage):
    problem = random_problem(1, shrinkage=shrinkage)
    objective = MahalanobisObjective(problem)
    centre = np.random.default_rng(0).normal(size=(12, 12))
    objective.penalties = [*shrinkage_penalty(problem), (0.7, (centre + centre.T) / 2)]
    L = 0.4 * np.random.default_rng(2).normal(size=(7, 12))
    np.testing.assert_allclose(objective(L)[1], central_differences(objective, L), atol=1e-5)
