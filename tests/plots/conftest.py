"""Fitted models for the tests of pictures."""

import pytest

import mlat
from plot_checks import WIDTH, fitted, train


@pytest.fixture(scope="session")
def metrics():
    return {
        "filter": fitted(mlat.MLAT(max_iter=3)),
        "admm": fitted(mlat.MLAT(solver="admm", max_iter=3)),
        "lmnn": fitted(mlat.LMNN(max_iter=3)),
    }


@pytest.fixture(scope="session")
def clf():
    return mlat.StreamClassifier(WIDTH, metric=mlat.MLAT(max_iter=5)).fit(train)
